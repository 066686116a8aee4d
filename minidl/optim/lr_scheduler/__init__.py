"""Learning rate schedules, with PyTorch's names and arguments."""

from .base import LRScheduler
from .combine import ChainedScheduler, SequentialLR
from .curves import CosineAnnealingLR, LambdaLR, WarmupCosineLR
from .factors import ConstantLR, ExponentialLR, LinearLR, MultiStepLR, StepLR
from .onecycle import OneCycleLR

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "LRScheduler",
    "MultiStepLR",
    "OneCycleLR",
    "SequentialLR",
    "StepLR",
    "WarmupCosineLR",
]
