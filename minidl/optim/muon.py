"""Muon: an orthogonal step for matrices, AdamW for the rest."""

from __future__ import annotations

import math
from typing import Any

from minidl import ops
from minidl._core import Tensor

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
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Newton-Schulz: X / |X|, then ``steps`` times X = a X + b (X X^T) X + c (X X^T)^2 X. It brings
    the singular values near 1 and keeps the singular vectors.

    Shapes: matrix and output (A, B).

    >>> q = orthogonalize(md.tensor([[3.0, 0.0], [0.0, -2.0]]), (1.5, -0.5, 0.0), 20, 1e-7)
    >>> [[round(v, 4) for v in row] for row in q.tolist()]
    [[1.0, 0.0], [0.0, -1.0]]
    """
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.t() if tall else matrix  # the smaller of the two Gram matrices
    x = x / max(ops.norm(x).item(), eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = ops.addmm(x, ops.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x


class Muon(Adam):
    """With g the gradient of a matrix p (A, B) and m the momentum:

    m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m  (nesterov; else m)
    p = p (1 - lr * weight_decay) - lr * sqrt(max(1, A / B)) * orthogonalize(u)

    ``adjust_lr_fn="match_rms_adamw"`` scales by 0.2 sqrt(max(A, B)) instead, so that AdamW's
    learning rate serves. Muon is for the matrices of the hidden layers: a parameter group with
    ``"adamw": True`` is updated by AdamW, with AdamW's options and defaults.
    :func:`muon_groups` makes both groups of a model.

    PyTorch iterates in bfloat16, minidl in the precision of the parameter.

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
        lr, momentum = float(group["lr"]), group["momentum"]
        for param in params:
            buffer = self.state.setdefault(param, {}).get("momentum_buffer")
            if buffer is None:
                buffer = self.state[param]["momentum_buffer"] = ops.zeros_like(param)
            buffer.lerp_(param.grad, 1 - momentum)
            step = ops.lerp(param.grad, buffer, momentum) if group["nesterov"] else buffer
            step = orthogonalize(step, group["ns_coefficients"], group["ns_steps"], group["eps"])
            param.mul_(1 - lr * group["weight_decay"])
            param.add_(step, alpha=-lr * _scale(group["adjust_lr_fn"], *param.shape))


def _scale(adjust: str | None, rows: int, columns: int) -> float:
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
