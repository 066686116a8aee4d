"""Control of the stand-in driver from Python: load it before pycuda, count, shuffle, mark.

    emulator = emulated.start()         # before pycuda.driver is first imported
    with emulator.counting() as n: ...  # n.launches, n.allocations, n.waits, ...
"""

import ctypes
import importlib.util
import zlib
from contextlib import contextmanager
from types import SimpleNamespace

import ptx
import pytest
import toolchain

__all__ = ["Emulator", "backend", "start"]

COUNTERS = ("launches", "products", "allocations", "frees", "uploads", "downloads", "waits",
            "modules", "default_stream")
NOBODYS, FRESH, WRITTEN, RACY = range(4)
_started = []


def start():
    """The emulator of this process; pycuda and ctypes find its libraries from now on.

    A test that asks for it is skipped where it cannot be had.
    """
    if toolchain.missing():
        pytest.skip(f"CUDA cannot be emulated: {toolchain.missing()}")
    if importlib.util.find_spec("pycuda") is None:
        pytest.skip("needs pycuda: python tests/emulation/cuda/toolchain.py install")
    if not _started:
        _started.append(Emulator(toolchain.libraries()))
    return _started[0]


def backend():
    """minidl_kernels.cuda on a GPU where there is a driver, else emulated and watched."""
    if not _started:
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            start()
    from minidl_kernels import cuda

    if _started and not hasattr(cuda.device, "watched"):
        _started[0].watch(cuda.device)
        cuda.device.watched = True
    return cuda


def shuffle(name):
    """From now on threads take turns in an order that belongs to this name."""
    if _started:
        _started[0].seed(1 + zlib.crc32(name.encode()))


def recover():
    """Go on after what ends a process that has a GPU."""
    if _started:
        _started[0].forget()


class Emulator:
    """The functions emu_* of driver.cpp."""

    def __init__(self, folder):
        # who asks for a library by its name gets the one of that name that is loaded already
        self._lib = lib = ctypes.CDLL(str(folder / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
        self.cublas = ctypes.CDLL(str(folder / "libcublas.so.13"), mode=ctypes.RTLD_GLOBAL)
        lib.emu_global.restype = ctypes.c_uint64
        lib.emu_counters.restype = ctypes.POINTER(ctypes.c_int64 * len(COUNTERS))
        self._counters = lib.emu_counters().contents
        self._call = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_char_p, ctypes.c_void_p)(self._decode)
        lib.emu_decoder(self._call)

    def _decode(self, text, module):
        """Called by cuModuleLoadDataEx; what it raises becomes the error of that call."""
        try:
            kernels = ptx.decode(text.decode(), self._place)
        except ptx.DecodeError as error:
            self._lib.emu_detail(str(error).encode())
            return False
        for k in kernels:
            constants = b"".join([place.to_bytes(4, "little") + size.to_bytes(4, "little")
                                  + value.to_bytes(8, "little") for place, size, value
                                  in k.constants])
            shared = [n for pair in k.shared for n in pair]
            numbers = [k.file_bytes, k.shared_bytes, k.param_bytes, k.threads, *k.special]
            self._lib.emu_kernel(
                ctypes.c_void_p(module), k.name.encode(), ptx.packed(k),
                ctypes.c_size_t(len(k.code)), b"\0".join([t.encode() for t in k.text]) + b"\0",
                constants, ctypes.c_size_t(len(k.constants)),
                (ctypes.c_int32 * len(shared))(*shared), ctypes.c_size_t(len(k.shared)),
                (ctypes.c_int32 * len(numbers))(*numbers))
        return True

    def _place(self, name, align, data):
        return self._lib.emu_global(None, data, ctypes.c_size_t(len(data)))

    def counters(self):
        """What happened since the start, by name."""
        return dict(zip(COUNTERS, self._counters, strict=True))

    @contextmanager
    def counting(self):
        """What happens inside the with block, in the attributes of what it gives."""
        before, counted = self.counters(), SimpleNamespace()
        yield counted
        for name, n in self.counters().items():
            setattr(counted, name, n - before[name])

    @contextmanager
    def shuffled(self, seed):
        """Blocks, warps and lanes take turns at random."""
        self.seed(seed)
        yield
        self.seed(0)

    def seed(self, value):
        """0: in order; else shuffled, the same way each time."""
        self._lib.emu_seed(ctypes.c_uint32(value))

    @contextmanager
    def capacity(self, nbytes):
        """A device with that much memory."""
        self._lib.emu_capacity(ctypes.c_size_t(nbytes))
        yield
        self._lib.emu_capacity(ctypes.c_size_t(512 << 20))

    def forget(self):
        """After an error that costs a process its context on a GPU: go on."""
        self._lib.emu_forget()

    def mark(self, stream, address, nbytes, what):
        """Say what memory is, in the order of a stream."""
        self._lib.emu_mark(ctypes.c_void_p(stream), ctypes.c_uint64(address),
                           ctypes.c_size_t(nbytes), what)

    def watch(self, device):
        """Let the emulator see the blocks of a device's pool instead of its large segments.

        From now on a block begins uninitialised and belongs to nobody after its last array; what
        it has beyond the bytes that were asked for is nobody's as well.
        """
        pool = device.pool
        take, give = pool.take, pool.give
        stream = device.stream.handle

        def watched_take(nbytes):
            block = take(nbytes)
            address = int(block.segment) + block.offset
            self.mark(stream, address, block.nbytes, NOBODYS)
            self.mark(stream, address, nbytes, FRESH)
            return block

        def watched_give(number, offset, size):
            segment, _ = pool._segments[number]
            self.mark(stream, int(segment) + offset, size, NOBODYS)
            give(number, offset, size)

        pool.take, pool.give = watched_take, watched_give
        # of several bad indices any may be the one that is reported
        fault = device.fault
        self.mark(stream, fault.block.segment + fault.block.offset, fault.nbytes, RACY)
