"""rotary against the NumPy reference in float64 and against PyTorch."""

import importlib

import numpy as np
import pytest

from minidl_kernels.cpu import threads
from minidl_kernels.cpu.rotary import rotary, rotary_grad

reference = importlib.import_module("minidl_kernels.reference.rotary")
rng = np.random.default_rng(0)


def angles(T, D):
    theta = rng.uniform(-3, 3, (T, D // 2))
    return np.cos(theta).astype(np.float32), np.sin(theta).astype(np.float32)


def randn(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    "shape", [(1, 2), (7, 6), (3, 5, 34), (2, 3, 33, 64), (2, 1, 3, 4, 10), (2, 2, 1000, 8)]
)
def test_reference(shape, interleaved):
    x, (cos, sin) = randn(*shape), angles(*shape[-2:])
    wide = [a.astype(np.float64) for a in (x, cos, sin)]
    for ours, theirs in ((rotary, reference.rotary), (rotary_grad, reference.rotary_grad)):
        y = ours(x, cos, sin, interleaved)
        assert y.shape == shape and y.dtype == np.float32
        np.testing.assert_allclose(y, theirs(*wide, interleaved), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_the_gradient_turns_back(interleaved):
    x, (cos, sin) = randn(2, 9, 16), angles(9, 16)
    y = rotary_grad(rotary(x, cos, sin, interleaved), cos, sin, interleaved)
    np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-6)


def test_interleaved_and_halves_differ_by_a_permutation():
    x, (cos, sin) = randn(5, 8), angles(5, 8)
    order = np.arange(8).reshape(2, 4).T.reshape(-1)  # pairs (i, i + 4) become neighbours
    halves, pairs = rotary(x, cos, sin), rotary(x[:, order], cos, sin, True)
    # which of two products is rounded alone may differ between the two loops
    np.testing.assert_allclose(halves[:, order], pairs, rtol=1e-6, atol=1e-6)


def test_views_of_a_packed_projection_are_read_in_place_and_keep_their_layout():
    B, T, H, D = 2, 11, 3, 8
    cos, sin = angles(T, D)
    packed = randn(B, T, 3 * H * D)
    for third in np.split(packed, 3, axis=2):
        view = third.reshape(B, T, H, D).transpose(0, 2, 1, 3)
        y = rotary(view, cos, sin)
        np.testing.assert_array_equal(y, rotary(np.ascontiguousarray(view), cos, sin))
        assert y.transpose(0, 2, 1, 3).flags.c_contiguous
    assert rotary(randn(B, H, T, D), cos, sin).flags.c_contiguous
    odd = randn(D, T, H, B).T
    assert odd.shape == (B, H, T, D) and not odd.flags.c_contiguous
    np.testing.assert_array_equal(rotary(odd, cos, sin), rotary(odd.copy(), cos, sin))
    flipped = randn(B, H, T, D)[:, ::-1]
    np.testing.assert_array_equal(rotary(flipped, cos, sin), rotary(flipped.copy(), cos, sin))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 3, 2, 4), (2, 0, 2, 4), (2, 3, 0, 4)])
def test_zero_sizes(shape):
    cos, sin = angles(*shape[-2:])
    assert rotary(randn(*shape), cos, sin).shape == shape


def test_the_same_bits_on_any_number_of_threads():
    x, (cos, sin) = randn(4, 6, 300, 64), angles(300, 64)
    before, results = threads.get_num_threads(), []
    try:
        for n in (1, 2, 4):
            threads.set_num_threads(n)
            results.append(rotary(x, cos, sin))
    finally:
        threads.set_num_threads(before)
    assert all((y == results[0]).all() for y in results)


def test_nan_stays_in_its_pair():
    x, (cos, sin) = np.ones((1, 8), np.float32), angles(1, 8)
    x[0, 1] = np.nan
    assert np.isnan(rotary(x, cos, sin)).nonzero()[1].tolist() == [1, 5]
    assert np.isnan(rotary(x, cos, sin, True)).nonzero()[1].tolist() == [0, 1]


def test_errors_are_sentences():
    x, (cos, sin) = randn(2, 5, 8), angles(5, 8)
    cases = [
        (lambda: rotary(x[0, 0], cos, sin), ValueError, "rotary: x needs at least two axes"),
        (lambda: rotary(randn(5, 7), cos, sin), ValueError, "rotary: the width of x must be even"),
        (lambda: rotary(x, cos[1:], sin[1:]), ValueError, r"cos and sin of shape \(5, 4\)"),
        (lambda: rotary(x, cos, None), TypeError, "rotary: sin: expected a float32 array"),
        (lambda: rotary_grad([1.0], cos, sin), TypeError, "rotary_grad: x: expected a float32"),
        (lambda: rotary(x.astype("d"), cos, sin), TypeError, "got one of float64"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()


def test_pytorch_agrees():
    torch = pytest.importorskip("torch", reason="compares with PyTorch where it is installed")
    x, (cos, sin) = randn(2, 3, 9, 16), angles(9, 16)
    t = torch.tensor(x, requires_grad=True)
    c, s = (torch.tensor(np.concatenate([a, a], axis=1)) for a in (cos, sin))
    y = t * c + torch.cat([-t[..., 8:], t[..., :8]], dim=-1) * s
    g = randn(*x.shape)
    y.backward(torch.tensor(g))
    np.testing.assert_allclose(rotary(x, cos, sin), y.detach().numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(rotary_grad(g, cos, sin), t.grad.numpy(), rtol=1e-6, atol=1e-6)
