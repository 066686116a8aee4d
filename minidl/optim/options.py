"""Checks of the optimizers' options."""

from __future__ import annotations


def check_not_negative(name: str, **options: float) -> None:
    """Refuse negative (and NaN) options with a sentence that names the optimizer."""
    for option, value in options.items():
        if not value >= 0:
            raise ValueError(f"{name}: {option} must not be negative, got {value}")


def check_betas(name: str, betas: tuple[float, float]) -> None:
    """Refuse decay rates outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ValueError(f"{name}: betas[{i}] must be at least 0 and below 1, got {beta}")


def refuse(name: str, **options: bool) -> None:
    """Refuse options of PyTorch's optimizers that minidl does not have."""
    for option, value in options.items():
        if value:
            raise NotImplementedError(f"{name}: {option}=True is not supported")
