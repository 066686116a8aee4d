"""Schedules along a curve: a cosine, a warm-up and a cosine, any function."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..optimizer import Optimizer
from .base import LRScheduler
from .factors import FactorLR, check_positive


class CosineAnnealingLR(FactorLR):
    """lr = eta_min + (base_lr - eta_min) * (1 + cos(pi t / T_max)) / 2; it rises again after
    ``T_max``.

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = md.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100, eta_min=0.1)
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        check_positive("CosineAnnealingLR", T_max=T_max)
        self.T_max = T_max
        self.eta_min = self.floor = eta_min
        super().__init__(optimizer, last_epoch)

    def factor_at(self, t: int) -> float:
        """(1 + cos(pi t / T_max)) / 2."""
        return (1 + math.cos(math.pi * t / self.T_max)) / 2


class WarmupCosineLR(LRScheduler):
    """The schedule of a transformer: base_lr (t + 1) / (warmup_iters + 1) for ``warmup_iters``
    steps, then a cosine from base_lr down to ``eta_min`` at step ``total_iters``, then eta_min.

    >>> optimizer = md.optim.AdamW([md.ones(2, requires_grad=True)], lr=1e-3)
    >>> scheduler = md.optim.lr_scheduler.WarmupCosineLR(optimizer, 100, 2000, eta_min=1e-4)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        warmup_iters: int,
        total_iters: int,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= warmup_iters < total_iters:
            raise ValueError(
                "WarmupCosineLR: warmup_iters must be at least 0 and below total_iters, got "
                f"{warmup_iters} and {total_iters}"
            )
        self.warmup_iters = warmup_iters
        self.total_iters = total_iters
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates at step ``last_epoch``."""
        t, warmup = self.last_epoch, self.warmup_iters
        if t < warmup:
            return [base * (t + 1) / (warmup + 1) for base in self.base_lrs]
        share = min(1.0, (t - warmup) / (self.total_iters - warmup))
        factor = (1 + math.cos(math.pi * share)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


class LambdaLR(LRScheduler):
    """lr = base_lr * lr_lambda(t), with one function for all groups or a list of one for each.

    The functions are not part of ``state_dict()``.

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = md.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.95**t)
    """

    unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(getattr(optimizer, "param_groups", ()))
        self.lr_lambdas = lr_lambda if isinstance(lr_lambda, list) else [lr_lambda] * groups
        if len(self.lr_lambdas) != groups:
            raise ValueError(
                f"LambdaLR: {len(self.lr_lambdas)} functions for {groups} parameter groups"
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates at step ``last_epoch``."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]
