"""Muon: an orthogonal step for matrices, AdamW for the rest."""

from __future__ import annotations

import math
from typing import Any

from minidl import ops
from minidl._core import Tensor, updater_of, written

from .adam import Adam
from .optimizer import Optimizer, Params
from .options import check_not_negative

ADAMW = {
    "lr": 1e-3,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 1e-2,
    "amsgrad": False,
    "maximize": False,
    "decoupled_weight_decay": True,
}


def orthogonalize(
    matrices: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Newton-Schulz: X / |X|, then ``steps`` times X = a X + b (X X^T) X + c (X X^T)^2 X. It brings
    the singular values near 1 and keeps the singular vectors.

    Shapes: matrices and output (..., A, B).

    >>> q = orthogonalize(md.tensor([[3.0, 0.0], [0.0, -2.0]]), (1.5, -0.5, 0.0), 20, 1e-7)
    >>> [[round(v, 4) for v in row] for row in q.tolist()]
    [[1.0, 0.0], [0.0, -1.0]]
    """
    a, b, c = coefficients
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.transpose(-2, -1) if tall else matrices  # the smaller of the two Gram matrices
    x = x / ops.norm(x, dim=(-2, -1), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.transpose(-2, -1)
        x = (gram * b + gram @ gram * c) @ x + x * a
    return x.transpose(-2, -1) if tall else x


class Muon(Adam):
    """With g the gradient of a matrix p (A, B) and m the momentum:

    m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m  (nesterov; else m)
    p = p (1 - lr * weight_decay) - lr * sqrt(max(1, A / B)) * orthogonalize(u)

    ``adjust_lr_fn="match_rms_adamw"`` scales by 0.2 sqrt(max(A, B)) instead, so that AdamW's
    learning rate serves. Muon is for the matrices of the hidden layers: a parameter group with
    ``"adamw": True`` is updated by AdamW, with AdamW's options and defaults.
    :func:`muon_groups` makes both groups of a model.

    Matrices of one shape are stepped together. PyTorch iterates in bfloat16, minidl in the
    precision of the parameter.

    >>> model = md.nn.Sequential(md.nn.Embedding(9, 4), md.nn.Linear(4, 4), md.nn.LayerNorm(4))
    >>> optimizer = md.optim.Muon(md.optim.muon_groups(model, adamw_lr=3e-4), lr=0.02)
    >>> [len(group["params"]) for group in optimizer.param_groups]
    [1, 1, 3]
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_not_negative("Muon", lr=lr, weight_decay=weight_decay, momentum=momentum, eps=eps)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                'Muon: adjust_lr_fn must be "original" or "match_rms_adamw", got '
                f"{adjust_lr_fn!r}"
            )
        if len(ns_coefficients) != 3:
            raise ValueError(f"Muon: ns_coefficients must be three, got {ns_coefficients}")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        self._buffers: dict[int, tuple[Tensor, list[Tensor]]] = {}  # see _buffer
        Optimizer.__init__(self, params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add matrices, or any parameters with ``"adamw": True``."""
        if isinstance(param_group, dict):
            adamw = bool(param_group.get("adamw", False))
            param_group = {"adamw": adamw, **(ADAMW if adamw else {}), **param_group}
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        wrong = [tuple(p.shape) for p in group["params"] if p.ndim != 2]
        if wrong and not group["adamw"]:
            self.param_groups.pop()
            raise ValueError(
                f"Muon steps matrices, and a parameter has the shape {wrong[0]}; put it into a "
                'group with "adamw": True (md.optim.muon_groups(model) does)'
            )

    def update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """One step of the parameters of a group."""
        if group["adamw"]:
            super().update(group, params)
            return
        alike: dict[Any, list[Tensor]] = {}
        for param in params:
            alike.setdefault((param.shape, param.dtype, updater_of(param)), []).append(param)
        for (shape, _, backend), some in alike.items():
            self._step_together(group, some, backend, _scale(group["adjust_lr_fn"], *shape))

    def _step_together(
        self, group: dict[str, Any], params: list[Tensor], backend: Any, scale: float
    ) -> None:
        grads, momentum = ops.stack([param.grad for param in params]), group["momentum"]
        buffer = self._buffer(params)
        buffer.lerp_(grads, 1 - momentum)
        steps = ops.lerp(grads, buffer, momentum) if group["nesterov"] else buffer
        steps = orthogonalize(steps, group["ns_coefficients"], group["ns_steps"], group["eps"])
        backend.sgd_(
            [param.array for param in params],
            [backend.contiguous(step.array) for step in steps.unbind()],
            None,
            float(group["lr"]) * scale,
            0.0,
            0.0,
            group["weight_decay"] / scale,
            False,
            False,
            False,
        )
        written(params, "step of Muon")

    def _buffer(self, params: list[Tensor]) -> Tensor:
        """The momentum of matrices of one shape as one tensor, which their states show parts of."""
        states = [self.state.setdefault(param, {}) for param in params]
        parts = [state.get("momentum_buffer") for state in states]
        buffer, known = self._buffers.get(id(params[0]), (None, []))
        if buffer is None or len(parts) != len(known) or any(
            part is not other for part, other in zip(parts, known, strict=True)
        ):
            buffer = ops.stack([
                ops.zeros_like(param) if part is None else part
                for param, part in zip(params, parts, strict=True)
            ])
            known = list(buffer.unbind())
            self._buffers[id(params[0])] = buffer, known
            for state, part in zip(states, known, strict=True):
                state["momentum_buffer"] = part
        return buffer


def _scale(adjust: str | None, rows: int, columns: int) -> float:
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
