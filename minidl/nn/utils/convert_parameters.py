"""Parameters as one flat vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ShapeError
from minidl.grad_mode import no_grad


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters one after the other, flattened: (N).

    >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
    (9,)
    """
    return ops.cat([param.reshape((-1,)) for param in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the pieces of ``vec`` (N) into the parameters, in their order.

    >>> nn.utils.vector_to_parameters(md.zeros(9), nn.Linear(2, 3).parameters())
    """
    params = list(parameters)
    total = sum(param.numel() for param in params)
    if tuple(vec.shape) != (total,):
        raise ShapeError(
            f"vector_to_parameters: the vector has shape {tuple(vec.shape)}, the parameters "
            f"have {total} elements"
        )
    start = 0
    with no_grad():
        for param in params:
            end = start + param.numel()
            param.copy_(vec[start:end].reshape(tuple(param.shape)))
            start = end
