"""softmax, log_softmax, layer_norm, rms_norm and their gradients against float64 and PyTorch."""

import numpy as np
import pytest

from minidl_kernels.cpu import norm
from minidl_kernels.reference import norm as reference

rng = np.random.default_rng(0)


def draw(*shape, scale=1.0, offset=0.0):
    return (rng.standard_normal(shape) * scale + offset).astype("float32")


def close(actual, expected, tolerance=2e-6):
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def wide(*xs):
    return [None if x is None else x.astype("float64") for x in xs]


@pytest.mark.parametrize("C", [0, 1, 7, 33, 1000, 31, 32, 64, 4097, 10000])
@pytest.mark.parametrize("N", [0, 1, 5])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_and_gradient(name, N, C):
    x, g = draw(N, C, scale=3), draw(N, C)
    y = getattr(norm, name)(x)
    close(y, getattr(reference, name)(*wide(x)))
    dx = getattr(norm, name + "_grad")(g, y)
    expected = getattr(reference, name + "_grad")(*wide(g, y))
    close(dx, expected, tolerance=2e-6 * max(1.0, np.sqrt(C) / 4))


@pytest.mark.parametrize("C", [1000, 1001, 1008, 1030])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_more_than_the_caches_hold(name, C):
    """Such gradients are streamed, 128 elements at a time where rows begin at aligned addresses."""
    test_softmax_and_gradient(name, 2100, C)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_large_and_special_values(name):
    inf, nan = np.inf, np.nan
    rows = [[1e4, 1e4 + 1, 1e4 - 3], [-1e30, 0, 1], [-inf, 0, -inf], [-inf, -inf, -inf],
            [inf, 0, 1], [nan, 0, 1], [0, 1, nan], [-200, -100, 0], [1e38, -1e38, 0]]
    x = np.array(rows, "float32")
    x = np.concatenate([x, np.repeat(x[:, 1:2], 40, 1)], 1)      # beyond the lanes of one vector
    y = getattr(norm, name)(x)
    expected = getattr(reference, name)(*wide(x))
    assert np.isnan(y[3]).all() and np.isnan(y[5]).all() and np.isnan(y[4]).any()
    masked = x[2] == -inf
    assert (y[2][masked] == (0 if name == "softmax" else -inf)).all()      # exactly, not nearly
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)


def test_softmax_takes_any_strides_and_any_number_of_axes():
    x = draw(6, 5, 33)
    broadcast = np.broadcast_to(x[0, 0], (4, 33))
    for view in (x.transpose(2, 1, 0), x[::2, ::-1, 3:], broadcast, x[0, 0]):
        close(norm.softmax(view), reference.softmax(*wide(view)))
        close(norm.softmax_grad(view, view), reference.softmax_grad(*wide(view, view)), 1e-5)


@pytest.mark.parametrize("C", [1, 7, 33, 1000, 4096, 4097, 9000])
@pytest.mark.parametrize("N", [0, 1, 5, 300])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_and_gradient(N, C, affine):
    x, g = draw(N, C, scale=2, offset=1), draw(N, C)
    w, b = (draw(C), draw(C)) if affine else (None, None)
    y, mean, rstd = norm.layer_norm(x, w, b, 1e-5)
    y64, mean64, rstd64 = reference.layer_norm(*wide(x, w, b), 1e-5)
    close(y, y64, 1e-5)
    close(mean, mean64)
    close(rstd, rstd64)
    need = (True, True, True)
    results = norm.layer_norm_grad(g, x, w, mean, rstd, need)
    expected = reference.layer_norm_grad(*wide(g, x, w, mean, rstd), need)
    assert (results[1] is None) == (not affine)
    for a, b64 in zip(results, expected, strict=True):
        if b64 is not None:
            close(a, b64, (1e-5 if N < 1000 else 3e-5) if C > 1 else 2e-3)


@pytest.mark.parametrize("C", [1000, 1001, 1008, 1030])
def test_layer_norm_of_more_than_the_caches_hold(C):
    """Such results are streamed, 128 elements at a time where rows begin at aligned addresses."""
    test_layer_norm_and_gradient(2100, C, True)


@pytest.mark.parametrize("C", [1, 7, 33, 1000, 4097])
@pytest.mark.parametrize("N", [0, 1, 5, 300])
@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm_and_gradient(N, C, affine):
    x, g, w = draw(N, C, scale=2), draw(N, C), draw(C) if affine else None
    y, rstd = norm.rms_norm(x, w, 1e-5)
    y64, rstd64 = reference.rms_norm(*wide(x, w), 1e-5)
    close(y, y64)
    close(rstd, rstd64)
    results = norm.rms_norm_grad(g, x, w, rstd, (True, True))
    expected = reference.rms_norm_grad(*wide(g, x, w, rstd), (True, True))
    for a, b64 in zip(results, expected, strict=True):
        if b64 is not None:
            close(a, b64, 1e-5 if C > 1 else 2e-3)


@pytest.mark.parametrize("C", [65, 768, 5000])
def test_layer_norm_is_safe_with_a_large_mean_and_with_outliers(C):
    x = draw(20, C, offset=1e4)
    x[10:] = draw(10, C)
    x[10:, 0] = 1e4                                              # the first element tells nothing
    x[5] *= 1e17                                                 # whose square is no float
    y, _, _ = norm.layer_norm(x, None, None, 1e-5)
    close(y, reference.layer_norm(*wide(x, None, None), 1e-5)[0], 5e-6)
    constant = np.full((2, C), 0.1, "float32")
    assert np.abs(norm.layer_norm(constant, None, None, 1e-5)[0]).max() < 1e-5


def test_norms_skip_what_is_not_needed():
    x, g, w = draw(4, 9), draw(4, 9), draw(9)
    _, mean, rstd = norm.layer_norm(x, w, None, 1e-5)
    full = norm.layer_norm_grad(g, x, w, mean, rstd, (True, True, True))
    for i in range(3):
        need = [k == i for k in range(3)]
        some = norm.layer_norm_grad(g, x, w, mean, rstd, need)
        assert [s is not None for s in some] == need
        close(some[i], full[i])
    assert norm.rms_norm_grad(g, x, w, rstd, (False, False)) == (None, None)


def test_norms_of_no_columns_and_weights_of_other_shapes():
    y, mean, rstd = norm.layer_norm(draw(3, 0), None, None, 1e-5)
    assert y.shape == (3, 0) and mean.shape == rstd.shape == (3,)
    dx, dw, db = norm.layer_norm_grad(y, y, draw(0), mean, rstd, (True, True, True))
    assert dx.shape == (3, 0) and dw.shape == db.shape == (0,)
    x, w = draw(2, 3, 12), draw(3, 4)
    _, mean, rstd = norm.layer_norm(x, w, w, 1e-5)
    assert mean.shape == (2, 3)
    assert norm.layer_norm_grad(x, x, w, mean, rstd, (False, True, False))[1].shape == (3, 4)


def all_results():
    """One result of each kernel, on more than one piece of work."""
    fixed = np.random.default_rng(1)
    x, g = (fixed.standard_normal((700, 129)).astype("float32") for _ in range(2))
    w = fixed.standard_normal(129).astype("float32")
    y, ly = norm.softmax(x), norm.log_softmax(x)
    _, mean, rstd = norm.layer_norm(x, w, w, 1e-5)
    return {
        "softmax": y, "softmax_grad": norm.softmax_grad(g, y),
        "log_softmax": ly, "log_softmax_grad": norm.log_softmax_grad(g, ly),
        "layer_norm": norm.layer_norm(x, w, w, 1e-5),
        "layer_norm_grad": norm.layer_norm_grad(g, x, w, mean, rstd, (True, True, True)),
        "rms_norm": norm.rms_norm(x, w, 1e-5),
        "rms_norm_grad": norm.rms_norm_grad(g, x, w, rstd, (True, True)),
    }


def test_same_bits_on_any_thread_count(same_on_any_thread_count):
    same_on_any_thread_count()


def test_same_results_on_any_instruction_set(same_on_any_isa):
    same_on_any_isa(atol=2e-4)


def test_against_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    F = torch.nn.functional
    x, g, w, b = draw(40, 96), draw(40, 96), draw(96), draw(96)
    tx, tw, tb = (torch.tensor(a, requires_grad=True) for a in (x, w, b))

    def gradients(y, *leaves):
        return [t.numpy() for t in torch.autograd.grad(y, leaves, torch.tensor(g))]

    y, mean, rstd = norm.layer_norm(x, w, b, 1e-5)
    ty = F.layer_norm(tx, (96,), tw, tb)
    close(y, ty.detach().numpy(), 1e-5)
    results = norm.layer_norm_grad(g, x, w, mean, rstd, (True, True, True))
    for a, t in zip(results, gradients(ty, tx, tw, tb), strict=True):
        close(a, t, 2e-5)
    y, rstd = norm.rms_norm(x, w, 1e-5)
    ty = F.rms_norm(tx, (96,), tw, 1e-5)
    close(y, ty.detach().numpy(), 1e-5)
    results = norm.rms_norm_grad(g, x, w, rstd, (True, True))
    for a, t in zip(results, gradients(ty, tx, tw), strict=True):
        close(a, t, 2e-5)
    for name in ("softmax", "log_softmax"):
        y, ty = getattr(norm, name)(x), getattr(F, name)(tx, -1)
        close(y, ty.detach().numpy())
        close(getattr(norm, name + "_grad")(g, y), gradients(ty, tx)[0], 1e-5)


def test_wrong_arguments_are_refused_with_a_sentence():
    x, w = draw(2, 3), draw(4)
    for call, error, words in [
        (lambda: norm.softmax(np.float32(1)), TypeError, "softmax: expected a float32 array"),
        (lambda: norm.softmax(np.array(1, "float32")), ValueError, "expected at least one"),
        (lambda: norm.softmax(x.astype("float64")), TypeError, "got one of float64"),
        (lambda: norm.softmax(None), TypeError, "got NoneType"),
        (lambda: norm.softmax_grad(x, None), TypeError, "softmax_grad: expected a float32"),
        (lambda: norm.softmax_grad(x, x.T), ValueError, r"y has shape \(3, 2\), expected \(2, 3\)"),
        (lambda: norm.layer_norm(x, w, None, 1e-5), ValueError, "weight has 4 elements"),
        (lambda: norm.layer_norm_grad(x, x, None, w, w[:2], (1, 1, 1)), ValueError, "mean has 4"),
        (lambda: norm.rms_norm_grad(x, x, None, None, (1, 1)), TypeError, "rstd that rms_norm"),
    ]:
        with pytest.raises(error, match=words):
            call()
