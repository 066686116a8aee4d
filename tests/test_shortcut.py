"""The short cuts of operators and views are the same ops: results, gradients, refusals."""

import numpy as np
import pytest

import minidl as md

OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


def operands(shape=(3, 5), dtype=md.float32):
    md.manual_seed(0)
    return [(md.rand(shape) + 0.5).to(dtype).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 3, 4)])
def test_the_same_as_the_named_op(name, shape):
    a, b = operands(shape)
    c, d = (x.detach().clone().requires_grad_() for x in (a, b))
    by_operator, by_name = OPERATORS[name](a, b), getattr(md, name)(c, d)
    assert np.array_equal(by_operator.detach().numpy(), by_name.detach().numpy())
    by_operator.sum().backward()
    by_name.sum().backward()
    assert np.array_equal(a.grad.numpy(), c.grad.numpy())
    assert np.array_equal(b.grad.numpy(), d.grad.numpy())


@pytest.mark.parametrize("name", OPERATORS)
def test_one_operand_without_a_gradient(name):
    a, b = operands()
    OPERATORS[name](a, b.detach()).sum().backward()
    assert a.grad is not None and b.grad is None
    OPERATORS[name](a.detach(), b).sum().backward()
    assert b.grad is not None


def test_nothing_is_recorded_under_no_grad():
    a, b = operands()
    with md.no_grad():
        assert not (a * b).requires_grad


def test_saved_operands_that_were_overwritten_are_refused():
    a, b = operands()
    x, y = a * 1.0, b * 1.0
    z = x * y
    y.add_(1.0)
    with pytest.raises(RuntimeError, match=r"'other'.*which mul saved.*overwritten by.*add_"):
        z.sum().backward()


def test_a_sum_saves_nothing():
    """So its operands may be overwritten, and their memory is free."""
    a, b = operands()
    x = a * 1.0
    z = x + b
    x.mul_(2.0)
    z.sum().backward()
    assert np.array_equal(b.grad.numpy(), np.ones((3, 5), np.float32))


def test_views_that_follow_a_write():
    x, v = md.zeros(2, 3), md.ones(3, requires_grad=True)
    row = x[0]
    x[0] = v * 2
    (row + row).sum().backward()
    assert v.grad.tolist() == [4.0, 4.0, 4.0]


def test_other_dtypes_and_layouts_take_the_long_way():
    a, b = operands(dtype=md.float64)
    assert (a + b).dtype is md.float64
    x = md.arange(6.0).reshape(2, 3)
    assert (x.T + x.T).tolist() == (x + x).T.tolist()
    assert (x + x[:1]).shape == (2, 3)


def test_nonfinite_results_are_still_detected():
    a = md.full((2,), 3e38)
    with md.autograd.detect_nonfinite(), pytest.raises(ArithmeticError, match="add produced"):
        a + a


VIEWS = {
    "view": lambda x: x.view(4, 6),
    "view of a tuple": lambda x: x.view((2, -1)),
    "view of a list": lambda x: x.view([24]),
    "view of NumPy integers": lambda x: x.view(np.int64(4), np.int64(6)),
    "view of its own shape": lambda x: x.view(2, 3, 4),
    "view of a column": lambda x: x[:, 1].view(-1),
    "view of what lies apart": lambda x: x.transpose(0, 2).view(24),
    "view of too many": lambda x: x.view(5, 5),
    "view of -2": lambda x: x.view(-2, 12),
    "view of two -1": lambda x: x.view(-1, -1),
    "view of nothing": lambda x: x.view(),
    "view of a float": lambda x: x.view(4.0, 6),
    "view of a bool": lambda x: x.view(True, 24),
    "view of a huge number": lambda x: x.view(1 << 70),
    "view as one number": lambda x: x[0, 0, 0].view(()),
    "view of 65 dims": lambda x: x.view(*[1] * 62, 2, 3, 4),
    "reshape": lambda x: x.reshape(4, -1),
    "reshape of what lies apart": lambda x: x.transpose(0, 2).reshape(24),
    "reshape of no elements": lambda x: x[:0].reshape(0, 7),
    "reshape of no elements, -1": lambda x: x[:0].reshape(0, -1),
    "transpose": lambda x: x.transpose(0, -1),
    "transpose in place": lambda x: x.transpose(1, 1),
    "transpose of no dim": lambda x: x.transpose(0, 3),
    "transpose of a float": lambda x: x.transpose(0, 1.0),
    "transpose of a number": lambda x: x[0, 0, 0].transpose(0, -1),
    "transpose without a dim": lambda x: x.transpose(0),
    "transpose by names": lambda x: x.transpose(dim1=0, dim0=1),
    "item": lambda x: x[1],
    "items": lambda x: x[:, None, 1:, ..., ::2],
    "an item that is a number": lambda x: x[1, 2, 3],
    "item of everything": lambda x: x[...],
    "no item": lambda x: x[2],
    "no item of that many": lambda x: x[0, 0, 0, 0],
    "an item of a string": lambda x: x["a"],
}


def outcome(call, x):
    """What a view shows, or what is said of it."""
    try:
        y = call(x)
    except Exception as error:
        return type(error), str(error)
    return y.shape, y.array.strides, y.array.ctypes.data - x.array.ctypes.data, y.tolist()


@pytest.mark.parametrize("dtype", [md.float32, md.float64, md.float16])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_is_not_recorded_is_the_recorded_one(name, dtype):
    x = md.arange(24.0).view(2, 3, 4).to(dtype)
    plain = outcome(VIEWS[name], x)
    with md.no_grad():
        unrecorded = outcome(VIEWS[name], x.requires_grad_())
    recorded = outcome(VIEWS[name], x)
    if "lies apart" in name and len(plain) == 4:       # a copy is somewhere else each time
        plain, unrecorded, recorded = ((o[0], o[3]) for o in (plain, unrecorded, recorded))
    assert plain == unrecorded == recorded


@pytest.mark.parametrize("name", ["view", "reshape", "transpose", "item", "items"])
def test_views_know_what_they_show(name):
    x = md.zeros(2, 3, 4)
    y = VIEWS[name](VIEWS["transpose in place"](x))
    v = md.ones(2, 3, 4, requires_grad=True)
    x.copy_(v * 2)                                     # the views made before have a gradient now
    assert y.requires_grad and (y == 2).all()
    y.sum().backward()
    assert v.grad.sum() == 2 * y.numel()


def test_a_view_of_a_leaf_is_recorded():
    x = md.ones(2, 3, requires_grad=True)
    (x.view(6)[1:3].sum() + x.transpose(0, 1)[0].sum()).backward()
    assert x.grad.tolist() == [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
