"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from minidl._core import Tensor

from .optimizer import Optimizer, Params
from .options import check_not_negative, refuse


class SGD(Optimizer):
    """g += weight_decay * p; v = momentum * v + (1 - dampening) * g; p -= lr * v.

    The first v is g; ``nesterov`` steps by g + momentum * v; ``maximize`` climbs.

    >>> optimizer = md.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_not_negative("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        refuse("SGD", differentiable=differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and no dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """One step of the parameters of a group."""
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        for param in params:
            grad = -param.grad if group["maximize"] else param.grad
            if decay:
                grad = grad + param * decay
            if momentum:
                state = self.state.setdefault(param, {})
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = state["momentum_buffer"] = grad.detach().clone()
                else:
                    buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
                grad = grad + buffer * momentum if group["nesterov"] else buffer
            param.add_(grad, alpha=-lr)
