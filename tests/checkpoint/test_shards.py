"""Checkpoints of several files, as Hugging Face lays them out."""

import json
import os

import pytest
import safetensors.numpy

import minidl as md
from minidl import nn
from minidl.checkpoint import atomic
from minidl.errors import CheckpointError

INDEX = "model.safetensors.index.json"


def model():
    md.manual_seed(0)
    return nn.Sequential(*[nn.Linear(20, 20) for _ in range(6)])


def test_round_trip_and_layout(tmp_path, same):
    state = dict(model().state_dict())
    md.save(state, tmp_path / INDEX, max_shard_size=4000)
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["metadata"]["total_size"] == 6 * (400 + 20) * 4
    files = sorted(set(index["weight_map"].values()))
    assert files == [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    assert sorted(os.listdir(tmp_path)) == sorted([*files, INDEX])
    for name in files:
        arrays = safetensors.numpy.load_file(tmp_path / name)
        assert sum(a.nbytes for a in arrays.values()) <= 4000
        assert all(index["weight_map"][key] == name for key in arrays)
    same(state, md.load(tmp_path / INDEX))
    same(state, md.load(tmp_path / INDEX, mmap=True))


def test_tied_weights_stay_tied_and_a_large_tensor_has_its_own_file(tmp_path):
    net = nn.Sequential(nn.Linear(50, 50), nn.Linear(50, 50))
    net[1].weight = net[0].weight
    md.save(net, tmp_path / INDEX, max_shard_size=1000)
    state = md.load(tmp_path / INDEX)
    assert state["0.weight"] is state["1.weight"] and len(os.listdir(tmp_path)) == 3


def test_an_index_of_other_programs(tmp_path):
    safetensors.numpy.save_file({"a": md.ones(2).numpy()}, tmp_path / "x.safetensors")
    safetensors.numpy.save_file({"b": md.zeros(3).numpy()}, tmp_path / "y.safetensors")
    where = {"a": "x.safetensors", "b": "y.safetensors"}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": where}))
    assert md.load(tmp_path / INDEX)["b"].shape == (3,)


def test_a_second_save_replaces_the_first(tmp_path, same):
    net = model()
    md.save(net, tmp_path / INDEX, max_shard_size=4000)
    with md.no_grad():
        net[0].weight.fill_(7.0)
    md.save(net, tmp_path / INDEX, max_shard_size=4000)
    same(dict(net.state_dict()), md.load(tmp_path / INDEX))
    assert len(os.listdir(tmp_path)) == 4, "the old files are gone"


def test_a_failure_at_any_file_leaves_the_old_checkpoint(tmp_path, same, monkeypatch):
    net = model()
    old = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    md.save(net, tmp_path / INDEX, max_shard_size=4000)
    with md.no_grad():
        net[0].weight.fill_(7.0)
    replace = atomic.replace
    for n in range(4):
        calls = []

        def failing(*args, n=n, calls=calls):
            calls.append(args)
            if len(calls) > n:
                raise OSError(5, "input/output error")
            replace(*args)

        monkeypatch.setattr(atomic, "replace", failing)
        with pytest.raises(OSError, match="input/output"):
            md.save(net, tmp_path / INDEX, max_shard_size=4000)
        monkeypatch.undo()
        same(old, md.load(tmp_path / INDEX))


def test_a_training_state_is_one_file(tmp_path):
    with pytest.raises(ValueError, match="holds a dict of tensors and nothing else"):
        md.save({"step": 1}, tmp_path / INDEX)
    with pytest.raises(ValueError, match="max_shard_size must be positive"):
        md.save({"a": md.ones(1)}, tmp_path / INDEX, max_shard_size=0)


@pytest.mark.parametrize("content, message", [
    ({}, 'no "weight_map"'),
    ([], 'no "weight_map"'),
    ({"weight_map": {}, "metadata": 3}, "metadata is not a table"),
    ({"weight_map": {"a": "../x.safetensors"}}, "is not the name of a safetensors file"),
    ({"weight_map": {"a": "/etc/x.safetensors"}}, "is not the name of a safetensors file"),
    ({"weight_map": {"a": "x.bin"}}, "is not the name of a safetensors file"),
    ({"weight_map": {"a": 3}}, "is not the name of a safetensors file"),
    ({"weight_map": {"b": "x.safetensors"}}, "tensor 'b' is not in x.safetensors"),
    ({"weight_map": {}, "metadata": {"minidl.tree": 3}}, "tree is not a string"),
    ({"weight_map": {}, "metadata": {"minidl.checksum": "crc32:00000001"}}, "damaged"),
])
def test_hostile_indices(tmp_path, content, message):
    md.save({"a": md.ones(1)}, tmp_path / "x.safetensors")
    (tmp_path / INDEX).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=message) as caught:
        md.load(tmp_path / INDEX)
    assert str(caught.value).startswith(str(tmp_path / INDEX))


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / INDEX).write_text('{"weight_map": {"a": "gone.safetensors"}}')
    with pytest.raises(FileNotFoundError, match=r"gone\.safetensors"):
        md.load(tmp_path / INDEX)
