"""DeviceArray shows the views that NumPy shows."""

import numpy as np
import pytest

A = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.fixture(scope="module")
def a(be):
    return be.array(A)


VIEWS = [
    lambda x: x[1], lambda x: x[-1, ..., 2], lambda x: x[:, None, 1:], lambda x: x[..., ::-2],
    lambda x: x[0, 1, 2, 3], lambda x: x[1:1], lambda x: x.T, lambda x: x.swapaxes(1, 3),
    lambda x: x.transpose(2, 0, 3, 1), lambda x: x.transpose((3, 2, 1, 0)),
    lambda x: x.reshape(6, 20), lambda x: x.reshape((-1, 2)), lambda x: x.reshape(-1),
    lambda x: x[:, :1].squeeze(1), lambda x: x.swapaxes(1, 2).reshape(2, 4, 15),
    lambda x: x[:, :, 1:3].reshape(6, 10), lambda x: x.transpose(0, 2, 1, 3)[:, :2].reshape(4, -1),
    lambda x: x.diagonal(0, 1, 2), lambda x: x.diagonal(1, 2, 3), lambda x: x.diagonal(-2, 3, 1),
    lambda x: x.diagonal(9, 1, 2), lambda x: x[0, 0].reshape(4, 5, 1, 1)[::2, 1:],
]


@pytest.mark.parametrize("view", VIEWS)
def test_views(a, view):
    got, expected = view(a), view(A)
    assert got.shape == expected.shape and got.ndim == expected.ndim and got.size == expected.size
    assert got.flags.c_contiguous == expected.flags.c_contiguous
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("view", VIEWS)
def test_a_reshape_is_a_view_where_numpys_is(a, view):
    x, y = view(a), view(A)
    for shape in ((-1,), (1, -1), (2, -1)):
        if y.size % 2:
            continue
        expected = y.reshape(shape)
        shares = np.may_share_memory(expected, A)
        assert (x.reshape(shape).block is a.block) == (shares and y.base is not None) or not y.size
        np.testing.assert_array_equal(x.reshape(shape).numpy(), expected)


def test_assignment(be):
    x, y = be.array(A), A.copy()
    rows = np.arange(5, dtype=np.float32)
    for part, value in (((0, 1), 7), ((..., slice(1, 3)), -1.5), ((1, slice(None), 2), rows),
                        ((slice(None), 0, 0, 0), np.array([1, 2]))):
        x[part] = value if np.ndim(value) == 0 else be.array(value)
        y[part] = value
        np.testing.assert_array_equal(x.numpy(), y)


def test_wrong_indices_and_values(a):
    with pytest.raises(IndexError, match="out of bounds for axis 0 of size 2"):
        a[2]
    with pytest.raises(IndexError, match="5 indices"):
        a[0, 0, 0, 0, 0]
    with pytest.raises(TypeError, match="integers, slices"):
        a["x"]
    with pytest.raises(ValueError, match="cannot have shape"):
        a.reshape(7, -1)
    with pytest.raises(ValueError, match="does not fit"):
        a[0, 0] = a[0]
    assert a.reshape((6, 20), copy=False).block is a.block
    with pytest.raises(ValueError, match="without a copy"):
        a.T.reshape((6, 20), copy=False)


def test_numpy_does_not_fetch_silently(be, a):
    with pytest.raises(TypeError, match=f"is on {be.device.name}"):
        np.asarray(a)


def test_values(be, a):
    assert a[1, 2, 3, 4].item() == 119 and float(a[0, 0, 0, 1]) == 1 and bool(a[0, 0, 0, 1])
    assert a[0, 0, 0].tolist() == [0, 1, 2, 3, 4] and len(a) == 2
    assert a.strides == A.strides and a.nbytes == A.nbytes
    assert repr(a) == f"DeviceArray((2, 3, 4, 5), float32, on {be.device.name})"
    with pytest.raises(TypeError, match="has no float64"):
        be.array(np.zeros(2))


def test_a_warm_step_takes_no_memory_and_repeats_exactly(be):
    x = be.array(A)

    def step():
        return be.softmax(be.mul(be.add(x, 1.0), x))

    first = step().numpy()
    before = be.device.pool.stats()
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), first)
    after = be.device.pool.stats()
    assert after["segments"] == before["segments"] and after["peak"] == before["peak"]
    assert after["allocated"] == before["allocated"]
