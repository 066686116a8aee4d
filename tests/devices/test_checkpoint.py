"""What a device computed is saved, and loads anywhere."""

import copy
import pickle

import numpy as np
import pytest

import minidl as md
from minidl import nn, optim
from minidl.models import GPT


def model_on(where, seed=0):
    md.manual_seed(seed)
    return GPT(md.models.GPTConfig(vocab_size=11, context=8, layers=1, heads=2, width=8)).to(where)


def same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name].cpu().numpy(), b[name].cpu().numpy(), err_msg=name)


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_saved_on_one_device_loaded_on_another(device, tmp_path, name):
    model, path = model_on(device), tmp_path / name
    md.save({"model": model, "step": 3}, path)
    for where in (None, "cpu", device):
        state = md.load(path, map_location=where)
        assert {str(t.device) for t in state["model"].values()} == {where or "cpu"}
        same(state["model"], model.state_dict())
        assert state["model"]["head.weight"] is state["model"]["token.weight"]  # tied
        for to in ("cpu", device):
            other = model_on(to, seed=1)
            other.load_state_dict(state["model"])
            same(other.state_dict(), model.state_dict())
            assert other.head.weight is other.token.weight and other.token.weight.device == to


def test_tied_weights_are_written_once(device, tmp_path):
    sizes = []
    for where in ("cpu", device):
        path = tmp_path / f"{where}.safetensors"
        md.save(model_on(where), path)
        sizes.append(path.stat().st_size)
    assert sizes[0] == sizes[1]


def test_an_optimizer_goes_on_where_it_stopped(device, tmp_path):
    x = md.tensor(np.arange(8)[None] % 11)

    def step(model, optimizer):
        loss = model(x.to(model.token.weight.device), x.to(model.token.weight.device))[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model = model_on(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    step(model, optimizer)
    md.save({"model": model, "optimizer": optimizer}, tmp_path / "run.safetensors")
    step(model, optimizer)
    state = md.load(tmp_path / "run.safetensors")
    again = model_on(device, seed=1)
    other = optim.AdamW(again.parameters(), lr=0.5)
    again.load_state_dict(state["model"])
    other.load_state_dict(state["optimizer"])
    step(again, other)
    same(again.state_dict(), model.state_dict())


def test_pickles_and_copies(device):
    x = md.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.device == device and y.requires_grad and y.tolist() == x.tolist()
        with md.no_grad():
            y.zero_()
        assert x.sum().item() == 10
    assert copy.copy(x).array is x.array
    model = copy.deepcopy(nn.Linear(2, 2).to(device))
    assert model.weight.device == device
