"""A stand-in for PyObjC's objc: autorelease pools, classes, memory of unknown length."""

from .selectors import Misuse, counts

__all__ = ["Class", "autorelease_pool", "autoreleased", "varlist"]

_pools: list = []


class autorelease_pool:
    """Takes back what Metal's methods return; nested pools end in the order of their making."""

    def __enter__(self):
        _pools.append(self)

    def __exit__(self, *_):
        if not _pools or _pools.pop() is not self:
            raise Misuse("autorelease pools end in another order than they began")


def autoreleased():
    """An autoreleased object is made: without a pool it is never taken back."""
    if not _pools:
        counts["leaked"] += 1


class varlist:
    """Memory whose length PyObjC does not know."""

    def __init__(self, array):
        self._array = array

    def as_buffer(self, nbytes):
        if nbytes > self._array.size:
            raise Misuse(f"{nbytes} bytes of a buffer that has {self._array.size}")
        return memoryview(self._array)[:nbytes]


class Class:
    """An Objective-C class: Class.alloc().init...() makes an object, other calls are its own."""

    def __init__(self, kind):
        self._kind = kind

    def alloc(self):
        counts["alloc"] += 1
        return self._kind()

    def __getattr__(self, name):
        return getattr(self._kind, name)
