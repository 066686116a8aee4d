"""Containers: lists and dicts of modules and parameters."""

import pytest

import minidl as md
from minidl import nn


def kinds(container):
    return [type(module).__name__ for module in container]


def test_sequential_runs_in_order_and_indexes_as_a_list():
    first, last = nn.Linear(2, 3), nn.Linear(3, 1)
    net = nn.Sequential(first, nn.ReLU(), last)
    x = md.randn(4, 2)
    assert (net(x) == last(first(x).relu())).all()
    assert len(net) == 3 and net[0] is first and net[-1] is last
    assert kinds(net[1:]) == ["ReLU", "Linear"]
    assert list(net[1:].state_dict()) == ["2.weight", "2.bias"]
    with pytest.raises(IndexError, match="index 3 is out of range for a container of length 3"):
        net[3]
    net[1] = nn.GELU()
    net.append(nn.Tanh()).insert(0, nn.Identity()).extend([nn.ReLU()])
    assert kinds(net) == ["Identity", "Linear", "GELU", "Linear", "Tanh", "ReLU"]
    assert isinstance(net.pop(), nn.ReLU)
    del net[0]
    assert [name for name, _ in net.named_children()] == ["0", "1", "2", "3"]
    assert kinds(net + nn.Sequential(nn.SiLU()))[-1] == "SiLU"
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        net[0] = 3


def test_sequential_of_a_dict_keeps_its_names():
    net = nn.Sequential({"a": nn.Linear(2, 2), "b": nn.ReLU()})
    assert list(net.state_dict()) == ["a.weight", "a.bias"]
    assert net.a is net[0]
    del net[0]
    assert [name for name, _ in net.named_children()] == ["b"]


def test_module_list():
    layers = nn.ModuleList(nn.Linear(1, i + 1) for i in range(3))
    layers.insert(1, nn.ReLU())
    layers += [nn.Tanh()]
    assert kinds(layers) == ["Linear", "ReLU", "Linear", "Linear", "Tanh"]
    assert kinds(layers[-2:]) == ["Linear", "Tanh"]
    del layers[1:3]
    assert kinds(layers) == ["Linear", "Linear", "Tanh"]
    assert list(layers.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert layers.pop(0).out_features == 1
    assert kinds(layers + nn.ModuleList([nn.GELU()])) == ["Linear", "Tanh", "GELU"]
    with pytest.raises(TypeError, match="extend takes modules, got int"):
        layers.extend(3)
    with pytest.raises(TypeError, match="str is not a Module subclass"):
        layers.append("x")


def test_module_dict():
    heads = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    heads.update([("c", nn.Tanh())])
    assert list(heads) == list(heads.keys()) == ["a", "b", "c"] and "a" in heads
    assert kinds(heads.values()) == ["Linear", "ReLU", "Tanh"] and len(heads.items()) == 3
    assert isinstance(heads.pop("b"), nn.ReLU) and len(heads) == 2
    del heads["c"]
    with pytest.raises(KeyError, match="zzz"):
        heads["zzz"]
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        heads["keys"] = nn.ReLU()
    heads.clear()
    assert len(heads) == 0


def test_parameter_list():
    params = nn.ParameterList([md.ones(2), nn.Parameter(md.zeros(3))])
    params.append(md.ones(1)).extend([md.ones(4)])
    assert [tuple(p.shape) for p in params.parameters()] == [(2,), (3,), (1,), (4,)]
    assert all(isinstance(p, nn.Parameter) for p in params)
    assert len(params[1:3]) == 2 and params[-1].shape == (4,)
    params[0] = md.zeros(5)
    assert params.state_dict()["0"].shape == (5,)
    with pytest.raises(TypeError, match="a list of parameters, got Tensor"):
        params.extend(md.ones(2))
    assert "(0): Parameter of shape (5,), minidl.float32" in repr(params)


def test_parameter_dict():
    params = nn.ParameterDict({"gain": md.ones(2)})
    params["shift"] = md.zeros(2)
    assert list(params.state_dict()) == ["gain", "shift"] == list(params.keys())
    assert isinstance(params["gain"], nn.Parameter) and params.get("none", 1) == 1
    assert len(params.items()) == 2 and params.pop("gain").shape == (2,)
    assert "gain" not in params and len(list(params.parameters())) == 1
    with pytest.raises(KeyError, match="gone"):
        params["gone"]
    assert "(shift): Parameter of shape (2,)" in repr(params)
