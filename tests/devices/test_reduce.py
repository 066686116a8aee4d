"""Reductions on a device, over any axes."""

import numpy as np
import pytest

AXES = [((1003,), (0,)), ((5, 7), (1,)), ((5, 7), (0,)), ((300, 3), (0,)), ((2, 3, 4), ()),
        ((2, 3, 4), (1,)), ((2, 3, 4, 5), (0, 2)), ((3, 9001), (1,)), ((20011, 5), (0,)), ((), ())]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(("shape", "axes"), AXES)
def test_sum_mean_and_extremes(check, draw, shape, axes, keepdim):
    x = draw(*shape) if shape else np.float32(2).reshape(1)
    for name in ("sum", "mean", "amax"):
        check(name, x, axes, keepdim, tolerance=1e-5)


@pytest.mark.parametrize(("shape", "axes"), AXES[:-4])
def test_the_rest(check, draw, shape, axes):
    x = draw(*shape)
    check("prod", x * 0.5 + 1, axes, False, tolerance=1e-4)
    check("amin", x, axes, False)
    check("var", x, axes, True, 1, tolerance=1e-5)
    check("logsumexp", x, axes, False, tolerance=1e-5)
    check("sqsum", x, tolerance=1e-5)


@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_integers_add_up_in_int64(check, dtype):
    x = np.random.default_rng(0).integers(0, 2, (40, 33)).astype(dtype)
    check("sum", x, (0,), False)
    check("sum", x, (), False)
    if dtype == "int64":
        check("amax", x, (1,), False)
        check("cumsum", x, 1)


def test_nan_wins(check, draw):
    x = draw(6, 300)
    x[1, 290] = x[3, 5] = x[3, 100] = np.nan
    check("amax", x, (1,), False)
    check("amin", x, (0,), False)
    check("argmax", x, 1)
    check("argmin", x, 1)


@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_positions_of_extremes(check, axis):
    x = np.random.default_rng(0).integers(-3, 3, (5, 300, 3)).astype("float32")
    check("argmax", x, axis)
    check("argmin", x, axis)


def test_infinities_in_logsumexp(check):
    x = np.array([[0, -np.inf], [-np.inf, -np.inf], [np.inf, 1]], "float32")
    check("logsumexp", x, (1,), False)


@pytest.mark.parametrize(("shape", "axis"), [((700,), 0), ((3, 5), 0), ((2, 257, 3), 1)])
def test_running_sums(check, draw, shape, axis):
    check("cumsum", draw(*shape), axis, tolerance=1e-5)


def test_any_all_count(be):
    x = np.random.default_rng(0).integers(0, 2, (5, 4)) * np.arange(4)
    for name, axes in (("any", (0,)), ("all", (1,)), ("any", ())):
        got = getattr(be, name)(be.array(x), axes, False)
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(x, axes or None))
    np.testing.assert_array_equal(be.count_nonzero(be.array(x), (0,)).numpy(),
                                  np.count_nonzero(x, 0))


def test_nothing_to_reduce(be, check):
    empty = np.zeros((0, 3), "float32")
    for name in ("sum", "prod", "mean"):
        check(name, empty, (0,), False)
        check(name, empty, (1,), False)
    check("logsumexp", empty, (0,), True)
    with pytest.raises(IndexError, match="amax: an axis of size 0"):
        be.amax(be.array(empty), (0,), False)
    with pytest.raises(ValueError, match="argmax: axis 0"):
        be.argmax(be.array(empty), 0)


@pytest.mark.parametrize("shape", [(4,), (3, 1), (1, 4), (), (1,), (2, 3, 4), (2, 1, 1)])
def test_sum_to(check, draw, shape):
    check("sum_to", draw(2, 3, 4), shape)


def test_strided_inputs(be, draw):
    x = draw(6, 8, 5)
    for view in (lambda a: a.transpose(2, 0, 1), lambda a: a[::2, :, 1:]):
        got = be.sum(view(be.array(x)), (1,), False)
        np.testing.assert_allclose(got.numpy(), view(x).sum(1), rtol=1e-5, atol=1e-5)


def test_wrong_shape(be, draw):
    with pytest.raises(ValueError, match="sum_to: shape"):
        be.sum_to(be.array(draw(2, 3)), (2,))
