"""Matrix products on a device."""

import numpy as np
import pytest

from minidl_kernels import reference
from minidl_kernels.device.interface import Device

SIZES = [(1, 1, 1), (5, 7, 3), (64, 64, 16), (65, 130, 17), (3, 200, 33)]


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products(check, draw, m, n, k):
    check("matmul", draw(m, k), draw(k, n), tolerance=1e-5)
    check("linear", draw(2, m, k), draw(n, k), draw(n), tolerance=1e-5)
    check("linear", draw(m, k), draw(n, k), None, tolerance=1e-5)
    check("linear_grad_weight", draw(2, m, n), draw(2, m, k), tolerance=1e-5)


@pytest.mark.parametrize(("a", "b"), [((2, 3, 4, 5), (2, 3, 5, 6)), ((3, 4, 5), (5, 6)),
                                      ((4, 5), (3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)),
                                      ((2, 1, 2, 1, 4, 5), (1, 3, 1, 2, 5, 6))])
def test_batches(check, draw, a, b):
    check("matmul", draw(*a), draw(*b), tolerance=1e-5)


def test_transposed_and_strided(be, draw):
    x, y = draw(2, 6, 3, 5), draw(2, 7, 3, 5)
    for left, right in ((lambda v: v.transpose(0, 2, 1, 3), lambda v: v.transpose(0, 2, 3, 1)),
                        (lambda v: v[:, :, ::2].transpose(0, 2, 1, 3),
                         lambda v: v[:, ::-1, :2].transpose(0, 2, 3, 1))):
        got = be.matmul(left(be.array(x)), right(be.array(y))).numpy()
        np.testing.assert_allclose(got, left(x) @ right(y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("a", "b"), [((0, 3), (3, 4)), ((4, 0), (0, 3)), ((0, 2, 3), (3, 4))])
def test_empty(check, draw, a, b):
    check("matmul", draw(*a), draw(*b))
    if len(a) == 2:
        check("linear", draw(*a), draw(*b).T.copy(), None)


def test_wrong_shapes_and_dtypes(be, draw):
    with pytest.raises(ValueError, match=r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit"):
        be.matmul(be.array(draw(2, 3)), be.array(draw(2, 3)))
    many = be.empty((70000, 4, 4), np.float32)[:, ::2, ::2]  # what no BLAS takes
    with pytest.raises(ValueError, match="65535 along its second and third axis"):
        be.matmul(many, many)
    with pytest.raises(TypeError, match="multiplies float32"):
        be.matmul(be.array(np.eye(2, dtype=np.int64)), be.array(draw(2, 3)))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_products_that_do_more(be, draw, monkeypatch, own, bias):
    """With our kernel, and as with a vendor's: the same numbers."""
    monkeypatch.setattr(Device, "own_products", own)
    x, w, r, g = draw(3, 5, 70), draw(66, 70), draw(3, 5, 66), draw(3, 5, 66)
    b = draw(66) if bias else None
    on = [None if a is None else be.array(a) for a in (x, w, b)]
    z = reference.linear(*[None if a is None else a.astype("float64") for a in (x, w, b)])
    np.testing.assert_allclose(be.linear_add(*on, be.array(r)).numpy(), z + r, rtol=1e-5, atol=1e-4)
    y, saved = be.linear_activation("gelu", *on)
    np.testing.assert_allclose(y.numpy(), reference.gelu(z), rtol=1e-5, atol=1e-4)
    d = be.linear_activation_grad("gelu", be.array(g), saved).numpy()
    np.testing.assert_allclose(d, reference.gelu_grad(g.astype("float64"), z), rtol=1e-5, atol=1e-4)
    dw, db = be.linear_grad_both(be.array(g), on[0])
    wide = g.reshape(-1, 66).astype("float64")
    np.testing.assert_allclose(dw.numpy(), wide.T @ x.reshape(-1, 70), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(db.numpy(), wide.sum(0), rtol=1e-5, atol=1e-5)
