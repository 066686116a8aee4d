"""Every instruction of ops.h against Python's integers and NumPy's floats."""

import re
from fractions import Fraction

import numpy as np
import ptx
import pytest

DTYPES = {"pred": np.uint32, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32,
          "f32": np.float32, "u64": np.uint64, "s64": np.int64}
THREADS = 63  # a whole warp and a part of one
REGISTERS = {"pred": "p", "u16": "h", "s16": "h", "u32": "r", "s32": "r", "f32": "f", "u64": "d",
             "s64": "d"}
NAMES = list(ptx.operations())


# ---------------------------------------------------------------- what each instruction means


def quotient(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def inserted(x, y, z, w):
    return sum((x >> (i - z) if z <= i < z + w else y >> i) % 2 << i for i in range(64))


def logic(x, y, z, w):
    return sum((w >> (x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1) & 1) << i
               for i in range(32))


def toward_zero(x, y, z):
    if not np.isfinite([x, y, z]).all():
        return np.float64(x) * y + z
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    near = np.float32(float(exact))
    if np.isinf(near):
        return np.copysign(np.finfo(np.float32).max, near)
    return near if abs(Fraction(float(near))) <= abs(exact) else np.nextafter(near, np.float32(0))


def flushed(x):
    return x if not abs(x) < np.finfo(np.float32).tiny else np.copysign(np.float32(0), x)


def saturated(x, dtype):
    if np.isnan(x):
        return 0
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return low if x <= low else high if x >= high else int(x)


INTEGERS = {
    "mov": lambda x: x, "cvta_to_global": lambda x: x, "selp": lambda x, y, z: x if z else y,
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul_lo": lambda x, y: x * y,
    "mul_wide": lambda x, y: x * y, "mul_hi": lambda x, y: x * y >> 32,
    "mad_lo": lambda x, y, z: x * y + z, "mad_wide": lambda x, y, z: x * y + z,
    "div": quotient, "rem": lambda x, y: x - y * quotient(x, y), "min": min, "max": max,
    "abs": abs, "neg": lambda x: -x, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y, "not": lambda x: ~x, "shl": lambda x, y: x << min(y, 64),
    "shr": lambda x, y: x >> min(y, 64), "bfi": inserted, "lop3": logic,
    "shf_l_wrap": lambda x, y, z: y << z % 32 | x >> 32 - z % 32,
    "shf_r_wrap": lambda x, y, z: x >> z % 32 | y << 32 - z % 32, "cvt": lambda x: x,
}
FLOATS = {
    "mov": lambda x: x, "selp": lambda x, y, z: x if z else y, "neg": lambda x: -x, "abs": abs,
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y, "min": np.fmin, "max": np.fmax,
    "fma_rn": lambda x, y, z: np.float64(x) * np.float64(y) + np.float64(z), "fma_rz": toward_zero,
    "copysign": lambda x, y: np.copysign(y, x), "sqrt": np.sqrt,
    "rcp": lambda x: np.float32(1) / x,
    "rcp_approx_ftz": lambda x: flushed(np.float32(1) / flushed(x)),
    "ex2_approx_ftz": lambda x: flushed(np.exp2(np.float64(flushed(x))).astype(np.float32)),
    "lg2": lambda x: np.log2(np.float64(x)), "cvt_rni": np.rint, "cvt_rzi": np.trunc,
    "cvt_rmi": np.floor, "cvt_rpi": np.ceil,
}
COMPARE = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
           "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}


def compared(how, x, y):
    """Ordered comparisons are false for NaN, those ending in u true; num and nan ask for it."""
    unordered = bool(np.isnan(float(x)) or np.isnan(float(y)))
    if how in ("num", "nan"):
        return unordered == (how == "nan")
    return how.endswith("u") if unordered else COMPARE[how[:2]](x, y)


def meaning(name, types):
    """What the instruction gives for single values."""
    stem = re.sub(r"(_(pred|[busf]\d+))+$", "", name)
    if stem.startswith("setp_"):
        return lambda x, y: compared(stem[5:], x, y)
    if name.endswith("_s8"):
        return lambda x: (int(x) + 128) % 256 - 128
    if stem == "cvt_rn":  # C's own conversion of an integer
        return lambda x: np.array(x, DTYPES[types[1]]).astype(np.float32)
    if stem == "cvt_rzi" and types[0] != "f32":
        return lambda x: saturated(x, DTYPES[types[0]])
    if name.startswith("not_pred"):
        return lambda x: not x
    if types[0] == "f32":
        return FLOATS.get(stem) or FLOATS[re.sub(r"_(rn|approx)$", "", stem)]
    return INTEGERS[stem]


# ------------------------------------------------------------------------------- the kernels


def operands(name, types, rng):
    """An array for each operand: small, large and special numbers."""
    made = []
    for i, t in enumerate(types[1:]):
        dtype = DTYPES[t]
        if t == "pred":
            made.append(rng.integers(0, 2, THREADS).astype(dtype))
        elif t == "f32":
            x = (rng.standard_normal(THREADS) * 10.0 ** rng.integers(-3, 12, THREADS)).astype(dtype)
            x[rng.permutation(THREADS)[:9]] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1, .5]
            made.append(x)
        else:
            info = np.iinfo(dtype)
            x = rng.integers(info.min, info.max, THREADS, dtype=dtype, endpoint=True)
            x[::3] = rng.integers(0, 70, len(x[::3]))
            x[1:3] = info.min, info.max
            made.append(x)
        if i and t[0] in "us" and name.startswith(("div", "rem")):
            made[-1][made[-1] == 0] = 7  # what a GPU gives there is not specified
        if name.startswith("bfi") and i > 1:
            made[-1] = rng.integers(0, 32, THREADS).astype(dtype)
        if name.startswith("lop3") and i == 3:
            made[-1] = rng.integers(0, 256, THREADS).astype(dtype)
    return made


def kernel(name, types):
    """PTX that applies the instruction to element %tid.x of arrays."""
    count = len(types)
    lines = [".reg .pred %p<9>;", ".reg .b16 %h<9>;", ".reg .b32 %r<19>;", ".reg .f32 %f<9>;",
             ".reg .b64 %d<9>;", ".reg .b64 %a<19>;", "mov.u32 %r18, %tid.x;"]
    used = []
    for i, t in enumerate(types):
        size = np.dtype(DTYPES[t]).itemsize
        register = f"%{REGISTERS[t]}{i}"
        used.append(register)
        lines += [f"ld.param.u64 %a{2 * i}, [k_param_{i}];",
                  f"mul.wide.u32 %a{2 * i + 1}, %r18, {size};",
                  f"add.s64 %a{2 * i}, %a{2 * i}, %a{2 * i + 1};"]
        if i:
            held = f"%r{9 + i}" if t == "pred" else register
            lines.append(f"ld.global.{'u32' if t == 'pred' else t} {held}, [%a{2 * i}];")
            if t == "pred":
                lines.append(f"setp.ne.s32 {register}, {held}, 0;")
    lines.append(f"{name.replace('_', '.')} {', '.join(used)};")
    if types[0] == "pred":
        lines += [f"selp.u32 %r9, 1, 0, {used[0]};", "st.global.u32 [%a0], %r9;"]
    else:
        lines.append(f"st.global.{types[0]} [%a0], {used[0]};")
    parameters = ",\n".join(f".param .u64 k_param_{i}" for i in range(count))
    body = "\n".join([*lines, "ret;"])
    return (f".version 8.0\n.target sm_75\n.address_size 64\n"
            f".visible .entry k({parameters})\n.maxntid 64, 1, 1\n{{\n{body}\n}}\n")


@pytest.mark.parametrize("name", NAMES)
def test_instruction(name, be, load, emulator):
    _, types = ptx.operations()[name]
    rng = np.random.default_rng(NAMES.index(name))
    arrays = operands(name, types, rng)
    out, got = _device(be, np.zeros(THREADS, DTYPES[types[0]]))
    ins = [_device(be, x)[0] for x in arrays]
    load(kernel(name, types), "k")(out, *ins, threads=THREADS)
    values = got(out)
    apply = meaning(name, types)
    integers = [x.tolist() if x.dtype.kind in "ui" else list(x) for x in arrays]
    with np.errstate(all="ignore"):
        expected = [apply(*v) for v in zip(*integers, strict=True)]
        if types[0] == "f32":
            expected = np.array([np.float32(e) for e in expected])
    if types[0] == "f32":
        exact = not name.startswith(("ex2", "lg2"))
        np.testing.assert_array_equal(np.isnan(values), np.isnan(expected))
        np.testing.assert_allclose(values, expected, rtol=0 if exact else 1e-6)
        np.testing.assert_array_equal(np.signbit(values[values == 0]),
                                      np.signbit(expected[values == 0]))
    else:
        bits = 8 * np.dtype(DTYPES[types[0]]).itemsize
        assert values.tolist() == [_wrapped(int(e), bits, types[0][0] == "s") for e in expected]


def _wrapped(value, bits, signed):
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> bits - 1 else value


def _device(be, values):
    """Values on the device as bytes, whatever their type, and how to get them back."""
    x = be.array(values.view(np.uint8))
    return x, lambda y: y.numpy().view(values.dtype)


def test_what_is_not_known_is_refused(load, emulator, be):
    good = kernel("add_s32", ("u32", "u32", "u32"))
    for bad, why in ((good.replace("add.s32", "popc.b32"), "ops.h does not have"),
                     (good.replace("add.s32 %r0, %r1, %r2;", "add.s32 %r0, %r1;"), "2 operands"),
                     (good.replace("add.s32 %r0, %r1", "add.s32 %d0, %r1"), "wants 4"),
                     (good.replace("add.s32", "@%p1 add.s32"), "a predicate before"),
                     (good.replace("%tid.x", "%clock"), "unknown operand %clock"),
                     (good + ".const .align 4 .b8 table[4];\n", "what is this")):
        with pytest.raises(be.device._driver.Error, match=why):
            load(bad, "k")


def test_every_instruction_of_the_list_is_tried_by_its_own_name():
    assert len(NAMES) == len(set(NAMES)) > 150
    for name in NAMES:
        assert meaning(name, ptx.operations()[name][1])
