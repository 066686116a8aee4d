"""What every schedule shares: the count of steps, the learning rates of the groups, saving."""

from __future__ import annotations

import copy
from typing import Any

from ..optimizer import Optimizer


class LRScheduler:
    """Base of the schedules: ``step()``, after each step of the optimizer, sets the learning rate
    of every parameter group.

    A subclass writes ``get_lr()``, the learning rates at step ``last_epoch``. The rates that the
    optimizer was made with stay in ``base_lrs`` and in each group's ``initial_lr``.

    >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = md.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [1.0]
    [1.0]
    [0.1]
    [0.1]
    """

    unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{type(self).__name__}: optimizer must be a minidl optimizer, got "
                f"{type(optimizer).__name__}"
            )
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: to go on from last_epoch={last_epoch}, parameter "
                    f"group {i} needs an initial_lr; load the optimizer's state first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self.set_lr(self.get_lr() if last_epoch == -1 else self.resumed_lr())

    def resumed_lr(self) -> list[float]:
        """The learning rates of the first step of a schedule that goes on."""
        return self.get_lr()

    def current(self) -> list[float]:
        """The learning rates that the optimizer has."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def set_lr(self, rates: list[float]) -> None:
        """Give the groups their learning rates."""
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = rates

    def get_last_lr(self) -> list[float]:
        """The learning rates that the schedule has set last, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """The learning rates at step ``last_epoch``, from those of the step before."""
        raise NotImplementedError(f"{type(self).__name__} does not say which learning rates to set")

    def step(self) -> None:
        """Go on by one step."""
        self.last_epoch += 1
        self.set_lr(self.get_lr())

    def restart(self) -> None:
        """Go to step 0, whatever the learning rates are now."""
        self.set_lr(self.base_lrs)
        self.last_epoch = 0
        self.set_lr(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        """The options and the place in the schedule; the optimizer saves its own state.

        >>> optimizer = md.optim.SGD([md.ones(2, requires_grad=True)], lr=1.0)
        >>> md.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9).state_dict()["last_epoch"]
        0
        """
        saved = {key: value for key, value in self.__dict__.items() if key not in self.unsaved}
        return copy.deepcopy(saved)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the options and the place of another schedule of the same kind."""
        unknown = set(state_dict) ^ set(self.state_dict())
        if unknown:
            raise ValueError(
                f"{type(self).__name__}: this is not the state of such a schedule; "
                f"{', '.join(sorted(map(repr, unknown)))} should not be missing or not be there"
            )
        self.__dict__.update(copy.deepcopy(state_dict))
