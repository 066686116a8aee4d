"""Optimizers and learning rate schedules, with PyTorch's names and arguments."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "Adam", "AdamW", "lr_scheduler", "Optimizer", "SGD",
]
