"""Schedules that multiply the learning rate by a factor of the step: they can be chained."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from ..optimizer import Optimizer
from .base import LRScheduler


class FactorLR(LRScheduler):
    """lr(t) = floor + (lr(t - 1) - floor) * factor(t) / factor(t - 1), with factor(-1) = 1: alone
    it is floor + (base_lr - floor) * factor(t), in a chain it multiplies what others have set.
    """

    floor = 0.0

    def factor_at(self, t: int) -> float:
        """The factor at step ``t``."""
        raise NotImplementedError(f"{type(self).__name__} does not say which factor to multiply by")

    def resumed_lr(self) -> list[float]:
        """Those that the optimizer has brought along."""
        return self.current()

    def get_lr(self) -> list[float]:
        """The learning rates at step ``last_epoch``, from those of the step before."""
        now = self.factor_at(self.last_epoch)
        before = self.factor_at(self.last_epoch - 1) if self.last_epoch > 0 else 1.0
        if now == before:
            return self.current()
        low = self.floor
        if before == 0:  # nothing is left to multiply
            return [low + (base - low) * now for base in self.base_lrs]
        return [low + (lr - low) * (now / before) for lr in self.current()]


class ConstantLR(FactorLR):
    """lr = base_lr * factor for ``total_iters`` steps, base_lr after them.

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> md.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=4).get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        check_share("ConstantLR", factor=factor)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor_at(self, t: int) -> float:
        """``factor``, then 1."""
        return self.factor if t < self.total_iters else 1.0


class LinearLR(FactorLR):
    """lr = base_lr times a factor that goes on a line from ``start_factor`` to ``end_factor`` in
    ``total_iters`` steps, and stays there: a warm-up.

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> md.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=9).get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        check_share("LinearLR", start_factor=start_factor, end_factor=end_factor)
        check_positive("LinearLR", start_factor=start_factor, total_iters=total_iters)
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor_at(self, t: int) -> float:
        """On the line between the two factors."""
        share = min(t, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share


class StepLR(FactorLR):
    """lr = base_lr * gamma^(t // step_size).

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = md.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        check_positive("StepLR", step_size=step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_at(self, t: int) -> float:
        """gamma for each ``step_size`` steps that are over."""
        return self.gamma ** (t // self.step_size)


class MultiStepLR(FactorLR):
    """lr = base_lr * gamma^(number of milestones that are reached).

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = md.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[30, 80], gamma=0.1)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_at(self, t: int) -> float:
        """gamma for each milestone at or before ``t``."""
        return self.gamma ** bisect_right(self.milestones, t)


class ExponentialLR(FactorLR):
    """lr = base_lr * gamma^t.

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = md.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_at(self, t: int) -> float:
        """gamma^t."""
        return self.gamma**t


def check_share(name: str, **options: float) -> None:
    """Refuse what is not between 0 and 1."""
    for option, value in options.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name}: {option} must be between 0 and 1, got {value}")


def check_positive(name: str, **options: float) -> None:
    """Refuse what is not above 0."""
    for option, value in options.items():
        if not value > 0:
            raise ValueError(f"{name}: {option} must be above 0, got {value}")
