"""Copies, conversions, rearrangements and indexing on a device."""

import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes", reason="pip install 'minidl[half]'")


# every pair is a program of its own, and compiling one takes a CPU's OpenCL half a second
PAIRS = [("float32", "int64"), ("float32", "uint8"), ("float32", "bool"), ("int64", "float32"),
         ("int64", "int32"), ("bool", "int64"), ("bool", "float32"), ("uint8", "float16"),
         ("bfloat16", "bool"), ("int32", "bfloat16"), ("float16", "bfloat16")]


@pytest.mark.parametrize(("of", "to"), PAIRS)
def test_conversions(be, of, to):
    values = np.array([0, 1, 2.5, 200, 3, 65, 0.001], np.float32)
    names = {"bfloat16": ml_dtypes.bfloat16}
    x = values.astype(names.get(of, of))
    got = be.cast(be.array(x), np.dtype(names.get(to, to))).numpy()
    np.testing.assert_array_equal(got, x.astype(names.get(to, to)))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_rounds_as_numpy(be, draw, name):
    kind = np.float16 if name == "float16" else ml_dtypes.bfloat16
    x = np.concatenate([draw(2000, scale=s) for s in (1e-8, 1e-5, 1, 1e4, 1e5)]
                       + [np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.9, 65520,
                                    6e-8, 2.9e-8, 6.1e-5, 3.4e38], np.float32)])
    half = be.cast(be.array(x), np.dtype(kind))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(half.numpy().astype(np.float32),
                                      x.astype(kind).astype(np.float32))
    np.testing.assert_array_equal(be.cast(half, np.float32).numpy(),
                                  half.numpy().astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_copies_of_views(be, dtype):
    x = (np.arange(120).reshape(2, 3, 4, 5) % 7).astype(dtype)
    a = be.array(x)
    for view in (lambda v: v.transpose(3, 1, 0, 2), lambda v: v[:, ::2, 1:, ::-1],
                 lambda v: v[:, None].transpose(0, 4, 1, 3, 2)):
        np.testing.assert_array_equal(be.copy(view(a)).numpy(), view(x))
    assert be.contiguous(a) is a and be.contiguous(a.T) is not a


def test_broadcasting(be, draw):
    x = draw(3, 1)
    wide = be.broadcast_to(be.array(x), (2, 3, 4))
    np.testing.assert_array_equal(wide.numpy(), np.broadcast_to(x, (2, 3, 4)))
    with pytest.raises(ValueError, match="does not expand"):
        be.broadcast_to(be.array(draw(2, 3)), (3,))


def test_filled(be):
    for dtype, value in (("float32", -2.5), ("int64", 2**40), ("bool", True), ("float16", 1.5)):
        got = be.full((3, 5), value, dtype).numpy()
        np.testing.assert_array_equal(got, np.full((3, 5), value, dtype))
    assert be.zeros((0, 2), "float32").shape == (0, 2)
    assert be.ones((), "float32").item() == 1
    x = be.zeros((3, 4), np.float32)
    assert be.fill_(x[:, 1:3], 7) is not x and x.numpy().sum() == 42
    got = be.arange_like(be.zeros((1,), "int64"), 3, -2, 5).numpy()
    np.testing.assert_array_equal(got, [3, 1, -1, -3, -5])


def test_joining(be, draw):
    parts = [draw(2, n, 3) for n in (1, 4, 0, 2)]
    got = be.concatenate([be.array(p) for p in parts], 1).numpy()
    np.testing.assert_array_equal(got, np.concatenate(parts, 1))
    same = [draw(2, 3) for _ in range(3)]
    for axis in (0, 1, 2):
        got = be.stack([be.array(p) for p in same], axis).numpy()
        np.testing.assert_array_equal(got, np.stack(same, axis))


def test_pieces_that_lie_in_a_row_are_one_array(be, draw):
    x = be.array(draw(2, 9, 3))
    parts = [x[:, :2], x[:, 2:3], x[:, 3:]]
    whole = be.consecutive(parts, 1, (2, 9, 3))
    assert whole.block is x.block and whole.contiguous
    np.testing.assert_array_equal(whole.numpy(), x.numpy())
    for wrong in ([parts[1], parts[0], parts[2]], [parts[0], None, parts[2]], parts[:2],
                  [be.copy(p) for p in parts], [x[:, :2], x[:, 2:3], x[:, 4:]]):
        assert be.consecutive(wrong, 1, (2, 9, 3)) is None


def test_rearranging(be, draw):
    x = draw(3, 4, 5)
    a = be.array(x)
    np.testing.assert_array_equal(be.flip(a, (0, 2)).numpy(), np.flip(x, (0, 2)))
    np.testing.assert_array_equal(be.roll(a, (1, -7), (0, 2)).numpy(), np.roll(x, (1, -7), (0, 2)))
    np.testing.assert_array_equal(be.roll(a, 13, None).numpy(), np.roll(x, 13))
    for k in (-2, 0, 3):
        np.testing.assert_array_equal(be.tril(a, k).numpy(), np.tril(x, k))
        np.testing.assert_array_equal(be.triu(a, k).numpy(), np.triu(x, k))


# ------------------------------------------------------------------------------------ by index

@pytest.mark.parametrize("shape", [(7,), (3, 5), (1,), (0,), (300,)])
def test_embedding_and_its_gradient(check, draw, shape):
    idx = np.random.default_rng(0).integers(0, 11, shape)
    check("embedding", draw(11, 6), idx)
    check("embedding_grad", draw(*shape, 6), idx, 11, None, tolerance=1e-5)
    check("embedding_grad", draw(*shape, 6), idx, 11, 3, tolerance=1e-5)


def test_repeated_rows_add_up_in_order(be, check, draw):
    idx = np.zeros(1000, np.int64)
    src = draw(1000, 130)
    got = check("index_add_rows", draw(4, 130), idx, src, tolerance=1e-5)
    again = be.index_add_rows(be.zeros((4, 130), "float32"), be.array(idx), be.array(src)).numpy()
    once = be.index_add_rows(be.zeros((4, 130), "float32"), be.array(idx), be.array(src)).numpy()
    np.testing.assert_array_equal(again, once)
    assert got.shape == (4, 130)


def test_add_at(check, draw):
    places = np.random.default_rng(0).integers(0, 12, (5, 7))
    check("add_at", draw(5, 7), places, (3, 4), tolerance=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_and_scatter(be, draw, axis):
    rng = np.random.default_rng(0)
    x = draw(4, 5, 6)
    full = rng.integers(0, x.shape[axis], (*(4, 5, 6)[:axis], 9, *(4, 5, 6)[axis + 1:]))
    got = be.gather(be.array(x), axis, be.array(full)).numpy()
    np.testing.assert_array_equal(got, np.take_along_axis(x, full, axis))
    index = full[tuple(slice(n) for n in (3, 4, 5))]  # an index may cover only a corner
    src = draw(*index.shape)
    added, put = x.astype("float64"), x.copy()
    for at in np.ndindex(index.shape):
        to = (*at[:axis], index[at], *at[axis + 1:])
        added[to] += src[at]
        put[to] = src[at]
    arrays = be.array(x), axis, be.array(index), be.array(src)
    np.testing.assert_array_equal(be.scatter(*arrays, False).numpy(), put)
    np.testing.assert_allclose(be.scatter(*arrays, True).numpy(), added, rtol=1e-5, atol=1e-6)
    number = be.scatter(*arrays[:3], 0.5, False).numpy()
    assert (number == 0.5).sum() == (put != x).sum()


def test_rows_of_any_type(be):
    x = np.arange(24).reshape(4, 3, 2)
    idx = np.array([[3, 0], [1, 1]], np.int32)
    np.testing.assert_array_equal(be.take_rows(be.array(x), be.array(idx)).numpy(), x[idx])


@pytest.mark.parametrize("bad", [-1, 11, 2**40])
def test_an_index_out_of_range_is_reported(be, draw, bad):
    idx = be.array(np.array([3, bad, 2]))
    y = be.embedding(be.array(draw(11, 6)), idx)
    with pytest.raises(IndexError, match=f"embedding: index {bad} is out of range for 11 places"):
        y.numpy()
    y.numpy()  # reported once
    be.embedding_grad(be.array(draw(3, 6)), idx, 11, None)
    with pytest.raises(IndexError, match="embedding_grad"):
        be.device.synchronize()
    for name in ("gather", "scatter"):
        args = be.array(draw(11)), 0, idx
        getattr(be, name)(*args, *([1.0, True] if name == "scatter" else []))
        with pytest.raises(IndexError, match=name):
            be.device.synchronize()
