"""Layers that only change the shape."""

from __future__ import annotations

from minidl._core import Tensor

from .module import Module


class Flatten(Module):
    """The axes ``start_dim`` to ``end_dim`` as one.

    Shapes: (N, C, H, W) -> (N, C*H*W) by default.

    >>> nn.Flatten()(md.zeros(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """(N, ...) -> (N, product)."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One axis as several: the inverse of Flatten.

    Shapes: (N, 12) -> (N, 3, 4) for ``Unflatten(1, (3, 4))``.

    >>> nn.Unflatten(1, (3, 4))(md.zeros(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("Unflatten takes the axis as a number; named axes are not supported")
        if not all(isinstance(size, int) for size in unflattened_size):
            raise TypeError(f"unflattened_size must be a tuple of ints, got {unflattened_size!r}")
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """(..., product, ...) -> (..., *unflattened_size, ...)."""
        dim = self.dim % input.ndim
        shape = tuple(input.shape)
        return input.reshape(shape[:dim] + self.unflattened_size + shape[dim + 1 :])

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
