"""A stand-in for PyObjC's Metal: what minidl uses of it, stricter than the original.

Nothing runs before a command buffer is committed and somebody waits for it, so a forgotten wait
shows as stale values. Fresh memory holds NaN. What Metal's own validation reports is raised as
Misuse at the call: unbound or badly sized arguments, encoders left open, offsets past the end.
What a kernel does wrong is found by the engine and comes back as the command buffer's error.
"""

import ctypes
import mmap

import numpy as np

from . import objc
from .selectors import CONSTANTS, Misuse, Object, counts
from .translate import Refused, engine, translate

__all__ = ["Buffer", "CommandBuffer", "MTLCompileOptions", "MTLCreateSystemDefaultDevice"]

globals().update({name: value for name, value in CONSTANTS.items() if name.startswith("MTL")})
_COMPLETED, _ERROR, _COMMITTED = 4, 5, 2
_THREADS, _THREADGROUP_BYTES, _INLINE_BYTES, _IN_FLIGHT = 1024, 32768, 4096, 64


def MTLCreateSystemDefaultDevice():
    return Device()


class Error(Object):
    def __init__(self, text):
        self._text = text

    def localizedDescription(self):
        return self._text


class _CompileOptions(Object):
    _safe = False  # fast math is the default

    def init(self):
        return self

    def setLanguageVersion_(self, version):
        self._version = version

    def setMathMode_(self, mode):
        self._safe = mode == CONSTANTS["MTLMathModeSafe"]

    def setFastMathEnabled_(self, fast):
        self._safe = not fast


MTLCompileOptions = objc.Class(_CompileOptions)


class Buffer(Object):
    """Bytes, and the engine's record of who touched them."""

    def __init__(self, nbytes):
        self._bytes = mmap.mmap(-1, nbytes)
        self._array = np.frombuffer(self._bytes, np.uint8)
        self._array[:] = 0xff
        self._at, self._nbytes = self._array.ctypes.data, nbytes
        self._words = engine().words(nbytes)
        self._empty = False

    def __del__(self):
        engine().forget(self._words, self._nbytes)

    def length(self):
        return self._nbytes

    def contents(self):
        return objc.varlist(self._array)

    def setPurgeableState_(self, state):
        self._empty = state == CONSTANTS["MTLPurgeableStateEmpty"]
        return 2

    def _from(self, offset, nbytes, what):
        """Refuse a part that is not in the buffer."""
        if self._empty:
            raise Misuse(f"{what}: the buffer's memory was given back")
        if offset + nbytes > self._nbytes:
            raise Misuse(f"{what}: {nbytes} bytes at {offset} of a buffer of {self._nbytes}")
        return self._array[offset:offset + nbytes]


class Device(Object):
    def name(self):
        return "emulated GPU"

    def newCommandQueue(self):
        return Queue()

    def newBufferWithLength_options_(self, nbytes, options):
        if options != CONSTANTS["MTLResourceStorageModeShared"]:
            raise Misuse("the stand-in has shared storage only")
        return Buffer(nbytes) if 0 < nbytes <= 4 << 30 else None

    def newLibraryWithSource_options_error_(self, text, options, _):
        if options is None or not options._safe:
            raise Misuse("Metal compiles with fast math unless it is told not to")
        try:
            return Library(translate(text)), None
        except Refused as reason:
            return None, Error(str(reason))

    def newComputePipelineStateWithFunction_error_(self, function, _):
        if function is None:
            raise Misuse("a pipeline of a function that is not in the library")
        used = sum(size for *_, size in function._kernel.arrays)
        if used > _THREADGROUP_BYTES:
            return None, Error(f"threadgroup memory of {used} bytes, there are "
                               f"{_THREADGROUP_BYTES}")
        return Pipeline(function._kernel), None


class Library(Object):
    def __init__(self, kernels):
        self._kernels = kernels

    def newFunctionWithName_(self, name):
        return Function(self._kernels[name]) if name in self._kernels else None


class Function(Object):
    def __init__(self, kernel):
        self._kernel = kernel


class Pipeline(Object):
    def __init__(self, kernel):
        self._kernel = kernel
        self._arrays = [(name.encode(), at, size, engine().words(size))
                        for name, at, size in kernel.arrays]

    def maxTotalThreadsPerThreadgroup(self):
        return _THREADS

    def threadExecutionWidth(self):
        return 32


class Queue(Object):
    def __init__(self):
        self._waiting = []

    def commandBuffer(self):
        objc.autoreleased()
        if len(self._waiting) == _IN_FLIGHT:  # Metal waits here until one is done
            self._waiting.pop(0)._run()
        return CommandBuffer(self)


class CommandBuffer(Object):
    def __init__(self, queue):
        self._queue, self._work, self._encoder = queue, [], None
        self._status, self._error = CONSTANTS["MTLCommandBufferStatusNotEnqueued"], None

    def computeCommandEncoder(self):
        return self._encode(ComputeEncoder)

    def blitCommandEncoder(self):
        return self._encode(BlitEncoder)

    def _encode(self, kind):
        objc.autoreleased()
        self._writable()
        self._encoder = kind(self)
        return self._encoder

    def _writable(self):
        if self._encoder is not None:
            raise Misuse("the command buffer has an open encoder; endEncoding comes first")
        if self._status:
            raise Misuse("the command buffer was committed")

    def commit(self):
        self._writable()
        self._status = _COMMITTED
        self._queue._waiting.append(self)
        counts["commits"] += 1

    def waitUntilCompleted(self):
        if not self._status:
            raise Misuse("waiting for a command buffer that was not committed")
        counts["waits"] += 1
        while self._status == _COMMITTED:
            self._queue._waiting.pop(0)._run()

    def status(self):
        return self._status

    def error(self):
        return self._error

    def _run(self):
        self._status = _COMPLETED
        for work in self._work:
            reason = work()
            if reason:
                self._status, self._error = _ERROR, Error(reason)
                return


class Encoder(Object):
    def __init__(self, commands):
        self._commands = commands

    def endEncoding(self):
        self._open()
        self._commands._encoder = None

    def _open(self):
        if self._commands._encoder is not self:
            raise Misuse("the encoder has ended")


class BlitEncoder(Encoder):
    def copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(self, a, at, b, to, nbytes):
        self._open()
        if at % 4 or to % 4 or nbytes % 4:
            raise Misuse("macOS copies whole words between buffers")
        source, target = a._from(at, nbytes, "copy from"), b._from(to, nbytes, "copy to")

        def copy():
            target[:] = source

        self._commands._work.append(copy)


class ComputeEncoder(Encoder):
    def __init__(self, commands):
        super().__init__(commands)
        self._pipeline, self._bound = None, {}

    def setComputePipelineState_(self, pipeline):
        self._open()
        self._pipeline = pipeline

    def setBuffer_offset_atIndex_(self, buffer, offset, index):
        self._open()
        buffer._from(offset, 1, f"buffer({index})")
        self._bound[index] = buffer, offset

    def setBytes_length_atIndex_(self, values, nbytes, index):
        self._open()
        if nbytes > _INLINE_BYTES:
            raise Misuse(f"setBytes takes at most {_INLINE_BYTES} bytes, got {nbytes}")
        self._bound[index] = bytes(values), 0

    def dispatchThreadgroups_threadsPerThreadgroup_(self, grid, threads):
        self._open()
        if self._pipeline is None:
            raise Misuse("a dispatch without a pipeline")
        if threads[1:] != (1, 1) or not 0 < threads[0] <= _THREADS:
            raise Misuse(f"the stand-in runs 1 to {_THREADS} threads in a row, not {threads}")
        if min(grid) < 1:
            raise Misuse(f"a grid of {grid} threadgroups")
        launch = Launch(self._pipeline, self._bound, grid, threads[0])
        self._commands._work.append(launch.run)
        counts["launches"] += 1


class _Region(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("begin", ctypes.c_size_t), ("end", ctypes.c_size_t),
                ("unchecked_begin", ctypes.c_size_t), ("unchecked_end", ctypes.c_size_t),
                ("words", ctypes.c_void_p), ("threadgroup", ctypes.c_uint32))


class Launch:
    """A dispatch with its arguments as they were when it was encoded."""

    def __init__(self, pipeline, bound, grid, threads):
        self._kernel, self._grid, self._threads = pipeline._kernel, grid, threads
        self._values = (ctypes.c_uint64 * 31)()
        self._kept, regions = [], {}
        for p in self._kernel.parameters:
            if p.index not in bound:
                raise Misuse(f"{self._kernel.name}: nothing at buffer({p.index}), {p.name}")
            value, offset = bound[p.index]
            self._kept.append(value)
            if isinstance(value, bytes):
                self._values[p.index] = self._inline(p, value, regions)
            else:
                self._values[p.index] = self._array(p, value, offset, regions)
        regions = [*regions.values(), *[_Region(name, at, at + size, 0, 0, words, 1)
                                        for name, at, size, words in pipeline._arrays]]
        self._regions = (_Region * len(regions))(*regions)

    def _inline(self, p, value, regions):
        if p.pointer or len(value) != p.size:
            raise Misuse(f"{self._kernel.name}: {len(value)} bytes for {p.name}, which is "
                         + ("an array" if p.pointer else f"{p.size} bytes"))
        copied = ctypes.create_string_buffer(value, len(value))
        self._kept.append(copied)
        at = ctypes.addressof(copied)
        regions[p.index] = _Region(p.name.encode(), at, at + len(value), 0, 0, None, 0)
        return at

    def _array(self, p, buffer, offset, regions):
        if not p.pointer:
            raise Misuse(f"{self._kernel.name}: a buffer for {p.name}, which is a value")
        if offset % p.size:
            raise Misuse(f"{self._kernel.name}: {p.name} starts at byte {offset}, elements have "
                         f"{p.size}")
        begin = buffer._at
        region = regions.setdefault(begin, _Region(
            f"buffer({p.index})".encode(), begin, begin + buffer._nbytes, 0, 0, buffer._words, 0))
        if p.name == "fault":  # threads may note their errors at the same time, one of them stays
            region.unchecked_begin, region.unchecked_end = begin + offset, begin + offset + 24
        return begin + offset

    def run(self):
        """None, or what went wrong."""
        failed = engine().launch(
            ctypes.c_void_p(self._kernel.entry), self._values, (ctypes.c_uint32 * 3)(*self._grid),
            ctypes.c_uint32(self._threads), self._regions, ctypes.c_uint32(len(self._regions)))
        return f"{self._kernel.name}, {engine().error().decode()}" if failed else None
