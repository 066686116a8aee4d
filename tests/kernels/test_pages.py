"""Column and row sums over the pages of a file."""

import numpy as np
import pytest

from minidl_kernels.cpu.pages import page_sums


def expected(data):
    """The same in NumPy."""
    words = np.frombuffer(data[: len(data) // 4096 * 4096], "<u8").reshape(-1, 512)
    return words.sum(0, np.uint64), words.sum(1, np.uint64)


def all_results():
    data = np.random.default_rng(0).bytes(11 * 4096 + 5)
    return {str(size): page_sums(data[:size]) for size in (0, 4095, 4096, 7 * 4096, len(data))}


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_sums(rows, shift):
    data = np.random.default_rng(rows).bytes(shift + rows * 4096 + 9)
    found = page_sums(memoryview(data)[shift:])
    for sums, wanted in zip(found, expected(data[shift:]), strict=True):
        assert (sums == wanted).all()


def test_same_results_on_any_instruction_set(same_on_any_isa):
    same_on_any_isa(rtol=0, atol=0)
