"""The emulator, and kernels of its own for the tests of it."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import emulated


@pytest.fixture(scope="session")
def be():
    """minidl_kernels.cuda on the emulator, also where there is a GPU."""
    emulated.start()
    return emulated.backend()


@pytest.fixture
def emulator(be):
    """The emulator; an error that a kernel left is forgotten after the test."""
    yield emulated.start()
    emulated.recover()


@pytest.fixture
def load(be):
    """load(CUDA C or PTX, name): a function(arrays..., threads=, blocks=) that queues a launch."""
    from minidl_kernels.cuda.compiler import compile_ptx

    def loaded(text, name):
        if ".version" not in text:
            text = compile_ptx(text, "compute_75").decode()
        function = be.device._driver.module_from_buffer(text.encode()).get_function(name)

        def call(*args, threads=32, blocks=1):
            values = [np.int32(a) if isinstance(a, int) else a.block.segment + a.block.offset
                      for a in args]
            function.prepare("".join(["i" if isinstance(a, int) else "P" for a in args]))
            function.prepared_async_call((blocks, 1, 1), (threads, 1, 1), be.device.stream, *values)

        return call

    return loaded
