"""Elementwise kernels against float64, PyTorch, other thread counts and other instruction sets."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from minidl_kernels.cpu import elementwise as cpu
from minidl_kernels.cpu import select
from minidl_kernels.reference import elementwise as reference

spec = importlib.util.spec_from_file_location("ulp", Path(__file__).with_name("ulp.py"))
ulp = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ulp)

SIZES = [0, 1, 7, 33, 1000]
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1.1754944e-38, 3.4028235e38,
     -3.4028235e38, 1e10, -1e10, 1e20, -1e20, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5, 2.5, 200,
     -200, 90, -90, -104, 88.9, -88.5, 1e-10, -1e-10], np.float32)
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "log1p"}
SHAPES = [((5,), (5,)), ((), ()), ((4, 3), (3,)), ((3,), (4, 3)), ((4, 1), (1, 3)), ((4, 3), ()),
          ((2, 1, 5), (3, 1)), ((2, 3, 4, 5), (3, 1, 5)), ((1, 3, 1, 5), (2, 1, 4, 1)),
          ((0, 3), (3,)), ((4, 0), (4, 1)), ((7, 33), (7, 33)), ((6, 1000), (1000,)),
          ((6, 1000), (6, 1)), ((1,), (1, 1))]


def draw(*shape, seed=0, scale=3.0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, np.float32)


def inputs(name, *shape, seed=0):
    x = draw(*shape, seed=seed)
    return np.abs(x) + np.float32(0.01) if name in POSITIVE else x


def divisors(name, x):
    """The second operand, and for pow the first, in the domain where gradients are finite."""
    domain = name in ("pow", "div", "fmod", "remainder")
    return np.asarray(np.abs(x) + np.float32(0.5)) if domain else x


def wide(x):
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x


def close(actual, expected, rtol=1e-5, atol=2e-6):
    assert actual.dtype == np.float32
    assert actual.shape == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def same_values(actual, expected, rtol=1e-5, atol=1e-6):
    """Equal up to rounding, with NaN and the infinities in the same places."""
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(actual), np.isinf(expected))
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


# ------------------------------------------------------------------------------------ one operand

def test_table_and_reference_list_the_same_ops():
    assert cpu.UNARY == reference.UNARY
    assert cpu.BINARY == reference.BINARY
    for name in {*cpu.__all__, *select.__all__}:
        assert hasattr(reference, name), name


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", cpu.UNARY)
def test_unary_and_gradient_against_float64(name, n):
    x, g = inputs(name, n), draw(n, seed=1)
    y = getattr(cpu, name)(x)
    close(y, getattr(reference, name)(wide(x)))
    saved = y if cpu.UNARY[name] == "y" else x
    close(getattr(cpu, name + "_grad")(g, saved),
          getattr(reference, name + "_grad")(wide(g), wide(saved)), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("name", ulp.BOUNDS)
def test_sampled_ulps(name):
    """Where PyTorch is installed, functions with an absolute bound are held against it too."""
    x = np.concatenate([draw(20000, scale=s) for s in (0.5, 3.0, 30.0)])
    for found in ulp.check(name, step=65537, start=40503), ulp.compare(name, x):
        assert ulp.within(name, found), found


def test_a_sample_sees_what_is_wrong(monkeypatch):
    x = draw(1000)
    right = ulp.compare("sigmoid", x)
    monkeypatch.setattr(ulp, "kernel", lambda name, x: cpu.sigmoid(x) + np.float32(1e-6))
    assert ulp.within("sigmoid", right) and not ulp.within("sigmoid", ulp.compare("sigmoid", x))
    monkeypatch.setattr(ulp, "kernel", lambda name, x: np.full_like(x, np.nan))
    assert ulp.compare("sigmoid", x).specials == 1000
    assert not ulp.within("gelu", right._replace(theirs=right.absolute / 3))


def torch_function(name):
    pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    return ulp.torch(), ulp.function_of_torch(name)


@pytest.mark.parametrize("name", cpu.UNARY)
def test_unary_special_values_as_in_pytorch(name):
    torch, function = torch_function(name)
    x = np.concatenate([SPECIAL, SPECIAL])          # long enough for PyTorch's vectorised loops
    t = torch.from_numpy(x.copy()).requires_grad_()
    expected = function(t)
    expected.backward(torch.ones_like(t))
    y = getattr(cpu, name)(x)
    # the negative tail of PyTorch's gelu has only an absolute accuracy
    same_values(y, expected.detach().numpy(), atol=1e-6 if "gelu" in name else 1e-37)
    if name != "gelu":                              # PyTorch's gelu(-0.0) is 0.0
        zero = expected.detach().numpy() == 0
        zero &= np.abs(x) != np.float32(1e-45)      # its log1p flushes subnormals
        np.testing.assert_array_equal(np.signbit(y)[zero],
                                      np.signbit(expected.detach().numpy())[zero])
    saved = y if cpu.UNARY[name] == "y" else x
    same_values(getattr(cpu, name + "_grad")(np.ones_like(x), saved), t.grad.numpy())


def test_gelu_of_infinity_and_zero():
    zeros = np.array([-0.0, 0.0] * 20, np.float32)
    assert (np.signbit(cpu.gelu(zeros)) == np.signbit(zeros)).all()
    x = np.array([np.inf, -np.inf, np.nan] * 20, np.float32)
    np.testing.assert_array_equal(cpu.gelu(x), np.array([np.inf, np.nan, np.nan] * 20))
    assert np.isnan(cpu.gelu_grad(np.ones_like(x), x)).all()


# ----------------------------------------------------------------------------------- two operands

@pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
@pytest.mark.parametrize("name", cpu.BINARY)
def test_binary_and_gradient_against_float64(name, shape_a, shape_b):
    a, b = draw(*shape_a), divisors(name, draw(*shape_b, seed=1))
    a = divisors(name, a) if name == "pow" else a
    y = getattr(cpu, name)(a, b)
    close(y, getattr(reference, name)(wide(a), wide(b)), rtol=2e-5, atol=2e-5)
    g = draw(*y.shape, seed=2)
    grads = getattr(cpu, name + "_grad")(g, a, b, (True, True))
    expected = getattr(reference, name + "_grad")(wide(g), wide(a), wide(b), (True, True))
    for actual, right, operand in zip(grads, expected, (a, b), strict=True):
        assert actual.shape == operand.shape
        close(actual, right, rtol=1e-4, atol=1e-4 * max(1.0, np.abs(right).max(initial=0)))
    assert getattr(cpu, name + "_grad")(g, a, b, (False, False)) == (None, None)


@pytest.mark.parametrize("name", cpu.BINARY)
def test_binary_with_a_number(name):
    x = np.abs(draw(33)) + np.float32(0.5)
    g = draw(33, seed=1)
    for number in (2, 2.5, np.float32(1.5), True, np.int64(3)):
        for a, b in ((x, number), (number, x)):
            close(getattr(cpu, name)(a, b), getattr(reference, name)(wide(a), wide(b)), 1e-5, 1e-5)
            da, db = getattr(cpu, name + "_grad")(g, a, b, (True, True))
            expected = getattr(reference, name + "_grad")(wide(g), wide(a), wide(b), (True, True))
            for actual, right in zip((da, db), expected, strict=True):
                assert (actual is None) == (right is None)
                if right is not None:
                    close(actual, right, 1e-5, 1e-4)


@pytest.mark.parametrize("power", [2.0, 3.0, 0.5, -0.5, -1.0, 2, 0.0, 1.7])
def test_powers_with_their_own_kernels(power):
    x = np.abs(draw(33)) + np.float32(0.5)
    close(cpu.pow(x, power), wide(x) ** float(power))
    as_array = np.array(power, np.float32)
    np.testing.assert_array_equal(cpu.pow(x, as_array), cpu.pow(x, power))
    (da, _) = cpu.pow_grad(np.ones_like(x), x, as_array, (True, False))
    close(da, float(power) * wide(x) ** (float(power) - 1))


@pytest.mark.parametrize("name", cpu.BINARY)
def test_binary_special_values_as_in_pytorch(name):
    torch, function = torch_function(name)
    values = SPECIAL[np.abs(SPECIAL) != np.float32(1e-45)]
    if name in ("fmod", "remainder", "floor_divide"):   # PyTorch's fmod is NaN by subnormals
        values = values[~((np.abs(values) < 1e-30) & (values != 0))]
    a, b = (m.ravel().copy() for m in np.meshgrid(values, values))
    if name in ("fmod", "remainder", "floor_divide"):   # and for quotients too large for it
        with np.errstate(all="ignore"):
            small = ~(np.isfinite(a) & (b != 0) & (np.abs(a / b) > 1e6))
        a, b = a[small], b[small]
    ta, tb = torch.from_numpy(a).requires_grad_(), torch.from_numpy(b).requires_grad_()
    y = function(ta, tb)
    same_values(getattr(cpu, name)(a, b), y.detach().numpy(), atol=1e-37)
    if name == "floor_divide":
        return
    y.backward(torch.ones_like(y))
    grads = getattr(cpu, name + "_grad")(np.ones_like(a), a, b, (True, True))
    for actual, expected in zip(grads, (ta.grad, tb.grad), strict=True):
        same_values(actual, expected.numpy())


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_division_is_exact_where_quotients_are_large(name):
    rng = np.random.default_rng(0)
    a = np.ldexp(rng.uniform(-1, 1, 3000), rng.integers(-20, 100, 3000)).astype(np.float32)
    b = np.ldexp(rng.uniform(-1, 1, 3000), rng.integers(-20, 20, 3000)).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = {"fmod": np.fmod, "remainder": np.remainder,
                    "floor_divide": np.floor_divide}[name](a, b)
    same_values(getattr(cpu, name)(a, b), expected, rtol=2e-7, atol=0)


def test_sine_and_cosine_of_huge_arguments():
    x = np.float32([1e8, 1.0000001e8, -1e9, 1e22, 3.4e38, -3.4028235e38, 16367173.0, 6.2e-39])
    x = np.concatenate([x, np.ldexp(draw(2000), np.arange(2000) % 120).astype(np.float32)])
    np.testing.assert_allclose(cpu.sin(x), np.sin(wide(x)), rtol=3e-7)
    np.testing.assert_allclose(cpu.cos(x), np.cos(wide(x)), rtol=3e-7)
    close(cpu.sin_grad(np.ones_like(x), x), np.cos(wide(x)), rtol=3e-7)


# -------------------------------------------------------------------------------- sums and the rest

@pytest.mark.parametrize("shape", [(5, 7, 6, 3), (3,), (6, 3), (1, 6, 1), (7, 1, 3), (5, 1, 6, 1),
                                   (), (1, 1, 1, 1), (1, 7, 1, 1), (5, 7, 6, 1), (5, 1, 1, 3)])
def test_sum_to(shape):
    g = draw(5, 7, 6, 3)
    close(cpu.sum_to(g, shape), reference.sum_to(wide(g), shape))
    transposed = np.asfortranarray(g)
    np.testing.assert_array_equal(cpu.sum_to(transposed, shape), cpu.sum_to(g, shape))


def test_sum_to_of_long_and_empty_arrays():
    for shape, to in (((70001, 5), (5,)), ((5, 70001), (5, 1)), ((300001,), ()),
                      ((3, 9001), (9001,)), ((2, 300, 700), (2, 1, 700)),
                      ((2, 300, 700), (300, 1)), ((1000, 1), (1,))):
        g = draw(*shape) + np.float32(0.3)
        expected = reference.sum_to(wide(g), to)
        np.testing.assert_allclose(cpu.sum_to(g, to), expected, rtol=1e-6, atol=1e-4)
    assert cpu.sum_to(np.zeros((0, 3), np.float32), (3,)).tolist() == [0, 0, 0]
    assert cpu.sum_to(np.zeros((3, 0), np.float32), (3, 1)).tolist() == [[0], [0], [0]]
    g = draw(4, 3)
    assert cpu.sum_to(g, (4, 3)) is g


def test_where_lerp_clamp_and_their_gradients():
    cond, a, b = draw(4, 1, seed=3) > 0, draw(4, 5), draw(5, seed=1)
    w, g = np.abs(draw(4, 1, seed=4)), draw(4, 5, seed=5)
    need = (True, True, True)
    cases = [("where", (cond, a, b)), ("where", (cond.view(np.uint8), a, 2.0)),
             ("where", (cond, 1.5, b)), ("where", (a > 0, a, np.float32([[1.0]]))),
             ("lerp", (a, b, w)), ("lerp", (a, b, 0.25)), ("lerp", (a, b, 1.0)),
             ("lerp", (a, 2.0, w)), ("clamp", (a, -1, 1.5)), ("clamp", (a, None, 0.5)),
             ("clamp", (a, 1.0, -1.0)), ("clamp", (SPECIAL, -2, None))]
    for name, args in cases:
        exact = [wide(x) if np.ndim(x) and x.dtype == np.float32 else x for x in args]
        same_values(getattr(select, name)(*args), getattr(reference, name)(*exact))
        if name == "clamp":
            grad = select.clamp_grad(np.ones_like(args[0]), *args)
            same_values(grad, reference.clamp_grad(np.ones(args[0].shape), *exact))
            continue
        used = need[:2] if name == "where" else need
        actual = getattr(select, name + "_grad")(g, *args, used)
        expected = getattr(reference, name + "_grad")(wide(g), *exact, used)
        for x, y in zip(actual, expected, strict=True):
            assert (x is None) == (y is None)
            if y is not None:
                close(x, y)


def test_in_place():
    for shape in ((3,), (4, 1), (), (4, 3)):
        dst, src = draw(4, 3), draw(*shape, seed=1)
        expected = dst + src
        assert select.add_(dst, src) is dst
        np.testing.assert_array_equal(dst, expected)
    dst = draw(4, 3)
    expected = dst + dst[:1]
    np.testing.assert_array_equal(select.add_(dst, dst[:1]), expected)
    np.testing.assert_array_equal(select.add_(dst, 2.0), expected + np.float32(2))
    np.testing.assert_array_equal(select.add_(dst, dst), (expected + np.float32(2)) * 2)
    assert (select.fill_(dst, 0.5) == 0.5).all()


def test_non_contiguous_operands():
    x, y = draw(8, 6, seed=1).T, np.broadcast_to(draw(8, seed=2), (6, 8))
    close(cpu.tanh(x), np.tanh(wide(x)))
    close(cpu.mul(x[::2], y[::-2]), x[::2] * y[::-2])
    close(cpu.sigmoid_grad(x, np.ascontiguousarray(x)), reference.sigmoid_grad(wide(x), wide(x)))
    da, db = cpu.mul_grad(x, y, draw(6, 1), (True, True))
    assert da.shape == (6, 8) and db.shape == (6, 1)


def test_large_arrays():
    n = (1 << 20) + 4097                            # many pieces of work, the last one short
    x = np.resize(draw(10007), n)
    np.testing.assert_array_equal(cpu.relu(x), np.maximum(x, 0))
    rows = x[: n // 3 * 3].reshape(-1, 3)
    np.testing.assert_array_equal(cpu.add(rows, x[:3]), rows + x[:3])
    np.testing.assert_array_equal(select.add_(x.copy(), 1.0), x + np.float32(1))


def all_results():
    x, row, column = inputs("log", 400, 301), draw(301, seed=1), draw(400, 1, seed=2)
    results = {name: getattr(cpu, name)(x[:7]) for name in cpu.UNARY}
    results |= {"div": cpu.div(x[:7], row + 20), "pow": cpu.pow(x[:7], row), "exp_all": cpu.exp(x),
                "fmod": cpu.fmod(x[:7], np.float32(0.75)), "gelu_grad": cpu.gelu_grad(x, x),
                "add": cpu.add(x, row), "mul": cpu.mul(column, x), "sum_all": cpu.sum_to(x, ()),
                "sum_rows": cpu.sum_to(x, (301,)), "sum_columns": cpu.sum_to(x, (400, 1)),
                "mul_grad": cpu.mul_grad(x, x, row, (True, True)),
                "where": select.where(x > 2, x, row), "lerp": select.lerp(x, row, column),
                "clamp": select.clamp(x, 1, 2)}
    return results


def test_same_bits_on_any_thread_count(same_on_any_thread_count):
    same_on_any_thread_count()


def test_same_results_on_any_isa(same_on_any_isa):
    same_on_any_isa(rtol=5e-6, atol=2e-6)


# ----------------------------------------------------------------------------------------- errors

@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: cpu.exp(None), TypeError, "exp: expected a float32 array, got NoneType"),
    (lambda: cpu.exp(np.ones(3)), TypeError, "exp: expected a float32 array, got one of float64"),
    (lambda: cpu.exp_grad(draw(3), draw(4)), ValueError,
     r"exp_grad: g has shape \(3,\) and y \(4,\), expected the same"),
    (lambda: cpu.exp_grad(draw(3)), TypeError, "exp_grad: expected 2 arguments, got 1"),
    (lambda: cpu.add(draw(2, 3), draw(4)), ValueError,
     r"add: shapes \(2, 3\) and \(4,\) do not broadcast: axis -1 has 3 and 4 entries"),
    (lambda: cpu.add(1.0, 2.0), TypeError, "add: expected at least one float32 array"),
    (lambda: cpu.add(draw(3), "x"), TypeError, "add: expected a float32 array or a number"),
    (lambda: cpu.add(draw(3), 10**400), OverflowError, "add: the number 1000"),
    (lambda: cpu.mul_grad(draw(4), draw(3), draw(3), (1, 1)), ValueError,
     r"mul_grad: got an array of shape \(4,\) where the operands broadcast to \(3,\)"),
    (lambda: cpu.sum_to(draw(4, 3), (4,)), ValueError, r"sum_to: shape \(4,\) does not broadcast"),
    (lambda: select.where(draw(3), draw(3), 1.0), TypeError, "where: expected a bool or uint8"),
    (lambda: select.add_(draw(3), draw(2, 3)), ValueError, "add_: got an array of shape"),
    (lambda: select.add_(draw(3, 3).T, 1.0), TypeError, "add_: expected a writable C-contiguous"),
    (lambda: select.clamp(draw(3), "a", None), TypeError, "clamp: expected a float32 array or a"),
    (lambda: reference.floor_divide(np.arange(3), np.zeros(3, int)), ZeroDivisionError,
     "floor_divide: integer division by zero"),
    (lambda: reference.pow(np.arange(3), -1), ValueError, "pow: integers to a negative"),
])
def test_errors_are_sentences(call, error, message):
    with pytest.raises(error, match=message):
        call()
