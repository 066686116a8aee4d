"""What the machine can compute: the rate of a large matrix product on the threads in use."""

from __future__ import annotations

import time

from minidl import ops


def peak_flops(size: int = 768, seconds: float = 0.1) -> float:
    """Floating-point operations a second of a float32 product, the best of what fits into
    ``seconds``. No random number is drawn.

    >>> peak_flops(64, 0.001) > 1e6
    True
    """
    a = ops.full((size, size), 0.5)
    best, start = float("inf"), time.perf_counter()
    ops.matmul(a, a)  # the memory of the result, the first time
    while True:
        before = time.perf_counter()
        ops.matmul(a, a)
        now = time.perf_counter()
        best = min(best, now - before)
        if now - start > seconds:
            return 2 * size**3 / best
