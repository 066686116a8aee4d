"""How far the float32 kernels are from the truth, over all 2^32 floats or a sample of them.

    python tests/kernels/ulp.py                 every function, every float: a minute or two each
    python tests/kernels/ulp.py exp tanh        these two
    python tests/kernels/ulp.py --step 1009     every 1009th float: some seconds

The truth is the same function in float64. An error is counted in ulps, the spacing of float32 at
the true value (that of subnormals below 2^-126), and for |x| <= 8 also absolutely. The command
fails when a bound is exceeded, when NaN, an infinity or the sign of a zero is wrong, or when a
function with an absolute bound is off by more than twice what PyTorch is, where that is installed.
"""

import argparse
import importlib.util
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial, reduce
from typing import NamedTuple

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


# Gradients that stay within bounds themselves, for |x| <= 8 only. Beyond, special values are what
# the suite finds in PyTorch's.
BOUNDS |= {f"{name}_grad": (None, None, 4e-7) for name in (
    "tanh", "sigmoid", "softplus", "logsigmoid", "erf", "silu", "gelu", "gelu_tanh", "sin", "cos")}


class Found(NamedTuple):
    """The worst that was seen: in ulps and absolutely, with the x, and in PyTorch."""

    ulps: float = 0.0
    at: float = 0.0
    absolute: float = 0.0
    where: float = 0.0
    theirs: float = 0.0         # PyTorch's absolute error
    specials: int = 0           # wrong ones

    def join(self, other):
        error = max(self[:2], other[:2])
        absolute = max(self[2:4], other[2:4])
        return Found(*error, *absolute, max(self.theirs, other.theirs),
                     self.specials + other.specials)


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


@cache
def torch():
    """PyTorch, or None."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch


def function_of_torch(name):
    functional = torch().nn.functional
    special = {"gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
               "cube": lambda x: x**3}
    return special.get(name) or getattr(torch(), name, None) or getattr(functional, name)


def theirs(name, x):
    """PyTorch's float32 result."""
    x = torch().from_numpy(x.copy())
    if not name.endswith("_grad"):
        return function_of_torch(name)(x).numpy()
    y = function_of_torch(name.removesuffix("_grad"))(x.requires_grad_())
    y.backward(torch().ones_like(y))
    return x.grad.numpy()


def ulps(y, truth):
    """|y - truth| in units of the float32 spacing at the truth."""
    exponent = truth.view(np.int64) & (0x7FF << 52)
    spacing = np.maximum(exponent, (1023 - 126) << 52) - (23 << 52)
    return np.abs(y - truth) / spacing.view(np.float64)


def compare(name, x):
    """What is found at these x."""
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
    specials = int(wrong.sum())
    finite = np.isfinite(y) & np.isfinite(truth)
    x, y, wide = x[finite], y[finite], wide[finite]
    if not x.size:
        return Found(specials=specials)
    error = ulps(y, wide)
    near = np.abs(x) <= 8
    absolute = np.where(near, np.abs(y - wide), 0.0)
    i, j = int(error.argmax()), int(absolute.argmax())
    other = 0.0
    if BOUNDS[name][2] is not None and near.any() and torch() is not None:
        other = float(np.abs(theirs(name, x[near]) - wide[near]).max())
    return Found(float(error[i]), float(x[i]), float(absolute[j]), float(x[j]), other, specials)


def within(name, found):
    """Whether what is found is within the bounds of a function, and fair beside PyTorch."""
    _, bound, absolute = BOUNDS[name]
    return (found.specials == 0 and (bound is None or found.ulps <= bound)
            and (absolute is None or found.absolute <= absolute)
            and (not found.theirs or found.absolute <= 2 * found.theirs))


def part(name, step, start, i):
    """What is found at every step-th float of part i."""
    found = Found()
    begin, end = FLOATS * i // PARTS, FLOATS * (i + 1) // PARTS
    begin += (start - begin) % step
    for first in range(begin, end, CHUNK * step):
        bits = np.arange(first, min(first + CHUNK * step, end), step, dtype=np.uint64)
        found = found.join(compare(name, bits.astype(np.uint32).view(np.float32)))
    return found


def check(name, step=1, start=0, apply=map):
    """What is found at every step-th float; apply is what maps over the parts."""
    return reduce(Found.join, apply(partial(part, name, step, start), range(PARTS)))


def alone():
    """One thread for PyTorch: every core has a process of its own."""
    if torch() is not None:
        torch().set_num_threads(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(BOUNDS), metavar="name")
    parser.add_argument("--step", type=int, default=1, help="look at every STEP-th float")
    options = parser.parse_args()
    for name in options.names:
        if name not in BOUNDS:
            parser.error(f"no bound is known for {name!r}; choose from {', '.join(BOUNDS)}")
    failed = False
    with ProcessPoolExecutor(initializer=alone) as processes:
        for name in options.names:
            found = check(name, options.step, apply=processes.map)
            passes = within(name, found)
            failed |= not passes
            other = f", PyTorch {found.theirs:9.3g}" if found.theirs else " " * 19
            print(f"{name:15s} {found.ulps:12.3f} ulp at {found.at:<14.9g} {found.absolute:9.3g} "
                  f"at {found.where:<14.9g}{other} {found.specials} wrong specials  "
                  f"{'ok' if passes else 'FAILED'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
