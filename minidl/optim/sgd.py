"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from minidl import ops
from minidl._core import Tensor, by_updater, written

from .fused import gradients
from .optimizer import Optimizer, Params
from .options import check_not_negative, refuse


class SGD(Optimizer):
    """g += weight_decay * p; v = momentum * v + (1 - dampening) * g; p -= lr * v.

    The first v is g; ``nesterov`` steps by g + momentum * v; ``maximize`` climbs.

    >>> model = md.nn.Linear(2, 3)
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
        """One step of the parameters of a group: first those without a momentum yet, then the
        others, all of a kind in one call."""
        if not group["momentum"]:
            parts = [(params, False)]
        else:
            new = [param for param in params if self._buffer(param) is None]
            for param in new:
                self.state.setdefault(param, {})["momentum_buffer"] = ops.zeros_like(param)
            fresh = {id(param) for param in new}
            parts = [(new, True), ([p for p in params if id(p) not in fresh], False)]
        for some, first in parts:
            for backend, together in by_updater(some).items():
                self._fused(backend, group, together, first)

    def _buffer(self, param: Tensor) -> Tensor | None:
        return self.state.get(param, {}).get("momentum_buffer")

    def _fused(
        self, backend: Any, group: dict[str, Any], params: list[Tensor], first: bool
    ) -> None:
        momentum = group["momentum"]
        backend.sgd_(
            [param.array for param in params],
            gradients(params),
            [self.state[p]["momentum_buffer"].array for p in params] if momentum else None,
            float(group["lr"]),
            momentum,
            group["dampening"],
            group["weight_decay"],
            group["nesterov"],
            first,
            group["maximize"],
        )
        written(params, "step of SGD")
