"""Matrix products on a device."""

import numpy as np
import pytest

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
    many = be.zeros((70000, 1, 1), np.float32)
    with pytest.raises(ValueError, match="65535 along its second and third axis"):
        be.matmul(many, many)
    with pytest.raises(TypeError, match="multiplies float32"):
        be.matmul(be.array(np.eye(2, dtype=np.int64)), be.array(draw(2, 3)))
