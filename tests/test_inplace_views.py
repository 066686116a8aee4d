"""In-place writes to tensors that have views, and to views: each scenario runs in both frameworks.

A scenario gets the framework and a leaf `v` of three ones; what it returns, and the gradient that
reaches v when all of it is summed, must be PyTorch's.
"""

import gc

import numpy as np
import pytest

import minidl as md
from minidl import errors


def base_assigned_after_view(f, v):
    x = f.zeros(2, 3)
    y = x[0]
    x[0] = v * 2
    return [y, x]


def view_read_before_and_after(f, v):
    x = v * f.ones(2, 3)
    y = x[1]
    first = y + 5
    x[1] = v * v
    return [first, y * 7]


def view_changed(f, v):
    x = v * f.ones(2, 3)
    x[0].mul_(3)
    x[1] += v
    return [x]


def view_of_constant_changed(f, v):
    x = f.zeros(2, 3)
    y = x[1]
    y.add_(v)
    return [x * 2, y * 3]


def chain_of_views(f, v):
    x = v[0] * f.ones(3, 4)
    a = x.t()
    b = a[1:]
    c = b[0]
    c.copy_(v * 2)
    b.mul_(5)
    return [x, a * 2, b * 3, c * 4]


def siblings_that_overlap(f, v):
    x = v * f.ones(4, 3)
    low, high = x[:3], x[1:]
    low.mul_(v)
    high.add_(v)
    return [x, low * 2, high * 3]


def strided_views(f, v):
    x = v * f.ones(4, 3)
    x[::2, 1:].mul_(3)
    x.view(2, 6).transpose(0, 1)[2::3].mul_(v[0])
    return [x]


def parts_of_one_op(f, v):
    x = v * f.ones(4, 3)
    parts = [x.narrow(0, 0, 2), x.narrow(0, 2, 2)]
    parts[1].mul_(4)
    return [*parts, x]


def expanded_view_follows(f, v):
    x = f.zeros(3)
    wide = x.expand(2, 3)
    x.copy_(v)
    return [wide * f.tensor([[1.0], [10.0]])]


def assignment_through_a_view(f, v):
    x = f.zeros(2, 2, 3)
    x[0][1] = v
    x[1][:, 0] = v[:2]
    x[:, 0][f.tensor([True, False])] = v * 4
    return [x]


def number_over_a_view(f, v):
    x = v * f.ones(2, 3)
    y = x[0]
    y[1] = 9.0
    x[1].fill_(4.0)
    x[0, 2:].zero_()
    return [x, y]


def detached_shares_memory_only(f, v):
    x = v * f.ones(2, 3)
    d = x.detach()
    y = x[0]
    d[0] = 7.0
    return [x * 1.5, y, d]


def no_grad_write_keeps_history(f, v):
    x = v * f.ones(2, 3)
    y = x[0]
    with f.no_grad():
        x.mul_(2)
        y.add_(1)
    return [x, y * 3]


def keyword_argument_recorded(f, v):
    x = f.zeros(3)
    x.add_(other=v)
    return [x]


def reshape_that_copied(f, v):
    x = v * f.ones(2, 3)
    y = x.t().reshape(6)
    y.mul_(2)
    return [x, y]


def view_of_a_written_view(f, v):
    x = v * f.ones(3, 3)
    d = x.diagonal()
    d.mul_(v)
    e = d[1:]
    x.mul_(2)
    e.add_(v[1:])
    return [x, d, e]


SCENARIOS = [
    base_assigned_after_view, view_read_before_and_after, view_changed, view_of_constant_changed,
    chain_of_views, siblings_that_overlap, strided_views, parts_of_one_op, expanded_view_follows,
    assignment_through_a_view, number_over_a_view, detached_shares_memory_only,
    no_grad_write_keeps_history, keyword_argument_recorded, reshape_that_copied,
    view_of_a_written_view,
]


def results(f, scenario):
    v = (f.arange(3, dtype=f.float32) + 1).requires_grad_()
    outs = scenario(f, v)
    total = sum([(out * (i + 2)).sum() for i, out in enumerate(outs)])
    total.backward()
    flags = [(out.requires_grad, out.is_leaf) for out in outs]
    return flags, [out.detach().numpy() for out in outs], v.grad.numpy()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_same_as_pytorch(scenario):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    flags, values, grad = results(md, scenario)
    their_flags, their_values, their_grad = results(torch, scenario)
    assert flags == their_flags
    for mine, theirs in zip(values, their_values, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(grad, their_grad)


def test_gradient_of_a_view_made_before_the_first_recorded_write():
    x = md.zeros(2, 3)
    y = x[0]
    v = md.ones(3, requires_grad=True)
    x[0] = v * 2
    assert y.requires_grad and not y.is_leaf and y.grad_fn is not None
    y.sum().backward()
    np.testing.assert_array_equal(v.grad.numpy(), [2, 2, 2])


NOT_NEEDED = {  # f(x, w) -> what may be overwritten before backward, as in PyTorch
    "matmul": lambda x, w: x @ w,
    "linear": lambda x, w: md.nn.functional.linear(x, w),
    "neg": lambda x, w: -x,
    "number times": lambda x, w: 2 * x,
    "sum": lambda x, w: x.sum(0),
    "max": lambda x, w: x.max(dim=1).values,
    "where": lambda x, w: md.where(md.tensor([True, False]), x, w),
    "copy": lambda x, w: md.zeros(2, 2).copy_(x),
}


@pytest.mark.parametrize("name", NOT_NEEDED)
def test_results_that_no_gradient_needs_can_be_overwritten(name):
    leaf = md.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    NOT_NEEDED[name](leaf * 1, leaf * 2).sum().backward()
    expected, leaf.grad = leaf.grad.numpy().copy(), None
    y = NOT_NEEDED[name](leaf * 1, leaf * 2)
    y += 1
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), expected)


@pytest.mark.parametrize("function", [
    lambda x: x * 2, lambda x: 2 * x, lambda x: x / 2, lambda x: -x, lambda x: x.max(dim=1).values,
    lambda x: md.where(md.tensor([True, False]), x, 1.0), lambda x: md.zeros(2, 2).copy_(x),
    lambda x: md.nn.functional.linear(md.ones(2, 2), md.ones(2, 2), x[0]),
    lambda x: md.div(x, 2.0, rounding_mode="trunc"),
])
def test_arguments_that_no_gradient_needs_can_be_overwritten(function):
    leaf = md.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    function(leaf * 1).sum().backward()
    expected, leaf.grad = leaf.grad.numpy().copy(), None
    x = leaf * 1
    y = function(x)
    x.mul_(5)
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), expected)


def test_a_view_of_a_leaf_is_protected():
    w = md.ones(2, 3, requires_grad=True)
    with pytest.raises(errors.GradientError, match="add_: a view of a leaf tensor"):
        w[0].add_(1)
    with pytest.raises(errors.GradientError, match="a view of a leaf tensor"):
        w.t()[0] = 1.0
    with md.no_grad():
        w[0].add_(1)
    np.testing.assert_array_equal(w.detach().numpy()[0], [2, 2, 2])


def test_a_saved_view_that_was_overwritten_is_noticed():
    x = md.ones(2, 3, requires_grad=True) * 2
    z = (x[0] * x[0]).sum()
    x[1].add_(1)
    with pytest.raises(errors.GradientError, match="in-place add_"):
        z.backward()


def test_data_that_was_replaced_is_no_longer_shared():
    v = md.ones(3, requires_grad=True)
    x = md.zeros(2, 3)
    y, z = x[0], x[1]
    x.data = md.ones(2, 3)
    y.add_(v)
    assert not x.requires_grad
    y.sum().backward()
    np.testing.assert_array_equal(v.grad.numpy(), [1, 1, 1])
    x.add_(v)
    assert not z.requires_grad


def test_views_of_any_layout_differentiate():
    """An in-place write to a base that is itself transposed or has gaps in memory."""
    memory = np.arange(48.0).reshape(4, 12)
    for array in (memory.T, memory[::2], memory[:, ::3], memory[1:, 1:9:2].T):
        x = md.from_numpy(array)
        view = x[1:, :2]
        v = md.ones(*view.shape, dtype=md.float64, requires_grad=True)
        view.copy_(v * 3)
        weight = md.arange(x.numel(), dtype=md.float64).reshape(x.shape)
        (x * weight).sum().backward()
        np.testing.assert_array_equal(v.grad.numpy(), 3 * weight[1:, :2].numpy())


def test_empty_views_can_be_written():
    x = md.zeros(2, 3)
    v = md.ones(0, 3, requires_grad=True)
    x[:0].add_(v)
    x[:, :0].mul_(md.ones(2, 1, requires_grad=True)[:, :0])
    x.sum().backward()
    assert v.grad.shape == (0, 3)


def test_written_views_leave_no_cycle():
    gc.collect()
    gc.disable()
    try:
        before = md.memory_stats()["in_use_bytes"]
        v = md.ones(1000, requires_grad=True)
        x = md.zeros(4, 1000)
        y = x[0]
        y.add_(v)
        x[1].add_(y)
        (x * x).sum().backward()
        del v, x, y
        assert md.memory_stats()["in_use_bytes"] == before
    finally:
        gc.enable()
