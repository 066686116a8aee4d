"""Gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable

from minidl import ops
from minidl._core import Tensor, no_grad


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in tensors if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all ``tensors`` as one vector: (sum |x|^p)^(1/p), or max |x| for p = inf.

    Shapes: output ().

    >>> nn.utils.get_total_norm([md.full((1,), 3.0), md.full((1,), 4.0)])
    tensor(5.)
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return ops.zeros(())
    norm_type = float(norm_type)
    with no_grad():
        norms = ops.stack([ops.norm(t, norm_type) for t in given])
        total = norms.max() if norm_type == math.inf else ops.norm(norms, norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"the total norm of order {norm_type} of the gradients is {total.item()}, so they "
            "cannot be clipped; pass error_if_nonfinite=False to scale by it anyway"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scale the gradients by min(1, max_norm / (total_norm + 1e-6)), in place.

    >>> nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, total_norm)
    """
    scale = min(1.0, max_norm / (total_norm.item() + 1e-6))
    if scale == 1.0:
        return
    with no_grad():
        for grad in _gradients(parameters):
            grad.mul_(scale)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their norm, all taken as one vector, is at most
    ``max_norm``; returns the norm they had.

    >>> loss.backward()
    >>> nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    """
    params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(params), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(params, max_norm, total)
    return total


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value], in place.

    >>> nn.utils.clip_grad_value_(model.parameters(), 0.5)
    """
    with no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(-clip_value, clip_value)
