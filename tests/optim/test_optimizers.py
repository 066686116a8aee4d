"""Optimizers: 100 steps against PyTorch's, groups, state, errors."""

import copy
import pickle

import numpy as np
import pytest

import minidl as md

SHAPES = ((3, 4), (5,), (), (2, 1, 3))
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.01, "maximize": True, "momentum": 0.5}),
    ("Adam", {}),
    ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "lr": 0.02, "weight_decay": 0.1}),
    ("Adam", {"maximize": True, "weight_decay": 0.1}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.1, "lr": 0.02}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.02, "betas": (0.9, 0.99), "weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True, "lr": 0.02, "weight_decay": 0.1, "maximize": True}),
]


def values(dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape), dtype) for shape in SHAPES]


def gradient(value, step, index):
    """A gradient that depends on the parameter, as in training."""
    return np.asarray(value * 0.5 + np.cos(step * 0.3 + index), value.dtype)


def run(optimizer, params, steps, wrap, start=0):
    """Steps in which the last parameter has a gradient only from the tenth on."""
    for step in range(start, start + steps):
        optimizer.zero_grad()
        for i, param in enumerate(params):
            if i < len(params) - 1 or step >= 10:
                param.grad = wrap(gradient(param.detach().numpy(), step, i))
        optimizer.step()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, options", CASES, ids=str)
def test_hundred_steps_as_in_pytorch(name, options, dtype):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    mine = [md.nn.Parameter(md.from_numpy(v)) for v in values(dtype)]
    theirs = [torch.nn.Parameter(torch.from_numpy(v)) for v in values(dtype)]
    run(getattr(md.optim, name)(mine, **options), mine, 100, md.from_numpy)
    run(getattr(torch.optim, name)(theirs, **options), theirs, 100, torch.from_numpy)
    tolerance = {"rtol": 2e-4, "atol": 2e-5} if dtype == np.float32 else {"rtol": 1e-9}
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), **tolerance)


def test_defaults_are_those_of_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for name in ("SGD", "Adam", "AdamW"):
        mine = getattr(md.optim, name)([md.nn.Parameter(md.zeros(1))]).defaults
        theirs = getattr(torch.optim, name)([torch.nn.Parameter(torch.zeros(1))]).defaults
        for key, value in mine.items():
            assert theirs[key] == value, (name, key)


def test_parameters_that_are_views_step_too():
    base = md.from_numpy(values(np.float32)[0])
    view, plain = md.nn.Parameter(base.t()), md.nn.Parameter(base.t().clone())
    for param in (view, plain):
        run(md.optim.AdamW([param], lr=0.1), [param], 12, md.from_numpy)
    np.testing.assert_allclose(view.detach().numpy(), plain.detach().numpy(), rtol=1e-4)


def test_groups_have_their_own_options():
    a, b = (md.nn.Parameter(md.ones(2)) for _ in range(2))
    optimizer = md.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    a.grad = b.grad = md.ones(2)
    optimizer.step()
    np.testing.assert_allclose(a.detach().numpy(), 0.9, rtol=1e-6)
    np.testing.assert_allclose(b.detach().numpy(), 0.5, rtol=1e-6)
    c = md.nn.Parameter(md.ones(1))
    optimizer.add_param_group({"params": [("c", c)], "momentum": 0.9})
    assert optimizer.param_groups[2]["param_names"] == ["c"]
    assert optimizer.param_groups[2]["lr"] == 0.1
    assert "Parameter Group 2" in repr(optimizer) and "momentum: 0.9" in repr(optimizer)


@pytest.mark.parametrize("name, options", CASES, ids=str)
def test_a_saved_run_goes_on_as_if_never_stopped(name, options):
    straight = [md.nn.Parameter(md.from_numpy(v)) for v in values(np.float32)]
    run(getattr(md.optim, name)(straight, **options), straight, 25, md.from_numpy)

    first = [md.nn.Parameter(md.from_numpy(v)) for v in values(np.float32)]
    optimizer = getattr(md.optim, name)(first, **options)
    run(optimizer, first, 12, md.from_numpy)
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    second = [md.nn.Parameter(p.detach().clone()) for p in first]
    other = getattr(md.optim, name)(second, lr=123.0)
    other.load_state_dict(saved)
    run(other, second, 13, md.from_numpy, start=12)
    for a, b in zip(straight, second, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_loading_copies_and_checks():
    param = md.nn.Parameter(md.ones(2))
    optimizer = md.optim.Adam([param])
    run(optimizer, [param, md.nn.Parameter(md.ones(1))], 3, md.from_numpy)
    state = optimizer.state_dict()
    other = md.optim.Adam([md.nn.Parameter(md.ones(2))])
    other.load_state_dict(state)
    mine = next(iter(other.state.values()))["exp_avg"]
    assert not np.shares_memory(mine.numpy(), state["state"][0]["exp_avg"].numpy())
    with pytest.raises(ValueError, match="2 parameter groups, the optimizer 1"):
        other.load_state_dict({**state, "param_groups": state["param_groups"] * 2})
    groups = copy.deepcopy(state["param_groups"])
    groups[0]["params"] = [0, 1]
    with pytest.raises(ValueError, match="group 0 has 2 parameters in the state dict, 1 in"):
        other.load_state_dict({**state, "param_groups": groups})


def test_state_of_pytorch_loads():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    theirs = [torch.nn.Parameter(torch.from_numpy(v)) for v in values(np.float32)]
    their_optimizer = torch.optim.AdamW(theirs, lr=0.02)
    run(their_optimizer, theirs, 15, torch.from_numpy)
    mine = [md.nn.Parameter(md.from_numpy(p.detach().numpy().copy())) for p in theirs]
    optimizer = md.optim.AdamW(mine)
    saved = their_optimizer.state_dict()
    optimizer.load_state_dict({
        "param_groups": saved["param_groups"],
        "state": {
            number: {name: md.from_numpy(value.numpy().copy()) for name, value in state.items()}
            for number, state in saved["state"].items()
        },
    })
    run(their_optimizer, theirs, 15, torch.from_numpy, start=15)
    run(optimizer, mine, 15, md.from_numpy, start=15)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_closure_zero_grad_and_no_gradients():
    param = md.nn.Parameter(md.ones(2))
    optimizer = md.optim.SGD([param], lr=0.1)
    optimizer.step()
    assert (param == 1).all()

    def closure():
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    np.testing.assert_allclose(param.detach().numpy(), 0.8, rtol=1e-6)
    optimizer.zero_grad(set_to_none=False)
    assert (param.grad == 0).all()
    optimizer.zero_grad()
    assert param.grad is None


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_a_step_invalidates_graphs_that_saved_the_parameter(name):
    param = md.nn.Parameter(md.ones(3))
    loss = (param * param).sum()
    param.grad = md.ones(3)
    getattr(md.optim, name)([param]).step()
    with pytest.raises(md.errors.GradientError, match=f"step of {name}"):
        loss.backward()


@pytest.mark.parametrize(
    "make, kind, what",
    [
        (lambda p: md.optim.SGD(p), TypeError, r"write \[param\]"),
        (lambda p: md.optim.SGD([]), ValueError, "empty parameter list"),
        (lambda p: md.optim.SGD([p, p]), ValueError, "more than one"),
        (lambda p: md.optim.SGD([p, 3]), TypeError, "takes tensors, got int"),
        (lambda p: md.optim.SGD([p * 2]), ValueError, "not a leaf"),
        (lambda p: md.optim.SGD([{"params": {p}}]), TypeError, "a set has none"),
        (lambda p: md.optim.SGD([p], lr=-1), ValueError, "SGD: lr must not be negative, got -1"),
        (lambda p: md.optim.SGD([p], nesterov=True), ValueError, "nesterov needs a momentum"),
        (lambda p: md.optim.Adam([p], betas=(0.9, 1.0)), ValueError, r"betas\[1\] must be"),
        (lambda p: md.optim.AdamW([p], eps=-1), ValueError, "AdamW: eps must not be negative"),
        (lambda p: md.optim.AdamW([p], capturable=True), NotImplementedError, "capturable=True"),
        (lambda p: md.optim.SGD([p], differentiable=True), NotImplementedError, "differentiable"),
    ],
)
def test_wrong_arguments_get_a_sentence(make, kind, what):
    with pytest.raises(kind, match=what):
        make(md.nn.Parameter(md.zeros(2)))
