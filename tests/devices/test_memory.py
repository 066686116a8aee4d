"""The pool of blocks, without a device."""

import gc
import itertools

from minidl_kernels.device.memory import Block, Pool, bucket


class Memory:
    def __init__(self):
        self.sizes, self.freed = [], []
        self.pool = Pool(self.alloc, self.freed.append)

    def alloc(self, nbytes):
        self.sizes.append(nbytes)
        return len(self.sizes) - 1


def test_buckets_waste_at_most_a_quarter():
    for n in (1, 512, 513, 1000, 1025, 12345, 1 << 20, (1 << 20) + 1):
        size = bucket(n)
        assert n <= size and (size <= 512 or size < 1.25 * n)
        assert bucket(size) == size


def test_blocks_do_not_overlap_and_are_aligned():
    pool = Memory().pool
    blocks = [pool.take(n) for n in (1, 600, 700, 5000, 512, 33333)]
    spans = sorted((b.segment, b.offset, b.offset + b.nbytes) for b in blocks)
    assert all(b.offset % 512 == 0 for b in blocks)
    for (s, _, end), (t, start, _) in itertools.pairwise(spans):
        assert s != t or end <= start


def test_a_repeated_step_asks_for_nothing():
    memory = Memory()
    sizes = (100, 4096, 70000, 70000, 40 << 20)
    for _ in range(5):
        held = [memory.pool.take(n) for n in sizes]
        assert len(memory.sizes) == 2  # one shared segment, one for what is larger
        del held
    stats = memory.pool.stats()
    assert stats["allocated"] == 0 and stats["requests"] == 25 and stats["segments"] == 2


def test_a_block_returns_when_the_last_reference_goes():
    pool = Memory().pool
    block = pool.take(1000)
    place, other = (block.segment, block.offset), block
    del block
    assert pool.in_use == 1024
    del other
    gc.collect()
    again = pool.take(1000)
    assert isinstance(again, Block) and (again.segment, again.offset) == place


def test_empty_gives_all_back_but_not_what_is_used():
    memory = Memory()
    block = memory.pool.take(1)
    memory.pool.empty()
    assert memory.freed == []
    del block
    memory.pool.empty()
    assert memory.freed == [0] and memory.pool.stats()["reserved"] == 0
    memory.pool.take(1)
    assert len(memory.sizes) == 2
