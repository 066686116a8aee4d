"""Matrix products by Metal Performance Shaders, for the matrices that those can describe."""

from typing import Any, NamedTuple

__all__ = ["Products"]

# Below this many multiplications a product is not worth an encoder of its own.
_LEAST = 1 << 20
_KEPT = 4096  # objects; a step that repeats itself finds its own again


class Stored(NamedTuple):
    """A batch of matrices in memory, whose rows start `leading` elements apart."""

    transposed: bool
    rows: int
    columns: int
    leading: int
    matrices: int
    between: int


class Products:
    """MPSMatrixMultiplication of arrays. Its objects are kept, so a warm step makes none."""

    def __init__(self, shaders: Any, device: Any):
        self._shaders, self._device = shaders, device
        self._matrices: dict[tuple, Any] = {}
        self._kernels: dict[tuple, Any] = {}

    def plan(self, arrays, sizes, strides, batch):
        """[(array, Stored)] of a, b and c for encode, None for a product that is not taken."""
        m, n, k = sizes
        if m * n * k * batch[0] * batch[1] < _LEAST:
            return None
        stored = [_stored(x, *shape, s, batch) for x, shape, s in
                  zip(arrays, ((m, k), (k, n), (m, n)), strides, strict=True)]
        if None in stored or stored[2].transposed:
            return None
        return list(zip(arrays, stored, strict=True))

    def encode(self, commands, plan, sizes, alpha, beta):
        """Write c = alpha a b + beta c into a command buffer that has no open encoder."""
        key = (plan[0][1].transposed, plan[1][1].transposed, *sizes, alpha, beta)
        if key not in self._kernels:
            if len(self._kernels) == _KEPT:
                self._kernels.clear()
            made = self._shaders.MPSMatrixMultiplication.alloc()
            self._kernels[key] = made.initWithDevice_transposeLeft_transposeRight_resultRows_resultColumns_interiorColumns_alpha_beta_(  # noqa: E501
                self._device, *key)
        self._kernels[key].encodeToCommandBuffer_leftMatrix_rightMatrix_resultMatrix_(
            commands, *[self._matrix(x, stored) for x, stored in plan])

    def forget_matrices(self):
        """They hold their buffers, which are about to be given back."""
        self._matrices.clear()

    def _matrix(self, x, stored):
        key = (x.block.number, x.offset, *stored)
        if key not in self._matrices:
            if len(self._matrices) == _KEPT:
                self._matrices.clear()
            shaders = self._shaders
            described = shaders.MPSMatrixDescriptor \
                .matrixDescriptorWithRows_columns_matrices_rowBytes_matrixBytes_dataType_(
                    stored.rows, stored.columns, stored.matrices, stored.leading * 4,
                    stored.between * 4, shaders.MPSDataTypeFloat32)
            self._matrices[key] = shaders.MPSMatrix.alloc().initWithBuffer_offset_descriptor_(
                x.block.segment.buffer, x.offset * 4, described)
        return self._matrices[key]


def _stored(x, rows, columns, strides, batch):
    """How the matrices of x lie, None where it cannot be said: rows or columns must lie together,
    and matrices must follow each other by whole rows."""
    row, column, outer, inner = strides
    transposed = column != 1 and columns != 1
    if transposed:
        rows, columns, row, column = columns, rows, column, row
    leading = max(row, columns) if rows == 1 else row
    count = batch[0] * batch[1]
    between = rows * leading if count == 1 else inner if batch[1] > 1 else outer
    if ((column != 1 and columns != 1) or leading < columns or min(batch) > 1
            or between < rows * leading or between % leading):
        return None
    end = x.offset + (count - 1) * between + rows * leading
    if end * 4 > x.block.segment.view.size:  # the last row is counted in full
        return None
    return Stored(transposed, rows, columns, leading, count, between)
