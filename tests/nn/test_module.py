"""Module: registration, walking, modes, hooks, state, errors, repr."""

import copy
import pickle
import sys

import numpy as np
import pytest

import minidl as md
from minidl import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("mask", md.ones(2, 2))
        self.register_buffer("scratch", md.zeros(3), persistent=False)

    def forward(self, x):
        return self.qkv(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Head()
        self.net = nn.Sequential(nn.Linear(24, 8), nn.ReLU())

    def forward(self, x):
        return self.net(self.attn(x))


class Model(nn.Module):
    def __init__(self, blocks=4):
        super().__init__()
        self.embed = nn.Embedding(5, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(8, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_names_in_order_and_tied_weights_once():
    model = Model(1)
    names = [name for name, _ in model.named_parameters()]
    assert names == [
        "embed.weight", "blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias",
        "blocks.0.net.0.weight", "blocks.0.net.0.bias",
    ]
    assert len(list(model.parameters())) == 5
    everything = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert everything == [*names, "head.weight"]
    assert [name for name, _ in model.named_buffers()] == [
        "blocks.0.attn.mask", "blocks.0.attn.scratch"
    ]
    assert [n for n, _ in model.named_modules()] == [
        "", "embed", "blocks", "blocks.0", "blocks.0.attn", "blocks.0.attn.qkv", "blocks.0.net",
        "blocks.0.net.0", "blocks.0.net.1", "head",
    ]
    assert [n for n, _ in model.named_children()] == ["embed", "blocks", "head"]
    assert len(list(model.parameters(recurse=False))) == 0
    prefixed = [n for n, _ in model.head.named_parameters(prefix="top")]
    assert prefixed == ["top.weight"]


def test_lookup_by_name():
    model = Model()
    assert model.get_submodule("blocks.3.attn") is model.blocks[3].attn
    assert model.get_submodule("") is model
    assert model.get_parameter("blocks.3.attn.qkv.bias") is model.blocks[3].attn.qkv.bias
    assert model.get_buffer("blocks.0.attn.mask") is model.blocks[0].attn.mask
    with pytest.raises(AttributeError, match="Block has no module 'att'"):
        model.get_submodule("blocks.3.att")
    with pytest.raises(AttributeError, match="Linear has no parameter 'gain'"):
        model.get_parameter("head.gain")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = model.nothing


def test_attribute_rules():
    layer = nn.Linear(2, 3)
    with pytest.raises(TypeError, match="cannot assign 'Tensor' object to parameter 'weight'"):
        layer.weight = md.zeros(3, 2)
    layer.bias = None
    assert "bias" not in layer.state_dict()
    layer.bias = nn.Parameter(md.zeros(3))
    assert list(layer.state_dict()) == ["weight", "bias"]
    del layer.bias
    assert not hasattr(layer, "bias") and list(layer.state_dict()) == ["weight"]

    head = Head()
    with pytest.raises(TypeError, match="child module 'qkv'"):
        head.qkv = 3
    with pytest.raises(TypeError, match="buffer 'mask'"):
        head.mask = 3
    head.mask = md.zeros(1)
    assert head.state_dict()["mask"].shape == (1,)
    head.extra = 3
    head.extra = nn.Parameter(md.zeros(1))
    assert "extra" in dict(head.named_parameters())
    head.extra = nn.Linear(1, 1)
    assert "extra" not in head._parameters and "extra" in head._modules
    with pytest.raises(KeyError, match="already exists"):
        head.register_buffer("qkv", md.zeros(1))
    with pytest.raises(KeyError, match=r'contain "\."'):
        head.register_parameter("a.b", None)
    computed = nn.Parameter(md.zeros(2), requires_grad=False)
    computed.add_(nn.Parameter(md.zeros(2)))
    with pytest.raises(ValueError, match="a parameter is a leaf"):
        head.register_parameter("c", computed)


@pytest.mark.parametrize(
    "value, what", [("parameter", "parameters"), ("module", "module")]
)
def test_assignment_before_init(value, what):
    class Early(nn.Module):
        def __init__(self):
            self.x = nn.Parameter(md.zeros(1)) if value == "parameter" else nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=f"cannot assign {what} before Module.__init__"):
        Early()


def test_modes_and_gradients():
    model = Model()
    assert all(m.training for m in model.modules())
    assert not any(m.training for m in model.eval().modules())
    with pytest.raises(ValueError, match="bool"):
        model.train("yes")
    model.train().requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())
    model.requires_grad_()
    model(md.tensor([[1, 2]])).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_apply_visits_children_first():
    seen = []
    Block().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Head", "Linear", "ReLU", "Sequential", "Block"]


def test_to_converts_floating_tensors_in_place():
    model = Model(1)
    model.register_buffer("ids", md.arange(3))
    weight = model.embed.weight
    model(md.tensor([0])).sum().backward()
    assert model.double() is model
    assert model.embed.weight is weight and model.head.weight is weight
    assert weight.dtype == md.float64 and weight.grad.dtype == md.float64
    assert model.ids.dtype == md.int64 and model.blocks[0].attn.mask.dtype == md.float64
    assert model(md.tensor([0])).dtype == md.float64
    assert model.float().embed.weight.dtype == md.float32
    model.to("cpu").to(md.float64).to(md.zeros(1)).to(device="cpu", dtype=md.float64)
    assert weight.dtype == md.float64
    with pytest.raises(TypeError, match="floating-point"):
        model.to(md.int64)
    with pytest.raises(TypeError, match="unexpected argument 'dtyp'"):
        model.to(dtyp=md.float32)


def test_state_dict_round_trip():
    model, other = Model(), Model()
    state = model.state_dict()
    assert "blocks.0.attn.mask" in state and "blocks.0.attn.scratch" not in state
    assert state["head.weight"] is state["embed.weight"]
    assert not state["embed.weight"].requires_grad
    assert np.shares_memory(state["embed.weight"].numpy(), model.embed.weight.detach().numpy())
    result = other.load_state_dict(state)
    assert repr(result) == "<All keys matched successfully>"
    ids = md.tensor([[1, 2, 3]])
    np.testing.assert_array_equal(other(ids).detach().numpy(), model(ids).detach().numpy())
    assert not np.shares_memory(
        other.embed.weight.detach().numpy(), model.embed.weight.detach().numpy()
    )
    assert next(iter(model.state_dict(prefix="m."))) == "m.embed.weight"
    assert model.state_dict(keep_vars=True)["embed.weight"] is model.embed.weight


def test_load_lists_everything_that_is_wrong_and_loads_nothing():
    layer = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3))
    before = layer[1].weight.detach().clone()
    state = {"0.weight": md.zeros(4, 2), "0.bias": md.zeros(3), "1.weight": md.zeros(3, 3),
             "2.weight": md.zeros(1)}
    with pytest.raises(RuntimeError) as caught:
        layer.load_state_dict(state)
    assert str(caught.value) == (
        "the state dict does not fit Sequential; nothing was loaded:\n"
        "  missing (1): 1.bias\n"
        "  unexpected (1): 2.weight\n"
        "  0.weight: has shape (4, 2) in the state dict, (3, 2) in the model"
    )
    np.testing.assert_array_equal(layer[1].weight.detach().numpy(), before.numpy())
    del state["0.weight"]
    result = layer.load_state_dict(state, strict=False)
    assert result.missing_keys == ["0.weight", "1.bias"]
    assert result.unexpected_keys == ["2.weight"]
    assert (layer[1].weight == 0).all()
    with pytest.raises(RuntimeError, match=r'match when "module\." is taken off'):
        layer.load_state_dict({f"module.{k}": v for k, v in layer.state_dict().items()})


def test_load_takes_arrays_and_one_name_of_a_tied_weight():
    model = Model(1)
    state = {name: tensor.numpy() * 0 for name, tensor in model.state_dict().items()}
    del state["head.weight"]
    model.load_state_dict(state)
    assert (model.head.weight == 0).all()
    with pytest.raises(TypeError, match=r"embed\.weight must be a tensor or an array, got list"):
        model.load_state_dict(state | {"embed.weight": [1.0]})
    with pytest.raises(TypeError, match="expected a dict"):
        model.load_state_dict([1])


def test_load_with_assign_keeps_ties_and_takes_the_memory():
    model = Model(1)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    del state["head.weight"]
    model.requires_grad_(False)
    model.load_state_dict(state, assign=True)
    assert model.embed.weight is model.head.weight
    assert isinstance(model.embed.weight, nn.Parameter) and not model.embed.weight.requires_grad
    assert np.shares_memory(model.embed.weight.numpy(), state["embed.weight"].numpy())


def test_copy_deepcopy_and_pickle():
    model = Model(2)
    ids = md.tensor([[1, 2, 3]])
    expected = model(ids).detach().numpy()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.embed.weight is other.head.weight
        assert other.embed.weight is not model.embed.weight
        assert isinstance(other.embed.weight, nn.Parameter) and other.embed.weight.requires_grad
        np.testing.assert_array_equal(other(ids).detach().numpy(), expected)
        with md.no_grad():
            other.embed.weight.zero_()
        np.testing.assert_array_equal(model(ids).detach().numpy(), expected)
    shallow = copy.copy(model)
    assert shallow.embed is model.embed
    shallow.extra = nn.Linear(1, 1)
    assert "extra" not in dict(model.named_children())
    one, two = len(pickle.dumps(Model(0).state_dict())), 5 * 8 * 4
    assert one < 2 * two + 600, "a tied weight is saved once"


def test_forward_hooks():
    layer = nn.Linear(2, 2)
    x, calls = md.ones(1, 2), []
    plain = layer(x).detach().numpy()
    first = layer.register_forward_hook(lambda m, args, out: calls.append((m, args, out)))
    second = layer.register_forward_hook(lambda m, args, out: out * 2)
    front = layer.register_forward_hook(lambda m, a, out: calls.append("front"), prepend=True)
    np.testing.assert_allclose(layer(x).detach().numpy(), 2 * plain, rtol=1e-6)
    assert calls[0] == "front" and calls[1][0] is layer and calls[1][1] == (x,)
    for handle in (first, second, front):
        handle.remove()
    np.testing.assert_array_equal(layer(x).detach().numpy(), plain)
    with layer.register_forward_pre_hook(lambda m, args: args[0] * 0):
        np.testing.assert_allclose(layer(x).detach().numpy()[0], layer.bias.detach().numpy())
    np.testing.assert_array_equal(layer(x).detach().numpy(), plain)

    def with_keywords(module, args, kwargs):
        return args, {"input": kwargs["input"] * 0}

    with layer.register_forward_pre_hook(with_keywords, with_kwargs=True):
        np.testing.assert_allclose(layer(input=x).detach().numpy()[0], layer.bias.detach().numpy())


def test_always_call_hook_runs_when_forward_fails():
    layer, calls = nn.Linear(2, 2), []
    layer.register_forward_hook(lambda m, a, out: calls.append(out), always_call=True)
    layer.register_forward_hook(lambda m, a, out: calls.append("never"))
    with pytest.raises(md.errors.ShapeError):
        layer(md.ones(1, 3))
    assert calls == [None]


def test_unsupported_hooks_and_missing_forward():
    with pytest.raises(NotImplementedError, match="use register_hook on the tensors"):
        nn.Linear(1, 1).register_full_backward_hook(print)
    with pytest.raises(NotImplementedError, match="ModuleList has no forward method"):
        nn.ModuleList()(1)


def test_calling_costs_no_python_beside_forward():
    class Empty(nn.Module):
        def forward(self, x):
            return x

    module, entered = Empty(), []
    sys.setprofile(lambda frame, event, _: entered.append((event, frame.f_code.co_name)))
    module(1)
    sys.setprofile(None)
    assert [name for event, name in entered if event == "call"] == ["__call__", "forward"]
