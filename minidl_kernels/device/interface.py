"""What a device must do: memory, copies, launching kernels. One small class a target derives from.

A target (opencl/host.py) gives alloc, free, upload, download, copy, compile and run. Everything
else is here: the pool of blocks, the cache of compiled kernels, matrix products by our own kernel,
and errors that kernels find in indices.
"""

import struct
from typing import Any

import numpy as np

from minidl_kernels.device.array import DeviceArray, kernel_type
from minidl_kernels.device.memory import Pool
from minidl_kernels.device.source import render

__all__ = ["Device", "FAULTS"]

LARGEST = 2**31 - 1
# Whose index a kernel found out of range, by the code it left in device.fault.
FAULTS = ("", "embedding", "embedding_grad", "index_add_rows", "cross_entropy", "gather", "scatter",
          "take_rows", "add_at", "index")
_PACK = {"int": "i", "float": "f", "int32_t": "i", "uint32_t": "I", "int64_t": "q",
         "uint64_t": "Q", "uint8_t": "B", "uint16_t": "H"}


class Device:
    """A queue of work in order on one device, and its memory."""

    target = ""
    name = ""
    backend: Any = None

    def __init__(self):
        self.pool = Pool(self.alloc, self.free)
        self.launches = 0
        self._kernels: dict[tuple, tuple] = {}
        self._fault: DeviceArray | None = None
        self._unchecked = False

    # ------------------------------------------------------------------ a target's part

    def alloc(self, nbytes: int) -> Any:
        """A segment of memory."""
        raise NotImplementedError

    def free(self, segment: Any) -> None:
        raise NotImplementedError

    def upload(self, x: DeviceArray, values: np.ndarray) -> None:
        """Copy contiguous host values into contiguous x."""
        raise NotImplementedError

    def download(self, values: np.ndarray, x: DeviceArray) -> None:
        """Copy contiguous x into contiguous host values, and wait for it."""
        raise NotImplementedError

    def compile(self, text: str, name: str, signature: Any) -> Any:
        """The function k_name of a rendered text, in whatever form run() takes."""
        raise NotImplementedError

    def run(self, function: Any, grid: tuple[int, int, int], threads: int, args: list) -> None:
        """Queue a launch; args are arrays, None for arrays that are not read, packed bytes."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for all queued work."""
        raise NotImplementedError

    # -------------------------------------------------------------------------- arrays

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        dtype = np.dtype(dtype)
        if kernel_type(dtype) is None:
            raise TypeError(f"{self.name} has no {dtype.name}; it computes in float32, int64, "
                            "int32, uint8 and bool, and stores float16 and bfloat16")
        x = DeviceArray(self, None, shape, dtype)
        if x.size > LARGEST:
            raise ValueError(f"an array of shape {shape} has {x.size} elements; on {self.name} at "
                             f"most {LARGEST} are supported")
        x.block = self.pool.take(x.nbytes)
        x.offset = x.block.offset // dtype.itemsize
        return x

    def array(self, values: Any) -> DeviceArray:
        """A copy of host values."""
        values = np.asarray(values)
        x = self.empty(values.shape, values.dtype)
        if values.size:
            self.upload(x, np.ascontiguousarray(values))
        return x

    def fetch(self, x: DeviceArray) -> np.ndarray:
        """The values of an array on the host; raises what kernels found wrong before it."""
        values = np.empty(x.shape, x.dtype)
        if x.size:
            self.download(values, x if x.contiguous else self.backend.copy(x))
        self.check()
        return values

    # ------------------------------------------------------------------------- launching

    def launch(self, file: str, name: str, grid, args, **macros) -> None:
        """Queue kernel `name` of device/FILE.c, specialised by macros, on a grid of blocks."""
        key = (file, name, *macros.items())
        found = self._kernels.get(key)
        if found is None:
            text, kernels = render(self.target, file, macros)
            signature = kernels[name]
            packs = [None if kind != "VAL" else _PACK.get(type_, "")
                     for kind, type_, _ in signature.arguments]
            found = self.compile(text, name, signature), signature.threads, packs
            self._kernels[key] = found
        function, threads, packs = found
        if len(args) != len(packs):
            raise TypeError(f"kernel {name} takes {len(packs)} arguments, got {len(args)}")
        if max(grid[1:]) > 65535:
            raise ValueError(f"kernel {name}: a grid of {grid} blocks is more than a device takes "
                             "(65535 along its second and third axis); use smaller batches")
        self.launches += 1
        self.run(function, grid, threads,
                 [struct.pack(p, a) if p else a for p, a in zip(packs, args, strict=True)])

    def spread(self, n: int, threads: int = 256) -> tuple[int, int, int]:
        """The grid that gives every one of n elements a thread."""
        return -(-n // threads), 1, 1

    def gemm(self, a, b, c, sizes, strides, batch, alpha=1.0, beta=0.0, bias=None) -> None:
        """c = alpha a b + beta c + bias[N]; sizes (M, N, K), strides (row, column, outer, inner)
        of a, b and c, batch (outer, inner). A target may put its vendor's product here."""
        self.product(a, b, c, sizes, strides, batch, alpha, beta, bias)

    def product(self, a, b, c, sizes, strides, batch, alpha=1.0, beta=0.0, bias=None, extra=None,
                sums=None, **epilogue) -> None:
        """gemm by our own kernel, which can do more: see matmul.c for EPILOGUE and `extra`; `sums`
        [M] become the sums of the rows of a."""
        m, n, k = sizes
        packed = struct.pack("16i2fi", m, n, k, batch[1], *strides[0], *strides[1], *strides[2],
                             alpha, beta, (bias is not None) + 2 * (sums is not None))
        self.launch("matmul", "matmul", (-(-n // 64), -(-m // 64), batch[0] * batch[1]),
                    (a, b, c, bias, extra, sums, packed), **epilogue)

    @property
    def own_products(self) -> bool:
        """Whether gemm is our kernel, so that what product() can do besides costs nothing."""
        return type(self).gemm is Device.gemm

    # ----------------------------------------------------------------------------- faults

    @property
    def fault(self) -> DeviceArray:
        """Where kernels note an index out of range; looked at when results are fetched."""
        if self._fault is None:
            self._fault = self.array(np.zeros(3, np.int64))
        self._unchecked = True
        return self._fault

    def check(self) -> None:
        """Raise an IndexError for what a kernel noted since the last check."""
        if self._fault is None or not self._unchecked:
            return
        self._unchecked = False
        noted = np.empty(3, np.int64)
        self.download(noted, self._fault)
        code, index, size = (int(n) for n in noted)
        if code:
            self.upload(self._fault, np.zeros(3, np.int64))
            raise IndexError(f"{FAULTS[code]}: index {index} is out of range for {size} places "
                             f"(found on {self.name}, by an operation before this one)")
