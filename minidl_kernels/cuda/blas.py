"""Matrix products by cuBLAS, called through ctypes."""

import ctypes
import importlib.util
import os
import sys
from ctypes import byref, c_float, c_int, c_longlong, c_void_p
from pathlib import Path

__all__ = ["Blas", "lines"]

_TF32 = 3  # CUBLAS_TF32_TENSOR_OP_MATH
_STATUS = {1: "the library was not initialised", 3: "out of memory on the device",
           7: "an argument is wrong", 8: "the GPU is too old", 13: "a kernel failed",
           14: "an internal error", 15: "not supported"}
_MATRIX = [c_void_p, c_int]
_BATCH = [c_void_p, c_int, c_longlong]
_HEAD = [c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p]
_SIGNATURES = {
    "cublasCreate_v2": [c_void_p],
    "cublasSetStream_v2": [c_void_p, c_void_p],
    "cublasSetMathMode": [c_void_p, c_int],
    "cublasSgemm_v2": [*_HEAD, *_MATRIX, *_MATRIX, c_void_p, *_MATRIX],
    "cublasSgemmStridedBatched": [*_HEAD, *_BATCH, *_BATCH, c_void_p, *_BATCH, c_int],
}


def lines(rows, columns, row, column):
    """(transposed, distance of lines) of a matrix with these strides, None if cuBLAS has no such.

    One of the two strides must be 1; the other is the distance, at least a line long.

    >>> lines(3, 4, 4, 1), lines(4, 3, 1, 4), lines(3, 4, 8, 2)
    ((False, 4), (True, 4), None)
    """
    if column == 1 or columns == 1:
        distance = row if rows > 1 else max(row, columns)
        if distance >= columns:
            return False, distance
    if row == 1 or rows == 1:
        distance = column if columns > 1 else max(column, rows)
        if distance >= rows:
            return True, distance
    return None


class Blas:
    """A handle of cuBLAS on one stream."""

    def __init__(self, stream):
        self._functions = {}
        library = _library()
        for name, types in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self._handle = c_void_p()
        self._call("cublasCreate_v2", byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, stream)

    def _call(self, name, *args):
        status = self._functions[name](*args)
        if status:
            raise RuntimeError(f"{name} failed: {_STATUS.get(status, 'an unknown error')} "
                               f"(status {status})")

    def use_tf32(self, allowed):
        """Multiply with ten bits after the point, on tensor cores, or in full float32."""
        self._call("cublasSetMathMode", self._handle, _TF32 if allowed else 0)

    def multiply(self, m, n, k, alpha, a, b, beta, c, batch):
        """c = alpha a b + beta c for `batch` matrices; a, b, c are (address, transposed, distance
        of lines, distance of matrices).

        cuBLAS stores columns where we store lines: it sees every matrix transposed, and
        c^T = b^T a^T.
        """
        (pa, ta, da, sa), (pb, tb, db, sb), (pc, _, dc, sc) = a, b, c
        head = self._handle, tb, ta, n, m, k, byref(c_float(alpha))
        scale = byref(c_float(beta))
        if batch == 1:
            self._call("cublasSgemm_v2", *head, pb, db, pa, da, scale, pc, dc)
        else:
            self._call("cublasSgemmStridedBatched", *head, pb, db, sb, pa, da, sa, scale, pc, dc,
                       sc, batch)


def _library():
    if sys.platform == "win32":
        names, folder = ("cublas64_13.dll", "cublas64_12.dll"), "bin"
    else:
        names, folder = ("libcublas.so.13", "libcublas.so.12"), "lib"
    found = importlib.util.find_spec("nvidia")  # what pip installs: nvidia/cu13, nvidia/cublas
    places = [Path(place, package, folder) for place in (found.submodule_search_locations or ()
                                                         if found else ())
              for package in ("cu13", "cublas")]
    if os.environ.get("CUDA_PATH"):
        places += [Path(os.environ["CUDA_PATH"], sub) for sub in ("bin", "lib64")]
    for name in names:
        for path in (name, *[str(place / name) for place in places]):
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    raise RuntimeError(f"the device 'cuda' needs cuBLAS ({' or '.join(names)}), which is a part of "
                       "the CUDA toolkit, or: pip install nvidia-cublas")
