"""Every elementwise formula on a device, and the operations of integers and bools."""

import numpy as np
import pytest

from minidl_kernels import cpu, reference
from minidl_kernels.device.source import SPELLINGS, Signature, render

N = 1003


UNARY = ("S_UNARY", "S_UNARY_GUARDED_FORWARD", "S_UNARY_GUARDED")
BINARY = ("S_BINARY", "S_BINARY_GUARDED")


def everything(be, lists, inputs, formula, count):
    """y[k] = formula of entry k of lists of scalar.h, of all entries in one launch.

    Compiling each formula alone takes a CPU's OpenCL half a second.
    """
    text, _ = render(be.device.target, "elementwise", {"OP": "f_exp", "OP_UNARY": 1})
    arguments = (*[("IN", "float", name) for name in inputs], ("OUT", "float", "y"),
                 ("VAL", "int", "n"))
    text += (f"#define EACH(name, ...) y[k++ * n + i] = {formula};\n"
             + SPELLINGS[be.device.target]("every", 256, arguments)
             + "int i = BLOCK_X * 256 + THREAD, k = 0;\n"
             + f"if (i < n) {{ {' '.join(f'{one}(EACH)' for one in lists)} }} }}\n")
    function = be.device.compile(text, "every", Signature(256, arguments))
    arrays = [be.array(x) for x in inputs.values()]
    n = arrays[0].size
    y = be.empty((count, n), np.float32)
    be.device.run(function, (-(-n // 256), 1, 1), 256, [*arrays, y, np.int32(n).tobytes()])
    return y.numpy()


def close(got, expected, name):
    """Relative to float64, infinities and NaN in the same places."""
    finite = np.isfinite(expected) & (np.abs(expected) < 3e38)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected), err_msg=name)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=2e-6, atol=3e-7, err_msg=name)


def test_formulas_of_one_operand(be, draw):
    x = np.concatenate([draw(N, scale=3), [0, 1, -1, 50, -50, 1e-6, -1e-6, 700, 1e5, np.inf,
                                           -np.inf, np.nan]]).astype("float32")
    names = list(cpu.UNARY)
    got = everything(be, UNARY, {"x": x}, "f_##name(x[i])", len(names))
    for y, name in zip(got, names, strict=True):
        close(y, getattr(reference, name)(x.astype("float64")), name)


def test_gradients_of_one_operand(be, draw):
    x, g = draw(N, scale=2), draw(N)
    names = list(cpu.UNARY)
    saved = [getattr(reference, n)(x) if reference.UNARY[n] == "y" else x for n in names]
    # the kernel reads one saved array: that of the formulas that need x, then of those with y
    for kind in "xy":
        chosen = [i for i, n in enumerate(names) if reference.UNARY[n] == kind]
        for i in chosen if kind == "y" else chosen[:1]:
            got = everything(be, UNARY, {"g": g, "s": saved[i]},
                             "f_##name##_grad(g[i], s[i])", len(names))
            for k in [i] if kind == "y" else chosen:
                grad = getattr(reference, names[k] + "_grad")
                close(got[k], grad(g.astype("float64"), saved[k].astype("float64")), names[k])


@pytest.mark.parametrize("side", ["", "_da", "_db"])
def test_formulas_of_two_operands(be, draw, side):
    a, b, g = draw(N, scale=3), draw(N, scale=2), draw(N)
    a[:5], b[:5] = [0, 1, 2.5, -3, 4], [2, 0.5, 2.5, -3, 0.25]
    names = list(cpu.BINARY)
    call = f"f_##name{'##' + side if side else ''}({'g[i], ' if side else ''}a[i], b[i])"
    got = everything(be, BINARY, {"g": g, "a": a, "b": b}, call, len(names))
    wide = [v.astype("float64") for v in (g, a, b)]
    for y, name in zip(got, names, strict=True):
        kernel = getattr(reference, name)
        expected = kernel(*wide[1:]) if not side else getattr(reference, name + "_grad")(
            *wide, (True, True))[side == "_db"]
        with np.errstate(all="ignore"):
            close(y, expected.astype("float64"), name + side)


@pytest.mark.parametrize("shape", [(0,), (1,), (7, 33), (257,), ()])
def test_launching_one_operand(be, check, draw, shape):
    x, g = draw(*shape), draw(*shape)
    if shape:
        check("gelu", x)
        check("gelu_grad", g, x)
        check("exp", x.T)
    else:
        assert be.gelu(be.array(x)).shape == ()


SHAPES = [((5, 7), (5, 7)), ((5, 7), (7,)), ((5, 1), (1, 7)), ((2, 3, 4), (3, 1)), ((1,), (4, 1)),
          ((0, 3), (3,)), ((3, 1, 2, 1, 2, 1), (1, 2, 1, 3, 1, 2))]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_broadcasting_and_its_gradient(check, draw, a, b):
    x, y = draw(*a), draw(*b)
    check("mul", x, y)
    check("mul_grad", draw(*np.broadcast_shapes(a, b)), x, y, (True, True))


def test_operands_that_are_numbers(be, check, draw):
    x = draw(5, 7)
    for number in (2, 0.5, np.float32(3), np.array(2.0, "float32")):
        check("sub", x, number)
        check("sub", number, x)
    assert check("mul_grad", draw(5, 7), x, 2.0, (True, True))[1] is None
    assert check("mul_grad", draw(5, 7), x, x[0], (False, True))[0] is None


def test_strided_operands(be, draw):
    x, y = draw(6, 5, 4), draw(4, 5)
    got = be.add(be.array(x).transpose(2, 1, 0)[:, ::2], be.array(y)[:, ::2, None])
    np.testing.assert_array_equal(got.numpy(), x.transpose(2, 1, 0)[:, ::2] + y[:, ::2, None])
    np.testing.assert_allclose(be.exp(be.array(x).T).numpy(), np.exp(x.T), rtol=1e-6)


def test_choices(be, check, draw):
    x, y, w = draw(5, 7), draw(7), draw(5, 1)
    x[0, 0] = np.nan
    c = draw(5, 7) > 0
    check("where", c, x, y)
    check("where", c, 1.5, y)
    check("where_grad", draw(5, 7), c, x, y, (True, True))
    check("clamp", x, -0.5, None)
    check("clamp", x, None, 0.5)
    check("clamp_grad", draw(5, 7), x, -0.5, 0.5)
    check("lerp", y, draw(7), 0.3)
    check("lerp", y, draw(5, 7), w)
    check("lerp_grad", draw(5, 7), y, draw(5, 7), w, (True, True, True))
    ids = np.arange(7)
    np.testing.assert_array_equal(be.where(be.array(c), be.array(ids), -1).numpy(),
                                  np.where(c, ids, -1))


def test_addition_in_place(be, draw):
    x, y = draw(5, 7), draw(7)
    a = be.array(x)
    assert be.add_(a, be.array(y)) is a
    be.add_(a[:, 1:3], 2.0)
    be.add_(a, be.array(x))
    x_ = x + y
    x_[:, 1:3] += 2
    np.testing.assert_allclose(a.numpy(), x_ + x, rtol=1e-6)
    with pytest.raises(ValueError, match="does not fit"):
        be.add_(be.array(y), be.array(x))


@pytest.mark.parametrize("dtype", ["int64", "bool", "float32"])
def test_comparisons_and_logic(check, dtype):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 3, (5, 7)).astype(dtype), rng.integers(0, 3, (7,)).astype(dtype)
    for name in ("eq", "lt") if dtype != "bool" else ("logical_and", "logical_xor"):
        check(name, a, b)
    check("ne", a, 1)
    check("logical_not", a)


def test_integers(check):
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 9, (5, 7)), rng.integers(1, 5, (7,)) * np.array([1, -1, 1, 1, -1, 1, 1])
    for name in ("add", "maximum", "remainder", "floor_divide", "bitwise_xor"):
        check(name, a, b)
    for name in ("abs", "bitwise_not"):
        check(name, a)
    check("bitwise_not", a > 0)


def test_tests_of_floats(check):
    x = np.array([1, np.nan, np.inf, -np.inf, 0, 3e38], "float32")
    for name in ("isnan", "isinf", "isfinite"):
        check(name, x)


def test_bias_and_activation_in_one(be, check, draw):
    x, b, g = draw(5, 7), draw(7), draw(5, 7)
    wide = (x + b).astype("float64")
    y = be.bias_activation("gelu", be.array(x), be.array(b)).numpy()
    np.testing.assert_allclose(y, reference.gelu(wide), rtol=1e-5, atol=1e-6)
    d = be.bias_activation_grad("gelu", *map(be.array, (g, x, b)))
    expected = reference.gelu_grad(g.astype("float64"), wide)
    np.testing.assert_allclose(d.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_messages(be, draw):
    x = be.array(draw(5, 7))
    with pytest.raises(ValueError, match=r"mul: shapes \(5, 7\) and \(6,\) do not broadcast"):
        be.mul(x, be.array(draw(6)))
    with pytest.raises(TypeError, match="exp: devices compute it in float32, got int64"):
        be.exp(be.array(np.arange(3)))
    with pytest.raises(TypeError, match="expected arrays of float32, got int64"):
        be.where(be.gt(x, 0.0), x, be.array(np.arange(7)))
