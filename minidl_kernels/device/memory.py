"""The memory of a device: large segments cut into blocks of a few sizes, which are used again.

A block goes back to its pool when the last array over it is gone. Work on a device runs in order,
so whoever gets it next writes after the last reader. A training step that repeats itself finds all
its blocks in the pool and asks the device for nothing; as the lowest idle block is taken first, it
even finds the same ones, and tables of addresses stay valid.
"""

import heapq
from typing import Any

__all__ = ["Block", "Pool"]

_SMALLEST = 512
_SEGMENT = 32 << 20


def bucket(nbytes: int) -> int:
    """The size of the block for nbytes: a power of two, or a quarter, half, three quarters more.

    >>> [bucket(n) for n in (0, 513, 641, 1 << 20)]
    [512, 640, 768, 1048576]
    """
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = 1 << max(nbytes - 1, 1).bit_length() - 3
    return -(-nbytes // step) * step


class Block:
    """Bytes `offset` to `offset + nbytes` of a segment; returned to the pool when unused."""

    __slots__ = ("__weakref__", "epoch", "nbytes", "number", "offset", "pool", "segment", "writer")

    def __init__(self, pool: "Pool", number: int, segment: Any, offset: int, nbytes: int):
        self.pool, self.number, self.segment = pool, number, segment
        self.offset, self.nbytes = offset, nbytes
        self.epoch, self.writer = 0, None  # of the last write in place, for the tape

    def __del__(self):
        self.pool.give(self.number, self.offset, self.nbytes)


class Pool:
    """Blocks of a device's memory. alloc(nbytes) makes a segment of the device's own kind."""

    def __init__(self, alloc, free):
        self._alloc, self._free = alloc, free
        self._idle: dict[int, list[tuple[int, int]]] = {}  # size -> heap of (segment, offset)
        self._segments: list[tuple[Any, int]] = []
        self._open: tuple[int, int, int] | None = None  # segment, first unused byte, its end
        self.segments = self.requests = self.in_use = self.peak = 0

    def take(self, nbytes: int) -> Block:
        """A block of at least nbytes."""
        size = bucket(nbytes)
        idle = self._idle.get(size)
        number, offset = heapq.heappop(idle) if idle else self._cut(size)
        self.requests += 1
        self.in_use += size
        self.peak = max(self.peak, self.in_use)
        return Block(self, number, self._segments[number][0], offset, size)

    def give(self, number: int, offset: int, size: int) -> None:
        """Take a block back."""
        self.in_use -= size
        heapq.heappush(self._idle.setdefault(size, []), (number, offset))

    def _cut(self, size: int) -> tuple[int, int]:
        """A new block from the open segment, or from a new one."""
        if self._open is None or self._open[1] + size > self._open[2]:
            total = max(size, _SEGMENT)
            self._segments.append((self._alloc(total), total))
            number = len(self._segments) - 1
            self.segments += 1
            if total == size:
                return number, 0
            self._open = number, 0, total
        number, offset, end = self._open
        # a block of 640 bytes must not move the next one off its alignment
        self._open = number, offset + -(-size // _SMALLEST) * _SMALLEST, end
        return number, offset

    def empty(self) -> None:
        """Give every segment back to the device when no block is in use, else nothing."""
        if self.in_use:
            return
        for segment, _ in self._segments:
            self._free(segment)
        self._segments.clear()
        self._idle.clear()
        self._open, self.segments = None, 0

    def stats(self) -> dict[str, int]:
        """Bytes in use now and at most, bytes reserved, and how often memory was asked for."""
        return {"allocated": self.in_use, "peak": self.peak,
                "reserved": sum(total for _, total in self._segments), "requests": self.requests,
                "segments": self.segments}
