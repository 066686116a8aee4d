"""Softmax, LayerNorm and RMSNorm with their gradients on a device."""

import numpy as np
import pytest

from minidl_kernels import reference

SHAPES = [(1, 1), (5, 7), (3, 300), (2, 3, 129), (0, 4), (1100, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(be, check, draw, name, shape):
    y = check(name, draw(*shape, scale=4), tolerance=1e-5).numpy()
    check(name + "_grad", draw(*shape), y, tolerance=1e-5)


def test_rows_with_infinities(check):
    x = np.array([[0, -np.inf, 1], [-np.inf] * 3], "float32")
    check("softmax", x)
    check("log_softmax", x)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(check, draw, shape, affine):
    x, g, n = draw(*shape) + 2, draw(*shape), shape[-1]
    w, b = (draw(n), draw(n)) if affine else (None, None)
    _, mean, rstd = check("layer_norm", x, w, b, 1e-5, tolerance=1e-5)
    if n > 1:
        check("layer_norm_grad", g, x, w, mean.numpy(), rstd.numpy(), (True, affine, True),
              tolerance=3e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_rms_norm(check, draw, shape, affine):
    x, g, w = draw(*shape), draw(*shape), draw(shape[-1]) if affine else None
    _, rstd = check("rms_norm", x, w, 1e-6, tolerance=1e-5)
    check("rms_norm_grad", g, x, w, rstd.numpy(), (True, affine), tolerance=3e-5)


def test_only_what_is_needed(check, draw, be):
    x, g, w = draw(5, 7), draw(5, 7), draw(7)
    _, mean, rstd = be.layer_norm(be.array(x), None, None, 1e-5)
    for need in ((True, False, False), (False, True, False), (False, False, True)):
        check("layer_norm_grad", g, x, w, mean.numpy(), rstd.numpy(), need, tolerance=3e-5)


@pytest.mark.parametrize("limit", [4096, 8])
def test_gradients_of_the_way_round_and_of_many_rows(be, draw, monkeypatch, limit):
    monkeypatch.setattr("minidl_kernels.device.norm._ROWS_AT_ONCE", limit)
    x, g, w, skip = draw(700, 33), draw(700, 33), draw(33), draw(700, 33)
    on = [be.array(a) for a in (g, x, w)]
    wide = [a.astype("float64") for a in (g, x, w)]
    _, mean, rstd = be.layer_norm(on[1], on[2], None, 1e-5)
    got = be.layer_norm_grad(*on, mean, rstd, (True, True, True), be.array(skip))
    moments = [a.numpy().astype("float64") for a in (mean, rstd)]
    expected = reference.layer_norm_grad(*wide, *moments, (True, True, True))
    _, rms = be.rms_norm(on[1], on[2], 1e-5)
    got += be.rms_norm_grad(*on, rms, (True, True), be.array(skip))
    expected += reference.rms_norm_grad(*wide, rms.numpy().astype("float64"), (True, True))
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        b = b + skip if i in (0, 3) else b
        np.testing.assert_allclose(a.numpy(), b, rtol=3e-5, atol=2e-4)


def test_wrong_sizes(be, draw):
    with pytest.raises(ValueError, match=r"layer_norm: a parameter of shape \(6,\)"):
        be.layer_norm(be.array(draw(5, 7)), be.array(draw(6)), None, 1e-5)
    with pytest.raises(ValueError, match="softmax_grad: g has shape"):
        be.softmax_grad(be.array(draw(5, 7)), be.array(draw(5, 6)))
