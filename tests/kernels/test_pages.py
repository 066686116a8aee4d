"""Column and row sums over the pages of a file."""

import numpy as np
import pytest

from minidl_kernels.cpu.pages import page_sums, read_pages


def expected(data):
    """The same in NumPy."""
    whole = len(data) // 4096 * 4096
    words = np.frombuffer(data[:whole], "<u8").reshape(-1, 512)
    return words.sum(0, np.uint64), words.sum(1, np.uint64), data[whole:]


def check(found, data):
    columns, rows, rest = expected(data)
    assert (found[0] == columns).all() and (found[1] == rows).all() and found[2] == rest


def all_results():
    data = np.random.default_rng(0).bytes(11 * 4096 + 5)
    return {str(size): page_sums(data[:size])[:2] for size in (0, 4095, 4096, 7 * 4096, len(data))}


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_sums(rows, shift):
    data = np.random.default_rng(rows).bytes(shift + rows * 4096 + 9)
    check(page_sums(memoryview(data)[shift:]), data[shift:])


@pytest.mark.parametrize("sizes", [
    [0], [1], [4096], [4095, 1], [1, 4095, 4096], [10, 20, 30], [5000, 0, 3192, 9000, 7],
    [700_000, 5, 3_000_000], [4090] * 20])
def test_a_file_in_pieces(tmp_path, sizes):
    """Rows that begin in one buffer and end in another; reads that are cut into several."""
    data = np.random.default_rng(0).bytes(3 + sum(sizes))
    (tmp_path / "a").write_bytes(data)
    pieces = [bytearray(size) for size in sizes]
    with open(tmp_path / "a", "rb") as file:
        check(read_pages(file.fileno(), 3, pieces), data[3:])
        assert b"".join(pieces) == data[3:] and file.tell() == 0
        with pytest.raises(EOFError, match=f"ends at byte {len(data)}$"):
            read_pages(file.fileno(), 3, [*pieces, bytearray(1)])
    with open(tmp_path / "a", "ab") as file, pytest.raises(OSError, match="Bad file descriptor"):
        read_pages(file.fileno(), 0, [bytearray(1)])
    with open(tmp_path / "a", "rb") as file, pytest.raises(BufferError, match="not writable"):
        read_pages(file.fileno(), 0, [b"x"])


def test_a_buffer_that_is_larger_than_it_says(tmp_path):
    class Liar(bytearray):
        def __len__(self):
            return 1

    (tmp_path / "a").write_bytes(bytes(50_000))
    with open(tmp_path / "a", "rb") as file, pytest.raises(ValueError, match="larger than its le"):
        read_pages(file.fileno(), 0, [Liar(40_000)])


def test_same_results_on_any_instruction_set(same_on_any_isa):
    same_on_any_isa(rtol=0, atol=0)
