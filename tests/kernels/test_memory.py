"""The caching allocator: alignment, reuse, statistics, what it refuses, no leak."""

import gc
import os
import threading
import tracemalloc

import numpy as np
import pytest

from minidl_kernels import cpu
from minidl_kernels.cpu import memory
from minidl_kernels.cpu.memory import empty_array, empty_cache, memory_stats, reset_peak_memory

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool",
          "complex64", ">f4"]
SHAPES = [(), (0,), (1,), (7,), (3, 0, 5), (33, 7), (1000,), (17, 1, 129), (1 << 20,), (1, 1 << 21)]


@pytest.fixture(autouse=True)
def empty_before():
    gc.collect()
    empty_cache()


def address(x):
    return x.__array_interface__["data"][0]


# ------------------------------------------------------------------------------------- the arrays

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_are_aligned_contiguous_and_writable(dtype, shape):
    x = empty_array(shape, dtype)
    assert x.shape == shape
    assert x.dtype == np.dtype(dtype)
    assert address(x) % 64 == 0
    assert x.flags.c_contiguous and x.flags.aligned and x.flags.writeable
    x[...] = 1
    assert (x == 1).all()


def test_extension_dtypes_are_aligned_too():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for shape in SHAPES:
        x = empty_array(shape, ml_dtypes.bfloat16)
        assert x.shape == shape and x.dtype == ml_dtypes.bfloat16
        assert address(x) % 64 == 0
        x[...] = 1
        assert (x == 1).all()


def test_a_shape_may_be_a_number_or_a_list():
    assert empty_array(5).shape == (5,)
    assert empty_array([2, 3]).shape == (2, 3)
    assert empty_array(np.zeros((4, 2)).shape).shape == (4, 2)


def test_live_arrays_never_overlap():
    rng = np.random.default_rng(0)
    live = []
    for i in range(2000):
        x = empty_array(int(rng.integers(1, 5000)), "uint8")
        x[:] = i % 251
        live.append((i % 251, x))
        if len(live) > 40:
            value, y = live.pop(int(rng.integers(len(live))))
            assert (y == value).all()
    assert all((y == value).all() for value, y in live)


def test_results_of_kernels_are_aligned():
    x = np.ones((33, 7), np.float32)
    for y in (cpu.matmul(x, x.T), cpu.linear(x, x, None), cpu.linear_grad_weight(x, x)):
        assert address(y) % 64 == 0


# -------------------------------------------------------------------------- reuse and statistics

def test_a_freed_block_is_handed_out_again():
    x = empty_array(1000)
    where = address(x)
    del x
    assert address(empty_array(1000)) == where
    assert address(empty_array(990)) == where       # the same size class


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_large_arrays_come_back_to_their_places(order):
    empty_cache()
    arrays = [empty_array(9 << 20, "uint8") for _ in range(3)]
    places = sorted(map(address, arrays))
    for i in order:
        arrays[i] = None
    again = [empty_array(9 << 20, "uint8") for _ in range(3)]
    assert list(map(address, again)) == places


def test_a_small_array_takes_the_place_of_the_last_freed():
    empty_cache()
    arrays = [empty_array(9 << 10, "uint8") for _ in range(3)]
    places = list(map(address, arrays))
    for i in (1, 2, 0):
        arrays[i] = None
    again = [empty_array(9 << 10, "uint8") for _ in range(3)]
    assert list(map(address, again)) == [places[i] for i in (0, 2, 1)]


def test_a_block_lives_as_long_as_a_view_of_it():
    x = empty_array((100, 100))
    x[:] = 3
    view = x[10:20, ::2].T
    where = address(x)
    del x
    y = empty_array((100, 100))
    assert address(y) != where
    y[:] = 4
    assert (view == 3).all()


def test_statistics_count_bytes():
    before = memory_stats()
    x = empty_array(1 << 20)
    during = memory_stats()
    assert during["in_use_bytes"] - before["in_use_bytes"] >= 4 << 20
    assert during["os_allocations"] == before["os_allocations"] + 1
    assert during["peak_bytes"] >= during["in_use_bytes"]
    del x
    after = memory_stats()
    assert after["in_use_bytes"] == before["in_use_bytes"]
    assert after["cached_bytes"] - before["cached_bytes"] >= 4 << 20
    again = empty_array(1 << 20)
    assert again.nbytes == 4 << 20
    assert memory_stats()["cache_hits"] == after["cache_hits"] + 1
    assert memory_stats()["os_allocations"] == after["os_allocations"]


def test_a_block_wastes_at_most_a_fifth():
    for nbytes in [1, 64, 65, 100, 127, 128, 129, 1000, 4096, 5000, 12345, 1 << 20, (1 << 20) + 1]:
        before = memory_stats()["in_use_bytes"]
        x = empty_array(nbytes, "uint8")
        used = memory_stats()["in_use_bytes"] - before
        assert nbytes <= used
        assert used <= max(64, nbytes * 1.25)
        del x


def test_repeated_work_asks_the_system_for_nothing():
    a = np.ones((65, 129), np.float32)
    b = np.ones((129, 33), np.float32)

    def step():
        h = cpu.matmul(a, b)
        return cpu.matmul(h.T, cpu.linear(h, b.T[:, :33].copy(), None))

    for _ in range(3):
        step()
    before = memory_stats()
    for _ in range(200):
        step()
    after = memory_stats()
    assert after["os_allocations"] == before["os_allocations"]
    assert after["os_frees"] == before["os_frees"]
    assert after["in_use_bytes"] == before["in_use_bytes"]
    assert after["cached_bytes"] == before["cached_bytes"]
    assert after["cache_hits"] >= before["cache_hits"] + 600


def test_the_cache_does_not_grow_without_bound():
    """Ever new sizes, one at a time: what is cached stays near what was in use."""
    reset_peak_memory()
    for i in range(60):
        empty_array((1 << 22) + i * 300_000)        # 16 to 87 MB, never two at once
    stats = memory_stats()
    assert stats["cached_bytes"] + stats["in_use_bytes"] < 2 * stats["peak_bytes"] + (64 << 20)


def test_empty_cache_gives_everything_back():
    kept = empty_array(5000)
    kept[:] = 7
    blocks = [empty_array(n) for n in (10, 1000, 100_000)]
    del blocks
    before = memory_stats()
    assert before["cached_bytes"] > 0
    empty_cache()
    after = memory_stats()
    assert after["cached_bytes"] == 0
    assert after["os_frees"] == before["os_frees"] + 3
    assert after["in_use_bytes"] == before["in_use_bytes"]
    assert (kept == 7).all()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
def test_blocks_that_share_a_slab_give_their_memory_back(python):
    """Blocks of 64 KB to 2 MB are cut from slabs: what one holds stays, what it does not goes."""
    python("""
import os
from minidl_kernels.cpu.memory import empty_array, empty_cache

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def fill(values):
    arrays = [empty_array(size, "uint8") for size in [70_000, 500_000, 1_500_000, 2_000_000] * 30]
    for x, value in zip(arrays, values):
        x[:] = value
    return arrays

before = resident()
arrays = fill(range(120))
assert resident() - before > 100 << 20
kept = arrays[::7]
del arrays
empty_cache()
# a kept block may hold a huge page or two
assert resident() - before < sum(x.size for x in kept) + len(kept) * (4 << 20)
again = fill([255] * 120)
assert all((x == 7 * i).all() for i, x in enumerate(kept))
assert all((x == 255).all() for x in again)
""")


def test_reset_peak_memory():
    empty_array(1 << 20)
    reset_peak_memory()
    stats = memory_stats()
    assert stats["peak_bytes"] == stats["in_use_bytes"]


def test_every_byte_comes_back_from_python_threads():
    before = memory_stats()["in_use_bytes"]

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(500):
            x = empty_array(int(rng.integers(1, 3000)))
            x[:] = seed
            assert (x == seed).all()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert memory_stats()["in_use_bytes"] == before


def test_no_python_object_leaks():
    a = np.ones((9, 9), np.float32)

    def work():
        for _ in range(300):
            cpu.matmul(a, a)
            for bad in ((a, None), (a, a[:5]), (a.astype(float), a)):
                with pytest.raises((TypeError, ValueError)):
                    cpu.matmul(*bad)

    work()
    in_use = memory_stats()["in_use_bytes"]
    tracemalloc.start()
    try:
        levels = []
        for _ in range(6):              # the interpreter's own caches grow in some, a leak in all
            work()
            gc.collect()
            levels.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert memory_stats()["in_use_bytes"] == in_use
    assert min(np.diff(levels)) < 10_000                # 300 leaked arrays would be 30,000 or more


# --------------------------------------------------------------------------------------- refusals

@pytest.mark.parametrize("shape", [(1 << 50,), (1 << 40, 1 << 40), (1 << 62, 2), (3, 1 << 61)])
def test_absurd_sizes_are_a_memory_error_with_a_sentence(shape):
    before = memory_stats()["in_use_bytes"]
    with pytest.raises(MemoryError, match="cannot allocate"):
        empty_array(shape)
    assert memory_stats()["in_use_bytes"] == before
    assert empty_array(3).shape == (3,)


def test_a_number_beyond_64_bits_is_refused():
    with pytest.raises(OverflowError):
        empty_array(1 << 70)


def test_negative_sizes_are_refused():
    with pytest.raises(ValueError, match=r"negative dimensions .*: got shape \(2, -1\)"):
        empty_array((2, -1))
    with pytest.raises(ValueError, match="negative"):
        empty_array((0, -5))


def test_too_many_dimensions_are_refused():
    assert empty_array((1,) * 64).ndim == 64
    with pytest.raises(ValueError, match="at most 64 dimensions are possible, got 65"):
        empty_array((1,) * 65)


@pytest.mark.parametrize("dtype", [object, "U", [("a", "f4"), ("b", "O")]])
def test_dtypes_that_hold_pointers_are_refused(dtype):
    with pytest.raises(TypeError, match="no arrays of dtype"):
        empty_array(3, dtype)


@pytest.mark.parametrize("shape", [None, 2.5, "ab", (2, "x"), (1.5,), {3: 4}])
def test_what_is_no_shape_is_refused(shape):
    with pytest.raises((TypeError, KeyError)):
        empty_array(shape)


def test_blocks_are_not_made_by_hand():
    """A Block that never got memory dies quietly."""
    block = memory.Block()
    assert block.nbytes == 0
    del block
