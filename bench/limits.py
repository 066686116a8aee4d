"""What the machine can do, measured first: every row is held against it.

The peak of sgemm is that of whoever multiplies 1024 and 2048 squares fastest: SciPy's raw BLAS
(without Python or an allocation in between), minidl or PyTorch. A library that does not know a
processor runs at half of what it can do, and would make a limit that others exceed. Copying counts
the bytes read and the bytes written of arrays that no cache holds.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench.measure import Failed, interleave

SIZES = (1024, 2048)
MULTIPLY = ("blas", "minidl", "torch")
ELEMENTS = 32 << 20


def raw_gemm(lib, m, k, n):
    """call(): C[m, n] = A[m, k] @ B[k, n] by sgemm, seen from Fortran as C.T = B.T @ A.T."""
    from scipy.linalg.blas import sgemm

    a, b, c = lib.array(m, k), lib.array(k, n), np.empty((m, n), np.float32)
    return lambda: sgemm(1.0, b.T, a.T, beta=0.0, c=c.T, overwrite_c=1)


def copy(lib, elements=ELEMENTS):
    """call(): copy an array, each thread its share."""
    x = lib.array(elements)
    y = np.empty_like(x)
    parts = list(zip(np.array_split(y, lib.threads), np.array_split(x, lib.threads), strict=True))
    if len(parts) == 1:
        return lambda: np.copyto(y, x)
    pool = ThreadPoolExecutor(len(parts))
    return lambda: list(pool.map(lambda part: np.copyto(*part), parts))


def cases(case):
    from bench.matmul import builders

    for n in SIZES:
        found = builders(n, n, n)
        case("sgemm", str(n), {peer: found[peer] for peer in MULTIPLY}, flops=2 * n**3)
    case("copy", str(ELEMENTS), {"blas": copy}, bytes=8 * ELEMENTS)


def measure(session, threads):
    """{"gflops": ..., "sgemm": {library: ...}, "gbs": ..., "itself": ...} on a number of threads.

    The best of each, and of each library; `itself` is the ratio of a product to the same product in
    another process, measured as peers are: how far it is from 1 says what a ratio of this run is
    worth.
    """
    libraries = [peer for peer in MULTIPLY if peer != "torch" or peer in session.peers]
    products = [session.time("limits", i, threads, libraries) for i in range(len(SIZES))]
    gflops = {peer: max(2e-9 * n**3 / product[peer].best
                        for n, product in zip(SIZES, products, strict=True)) for peer in libraries}
    copying = session.time("limits", len(SIZES), threads, ["blas"])["blas"].best
    return {"gflops": max(gflops.values()), "sgemm": gflops, "gbs": 8 * ELEMENTS / copying / 1e9,
            "itself": itself(session, threads)}


def itself(session, threads):
    twins = {copy: session.workers.get("blas", threads, copy) for copy in range(2)}
    timings, failures = interleave(twins, "limits", 0, session.seconds, session.rounds)
    if failures:
        raise Failed(str(failures))
    return timings[1].ratio(to=timings[0])
