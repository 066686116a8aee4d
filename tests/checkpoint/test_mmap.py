"""Mapped files: no time, no memory, copied where they are written to."""

import json

import numpy as np
import pytest

import minidl as md
from minidl import nn


def sparse(path, megabytes):
    """A file of that many megabytes of zeros, which takes no room on the disk."""
    rows = megabytes * 250
    header = json.dumps({"w": {"dtype": "F32", "shape": [rows, 1000],
                               "data_offsets": [0, rows * 4000]}}).encode()
    header += b" " * (-(8 + len(header)) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + rows * 4000)


def test_opening_a_large_file_takes_no_memory(tmp_path, python):
    pytest.importorskip("resource")
    sparse(tmp_path / "a.safetensors", 193)
    python("""
import sys
import minidl as md

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

if sys.platform != "linux":
    sys.exit()
md.save({}, sys.argv[1] + "0.safetensors")
md.load(sys.argv[1] + "0.safetensors", mmap=True)
before = resident()
state = md.load(sys.argv[1], mmap=True)
assert resident() - before < 4 << 20, resident() - before
assert float(state["w"][40000].sum()) == 0
assert resident() - before < 4 << 20, "only what is used is read"
state["w"][100] = 1.0
assert resident() - before < 4 << 20, "only what is written is copied"
""", tmp_path / "a.safetensors")


def test_a_write_copies_and_the_file_stays(tmp_path):
    path = tmp_path / "a.safetensors"
    md.save({"a": md.zeros(1000), "b": md.ones(1000)}, path)
    before = path.read_bytes()
    state, other = md.load(path, mmap=True), md.load(path, mmap=True)
    state["a"].add_(3.0)
    assert state["a"].sum() == 3000 and state["b"].sum() == 1000
    assert other["a"].sum() == 0 and path.read_bytes() == before


def test_assign_keeps_the_mapping_and_training_goes_on(tmp_path):
    path = tmp_path / "a.safetensors"
    md.manual_seed(0)
    model, mapped = nn.Linear(40, 30), nn.Linear(40, 30)
    md.save(model, path)
    before = path.read_bytes()
    state = md.load(path, mmap=True)
    mapped.load_state_dict(state, assign=True)
    assert np.shares_memory(mapped.weight.array, state["weight"].array)
    x = md.randn(8, 40)
    for net in (model, mapped):
        optimizer = md.optim.AdamW(net.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    assert (model.weight == mapped.weight).all() and path.read_bytes() == before


def test_a_replaced_file_stays_mapped(tmp_path):
    path = tmp_path / "a.safetensors"
    md.save({"a": md.zeros(5000)}, path)
    old = md.load(path, mmap=True)
    md.save({"a": md.ones(7)}, path)
    assert old["a"].sum() == 0 and md.load(path, mmap=True)["a"].sum() == 7


def test_tensors_of_one_file_are_written_apart(tmp_path):
    """The tape must not take a write to one tensor for a write to another."""
    path = tmp_path / "a.safetensors"
    md.save({"w": md.ones(3), "counter": md.zeros(1)}, path)
    state = md.load(path, mmap=True)
    w = state["w"].requires_grad_()
    y = (w * w).sum()
    state["counter"].add_(1.0)
    y.backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_unaligned_tensors_are_copied(tmp_path):
    header = json.dumps({
        "b": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]}}).encode()
    data = b"\1\2\3" + np.array([1.5, 2.5], "<f4").tobytes()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    state = md.load(tmp_path / "a.safetensors", mmap=True)
    assert state["w"].array.flags.aligned and state["w"].tolist() == [1.5, 2.5]
    assert md.load(tmp_path / "a.safetensors")["w"].tolist() == [1.5, 2.5]
