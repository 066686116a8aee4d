"""Creation: values, dtypes, sharing of memory, and sentences for what cannot be made."""

import numpy as np
import pytest

import minidl as md


@pytest.mark.parametrize(("data", "dtype", "shape"), [
    (1.5, md.float32, ()), (1, md.int64, ()), (True, md.bool, ()), ([1, 2.5], md.float32, (2,)),
    ([True, False], md.bool, (2,)), ([], md.float32, (0,)), ([[]], md.float32, (1, 0)),
    (np.zeros(2), md.float64, (2,)), (np.float64(1), md.float64, ()),
    ([np.arange(2), np.arange(2)], md.int64, (2, 2)), (np.zeros(2, np.int32), md.int32, (2,)),
    ([md.tensor(1.0), md.tensor(2.0)], md.float32, (2,)), (range(3), None, None),
])
def test_tensor_infers_the_dtype(data, dtype, shape):
    if dtype is None:
        with pytest.raises(TypeError, match="cannot make a tensor of range"):
            md.tensor(data)
        return
    t = md.tensor(data)
    assert t.dtype is dtype and t.shape == shape


@pytest.mark.parametrize(("data", "message"), [
    ([[1, 2], [3]], "ragged"), (["a"], "cannot make a tensor of elements of NumPy's str"),
    ("text", "cannot make a tensor of str"), (1 + 2j, "no complex"), (None, "NoneType"),
    ([None], "object"), (np.zeros(2, np.int16), "no int16 tensors; it has float32"),
    (np.zeros(2, complex), "no complex128"), (2**70, "object"),
])
def test_tensor_refuses(data, message):
    with pytest.raises((TypeError, ValueError), match=message):
        md.tensor(data)


def test_tensor_copies_and_from_numpy_shares():
    a = np.zeros(3, np.float32)
    copy, shared = md.tensor(a), md.from_numpy(a)
    a[0] = 7
    assert copy[0].item() == 0 and shared[0].item() == 7
    assert md.as_tensor(shared) is shared
    assert md.as_tensor(a).numpy() is a or np.shares_memory(md.as_tensor(a).numpy(), a)


def test_memory_is_aligned_for_other_libraries():
    for x in (md.tensor([1.0]), md.zeros(3), md.randn(5), md.arange(7), md.ones(2, 3) + 1):
        assert x.data_ptr() % 64 == 0


@pytest.mark.parametrize(("made", "values", "dtype"), [
    (lambda: md.arange(3), [0, 1, 2], md.int64), (lambda: md.arange(1, 7, 2), [1, 3, 5], md.int64),
    (lambda: md.arange(0.0, 1.0, 0.25), [0, 0.25, 0.5, 0.75], md.float32),
    (lambda: md.arange(3, 0, -1), [3, 2, 1], md.int64),
    (lambda: md.arange(5, dtype=md.float64), [0, 1, 2, 3, 4], md.float64),
    (lambda: md.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1], md.float32),
    (lambda: md.linspace(3, 9, 1), [3], md.float32), (lambda: md.full((2,), 7), [7, 7], md.int64),
    (lambda: md.full((2,), 0.5), [0.5, 0.5], md.float32),
    (lambda: md.full((2,), True), [True, True], md.bool),
    (lambda: md.eye(2, 3), [[1, 0, 0], [0, 1, 0]], md.float32),
    (lambda: md.zeros_like(md.arange(2)), [0, 0], md.int64),
    (lambda: md.ones_like(md.arange(2), dtype=md.float64), [1, 1], md.float64),
    (lambda: md.full_like(md.zeros(2), 3), [3, 3], md.float32),
    (lambda: md.arange(2).new_tensor([1.7]), [1], md.int64),
    (lambda: md.zeros(1).new_full((2,), 4), [4, 4], md.float32),
    (lambda: md.tril_indices(2, 2), [[0, 1, 1], [0, 0, 1]], md.int64),
    (lambda: md.nn.functional.one_hot(md.tensor([1, 0])), [[0, 1], [1, 0]], md.int64),
])
def test_values(made, values, dtype):
    x = made()
    assert x.tolist() == values and x.dtype is dtype


@pytest.mark.parametrize("make", [md.zeros, md.ones, md.empty, md.rand, md.randn])
def test_sizes_come_in_every_form(make):
    shapes = {make(2, 3).shape, make((2, 3)).shape, make([2, 3]).shape, make(size=(2, 3)).shape}
    assert shapes == {(2, 3)} and make(()).shape == () and make(0, 2).shape == (0, 2)


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: md.zeros(-1), ValueError, r"zeros: sizes must not be negative, got \(-1,\)"),
    (lambda: md.zeros(1.5), TypeError, r"zeros: a size must be an integer, got 1\.5"),
    (lambda: md.zeros(2, shape=3), TypeError, "unexpected argument 'shape'"),
    (lambda: md.zeros(2, device="cuda:1"), RuntimeError, "zeros: 'cuda:1' is not available"),
    (lambda: md.device("mps"), RuntimeError, "there is no 'mps'; minidl computes on cpu, cuda"),
    (lambda: md.arange(0, 5, 0), ValueError, "a step of 0 does not lead from 0 to 5"),
    (lambda: md.arange(0, float("inf")), ValueError, "has no end"),
    (lambda: md.linspace(0, 1, -1), ValueError, "steps must not be negative"),
    (lambda: md.full((2,), "a"), TypeError, "number"),
    (lambda: md.zeros(2, dtype="complex64"), TypeError, "zeros: minidl has no complex64"),
    (lambda: md.from_numpy([1]), TypeError, "from_numpy: expected a NumPy array, got list"),
    (lambda: md.from_numpy(np.zeros(3)[::-1]), ValueError, "negative strides"),
    (lambda: md.zeros(2, dtype=md.int64, requires_grad=True), RuntimeError,
     "only floating-point tensors can require gradients"),
    (lambda: md.nn.functional.one_hot(md.tensor([3]), 2), ValueError,
     "class ids go from 3 to 3, expected 0 to 1"),
])
def test_messages(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
