"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

from minidl import ops
from minidl._core import Tensor, by_updater, written

from .fused import gradients
from .optimizer import Optimizer, Params
from .options import check_betas, check_not_negative, refuse


class Adam(Optimizer):
    """With g the gradient (+ weight_decay * p) and t the step:

    m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
    p -= lr * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    ``amsgrad`` divides by the largest v so far; ``decoupled_weight_decay`` shrinks p by
    lr * weight_decay instead of adding to g; ``maximize`` climbs.

    >>> model = md.nn.Linear(2, 3)
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
            state = self.state.get(param)
            if state is None:
                state = self.state[param] = self._first_state(param, group["amsgrad"])
            step = state["step"] = int(state["step"]) + 1  # PyTorch saves it as a tensor
            by_step.setdefault(step, []).append(param)
        for step, together in by_step.items():
            if group["amsgrad"]:
                self._amsgrad(group, together, step)
                continue
            for backend, some in by_updater(together).items():
                self._fused(backend, group, some, step)

    def _first_state(self, param: Tensor, amsgrad: bool) -> dict[str, Any]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        moments = {name: ops.zeros_like(param) for name in (names if amsgrad else names[:2])}
        return {"step": 0, **moments}

    def _fused(self, backend: Any, group: dict[str, Any], params: list[Tensor], step: int) -> None:
        states = [self.state[param] for param in params]
        backend.adam_(
            [param.array for param in params],
            gradients(params),
            [state["exp_avg"].array for state in states],
            [state["exp_avg_sq"].array for state in states],
            float(group["lr"]),
            *group["betas"],
            group["eps"],
            group["weight_decay"],
            step,
            group["decoupled_weight_decay"],
            group["maximize"],
        )
        written(params, f"step of {type(self).__name__}")

    def _amsgrad(self, group: dict[str, Any], params: list[Tensor], step: int) -> None:
        (beta1, beta2), lr, decay = group["betas"], float(group["lr"]), group["weight_decay"]
        for param in params:
            state = self.state[param]
            m, v, v_max = state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq"]
            grad = -param.grad if group["maximize"] else param.grad
            if decay and group["decoupled_weight_decay"]:
                param.mul_(1 - lr * decay)
            elif decay:
                grad = grad + param * decay
            m.mul_(beta1).add_(grad, alpha=1 - beta1)
            v.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
            v_max.copy_(ops.maximum(v_max, v))
            denominator = ops.sqrt(v_max) / math.sqrt(1 - beta2**step) + group["eps"]
            param.sub_(m / denominator, alpha=lr / (1 - beta1**step))


class AdamW(Adam):
    """Adam with decoupled weight decay: p *= 1 - lr * weight_decay, then Adam's step.

    >>> model = md.nn.Linear(2, 3)
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

