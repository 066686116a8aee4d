"""How far the float32 kernels are from the truth, over all 2^32 floats or a sample of them.

    python tests/kernels/ulp.py                 every function, every float: a minute or two each
    python tests/kernels/ulp.py exp tanh        these two
    python tests/kernels/ulp.py --step 1009     every 1009th float: some seconds

The truth is the same function in float64. An error is counted in ulps, the spacing of float32 at
the true value (that of subnormals below 2^-126), and for |x| <= 8 also absolutely. The command
fails when a bound is exceeded, or when NaN, an infinity or the sign of a zero is wrong.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from scipy import special

from minidl_kernels.cpu import elementwise
from minidl_kernels.reference import elementwise as reference

CHUNK = 1 << 12         # small enough that what a comparison allocates stays in the caches
FLOATS, PARTS = 1 << 32, 64
# name: float64 truth, bound in ulps over all floats (None: only the absolute one), absolute bound
# for |x| <= 8. What the project promises is 2 for exp, 4 for log, tanh, sigmoid and erf, and 1e-6
# for gelu, silu and gradients; the bounds here are what was reached, so that an accident shows.
BOUNDS = {
    "exp": (np.exp, 1.1, None),
    "exp2": (np.exp2, 1.5, None),
    "expm1": (np.expm1, 1.7, None),
    "log": (np.log, 1.0, None),
    "log2": (np.log2, 2.0, None),
    "log10": (np.log10, 2.0, None),
    "log1p": (np.log1p, 1.6, None),
    "sqrt": (np.sqrt, 0.501, None),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.6, None),
    "reciprocal": (lambda x: 1 / x, 0.501, None),
    "tanh": (np.tanh, 1.1, None),
    "sigmoid": (special.expit, 2.6, None),
    "softplus": (lambda x: np.logaddexp(0, x), 2.0, None),
    "logsigmoid": (lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), 2.0, None),
    "erf": (special.erf, 1.7, None),
    "sin": (np.sin, 2.8, None),
    "cos": (np.cos, 2.8, None),
    "silu": (lambda x: x * special.expit(x), None, 3e-7),
    "gelu": (lambda x: x * special.ndtr(x), None, 3e-7),
    "gelu_tanh": (lambda x: x * special.expit(x * 1.5957691216057308 * (1 + 0.044715 * x * x)),
                  None, 6e-7),
}


# Their gradients, for |x| <= 8 only. Beyond, special values are what the suite finds in PyTorch's.
GRADIENTS = ("tanh", "sigmoid", "softplus", "logsigmoid", "erf", "silu", "gelu", "gelu_tanh")
BOUNDS |= {f"{name}_grad": (None, None, 4e-7) for name in GRADIENTS}


def kernel(name, x):
    """The float32 result for x, of a gradient that of g = 1."""
    if not name.endswith("_grad"):
        return getattr(elementwise, name)(x)
    of = name.removesuffix("_grad")
    saved = getattr(elementwise, of)(x) if elementwise.UNARY[of] == "y" else x
    return getattr(elementwise, name)(np.ones_like(x), saved)


def true(name, x):
    """The same in float64. Gradients are those of the reference."""
    if not name.endswith("_grad"):
        return BOUNDS[name][0](x)
    of = name.removesuffix("_grad")
    saved = getattr(reference, of)(x) if elementwise.UNARY[of] == "y" else x
    return getattr(reference, name)(np.ones_like(x), saved)


def ulps(y, truth):
    """|y - truth| in units of the float32 spacing at the truth."""
    exponent = truth.view(np.int64) & (0x7FF << 52)
    spacing = np.maximum(exponent, (1023 - 126) << 52) - (23 << 52)
    return np.abs(y - truth) / spacing.view(np.float64)


def compare(name, x):
    """(worst ulps, its x, worst error for |x| <= 8, its x, some x with a wrong special value)."""
    if name.endswith("_grad"):
        x = x[np.abs(x) <= 8]
    with np.errstate(all="ignore"):
        y = kernel(name, x).astype(np.float64)
        wide = true(name, x.astype(np.float64))
        truth = wide.astype(np.float32)
    wrong = np.isnan(truth) != np.isnan(y)
    # a value that rounds to infinity may come out as the largest float, and the other way round
    top = np.abs(wide) > 3.4028234e38
    wrong |= (np.isinf(y) != np.isinf(truth)) & ~top
    wrong |= (y == 0) & (wide == 0) & (np.signbit(y) != np.signbit(wide))
    finite = np.isfinite(y) & np.isfinite(truth)
    x, y, wide = x[finite], y[finite], wide[finite]
    bad = np.flatnonzero(wrong)
    if not x.size:
        return 0.0, 0.0, 0.0, 0.0, bad
    error = ulps(y, wide)
    absolute = np.where(np.abs(x) <= 8, np.abs(y - wide), 0.0)
    i, j = int(error.argmax()), int(absolute.argmax())
    return error[i], float(x[i]), absolute[j], float(x[j]), bad


def part(name, step, start, i):
    """The worst (ulps, x, absolute, x, specials) of the floats of part i."""
    worst = [0.0, 0.0, 0.0, 0.0, 0]
    begin, end = FLOATS * i // PARTS, FLOATS * (i + 1) // PARTS
    begin += (start - begin) % step
    for first in range(begin, end, CHUNK * step):
        bits = np.arange(first, min(first + CHUNK * step, end), step, dtype=np.uint64)
        error, at, absolute, where, bad = compare(name, bits.astype(np.uint32).view(np.float32))
        if error > worst[0]:
            worst[:2] = error, at
        if absolute > worst[2]:
            worst[2:4] = absolute, where
        worst[4] += bad.size
    return worst


def check(name, step=1, start=0, apply=map):
    """The worst of every step-th float, and whether it passes; apply is what maps over the parts."""
    found = list(apply(partial(part, name, step, start), range(PARTS)))
    worst = [*max(found)[:2], *max(w[2:4] for w in found), sum(w[4] for w in found)]
    _, bound, absolute_bound = BOUNDS[name]
    passes = (worst[4] == 0 and (bound is None or worst[0] <= bound)
              and (absolute_bound is None or worst[2] <= absolute_bound))
    return worst, passes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(BOUNDS), metavar="name")
    parser.add_argument("--step", type=int, default=1, help="look at every STEP-th float")
    options = parser.parse_args()
    for name in options.names:
        if name not in BOUNDS:
            parser.error(f"no bound is known for {name!r}; choose from {', '.join(BOUNDS)}")
    failed = False
    with ProcessPoolExecutor() as processes:
        for name in options.names:
            worst, passes = check(name, options.step, apply=processes.map)
            error, at, absolute, where, bad = worst
            failed |= not passes
            print(f"{name:15s} {error:12.3f} ulp at {at:<14.9g} {absolute:9.3g} at {where:<14.9g} "
                  f"{bad} wrong specials  {'ok' if passes else 'FAILED'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
