"""Optimizers and learning rate schedules, with PyTorch's names and arguments."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .groups import decay_groups, muon_groups
from .lion import Lion
from .muon import Muon
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "Adam", "AdamW", "decay_groups", "Lion", "lr_scheduler", "Muon", "muon_groups", "Optimizer",
    "SGD",
]
