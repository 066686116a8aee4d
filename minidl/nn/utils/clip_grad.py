"""Gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable

from minidl import ops
from minidl._core import Tensor, by_updater, written
from minidl.grad_mode import no_grad


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in tensors if p.grad is not None]


def _euclidean(tensors: list[Tensor]) -> Tensor:
    """The 2-norm of all tensors in one kernel call (one for each backend).

    That of tensors on one device stays there: nobody waits for it.
    """
    groups = by_updater(tensors)
    if len(groups) == 1 and tensors[0].device != "cpu":
        (backend,) = groups
        return Tensor(backend.norm_of([backend.contiguous(t.array) for t in tensors]))
    norms = [
        backend.total_norm([t.array for t in together])
        for backend, together in groups.items()
    ]
    return ops.full((), math.hypot(*norms), dtype=tensors[0].dtype)


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
        if norm_type == 2:
            total = _euclidean(given)
        else:
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

    >>> model = nn.Linear(2, 1)
    >>> model(md.ones(4, 2)).sum().backward()
    >>> norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    >>> nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)
    """
    groups = by_updater(_gradients(parameters))
    for backend in list(groups):
        if total_norm.device != "cpu" and backend is total_norm.array.backend:
            grads = groups.pop(backend)
            backend.clip_([grad.array for grad in grads], total_norm.array, max_norm)
            written(grads, "clip_grad_norm_")
    scale = max_norm / (total_norm.item() + 1e-6) if groups else 1
    if scale >= 1:
        return
    for backend, grads in groups.items():
        backend.scale_([grad.array for grad in grads], scale)
        written(grads, "clip_grad_norm_")


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their norm, all taken as one vector, is at most
    ``max_norm``; returns the norm they had.

    >>> model = nn.Linear(2, 1)
    >>> model(md.ones(4, 2)).sum().backward()
    >>> nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()  # sqrt(3 * 4^2)
    6.928...
    """
    params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(params), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(params, max_norm, total)
    return total


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value], in place.

    >>> model = nn.Linear(2, 1)
    >>> model(md.ones(4, 2)).sum().backward()
    >>> nn.utils.clip_grad_value_(model.parameters(), 0.5)
    >>> model.weight.grad
    tensor([[0.5000, 0.5000]])
    """
    with no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(-clip_value, clip_value)
