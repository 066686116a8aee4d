"""Reductions: dtypes, empty tensors, overloads, ties and messages."""

import math

import numpy as np
import pytest

import minidl as md


def test_dtypes_of_sums():
    assert md.tensor([True, True]).sum().item() == 2
    for dtype in (md.bool, md.uint8, md.int32, md.int64):
        x = md.ones(3, dtype=dtype)
        assert x.sum().dtype is md.int64 and x.prod().dtype is md.int64
        assert x.cumsum(0).dtype is md.int64
    assert md.ones(3, dtype=md.int64).sum(dtype=md.float32).dtype is md.float32
    assert md.full((300,), 255, dtype=md.uint8).sum().item() == 76500


def test_nothing_reduces_to_its_neutral_element():
    x = md.zeros(0, 3)
    assert x.sum().item() == 0 and x.prod().item() == 1 and math.isnan(x.mean().item())
    assert x.sum(0).tolist() == [0, 0, 0] and x.mean(1).shape == (0,)
    assert x.logsumexp(0).tolist() == [-math.inf] * 3
    assert not x.any().item() and x.all().item() and math.isnan(x.var().item())
    assert x.amax(1).shape == (0,) and x.max(dim=1).values.shape == (0,)


@pytest.mark.parametrize("call", [
    lambda x: x.max(), lambda x: x.min(), lambda x: x.amax(), lambda x: x.max(dim=0),
    lambda x: x.argmax(), lambda x: x.argmin(0), lambda x: x.amin(0), lambda x: x.aminmax(),
])
def test_nothing_has_no_extreme(call):
    with pytest.raises((ValueError, IndexError), match=r"\(0, 3\)"):
        call(md.zeros(0, 3))


def test_zero_dimensional():
    x = md.tensor(3.0, requires_grad=True)
    for d in (0, -1):
        assert x.sum(d).item() == 3 and x.max(d).values.item() == 3 and x.argmax(d).item() == 0
        assert x.cumsum(d).item() == 3 and x.sort(d).values.item() == 3
    x.max(0).values.backward()
    assert x.grad.item() == 1


def test_three_kinds_of_max():
    x = md.tensor([[1.0, 5.0], [7.0, 2.0]])
    assert x.max().item() == 7
    out = x.max(dim=1)
    assert out.values.tolist() == [5, 7] and out.indices.tolist() == [1, 0]
    values, indices = x.min(0, keepdim=True)
    assert values.tolist() == [[1, 2]] and indices.shape == (1, 2)
    assert md.max(x, md.full((2,), 3.0)).tolist() == [[3, 5], [7, 3]]


def test_ties():
    x = md.tensor([2.0, 2.0, 1.0], requires_grad=True)
    x.amax().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0]
    x.grad = None
    x.max(0).values.backward()
    assert x.grad.tolist() == [1, 0, 0]


def test_nan_wins():
    x = md.tensor([1.0, float("nan"), 3.0])
    assert math.isnan(x.max().item()) and x.argmax().item() == 1
    assert math.isnan(x.sort().values[-1].item()) and math.isnan(x.topk(1).values.item())


def test_variance_overloads():
    x = md.tensor([[1.0, 3.0], [2.0, 6.0]])
    assert x.var(1).tolist() == [2, 8] and x.var(1, False).tolist() == [1, 4]
    assert x.var(1, correction=0).tolist() == [1, 4] and x.var(False).item() == 3.5
    assert md.std(x, 1, correction=0, keepdim=True).tolist() == [[1], [2]]
    var, mean = md.var_mean(x, 1)
    assert var.tolist() == [2, 8] and mean.tolist() == [2, 4]


def test_more_than_two_to_the_31_elements():
    assert md.ones(1).expand(2**31 + 5).shape == (2**31 + 5,)
    assert md.ones(1, dtype=md.bool).expand(2**31 + 5)[-1].item()


def test_unique():
    x = md.tensor([3, 1, 3, 2])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3] and counts.tolist() == [1, 1, 2]
    assert values[inverse].tolist() == x.tolist()


@pytest.mark.parametrize("n", [5, 200])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_is_the_start_of_the_sort(n, largest):
    x = md.from_numpy(np.random.default_rng(0).permutation(3 * n).reshape(3, n).astype(np.float32))
    got, want = x.topk(4, largest=largest), x.sort(descending=largest)
    assert (got.values == want.values[:, :4]).all() and (got.indices == want.indices[:, :4]).all()


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: md.arange(3).mean(), TypeError,
     r"mean: expected a floating-point tensor, got int64; convert with \.float\(\)"),
    (lambda: md.zeros(2, 3).sum(2), IndexError,
     r"sum: dim 2 is out of range for a tensor of 2 dimensions \(expected -2 to 1\)"),
    (lambda: md.zeros(2, 3).sum((0, -2)), ValueError, "sum: a dim appears twice"),
    (lambda: md.zeros(2).sum(1.5), TypeError, r"sum: dim must be an integer, got 1\.5"),
    (lambda: md.arange(3).var(), TypeError, "var: expected a floating-point tensor, got int64"),
    (lambda: md.zeros(3).topk(5), ValueError, r"topk: k=5 is out of range for dim -1 of shape"),
    (lambda: md.zeros(3).norm("nuc"), NotImplementedError, "norm: p='nuc' is not supported"),
    (lambda: md.tensor([True]).argmax(), NotImplementedError, "argmax: not defined for bool"),
    (lambda: md.sum([1, 2]), TypeError, "sum: argument 'input' must be a tensor, got list"),
    (lambda: md.zeros(2).sum(dims=0), TypeError, "has no argument 'dims'"),
])
def test_messages(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("dtype", [md.float32, md.float64])
def test_sums_of_nothing_and_of_negative_zeros_are_zero(dtype):
    for x in (md.zeros(0, dtype=dtype), md.full((3,), -0.0, dtype=dtype),
              md.full((100_000,), -0.0, dtype=dtype)):
        assert not np.signbit(x.sum().numpy())
        assert not np.signbit(x.reshape(-1, 1).sum(0).numpy()).any()
    assert np.signbit(md.full((3,), -0.0, dtype=dtype).amax().numpy())


@pytest.mark.parametrize("dtype", [md.float32, md.float64])
def test_gradient_of_the_deviation_of_equal_elements_is_zero(dtype):
    x = md.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]], dtype=dtype, requires_grad=True)
    x.std(1).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0, 0], [-0.5, 0, 0.5]])
    x.grad = None
    md.std_mean(x[0])[0].backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((2, 3)))


def test_the_gradient_of_a_maximum_that_is_nan_goes_to_the_nans():
    for reduce in (md.max, md.min):
        x = md.tensor([1.0, math.nan, 2.0, math.nan], requires_grad=True)
        reduce(x).backward()
        np.testing.assert_array_equal(x.grad.numpy(), [0, 0.5, 0, 0.5])


def test_spread_of_the_largest_floats():
    """Squares overflow long before a standard deviation does."""
    x = md.tensor([3e38, -3e38, 1e38], requires_grad=True)
    wide = x.detach().double()
    assert x.var().item() == float("inf")
    assert x.std().item() == pytest.approx(wide.std().item(), rel=1e-6)
    assert (x * 1e-20).var().item() == pytest.approx((wide * 1e-20).var().item(), rel=1e-6)
    x.std().backward()
    wide.requires_grad_().std().backward()
    assert x.grad.tolist() == pytest.approx(wide.grad.tolist(), rel=1e-5)
    assert md.tensor([3e38, 3.1e38, 3.2e38]).var().item() == float("inf")
    assert md.tensor([1.0, float("inf")]).std().isnan()


def test_logsumexp_of_nothing_but_minus_infinity_has_no_gradient():
    x = md.tensor([[-float("inf")] * 2, [0.0, -float("inf")]], requires_grad=True)
    x.logsumexp(1).sum().backward()
    assert x.grad[0].isnan().all() and x.grad[1].tolist() == [1.0, 0.0]
