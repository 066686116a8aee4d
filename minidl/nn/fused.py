"""Steps of a transformer block that a device computes with fewer launches.

Each is what the modules would compute, and calls them where somebody listens to them (hooks).
"""

from __future__ import annotations

from typing import Any

from minidl import ops
from minidl._core import Tensor

from .linear import Linear
from .normalization import LayerNorm, RMSNorm

# Whose gradient needs what went in: the product can keep that and apply the formula.
ACTIVATIONS = ("gelu", "gelu_tanh", "silu")


def norm_and_skip(norm: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """norm(x), and x for the way round it."""
    if type(norm) not in (LayerNorm, RMSNorm) or norm._hooks is not None or norm.eps is None \
            or len(norm.normalized_shape) != 1 or norm.normalized_shape[0] != x.shape[-1]:
        return norm(x), x
    centred = type(norm) is LayerNorm
    return ops.norm_and_skip(x, norm.weight, norm.bias, norm.eps, centred)


def add_linear(linear: Any, x: Tensor, residual: Tensor) -> Tensor:
    """residual + linear(x)."""
    if type(linear) is not Linear or linear._hooks is not None:
        return residual + linear(x)
    return ops.linear_add(x, linear.weight, linear.bias, residual)


def activated(linear: Any, x: Tensor, name: str) -> Tensor | None:
    """The activation of linear(x), or None when the two do not go together."""
    if type(linear) is not Linear or linear._hooks is not None or name not in ACTIVATIONS:
        return None
    return ops.linear_activation(x, linear.weight, linear.bias, name)
