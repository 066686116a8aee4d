"""What the kernel tests share: other thread counts and other instruction sets."""

import base64
import pickle
from pathlib import Path

import numpy as np
import pytest

from minidl_kernels.cpu import threads

RUN = """
import base64, importlib.util, pickle, sys
spec = importlib.util.spec_from_file_location("tested", sys.argv[1])
tested = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tested)
print(base64.b64encode(pickle.dumps(tested.all_results())).decode())
"""


def arrays(result):
    """The arrays of a result that is one array or a tuple with gaps."""
    items = result if isinstance(result, tuple) else (result,)
    return [np.asarray(item) for item in items if item is not None]


@pytest.fixture
def same_on_any_thread_count(request):
    """The arrays of the test module's all_results() have the same bits on 1, 2 and 3 threads."""

    def check():
        threads.set_num_threads(1)
        expected = request.module.all_results()
        for n in (2, 3):
            threads.set_num_threads(n)
            for name, result in request.module.all_results().items():
                for a, b in zip(arrays(result), arrays(expected[name]), strict=True):
                    assert a.tobytes() == b.tobytes(), f"{name}: {n} threads give other bits than 1"

    return check


@pytest.fixture
def same_on_any_isa(request, python):
    """The test module's all_results() with the baseline and with the AVX2 kernels agree."""

    def check(rtol=1e-5, atol=1e-5):
        path = Path(request.module.__file__)
        baseline, avx2 = (
            pickle.loads(base64.b64decode(python(RUN, path, env={"MINIDL_ISA": isa})))
            for isa in ("baseline", "avx2")
        )
        assert baseline, "no results to compare"
        for name, expected in baseline.items():
            for a, b in zip(arrays(avx2[name]), arrays(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=name)

    return check
