"""A stand-in for PyObjC's MetalPerformanceShaders: MPSMatrixMultiplication, by NumPy."""

import numpy as np

from . import objc
from .selectors import CONSTANTS, Misuse, Object, check, counts

__all__ = ["MPSDataTypeFloat32", "MPSMatrix", "MPSMatrixDescriptor", "MPSMatrixMultiplication"]

MPSDataTypeFloat32 = CONSTANTS["MPSDataTypeFloat32"]


class _Described(Object):
    pass


class MPSMatrixDescriptor:
    @staticmethod
    def matrixDescriptorWithRows_columns_matrices_rowBytes_matrixBytes_dataType_(*arguments):
        check("matrixDescriptorWithRows:columns:matrices:rowBytes:matrixBytes:dataType:", arguments)
        objc.autoreleased()
        rows, columns, matrices, row_bytes, matrix_bytes, type_ = arguments
        if type_ != MPSDataTypeFloat32 or min(rows, columns, matrices) < 1:
            raise Misuse(f"matrices of {rows} x {columns}, {matrices} of them, of type {type_}")
        if row_bytes % 4 or row_bytes < columns * 4:
            raise Misuse(f"rows of {columns} floats do not start {row_bytes} bytes apart")
        if matrix_bytes % row_bytes or matrix_bytes < rows * row_bytes:
            raise Misuse(f"matrices of {rows} rows of {row_bytes} bytes do not start "
                         f"{matrix_bytes} bytes apart")
        made = _Described()
        made._shape = matrices, rows, columns
        made._strides = matrix_bytes, row_bytes, 4
        return made


class _Matrix(Object):
    def initWithBuffer_offset_descriptor_(self, buffer, offset, described):
        count, rows, _ = described._shape
        between, row_bytes, _ = described._strides
        if offset % 4:
            raise Misuse(f"a matrix at byte {offset}")
        raw = buffer._from(offset, (count - 1) * between + rows * row_bytes, "a matrix")
        self._values = np.lib.stride_tricks.as_strided(
            raw.view(np.float32), described._shape, described._strides)
        self._buffer = buffer
        return self


class _Multiplication(Object):
    def initWithDevice_transposeLeft_transposeRight_resultRows_resultColumns_interiorColumns_alpha_beta_(  # noqa: E501
            self, device, left, right, rows, columns, interior, alpha, beta):
        self._transposed, self._sizes = (left, right), (rows, columns, interior)
        self._alpha, self._beta = np.float32(alpha), np.float32(beta)
        return self

    def encodeToCommandBuffer_leftMatrix_rightMatrix_resultMatrix_(self, commands, a, b, c):
        commands._writable()
        left, right = (x._values.swapaxes(1, 2) if transposed else x._values
                       for x, transposed in zip((a, b), self._transposed, strict=True))
        rows, columns, interior = self._sizes
        for what, x, shape in (("left", left, (rows, interior)), ("right", right,
                               (interior, columns)), ("result", c._values, (rows, columns))):
            if x.shape[1:] != shape or x.shape[0] != c._values.shape[0]:
                raise Misuse(f"a {what} matrix of {x.shape} for {shape}, "
                             f"{c._values.shape[0]} of them")
        result = c._values

        def multiply():
            product = self._alpha * (left @ right)
            # as the original: beta 0 does not read what is there
            result[...] = product + self._beta * result if self._beta else product

        commands._work.append(multiply)
        counts["products"] += 1


MPSMatrix = objc.Class(_Matrix)
MPSMatrixMultiplication = objc.Class(_Multiplication)
