"""Integer arrays and masks as indices of device arrays."""

import numpy as np
import pytest

rng = np.random.default_rng(0)
A = rng.standard_normal((3, 4, 5)).astype("float32")
ROWS, COLUMNS = np.array([[2, 0], [1, -1]]), np.array([1, -4])
MASK = rng.random((3, 4)) < 0.5

KEYS = [(ROWS,), (slice(None), COLUMNS), (ROWS, COLUMNS), (ROWS, slice(None), COLUMNS),
        (..., COLUMNS), (slice(None), ROWS, COLUMNS), (MASK,), (np.arange(3) > 0,),
        (slice(None), np.arange(4) > 1), (ROWS, COLUMNS, np.array(2)), ([0, 2],), (A > 0,)]


def on_device(be, key):
    return tuple(be.array(i) if isinstance(i, np.ndarray) else i for i in key)


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_reading_and_writing(be, key, where):
    at = key if where == "host" else on_device(be, key)
    np.testing.assert_array_equal(be.array(A)[at].numpy(), A[key])
    for value in (7.0, rng.standard_normal(A[key].shape).astype("float32")):
        x, y = be.array(A), A.copy()
        places = np.arange(A.size).reshape(A.shape)[key]
        if np.unique(places).size < places.size and np.ndim(value):
            continue  # which of the values stays is anybody's guess
        x[at] = value if np.ndim(value) == 0 else be.array(value)
        y[key] = value
        np.testing.assert_array_equal(x.numpy(), y)


def test_a_strided_array_is_written_through(be):
    x = be.array(A)
    x.transpose(2, 0, 1)[:, be.array(np.array([0, 2]))] = 1.0
    y = A.copy()
    y.transpose(2, 0, 1)[:, [0, 2]] = 1.0
    np.testing.assert_array_equal(x.numpy(), y)


def test_out_of_range(be):
    with pytest.raises(IndexError, match="index 5 is out of bounds for an axis of size 4"):
        be.array(A)[:, np.array([0, 5])]
    y = be.array(A)[be.array(np.array([1, 3]))]
    with pytest.raises(IndexError, match="index: index 3 is out of range for 3"):
        y.numpy()
    x = be.array(A)
    x[be.array(np.array([7]))] = 0.0
    with pytest.raises(IndexError, match="index: index 7"):
        be.device.synchronize()
    np.testing.assert_array_equal(x.numpy(), A)


def test_flat_places(be):
    got = np.ravel_multi_index([be.array(ROWS), COLUMNS % 4], (3, 4))
    expected = np.ravel_multi_index([ROWS % 3, COLUMNS % 4], (3, 4))
    np.testing.assert_array_equal(got.numpy(), expected)
