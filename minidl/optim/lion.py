"""Lion: the sign of a momentum."""

from __future__ import annotations

from typing import Any

from minidl import ops
from minidl._core import Tensor, by_updater, written

from .fused import gradients
from .optimizer import Optimizer, Params
from .options import check_betas, check_not_negative


class Lion(Optimizer):
    """With g the gradient and m the momentum (Chen et al., 2023):

    p = p (1 - lr * weight_decay) - lr * sign(beta1 m + (1 - beta1) g)
    m = beta2 m + (1 - beta2) g

    Every element moves by lr, so lr is 3 to 10 times smaller than AdamW's and weight_decay as
    much larger; one moment instead of two. ``maximize`` climbs.

    >>> model = md.nn.Linear(2, 3)
    >>> optimizer = md.optim.Lion(model.parameters(), lr=1e-4, weight_decay=1.0)
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        check_not_negative("Lion", lr=lr, weight_decay=weight_decay)
        check_betas("Lion", betas)
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    def update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """One step of the parameters of a group, in one call."""
        for param in params:
            if param not in self.state:
                self.state[param] = {"exp_avg": ops.zeros_like(param)}
        for backend, some in by_updater(params).items():
            backend.lion_(
                [param.array for param in some],
                gradients(some),
                [self.state[param]["exp_avg"].array for param in some],
                float(group["lr"]),
                *group["betas"],
                group["weight_decay"],
                group["maximize"],
            )
            written(some, "step of Lion")
