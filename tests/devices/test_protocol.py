"""NumPy's functions and Python's operators on device arrays."""

import numpy as np
import pytest

rng = np.random.default_rng(0)
A, B = (rng.standard_normal((3, 4, 5)).astype("float32") for _ in range(2))
IDS, C = rng.integers(0, 3, (3, 4, 5)), rng.random((3, 4, 5)) < 0.5

CASES = [
    lambda a, b, i, c: a + b * 2 - 1 / (b * b + 1), lambda a, b, i, c: (a == b) | (a < b[0]) & c,
    lambda a, b, i, c: -np.abs(a) ** 2, lambda a, b, i, c: np.where(c, a, 0),
    lambda a, b, i, c: np.where(i < 1, i + 3, i), lambda a, b, i, c: np.where(c, a, i),
    lambda a, b, i, c: i / 2, lambda a, b, i, c: i * 0.5, lambda a, b, i, c: ~c,
    lambda a, b, i, c: a * c, lambda a, b, i, c: np.float32(2) * a,
    lambda a, b, i, c: np.broadcast_to(a[:, :1], (3, 4, 5)),
    lambda a, b, i, c: np.concatenate([a, b, i], 1), lambda a, b, i, c: np.stack([a, b], -1),
    lambda a, b, i, c: np.moveaxis(a, 0, -1), lambda a, b, i, c: np.moveaxis(a, (0, 1), (2, 0)),
    lambda a, b, i, c: np.expand_dims(a, 1), lambda a, b, i, c: np.tile(a, (2, 1, 3)),
    lambda a, b, i, c: np.tile(a[0], (2, 2, 1)), lambda a, b, i, c: np.repeat(a, 2, 1),
    lambda a, b, i, c: np.repeat(a, np.array([2, 0, 1]), 0), lambda a, b, i, c: np.flip(a, (0, 2)),
    lambda a, b, i, c: np.roll(a, (1, 2), (0, 2)), lambda a, b, i, c: np.roll(a, 7),
    lambda a, b, i, c: np.tril(a, 1), lambda a, b, i, c: np.triu(a),
    lambda a, b, i, c: np.take_along_axis(a, i, 1), lambda a, b, i, c: a.take(i[0], 1),
    lambda a, b, i, c: np.any(c, 1), lambda a, b, i, c: np.all(c, (0, 2), keepdims=True),
    lambda a, b, i, c: a.sum(1, keepdims=True), lambda a, b, i, c: a.max(), lambda a, b, i, c:
    i.min(0), lambda a, b, i, c: np.count_nonzero(i, 1), lambda a, b, i, c: np.isneginf(a),
    lambda a, b, i, c: np.argsort(a, 1, kind="stable"), lambda a, b, i, c: np.argwhere(c),
    lambda a, b, i, c: np.unique(i), lambda a, b, i, c: np.zeros_like(a),
    lambda a, b, i, c: np.reshape(a, (12, 5)), lambda a, b, i, c: (i[0] > 1).any(),
]


@pytest.mark.parametrize("case", CASES)
def test_as_numpy(be, case):
    got, expected = case(*map(be.array, (A, B, IDS, C))), np.asarray(case(A, B, IDS, C))
    assert got.shape == expected.shape and got.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(got.numpy(), expected, rtol=2e-6, atol=1e-6)


def test_in_place(be):
    x, y = be.array(A), A.copy()
    x += be.array(B)
    y += B
    x[:, 1:3] *= 2
    y[:, 1:3] *= 2
    np.put_along_axis(x, be.array(IDS[:, :1]), 7.0, 1)
    np.put_along_axis(y, IDS[:, :1], 7.0, 1)
    np.testing.assert_allclose(x.numpy(), y, rtol=1e-6)
    out = be.empty((6, 4, 5), np.float32)
    assert np.concatenate([x, x], 0, out=out) is out


def test_what_is_not_there_says_so(be):
    x = be.array(A)
    for call in (lambda: np.fft.fft(x), lambda: np.arctan2(x, x), lambda: np.add.reduce(x)):
        with pytest.raises(TypeError, match=f"not available on {be.device.name}"):
            call()
    with pytest.raises(TypeError, match=f"one array is on {be.device.name}, the other on"):
        x + A
