"""One cycle: up to a large learning rate and down to almost none."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler
from .factors import check_positive, check_share


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr in the first ``pct_start`` of the steps, then down to
    max_lr / div_factor / final_div_factor; along a cosine or a line. The momentum (or beta1) goes
    the other way, from ``max_momentum`` down to ``base_momentum`` and back. ``three_phase`` goes
    down as it went up, and then to the end.

    >>> optimizer = md.optim.AdamW([md.ones(2, requires_grad=True)])
    >>> scheduler = md.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=100)
    >>> [round(lr, 6) for lr in scheduler.get_last_lr()]
    [0.004]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        check_positive("OneCycleLR", total_steps=total_steps, div_factor=div_factor)
        check_share("OneCycleLR", pct_start=pct_start)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f'OneCycleLR: anneal_strategy must be "cos" or "linear", got {anneal_strategy!r}'
            )
        self.total_steps = total_steps
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.ends = _ends(total_steps, pct_start, three_phase)
        groups = getattr(optimizer, "param_groups", [])
        tops = _each("max_lr", max_lr, groups)
        self.lr_points = [_points(top, div_factor, final_div_factor, three_phase) for top in tops]
        self.momentum_points = [
            [high, low, high, high][: len(self.ends) + 1]
            for low, high in zip(
                _each("base_momentum", base_momentum, groups),
                _each("max_momentum", max_momentum, groups),
                strict=True,
            )
        ]
        if last_epoch == -1:
            for group, points in zip(groups, self.lr_points, strict=True):
                group["initial_lr"] = points[0]
        if cycle_momentum and not all("betas" in g or "momentum" in g for g in groups):
            raise ValueError(
                "OneCycleLR: the optimizer has no momentum to cycle; pass cycle_momentum=False"
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The learning rates at step ``last_epoch``; sets the momentum too."""
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"OneCycleLR: step {self.last_epoch} of a schedule of {self.total_steps} steps; "
                "make total_steps larger"
            )
        if self.cycle_momentum:
            for group, points in zip(
                self.optimizer.param_groups, self.momentum_points, strict=True
            ):
                momentum = self._between(points)
                if "betas" in group:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [self._between(points) for points in self.lr_points]

    def _between(self, points: list[float]) -> float:
        """The value at ``last_epoch`` of the curve through ``points``, at steps 0 and ``ends``."""
        phase = 0
        while phase < len(self.ends) - 1 and self.last_epoch > self.ends[phase]:
            phase += 1
        begin = self.ends[phase - 1] if phase else 0.0
        length = self.ends[phase] - begin
        share = (self.last_epoch - begin) / length if length else 1.0
        start, end = points[phase : phase + 2]
        if self.anneal_strategy == "cos":
            return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
        return start + (end - start) * share


def _ends(total: int, pct_start: float, three_phase: bool) -> list[float]:
    """The last step of each phase."""
    up = pct_start * total - 1
    return [up, 2 * pct_start * total - 2, total - 1] if three_phase else [up, total - 1]


def _points(top: float, div: float, final_div: float, three_phase: bool) -> list[float]:
    low = top / div
    return [low, top, low, low / final_div] if three_phase else [low, top, low / final_div]


def _each(name: str, value: float | list[float], groups: list[Any]) -> list[float]:
    values = list(value) if isinstance(value, (list, tuple)) else [value] * len(groups)
    if len(values) != len(groups):
        raise ValueError(
            f"OneCycleLR: {name} has {len(values)} values for {len(groups)} parameter groups"
        )
    return values
