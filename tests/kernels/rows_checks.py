"""What the tests of the row kernels share: other thread counts and other instruction sets."""

import os
import pickle
import subprocess
import sys

import numpy as np

from minidl_kernels.cpu import threads

SIZES = [0, 1, 7, 33, 1000]


def arrays(result):
    """The arrays of a result that is one array or a tuple with gaps."""
    items = result if isinstance(result, tuple) else (result,)
    return [np.asarray(item) for item in items if item is not None]


def assert_same_on_any_thread_count(compute):
    """compute() must give the same bits on 1, 2 and 3 threads."""
    before = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        expected = [a.copy() for a in arrays(compute())]
        for n in (2, 3):
            threads.set_num_threads(n)
            for a, b in zip(arrays(compute()), expected, strict=True):
                assert a.tobytes() == b.tobytes(), f"{n} threads give other bits than 1"
    finally:
        threads.set_num_threads(before)


def assert_same_on_any_isa(module, function, rtol=1e-5, atol=1e-5):
    """`function` of the test module `module`, run with the baseline and with AVX2 kernels."""
    code = (f"import pickle, sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import {module}; "
            f"sys.stdout.buffer.write(pickle.dumps({module}.{function}()))")
    results = []
    for isa in ("baseline", "avx2"):
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "MINIDL_ISA": isa},
                              capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        results.append(pickle.loads(done.stdout))
    assert results[0], "no results to compare"
    for name, expected in results[0].items():
        for a, b in zip(arrays(results[1][name]), arrays(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=name)
