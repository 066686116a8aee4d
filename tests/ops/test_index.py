"""x[...] and x[...] = v against PyTorch's rules, written out with NumPy where the two agree."""

import numpy as np
import pytest

import minidl as md

X = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
ROWS, J = np.array([0, 2, 2]), np.array([1, 0, 3])
MASK = X % 3 == 0

# index -> the same with NumPy (for integers mixed with arrays NumPy's own rules differ)
READS = {
    "int": (1, X[1]), "negative": (-1, X[-1]), "element": ((1, 2, 3), X[1, 2, 3]),
    "slice": (np.s_[1:], X[1:]), "step": (np.s_[:, ::2], X[:, ::2]),
    "ellipsis": (np.s_[..., 1], X[..., 1]),
    "none": (np.s_[None, :, 1:2, None], X[None, :, 1:2, None]),
    "list": ([0, 2], X[[0, 2]]), "empty list": ([], X[np.zeros(0, int)]),
    "array": (ROWS, X[ROWS]), "matrix of positions": (ROWS.reshape(3, 1), X[ROWS.reshape(3, 1)]),
    "negative positions": (np.array([-1, 0]), X[[-1, 0]]),
    "pair": ((ROWS, J), X[ROWS, J]),
    "broadcast pair": ((ROWS[:, None], J[None]), X[ROWS[:, None], J[None]]),
    "inner": ((slice(None), J), X[:, J]), "apart": ((ROWS, slice(None), J), X[ROWS, :, J]),
    "mask": (MASK, X[MASK]), "row mask": (np.array([True, False, True]), X[[True, False, True]]),
    "mask of two dims": (MASK[:, :, 0], X[MASK[:, :, 0]]),
    "mask inside": ((slice(None), MASK[0, :, 0]), X[:, MASK[0, :, 0]]),
    "true": (True, X[None]), "false": (False, X[None][:0]),
    # an integer is a view first: the gathered dim stays where it is
    "int then array": ((0, slice(None), J), X[0][:, J]),
    "array then int": ((ROWS, slice(None), 0), X[:, :, 0][ROWS]),
    "int, array, ellipsis": ((1, J, ...), X[1][J]),
    "none and array": ((None, ROWS), X[None][:, ROWS]),
}


def tensors(index):
    """Arrays inside an index as tensors."""
    if isinstance(index, tuple):
        return tuple(tensors(i) for i in index)
    return md.from_numpy(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("convert", [tensors, lambda i: i], ids=["tensor", "numpy"])
def test_read(name, convert):
    index, expected = READS[name]
    got = md.from_numpy(X)[convert(index)]
    assert got.shape == np.shape(expected)
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("name", READS)
def test_gradient_of_reading(name):
    index, expected = READS[name]
    x = md.from_numpy(X.copy()).requires_grad_()
    seed = np.random.default_rng(0).standard_normal(np.shape(expected))
    x[tensors(index)].backward(md.from_numpy(np.asarray(seed)))
    places = md.from_numpy(np.arange(60).reshape(3, 4, 5))[tensors(index)].numpy()
    wanted = np.zeros(60)
    np.add.at(wanted, places, seed)
    np.testing.assert_allclose(x.grad.numpy(), wanted.reshape(3, 4, 5), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeated_rows_add_up(dtype):
    x = md.from_numpy(np.zeros((4, 3), dtype)).requires_grad_()
    x[md.tensor([1, 1, -1, 1])].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.array([[0], [3], [0], [1]]) * np.ones(3))


@pytest.mark.parametrize("name", [n for n in READS if n not in ("false", "empty list")])
def test_write(name):
    index, expected = READS[name]
    shape = np.shape(expected)
    value = -1 - np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape)
    places = md.from_numpy(np.arange(60).reshape(3, 4, 5))[tensors(index)].numpy()
    wanted = X.copy().reshape(-1)
    wanted[places] = value
    x = md.from_numpy(X.copy())
    x[tensors(index)] = md.from_numpy(np.asarray(value))
    np.testing.assert_array_equal(x.numpy().reshape(-1), wanted)
    x[tensors(index)] = 7
    assert (x[tensors(index)].numpy() == 7).all()


def test_write_gives_gradients_to_value_and_rest():
    a = md.ones(3, 4, dtype=md.float64, requires_grad=True)
    v = md.ones(4, dtype=md.float64, requires_grad=True)
    x = a * 2
    x[1:] = v
    w = md.from_numpy(np.arange(12.0).reshape(3, 4))
    (x * w).sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), [[0, 2, 4, 6], [0] * 4, [0] * 4])
    np.testing.assert_array_equal(v.grad.numpy(), [12, 14, 16, 18])


def test_write_into_a_tensor_without_gradient_records_the_value():
    x = md.zeros(3)
    v = md.tensor(2.0, requires_grad=True)
    x[md.tensor([0, 2])] = v
    (x * md.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert v.grad.item() == 101


def test_write_converts_to_the_dtype():
    x = md.zeros(2, dtype=md.int64)
    x[0] = 1.9
    x[1] = md.tensor(2.5)
    assert x.tolist() == [1, 2]


def test_write_to_what_the_tape_saved_is_noticed():
    a = md.ones(3, requires_grad=True)
    x = a * 2
    y = x * x
    x[0] = 5.0
    with pytest.raises(md.errors.GradientError, match="overwritten by the in-place"):
        y.sum().backward()


def test_write_through_a_view():
    x = md.zeros(2, 3)
    x[1][2] = 5.0
    assert x.tolist() == [[0, 0, 0], [0, 0, 5]]


@pytest.mark.parametrize(("index", "message"), [
    (5, r"index 5 is out of bounds .*\(shape \(3, 4, 5\)\)"),
    ((0, 0, 0, 0), r"4 indices for a tensor of 3 dimensions \(shape \(3, 4, 5\)\)"),
    (np.s_[::-1], r"the step of a slice must be positive, got -1; use \.flip"),
    (md.tensor([7]), r"index 7 is out of bounds"),
    (md.tensor([True, False]), r"a mask of shape \(2,\) does not fit dims 0 to 0 of \(3, 4, 5\)"),
    (1.5, r"expected integers, slices, .* got float"), ("a", r"expected integers, .* got str"),
    (md.tensor([1.0]), r"must be int64, int32 or bool, got float32"),
    ((..., ...), r"only one \.\.\. can appear"),
    ([[0, 1], [1, 0]], r"a list inside a list is ambiguous"),
    (md.tensor([1], dtype=md.uint8), r"uint8 masks are not supported; use \.bool\(\)"),
    ((md.tensor([0, 1]), md.tensor([0, 1, 2])), r"shape mismatch"),
])
def test_wrong_index(index, message):
    with pytest.raises((IndexError, ValueError, NotImplementedError), match=message):
        md.from_numpy(X)[index]


@pytest.mark.parametrize(("value", "kind", "message"), [
    (md.zeros(3), ValueError,
     r"value of shape \(3,\) does not fit into x\[\.\.\.\] of shape \(4, 5\)"),
    ([1, 2], TypeError, r"only a tensor or a number can be assigned, got list"),
    (None, TypeError, r"only a tensor or a number can be assigned, got NoneType"),
])
def test_wrong_value(value, kind, message):
    x = md.from_numpy(X.copy())
    with pytest.raises(kind, match=message):
        x[0] = value


def test_a_leaf_refuses_writes_that_the_graph_cannot_follow():
    x = md.ones(3, requires_grad=True)
    with pytest.raises(md.errors.GradientError, match="leaf tensor that requires a gradient"):
        x[0] = 1.0
    with md.no_grad():
        x[0] = 4.0
    assert x[0].item() == 4
