"""Python numbers meeting tensors: what fits an element, what wraps around, what is refused."""

import numpy as np
import pytest

import minidl as md

MASK = md.tensor([True, False])
WRITERS = {
    "full": lambda dtype, v: md.full((2,), v, dtype=dtype),
    "full_like": lambda dtype, v: md.full_like(md.zeros(2, dtype=dtype), v),
    "fill_": lambda dtype, v: md.zeros(2, dtype=dtype).fill_(v),
    "masked_fill": lambda dtype, v: md.zeros(2, dtype=dtype).masked_fill(MASK, v),
    "index_fill": lambda dtype, v: md.zeros(2, dtype=dtype).index_fill(0, md.tensor([0]), v),
    "scatter": lambda dtype, v: md.zeros(2, dtype=dtype).scatter(0, md.tensor([0]), v),
    "index": lambda dtype, v: md.zeros(2, dtype=dtype).__setitem__(0, v),
    "tensor": lambda dtype, v: md.tensor([v], dtype=dtype),
    "where": lambda dtype, v: md.where(MASK, md.zeros(2, dtype=dtype), v),
    "clamp": lambda dtype, v: md.zeros(2, dtype=dtype).clamp(min=v),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("dtype", "value"), [
    (md.uint8, 256), (md.uint8, -256), (md.int32, 2**31), (md.int32, -(2**31) - 1),
    (md.int64, float("inf")), (md.int64, float("nan")), (md.int32, float("-inf")),
], ids=str)
def test_a_number_that_does_not_fit_is_refused(name, dtype, value):
    """NumPy would wrap it around, and inf in an integer tensor would become its smallest."""
    if name in ("where", "clamp") and isinstance(value, float):
        assert WRITERS[name](dtype, value).dtype == md.float32  # these promote
        return
    with pytest.raises(RuntimeError, match=rf"{name}: .* does not fit {dtype.name}"):
        WRITERS[name](dtype, value)


@pytest.mark.parametrize("name", ["full", "full_like", "fill_", "masked_fill", "index_fill",
                                  "scatter"])
def test_numbers_become_elements_as_in_pytorch(name):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    ops = {
        "full": lambda f, d, v: f.full((2,), v, dtype=d),
        "full_like": lambda f, d, v: f.full_like(f.zeros(2, dtype=d), v),
        "fill_": lambda f, d, v: f.zeros(2, dtype=d).fill_(v),
        "masked_fill": lambda f, d, v: f.zeros(2, dtype=d).masked_fill(f.tensor([True, False]), v),
        "index_fill": lambda f, d, v: f.zeros(2, dtype=d).index_fill(0, f.tensor([0]), v),
        "scatter": lambda f, d, v: f.zeros(2, dtype=d).scatter(0, f.tensor([0]), v),
    }
    for dtype, value in [("uint8", -9), ("uint8", -255), ("int32", 1.5), ("int64", -2.7),
                         ("bool", 0.5), ("int64", True), ("float32", 3), ("float32", -1e9)]:
        mine = ops[name](md, getattr(md, dtype), value)
        theirs = ops[name](torch, getattr(torch, dtype), value)
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_integer_powers():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    a, b = np.meshgrid([0, 1, 2, -1, -2, -7, 2**62], [0, 1, 2, 5, -1, -2, -3, 64])
    theirs = torch.from_numpy(a) ** torch.from_numpy(b)
    np.testing.assert_array_equal((md.from_numpy(a) ** md.from_numpy(b)).numpy(), theirs.numpy())
    with pytest.raises(NotImplementedError, match="pow: integers to a negative power"):
        md.tensor([1, 2]) ** -1
    with pytest.raises(RuntimeError, match="pow: 300 does not fit uint8"):
        md.ones(2, dtype=md.uint8) ** 300


def test_remainder_keeps_the_sign_of_zero():
    a, b = [x.reshape(-1).copy() for x in np.meshgrid([0.0, -0.0, 3.0, -3.0], [3.0, -3.0])]
    for dtype in (np.float32, np.float64):
        r = md.remainder(md.from_numpy(a.astype(dtype)), md.from_numpy(b.astype(dtype))).numpy()
        np.testing.assert_array_equal(np.signbit(r), np.signbit(a))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "pow", "sub"])
def test_arithmetic_that_bools_do_not_have(name):
    x = md.tensor([True, True])
    with pytest.raises(NotImplementedError, match=f"{name}: not defined for bool tensors"):
        getattr(md, name)(x, x)
    with pytest.raises(NotImplementedError, match="sub: not defined for bool"):
        1 - x


def test_sign_and_square_of_bools():
    x = md.tensor([True, False])
    assert md.sign(x).dtype == md.bool and md.sign(x).tolist() == [True, False]
    assert md.square(x).dtype == md.int64 and md.square(x).tolist() == [1, 0]


def test_arange_in_small_integers_counts_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for args in [(-0.9, 2.1, 2.0), (2.1, -2.9, -1.0), (0.1, 5.9, 1.7), (-3.7, 2, 1.0)]:
        for dtype in ("int32", "uint8", "int64"):
            mine = md.arange(*args, dtype=getattr(md, dtype))
            assert mine.tolist() == torch.arange(*args, dtype=getattr(torch, dtype)).tolist()
