"""Metal through PyObjC: the GPU of a Mac.

Launches are written into one open command buffer, which the GPU gets when values are read, when
somebody synchronizes, or when it has become long. Buffers are in storage that CPU and GPU share, so
reading and writing values is a NumPy copy once the GPU is done. What is written while work is
queued goes through a staging buffer, in its place in the queue.

PyObjC up to 12.2.2 never releases what a method called new... returns. So those methods are called
for segments of the pool and when a kernel is first used, never in a step that repeats itself.
"""

import sys
from typing import Any

import numpy as np

from minidl_kernels.device.interface import Device
from minidl_kernels.metal.products import Products

__all__ = ["MetalDevice", "open_device"]

_LONGEST = 512  # launches in a command buffer: a GPU that waits for more stands idle
_STAGING = 4 << 20


class Segment:
    """A buffer and its bytes as a NumPy array."""

    __slots__ = ("buffer", "view")

    def __init__(self, buffer: Any, nbytes: int):
        self.buffer = buffer
        self.view = np.frombuffer(buffer.contents().as_buffer(nbytes), np.uint8)


class MetalDevice(Device):
    """A GPU, a queue, and the command buffer that launches are being written into."""

    target = "metal"

    def __init__(self, metal, shaders, objc, device):
        self._metal, self._device = metal, device
        self._pool_of_objects = objc.autorelease_pool
        self._queue = device.newCommandQueue()
        self._commands = self._encoder = None
        self._written = 0  # launches in the open command buffer
        self._sent = []  # command buffers that the GPU has been given, oldest first
        self._libraries = {}
        self._products = Products(shaders, device)
        self._options = _compile_options(metal)
        self.name = "metal"
        self.description = f"{device.name()} (Metal)"
        super().__init__()
        self._nothing = self.alloc(16)  # stands for arrays that are not read
        self._staging, self._staged = self.alloc(_STAGING), 0

    # ------------------------------------------------------------------------------ memory

    def alloc(self, nbytes):
        shared = self._metal.MTLResourceStorageModeShared
        buffer = self._device.newBufferWithLength_options_(nbytes, shared)
        if buffer is None:
            raise MemoryError(f"{self.description} has no {nbytes} bytes left; use smaller "
                              "batches, or free tensors that are not needed")
        return Segment(buffer, nbytes)

    def free(self, segment):
        self._finish()
        self._products.forget_matrices()
        # gives the memory back even where PyObjC keeps the object for ever
        segment.buffer.setPurgeableState_(self._metal.MTLPurgeableStateEmpty)

    def upload(self, x, values):
        raw, at = values.reshape(-1).view(np.uint8), x.offset * x.itemsize
        if self._commands is None and not self._sent:
            x.block.segment.view[at:at + raw.size] = raw
        elif raw.size % 4 or at % 4 or self._staged + raw.size > _STAGING:
            self._finish()  # the queue copies words only
            x.block.segment.view[at:at + raw.size] = raw
        else:
            self._staging.view[self._staged:self._staged + raw.size] = raw
            with self._pool_of_objects():
                self._end_encoder()
                blit = self._open().blitCommandEncoder()
                blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
                    self._staging.buffer, self._staged, x.block.segment.buffer, at, raw.size)
                blit.endEncoding()
            self._staged += raw.size

    def download(self, values, x):
        self._finish()
        at = x.offset * x.itemsize
        raw = values.reshape(-1).view(np.uint8)
        raw[:] = x.block.segment.view[at:at + raw.size]

    # --------------------------------------------------------------------- command buffers

    def _open(self):
        """The open command buffer."""
        if self._commands is None:
            self._commands = self._queue.commandBuffer()
        return self._commands

    def _compute(self):
        """The encoder that launches are written with.

        Python's hold on Metal's objects is what keeps them; the pool takes back Metal's own.
        """
        if self._encoder is None:
            with self._pool_of_objects():
                self._encoder = self._open().computeCommandEncoder()
        return self._encoder

    def _end_encoder(self):
        """Copies and matrix products bring encoders of their own; one may be open at a time."""
        if self._encoder is not None:
            self._encoder.endEncoding()
            self._encoder = None

    def _launched(self):
        self._written += 1
        if self._written == _LONGEST:
            self._commit()

    def _commit(self):
        """Give the open command buffer to the GPU, and forget those that it has done."""
        with self._pool_of_objects():
            self._end_encoder()
            self._commands.commit()
            self._sent.append(self._commands)
            self._commands, self._written = None, 0
            done = self._metal.MTLCommandBufferStatusCompleted
            while self._sent and self._sent[0].status() >= done:
                self._check_done(self._sent.pop(0))

    def _finish(self):
        """Wait for everything written so far."""
        if self._commands is not None:
            self._commit()
        sent, self._sent, self._staged = self._sent, [], 0
        if sent:
            with self._pool_of_objects():
                sent[-1].waitUntilCompleted()
                for commands in sent:
                    self._check_done(commands)

    def _check_done(self, commands):
        if commands.status() == self._metal.MTLCommandBufferStatusError:
            raise RuntimeError(f"{self.description} failed: "
                               f"{commands.error().localizedDescription()}")

    def synchronize(self):
        self._finish()
        self.check()

    # --------------------------------------------------------------------------- launching

    def compile(self, text, name, signature):
        if text not in self._libraries:
            library, error = self._device.newLibraryWithSource_options_error_(
                text, self._options, None)
            if library is None:
                raise RuntimeError(f"Metal does not compile the kernel {name}: "
                                   f"{error.localizedDescription()}")
            self._libraries[text] = library
        function = self._libraries[text].newFunctionWithName_(f"k_{name}")
        pipeline, error = self._device.newComputePipelineStateWithFunction_error_(function, None)
        if pipeline is None:
            raise RuntimeError(f"Metal does not take the kernel {name}: "
                               f"{error.localizedDescription()}")
        most, together = pipeline.maxTotalThreadsPerThreadgroup(), pipeline.threadExecutionWidth()
        if most < signature.threads or together % 32:
            raise RuntimeError(
                f"the kernel {name} needs {signature.threads} threads, 32 of them together; "
                f"{self.description} runs {most}, {together} together; use the CPU")
        return pipeline

    def run(self, function, grid, threads, args):
        encoder = self._encoder or self._compute()
        encoder.setComputePipelineState_(function)
        for i, a in enumerate(args):
            if type(a) is bytes:
                encoder.setBytes_length_atIndex_(a, len(a), i)
            elif a is None:
                encoder.setBuffer_offset_atIndex_(self._nothing.buffer, 0, i)
            else:
                encoder.setBuffer_offset_atIndex_(a.block.segment.buffer, a.offset * a.itemsize, i)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(grid, (threads, 1, 1))
        self._launched()

    def gemm(self, a, b, c, sizes, strides, batch, alpha=1.0, beta=0.0, bias=None):
        """By Metal Performance Shaders where the matrices lie as those take them, else our own."""
        plan = self._products.plan((a, b, c), sizes, strides, batch)
        if plan is None or (bias is not None and beta != 0.0):
            super().gemm(a, b, c, sizes, strides, batch, alpha, beta, bias)
            return
        if bias is not None:  # these products add none: put it into c, add the product to that
            self.backend.assign(c, bias)
            beta = 1.0
        self.launches += 1
        with self._pool_of_objects():
            self._end_encoder()
            self._products.encode(self._open(), plan, sizes, alpha, beta)
        self._launched()


def _compile_options(metal):
    """Without fast math: the formulas of scalar_math.h rely on the order of operations."""
    options = metal.MTLCompileOptions.alloc().init()
    options.setLanguageVersion_(metal.MTLLanguageVersion2_4)
    if hasattr(options, "setMathMode_"):  # macOS 15
        options.setMathMode_(metal.MTLMathModeSafe)
    else:
        options.setFastMathEnabled_(False)
    return options


def open_device():
    """The default GPU of a Mac."""
    try:
        import Metal
        import MetalPerformanceShaders
        import objc
    except ImportError as error:
        where = "" if sys.platform == "darwin" else f", and macOS: this is {sys.platform}"
        raise ImportError("the device 'metal' needs PyObjC: pip install 'minidl[metal]'"
                          f"{where} ({error})") from None
    device = Metal.MTLCreateSystemDefaultDevice()
    if device is None:
        raise RuntimeError("no Metal device was found; virtual machines often have none")
    return MetalDevice(Metal, MetalPerformanceShaders, objc, device)
