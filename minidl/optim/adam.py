"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

from minidl import ops
from minidl._core import Tensor

from .optimizer import Optimizer, Params
from .options import check_betas, check_not_negative, refuse


class Adam(Optimizer):
    """With g the gradient (+ weight_decay * p) and t the step:

    m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
    p -= lr * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    ``amsgrad`` divides by the largest v so far; ``decoupled_weight_decay`` shrinks p by
    lr * weight_decay instead of adding to g; ``maximize`` climbs.

    >>> optimizer = md.optim.Adam(model.parameters(), lr=1e-3)
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = type(self).__name__
        check_not_negative(name, lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(name, betas)
        refuse(name, differentiable=differentiable, capturable=capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """One step of the parameters of a group, those at the same step number together."""
        by_step: dict[int, list[Tensor]] = {}
        for param in params:
            state = self._state(param, group["amsgrad"])
            state["step"] += 1
            by_step.setdefault(state["step"], []).append(param)
        for step, together in by_step.items():
            self._update(group, together, step)

    def _state(self, param: Tensor, amsgrad: bool) -> dict[str, Any]:
        state = self.state.get(param)
        if state is None:
            state = self.state[param] = {"step": 0}
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
            for name in names if amsgrad else names[:2]:
                state[name] = ops.zeros_like(param)
        state["step"] = int(state["step"])  # PyTorch saves it as a tensor
        return state

    def _update(self, group: dict[str, Any], params: list[Tensor], step: int) -> None:
        states = [self.state[param] for param in params]
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        grads = [-p.grad if group["maximize"] else p.grad for p in params]
        if decay and not decoupled:
            grads = [grad + param * decay for grad, param in zip(grads, params, strict=True)]
        adamw_(
            params,
            grads,
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            float(group["lr"]),
            *group["betas"],
            group["eps"],
            decay if decoupled else 0.0,
            step,
            [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else None,
        )


class AdamW(Adam):
    """Adam with decoupled weight decay: p *= 1 - lr * weight_decay, then Adam's step.

    >>> optimizer = md.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            decoupled_weight_decay=True,
        )


def adamw_(
    params: list[Tensor],
    grads: list[Tensor],
    m: list[Tensor],
    v: list[Tensor],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    v_max: list[Tensor] | None = None,
) -> None:
    """AdamW's step of all ``params`` in place, with their moments ``m`` and ``v`` (and ``v_max``).

    Shapes: the i-th tensor of each list has the i-th parameter's shape.
    """
    step_size = lr / (1 - beta1**step)
    root = math.sqrt(1 - beta2**step)
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        if weight_decay:
            p.mul_(1 - lr * weight_decay)
        m[i].mul_(beta1).add_(g, alpha=1 - beta1)
        v[i].mul_(beta2).add_(g * g, alpha=1 - beta2)
        second = v[i]
        if v_max is not None:
            second = v_max[i].copy_(ops.maximum(v_max[i], v[i]))
        p.sub_(m[i] / (ops.sqrt(second) / root + eps), alpha=step_size)
