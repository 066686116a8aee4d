"""Gradient clipping, parameter vectors, modules without starting values."""

import math

import numpy as np
import pytest

import minidl as md
from minidl import nn


def params(scale=1.0, dtype=np.float32):
    rng = np.random.default_rng(0)
    result = []
    for shape in ((3, 4), (5,), ()):
        param = nn.Parameter(md.zeros(shape, dtype=md.as_tensor(np.zeros((), dtype)).dtype))
        param.grad = md.from_numpy(np.asarray(rng.normal(size=shape) * scale, dtype))
        result.append(param)
    result.append(nn.Parameter(md.zeros(2)))  # without a gradient
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf, "inf"])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clip_grad_norm(max_norm, norm_type, dtype):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    mine = params(dtype=dtype)
    theirs = []
    for param in mine:
        theirs.append(torch.nn.Parameter(torch.zeros(param.shape)))
        if param.grad is not None:
            theirs[-1] = torch.nn.Parameter(torch.zeros(param.shape, dtype=torch.float64).to(
                torch.from_numpy(np.zeros(1, dtype)).dtype))
            theirs[-1].grad = torch.from_numpy(param.grad.numpy().copy())
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, float(norm_type))
    actual = nn.utils.clip_grad_norm_(mine, max_norm, float(norm_type))
    assert actual.shape == () and actual.item() == pytest.approx(expected.item(), rel=1e-5)
    for a, b in zip(mine, theirs, strict=True):
        if b.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_clip_of_one_tensor_of_none_and_of_nonfinite():
    param = params()[0]
    before = np.linalg.norm(param.grad.numpy())
    assert nn.utils.clip_grad_norm_(param, 0.1).item() == pytest.approx(before, rel=1e-5)
    assert np.linalg.norm(param.grad.numpy()) == pytest.approx(0.1, rel=1e-4)
    assert nn.utils.clip_grad_norm_([nn.Parameter(md.zeros(2))], 1.0).item() == 0
    param.grad = md.full((3, 4), math.inf)
    with pytest.raises(RuntimeError, match=r"the total norm .* is inf"):
        nn.utils.clip_grad_norm_(param, 1.0, error_if_nonfinite=True)
    nn.utils.clip_grad_norm_(param, 1.0)
    assert np.isnan(param.grad.numpy()).all()


def test_clip_grad_value():
    some = params(10.0)
    nn.utils.clip_grad_value_(some, 0.5)
    largest = max(np.abs(p.grad.numpy()).max() for p in some if p.grad is not None)
    assert largest == 0.5


def test_parameters_to_vector_and_back():
    layer, other = nn.Linear(2, 3), nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(vector, other.parameters())
    assert (other.weight == layer.weight).all() and (other.bias == layer.bias).all()
    with pytest.raises(md.errors.ShapeError, match=r"shape \(8,\), the parameters have 9"):
        nn.utils.vector_to_parameters(vector[:8], other.parameters())


def test_skip_init_draws_nothing_and_ends_with_an_error_too():
    md.manual_seed(0)
    expected = md.rand(3)
    md.manual_seed(0)
    layer = nn.utils.skip_init(nn.TransformerEncoderLayer, 8, 2, dim_feedforward=16)
    assert (md.rand(3) == expected).all()
    assert {p.dtype for p in layer.parameters()} == {md.float32} and layer.training
    with pytest.raises(ValueError, match="must be divisible by num_heads"):
        nn.utils.skip_init(nn.TransformerEncoderLayer, 8, 3)
    for fill in (nn.init.ones_, nn.init.eye_, nn.init.orthogonal_, nn.init.trunc_normal_):
        with nn.init.skipped():
            assert (fill(md.full((2, 2), 7.0)) == 7.0).all()
        assert not (fill(md.full((2, 2), 7.0)) == 7.0).all()
