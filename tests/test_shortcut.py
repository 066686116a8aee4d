"""The short cut of the operators is the same op: results, gradients, refusals."""

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
