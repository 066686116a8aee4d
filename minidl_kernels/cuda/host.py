"""CUDA through pycuda: one GPU, its primary context, one stream.

Launches and copies to the device are queued and return at once; only download and synchronize
wait. The primary context is the one that other libraries of the process use as well.
"""

import atexit
import os
import threading

from minidl_kernels.cuda.blas import Blas, lines
from minidl_kernels.cuda.compiler import compile_ptx
from minidl_kernels.device.interface import Device

__all__ = ["CudaDevice", "open_device"]

# The alignment of a number among a kernel's arguments; structs of kernels hold 4-byte members.
_ALIGN = {"int64_t": "q", "uint64_t": "Q", "uint8_t": "B", "uint16_t": "H"}


class _Kernel:
    """A function of a module, prepared when the sizes of its arguments are first seen."""

    __slots__ = ("call", "function", "signature")

    def __init__(self, function, signature):
        self.function, self.signature, self.call = function, signature, None

    def prepare(self, values):
        self.function.prepare([
            "P" if kind != "VAL" else f"0{_ALIGN.get(type_, 'i')}{len(value)}s"
            for value, (kind, type_, _) in zip(values, self.signature.arguments, strict=True)])
        self.call = self.function.prepared_async_call


class CudaDevice(Device):
    """One GPU: a stream in order, kernels compiled on first use, products by cuBLAS."""

    target = "cuda"
    name = "cuda"

    def __init__(self, driver, gpu):
        self._driver = driver
        self._context = gpu.retain_primary_context()
        self._context.push()
        atexit.register(self._context.pop)  # pycuda ends the process with a complaint otherwise
        self._local = threading.local()
        self._local.entered = True
        self.stream = driver.Stream()
        self._blas = Blas(self.stream.handle)
        self._segments = {}
        self._modules = {}
        major, minor = gpu.compute_capability()
        self.description = f"{gpu.name()} (sm_{major}{minor})"
        # nothing in the kernels asks for more than a GPU of 2018 has
        self._architecture = f"compute_{min(10 * major + minor, 75)}"
        self.allow_tf32 = os.environ.get("MINIDL_TF32") == "1"
        super().__init__()

    @property
    def allow_tf32(self):
        """Whether products may use TF32: several times faster, three digits. Off at first."""
        return self._tf32

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        self._blas.use_tf32(allowed)
        self._tf32 = bool(allowed)

    def _enter(self):
        """Contexts belong to threads: let a thread that comes here first have ours."""
        if not hasattr(self._local, "entered"):
            # not by pycuda's push, which ends the process when a thread ends without a pop
            _set_current(self._context.handle)
            self._local.entered = True

    def _failed(self, error):
        return RuntimeError(
            f"{self.description}: {error}. A kernel's error shows at a later call; with "
            "CUDA_LAUNCH_BLOCKING=1 in the environment it shows where it was launched. If this was "
            "one, the process has to be started anew to use the device again")

    # ---------------------------------------------------------------------------- memory

    def alloc(self, nbytes):
        self._context.push()
        try:
            segment = self._driver.mem_alloc(nbytes)
        except self._driver.MemoryError:
            free, total = self._driver.mem_get_info()
            raise MemoryError(
                f"{self.description} is out of memory: {nbytes >> 20} MB more are needed, of "
                f"{total >> 20} MB {free >> 20} are free. Use a smaller batch or a shorter "
                "sequence") from None
        except self._driver.Error as error:
            raise self._failed(error) from error
        finally:
            self._context.pop()
        self._segments[int(segment)] = segment
        return int(segment)

    def free(self, segment):
        self._context.push()
        try:
            self._segments.pop(segment).free()
        finally:
            self._context.pop()

    def upload(self, x, values):
        # NumPy's memory is pageable: the driver has copied it when this returns
        self._enter()
        try:
            self._driver.memcpy_htod_async(_address(x), values, self.stream)
        except self._driver.Error as error:
            raise self._failed(error) from error

    def download(self, values, x):
        self._enter()
        try:
            self._driver.memcpy_dtoh_async(values, _address(x), self.stream)
            self.stream.synchronize()
        except self._driver.Error as error:
            raise self._failed(error) from error

    def synchronize(self):
        self._enter()
        try:
            self.stream.synchronize()
        except self._driver.Error as error:
            raise self._failed(error) from error
        self.check()

    # --------------------------------------------------------------------------- launches

    def compile(self, text, name, signature):
        self._enter()
        module = self._modules.get(text)
        if module is None:
            image = compile_ptx(text, self._architecture)
            try:
                module = self._driver.module_from_buffer(image)
            except self._driver.Error as error:
                raise RuntimeError(
                    f"{self.description} refuses the compiled kernels: {error}. The CUDA toolkit "
                    "or NVRTC may be newer than the driver: update the driver, or install an older "
                    "toolkit") from error
            self._modules[text] = module
        return _Kernel(module.get_function(f"k_{name}"), signature)

    def run(self, function, grid, threads, args):
        self._enter()
        values = [a if type(a) is bytes else 0 if a is None else _address(a) for a in args]
        if function.call is None:
            function.prepare(values)
        try:
            function.call(grid, (threads, 1, 1), self.stream, *values)
        except self._driver.Error as error:
            raise self._failed(error) from error

    def gemm(self, a, b, c, sizes, strides, batch, alpha=1.0, beta=0.0, bias=None):
        """By cuBLAS where it takes the strides, else by our own kernel."""
        m, n, k = sizes
        shapes = (m, k), (k, n), (m, n)
        forms = [lines(*shape, *s[:2]) for shape, s in zip(shapes, strides, strict=True)]
        if None in forms or forms[2][0] or not k or (bias is not None and beta):
            super().gemm(a, b, c, sizes, strides, batch, alpha, beta, bias)
            return
        self._enter()
        if bias is not None:
            row, column, outer, inner = strides[2]
            self.backend.assign(c._view((*batch, m, n), (outer, inner, row, column)), bias)
            beta = 1.0
        along = 0 if batch[1] == 1 else 1  # the batch axis that cuBLAS goes along
        for i in range(batch[1 - along]):
            self.launches += 1
            self._blas.multiply(m, n, k, alpha, *[
                (_address(x) + 4 * i * s[3 - along], *form, s[2 + along])
                for x, form, s in zip((a, b), forms, strides, strict=False)], beta,
                (_address(c) + 4 * i * strides[2][3 - along], *forms[2], strides[2][2 + along]),
                batch[along])


def _address(x):
    return x.block.segment + x.offset * x.dtype.itemsize


def _set_current(context):
    import ctypes
    import sys

    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    ctypes.CDLL(library).cuCtxSetCurrent(ctypes.c_void_p(context))


def open_device():
    """The first GPU that CUDA_VISIBLE_DEVICES leaves."""
    try:
        import pycuda.driver as driver
    except ImportError as error:
        if "libcuda" in str(error) or "nvcuda" in str(error):
            raise RuntimeError("the device 'cuda' needs an NVIDIA GPU and its driver; pycuda is "
                               f"installed, but finds no driver ({error})") from None
        raise ImportError("the device 'cuda' needs pycuda: pip install 'minidl[cuda]', which "
                          "compiles it and needs the CUDA toolkit with nvcc on the PATH "
                          f"({error})") from None
    try:
        driver.init()
        count = driver.Device.count()
    except driver.Error as error:
        raise RuntimeError(f"CUDA does not start: {error}. Is the driver running (nvidia-smi)?"
                           ) from None
    if not count:
        raise RuntimeError("there is no CUDA device; CUDA_VISIBLE_DEVICES is "
                           f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}")
    return CudaDevice(driver, driver.Device(0))
