"""Every registered op has samples, and its gradient is the derivative of its values."""

import copy
import importlib
import pkgutil

import numpy as np
import pytest
from samples import SAMPLES

import minidl as md

Op = type(md.exp)


def registered():
    """Every op of the package, by name."""
    found = {}
    for info in pkgutil.walk_packages(md.__path__, "minidl."):
        module = importlib.import_module(info.name)
        found.update({v.__name__: v for v in vars(module).values() if type(v) is Op})
    return found


OPS = registered()
CASES = [(name, i) for name in sorted(SAMPLES) for i in range(len(SAMPLES[name]))]


def test_every_op_has_samples():
    assert sorted(set(OPS) - set(SAMPLES)) == []


def test_every_sample_has_an_op():
    assert sorted(set(SAMPLES) - set(OPS)) == []


def arguments(name, i):
    return list(SAMPLES[name][i](np.random.default_rng(i)))


def shifted(args, leaves, directions, step):
    """The arguments again, the leaves moved by `step` along their directions."""
    with md.no_grad():
        out = [copy.copy(a) if isinstance(a, np.ndarray) else a for a in args]
        for i, d in zip(leaves, directions, strict=True):
            out[i] = md.from_numpy(np.asarray(args[i].detach().numpy() + step * d))
        for i, a in enumerate(out):
            if isinstance(a, md.Tensor) and i not in leaves:
                out[i] = a.detach().clone()
    return out


def total(result, seeds):
    """sum(seed * output) over the differentiable outputs."""
    outputs = result if isinstance(result, tuple) else (result,)
    return sum(float((s * y.detach().numpy()).sum()) for y, s in zip(outputs, seeds, strict=True)
               if s is not None)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_gradient_is_the_derivative(name, i):
    rng = np.random.default_rng(100 + i)
    op, args = OPS[name], arguments(name, i)
    if name == "bernoulli":
        args[2].manual_seed(0)
    leaves = [k for k, a in enumerate(args) if isinstance(a, md.Tensor) and a.requires_grad]
    directions = [rng.standard_normal(args[k].shape) for k in leaves]
    moved = [shifted(args, leaves, directions, h) for h in (1e-6, -1e-6)]
    result = op(*args)
    outputs = result if isinstance(result, tuple) else (result,)
    assert all(isinstance(y, md.Tensor) for y in outputs)
    if not leaves:
        assert not any(y.requires_grad for y in outputs)
        return
    seeds = [rng.standard_normal(y.shape) if y.requires_grad else None for y in outputs]
    if not any(s is not None for s in seeds):
        assert all(y.dtype.category < 2 for y in outputs), "a result lost its gradient"
        return
    pairs = [(y, md.from_numpy(np.asarray(s))) for y, s in zip(outputs, seeds, strict=True)
             if s is not None]
    grads = md.autograd.grad([y for y, _ in pairs], [args[k] for k in leaves],
                             [s for _, s in pairs])
    for k, g in zip(leaves, grads, strict=True):
        assert g.shape == args[k].shape and g.dtype == args[k].dtype
    along = sum(float((g.numpy() * d).sum()) for g, d in zip(grads, directions, strict=True))
    values = []
    for shifted_args in moved:
        if name == "bernoulli":
            shifted_args[2].manual_seed(0)
        values.append(total(op(*shifted_args), seeds))
    measured = (values[0] - values[1]) / 2e-6
    assert along == pytest.approx(measured, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_arguments_are_left_alone(name, i):
    """An op, its gradient included, writes into none of its arguments (some are meant to)."""
    if name in ("index_put", "cached_attention"):
        pytest.skip("writes in place on purpose")
    args = arguments(name, i)
    tensors = [a for a in args if isinstance(a, md.Tensor)]
    before = [a.detach().numpy().copy() for a in tensors]
    result = OPS[name](*args)
    outputs = [y for y in (result if isinstance(result, tuple) else (result,)) if y.requires_grad]
    seeds = [md.ones(y.shape, dtype=y.dtype) for y in outputs]
    if outputs:
        leaves = [a for a in tensors if a.requires_grad]
        for _ in range(2):  # a vjp may run twice
            md.autograd.grad(outputs, leaves, seeds, retain_graph=True, allow_unused=True)
    for a, b in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b)
    for s in seeds:
        assert (s.numpy() == 1).all()
