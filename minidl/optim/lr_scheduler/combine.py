"""Schedules of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler


class Combined(LRScheduler):
    """Schedules of one optimizer, saved together."""

    unsaved = ("optimizer", "schedulers")

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(
                    f"{name}: schedulers[{i}] must be a schedule, got {type(scheduler).__name__}"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"{name}: schedulers[{i}] belongs to another optimizer")
        self.optimizer = optimizer
        self.schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        """The place in the schedule, and the states of its parts."""
        return super().state_dict() | {"schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of a schedule with the same parts."""
        states = state_dict.get("schedulers", [])
        if len(states) != len(self.schedulers):
            raise ValueError(
                f"{type(self).__name__}: the state has {len(states)} schedules, this one "
                f"{len(self.schedulers)}"
            )
        for scheduler, state in zip(self.schedulers, states, strict=True):
            scheduler.load_state_dict(state)
        parts = self.schedulers
        super().load_state_dict(state_dict)
        self.schedulers = parts


class SequentialLR(Combined):
    """One schedule after the other: the next takes over, from its beginning, at each milestone.

    >>> from minidl.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> parts = [LinearLR(optimizer, 0.1, total_iters=10), CosineAnnealingLR(optimizer, 90)]
    >>> SequentialLR(optimizer, parts, milestones=[10]).get_last_lr()
    [0.1]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]
    ) -> None:
        super().__init__(optimizer, schedulers)
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules need a milestone between each two, "
                f"got {len(milestones)}"
            )
        if any(a >= b for a, b in zip([0, *milestones], milestones, strict=False)):
            raise ValueError(f"SequentialLR: milestones must rise from 1 on, got {milestones}")
        self.milestones = list(milestones)
        self.restart()

    def step(self) -> None:
        """Go on by one step of the schedule whose turn it is."""
        self.last_epoch += 1
        scheduler = self.schedulers[bisect_right(self.milestones, self.last_epoch)]
        if self.last_epoch in self.milestones:
            scheduler.restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def restart(self) -> None:
        """Go to step 0."""
        self.last_epoch = 0
        self.schedulers[0].restart()
        self._last_lr = self.schedulers[0].get_last_lr()


class ChainedScheduler(Combined):
    """All schedules at once: each multiplies the learning rates that the one before has set.

    >>> from minidl.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> parts = [ConstantLR(optimizer, 0.1, total_iters=2), ExponentialLR(optimizer, gamma=0.9)]
    >>> ChainedScheduler(parts).get_last_lr()
    [0.1]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler: there must be at least one schedule")
        super().__init__(optimizer or schedulers[0].optimizer, schedulers)
        self._last_lr = self.current()

    def step(self) -> None:
        """Go on by one step of every schedule."""
        for scheduler in self.schedulers:
            scheduler.step()
        self._last_lr = self.current()

    def restart(self) -> None:
        """Go to step 0: every schedule from the learning rates of the one before."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self.schedulers:
            scheduler.last_epoch = 0
            scheduler.set_lr(scheduler.get_lr())
        self._last_lr = self.current()
