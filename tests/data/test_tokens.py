"""TokenDataset: the file, the windows, the cost of a batch."""

import pickle

import numpy as np
import pytest

import minidl as md
from minidl.data import TokenDataset


@pytest.mark.parametrize("vocab, size", [(None, 2), (65536, 2), (65537, 4)])
def test_a_file_round_trips(tmp_path, vocab, size):
    path = tmp_path / "tokens.bin"
    tokens = np.random.default_rng(0).integers(0, 65536, 1001)
    TokenDataset.write(path, tokens, vocab)
    assert path.stat().st_size == 24 + size * 1001
    dataset = TokenDataset(path, 10)
    np.testing.assert_array_equal(dataset.tokens, tokens)
    again = pickle.dumps(dataset)
    assert len(again) < 500
    np.testing.assert_array_equal(pickle.loads(again).tokens, tokens)


@pytest.mark.parametrize("stride, length", [(None, 2), (1, 6), (3, 2), (5, 2), (6, 1)])
def test_windows_and_their_targets(stride, length):
    dataset = TokenDataset(np.arange(10) * 7, 4, stride)
    assert len(dataset) == length
    step = stride or 4
    for i in range(length):
        x, y = dataset[i]
        assert x.tolist() == [7 * (i * step + j) for j in range(4)]
        assert y.tolist() == [7 * (i * step + j + 1) for j in range(4)]
    x, y = dataset.batch(np.arange(length))
    assert x.dtype == md.int64 and tuple(y.shape) == (length, 4)
    assert x[length - 1].tolist() == dataset[-1][0].tolist()


def damaged(tmp_path, change):
    path = tmp_path / "tokens.bin"
    TokenDataset.write(path, range(100))
    path.write_bytes(change(path.read_bytes()))
    return TokenDataset(path, 4)


@pytest.mark.parametrize("act, kind, what", [
    (lambda t: damaged(t, lambda b: b[:-1]), ValueError, "is damaged: 100 tokens of 2 bytes"),
    (lambda t: damaged(t, lambda b: b[:10]), ValueError, "is not a file of tokens"),
    (lambda t: damaged(t, lambda b: b"X" + b[1:]), ValueError, "is not a file of tokens"),
    (lambda t: TokenDataset.write(t / "x", [1.5]), ValueError, "one row of integers, got float64"),
    (lambda t: TokenDataset.write(t / "x", [-1]), ValueError, "at least 0 and below 2"),
    (lambda t: TokenDataset.write(t / "x", [5], 5), ValueError, "token 5 is not in a vocabulary"),
    (lambda t: TokenDataset([1, 2], 2), ValueError, "2 tokens are too few for one window of 2"),
    (lambda t: TokenDataset([1, 2], 0), ValueError, "must be at least 1, got 0"),
    (lambda t: TokenDataset([1, 2, 3], 2)[1], IndexError, "sample 1 of a dataset of 1"),
])
def test_wrong_arguments_get_a_sentence(tmp_path, act, kind, what):
    with pytest.raises(kind, match=what):
        act(tmp_path)
