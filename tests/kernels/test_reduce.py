"""Reductions over any axes, argmax and cumsum against float64 NumPy and PyTorch."""

import itertools

import numpy as np
import pytest

from minidl_kernels.cpu import reduce
from minidl_kernels.reference import reduce as reference

rng = np.random.default_rng(0)
NAMES = ["sum", "mean", "prod", "amax", "amin", "var", "logsumexp"]


def draw(*shape):
    return rng.standard_normal(shape).astype("float32")


def call(module, name, x, axes, keepdim=False, correction=1.0):
    more = (correction,) if name == "var" else ()
    return getattr(module, name)(x, axes, keepdim, *more)


def check(name, x, axes, keepdim=False, tolerance=2e-6):
    actual = call(reduce, name, x, axes, keepdim)
    expected = call(reference, name, x.astype("float64"), axes, keepdim)
    assert actual.dtype == np.float32 and actual.shape == expected.shape
    cancelled = 1e-7 * np.abs(np.where(np.isfinite(x), x, 0)).sum() / max(actual.size, 1)
    with np.errstate(over="ignore"):
        expected = expected.astype("float32")
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=1e-6 + cancelled)


@pytest.mark.parametrize("name", NAMES)
def test_every_choice_of_axes(name):
    x = draw(3, 4, 1, 5, 6)
    for count in range(6):
        for axes in itertools.combinations(range(5), count):
            check(name, x, axes)
            check(name, x, axes[::-1], keepdim=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 7, 15, 16, 33, 511, 512, 1000, 70001])
def test_odd_sizes_along_rows_columns_and_few_columns(name, n):
    x = draw(n, 3) * np.float32(1 if name != "prod" else 0.1) + np.float32(name == "prod")
    check(name, x, (0,))                               # few columns, taken several rows at a time
    check(name, np.ascontiguousarray(x.T), (1,))       # rows
    check(name, x, ())
    if n <= 1000:
        check(name, draw(5, n), (0,))                  # many columns
        check(name, draw(2, 3, n), (1,))


@pytest.mark.parametrize("n", [0, 1, 7, 33, 1000])
def test_arg_and_cumsum(n):
    for shape, axis in [((n,), 0), ((3, n), 1), ((n, 5), 0), ((2, n, 40), 1), ((4, n), 0)]:
        x = np.round(draw(*shape) * 2)                 # with ties
        np.testing.assert_allclose(reduce.cumsum(x, axis), np.cumsum(x.astype("f8"), axis))
        if x.shape[axis] == 0:
            continue
        for name in ("argmax", "argmin"):
            actual = getattr(reduce, name)(x, axis)
            assert actual.dtype == np.int64
            assert (actual == getattr(np, name)(x, axis)).all()
            if x.size:
                assert getattr(reduce, name)(x, None) == getattr(np, name)(x)


def test_scalars():
    x = np.array(3.5, "float32")
    for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp"):
        assert call(reduce, name, x, ()) == np.float32(3.5)
        assert call(reduce, name, x, ()).shape == ()
    assert np.isnan(reduce.var(x, (), False, 1.0)) and reduce.var(x, (), False, 0.0) == 0
    assert reduce.argmax(x, None) == reduce.argmin(x, 0) == 0
    assert reduce.cumsum(x, 0) == x and reduce.sqsum(x) == np.float32(12.25)


@pytest.mark.parametrize("shape, axes", [((0,), ()), ((0, 3), (0,)), ((3, 0), (1,)), ((0, 3), (1,)),
                                         ((2, 0, 3), (0, 2)), ((2, 0, 3), (1,))])
def test_nothing_to_reduce(shape, axes):
    x = np.zeros(shape, "float32")
    for name in ("sum", "mean", "prod", "var", "logsumexp"):
        check(name, x, axes)
    empty = 0 not in [n for a, n in enumerate(shape) if axes and a not in axes]
    for module, name in itertools.product((reduce, reference), ("amax", "amin")):
        if empty:
            with pytest.raises(IndexError, match=f"{name}: an axis of size 0 has no extreme value"):
                call(module, name, x, axes)
        else:
            assert call(module, name, x, axes).size == 0
    assert reduce.sqsum(x) == 0


@pytest.mark.parametrize("where", [0, 5, 63, 64, 999])
def test_nan_wins_and_infinities_stay(where):
    x = draw(1000)
    x[where] = np.nan
    x[(where + 7) % 1000] = np.nan
    for name in NAMES:
        assert np.isnan(call(reduce, name, x, ()))
        assert np.isnan(call(reduce, name, np.repeat(x[:, None], 40, 1), (0,))).all()
    first = min(where, (where + 7) % 1000)
    assert reduce.argmax(x, None) == reduce.argmin(x, 0) == first
    assert (reduce.argmax(np.repeat(x[:, None], 40, 1), 0) == first).all()
    for value in (np.inf, -np.inf):
        y = draw(1000)
        y[where] = value
        for name in ("sum", "mean", "amax", "amin", "logsumexp"):
            check(name, y, ())
        assert reduce.logsumexp(np.full((3, 50), value, "f4"), (1,), False).tolist() == [value] * 3


def test_accuracy_of_long_sums_and_of_variance_around_a_large_mean():
    x = rng.random(3_000_001).astype("float32")
    exact = x.astype("f8")
    np.testing.assert_allclose(reduce.sum(x, (), False), exact.sum(), rtol=1e-7)
    np.testing.assert_allclose(reduce.sqsum(x), (exact**2).sum(), rtol=1e-7)
    columns = x[:3_000_000].reshape(-1, 3), x[:3_000_000].reshape(-1, 100)
    for y in columns:
        expected = y.astype("f8").sum(0)
        np.testing.assert_allclose(reduce.sum(y, (0,), False), expected, rtol=2e-7)
    np.testing.assert_allclose(reduce.cumsum(x, 0)[-1], exact.sum(), rtol=1e-7)
    for offset in (1e4, 1e6):
        y = draw(100_003) + np.float32(offset)
        expected = y.astype("f8").var(ddof=1)
        np.testing.assert_allclose(reduce.var(y, (), False, 1.0), expected, rtol=1e-6)
    assert reduce.var(np.full(100_003, 0.1, "f4"), (), False, 1.0) < 1e-20
    assert reduce.logsumexp(np.full(10, 1e4, "f4"), (), False) == np.float32(1e4 + np.log(10))


def test_broadcast_inputs_are_never_made_real():
    huge = np.broadcast_to(np.ones(1, "f4"), 2**31 + 5)
    assert reduce.sum(huge, (), False) == np.float32(2**31 + 5)
    assert reduce.mean(huge, (0,), True).tolist() == [1]
    assert reduce.sqsum(huge) == np.float32(2**31 + 5)
    assert reduce.amax(huge, (), False) == 1 and reduce.var(huge, (), False, 1.0) == 0
    assert reduce.argmax(huge, None) == 0 and reduce.argmin(huge, 0) == 0
    np.testing.assert_allclose(reduce.logsumexp(huge, (), False), 1 + np.log(2**31 + 5), rtol=1e-6)
    x = draw(3, 1, 5)
    for shape in ((3, 4, 5), (2, 3, 4, 5)):
        b = np.broadcast_to(x, shape)
        for name in NAMES:
            for axes in [(), (0,), (1,), (0, 2), (1, 2)]:
                check(name, b, axes, tolerance=1e-5)
        for axis in (None, 0, 1, 2):
            assert (reduce.argmax(b, axis) == np.argmax(b, axis)).all()


@pytest.mark.parametrize("name", NAMES)
def test_any_strides(name):
    x = draw(6, 7, 8)
    sliced = x[::2, ::-1], x[:, 1:-1, ::3], x.transpose(2, 0, 1)[1:]
    for view in (x.T, x.transpose(1, 0, 2), *sliced):
        for count in range(4):
            for axes in itertools.combinations(range(3), count):
                check(name, view, axes, tolerance=1e-5)
    for axis in (None, 0, 1, 2):
        assert (reduce.argmin(x.T, axis) == np.argmin(x.T, axis)).all()
        if axis is not None:
            np.testing.assert_allclose(reduce.cumsum(x.T, axis), np.cumsum(x.T, axis), atol=1e-5)


def all_results():
    """Reductions that are cut into pieces along rows, along columns, and both."""
    fixed = np.random.default_rng(1)
    shapes = (300_000, (9000, 40), (70, 3000))
    flat, tall, wide = (fixed.standard_normal(s).astype("f4") for s in shapes)
    inputs = [(flat, ()), (tall, (0,)), (tall, (1,)), (wide, (0,)), (wide, ())]
    results = {f"{name} {x.shape} {axes}": call(reduce, name, x, axes)
               for name, (x, axes) in itertools.product(NAMES, inputs) if name != "prod"}
    results["prod"] = reduce.prod(1 + flat * np.float32(1e-4), (), False)
    results["argmax"] = reduce.argmax(flat, None)
    results["argmin"] = reduce.argmin(wide, 0)
    results["cumsum"] = reduce.cumsum(wide, 0)
    return results


def test_same_bits_on_any_thread_count(same_on_any_thread_count):
    same_on_any_thread_count()


def test_same_results_on_any_instruction_set(same_on_any_isa):
    same_on_any_isa(rtol=1e-6, atol=1e-6)


def test_against_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = draw(9, 11, 13)
    t = torch.tensor(x)
    for axes in [(0,), (1,), (2,), (0, 2), (0, 1, 2)]:
        for name in ("sum", "mean", "amax", "amin", "logsumexp"):
            expected = getattr(torch, name)(t, axes, keepdim=True)
            actual = call(reduce, name, x, axes, True)
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
        for correction in (0.0, 1.0, 2.5):
            expected = torch.var(t, axes, correction=correction)
            np.testing.assert_allclose(reduce.var(x, axes, False, correction), expected, rtol=1e-5)
    for axis in (0, 1, 2):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            expected = torch.var(t, axis, correction=20)
        np.testing.assert_array_equal(reduce.var(x, (axis,), False, 20.0), expected)
        assert (reduce.argmax(x, axis) == torch.argmax(t, axis).numpy()).all()
        np.testing.assert_allclose(reduce.prod(x, (axis,), False), torch.prod(t, axis), rtol=1e-4)
        np.testing.assert_allclose(reduce.cumsum(x, axis), torch.cumsum(t, axis), atol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_reference_of_integers_gives_what_pytorch_gives(dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = rng.integers(0, 2 if dtype == "bool" else 100, (4, 5)).astype(dtype)
    t = torch.tensor(x)
    for name, axes in itertools.product(("sum", "prod"), (0, 1)):
        expected = getattr(torch, name)(t, axes).numpy()
        actual = getattr(reference, name)(x, (axes,), False)
        assert actual.dtype == expected.dtype and (actual == expected).all()
    expected, actual = torch.cumsum(t, 1).numpy(), reference.cumsum(x, 1)
    assert actual.dtype == expected.dtype and (actual == expected).all()
    assert (reference.amax(x, (1,), False) == torch.amax(t, 1).numpy()).all()


def test_wrong_arguments_are_refused_with_a_sentence():
    x = draw(2, 3)
    for call_, error, words in [
        (lambda: reduce.sum(None, (), False), TypeError, "sum: expected a float32 array"),
        (lambda: reduce.sum(x.astype("f8"), (), False), TypeError, "sum: .* one of float64"),
        (lambda: reduce.mean(x, (2,), False), IndexError, "mean: axis 2 is out of range .* 2 axes"),
        (lambda: reduce.mean(x, (-1,), False), IndexError, "mean: axis -1"),
        (lambda: reduce.var(x, (1, 1), False, 1.0), ValueError, "var: axis 1 is given twice"),
        (lambda: reduce.argmax(x, 5), IndexError, "argmax: axis 5"),
        (lambda: reduce.argmax(None, 0), TypeError, "argmax: expected a float32"),
        (lambda: reduce.argmax(x[:0], 0), IndexError, "argmax: an axis of size 0"),
        (lambda: reduce.cumsum(x, 2), IndexError, "cumsum: axis 2"),
        (lambda: reduce.sqsum([1.0]), TypeError, "sqsum: expected a float32 array, got list"),
    ]:
        with pytest.raises(error, match=words):
            call_()
