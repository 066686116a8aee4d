"""The feed-forward half of a transformer block: plain and gated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from minidl._core import Tensor

from . import functional as F
from .fused import activated, add_linear
from .linear import Linear
from .module import Module

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


def activation_function(activation: str | Callable[[Tensor], Tensor]) -> Any:
    """The function behind a name (relu, gelu, gelu_tanh, silu), or the function given."""
    if callable(activation):
        return activation
    if activation not in _ACTIVATIONS:
        names = ", ".join(_ACTIVATIONS)
        raise ValueError(f"activation should be one of {names} or a function, got {activation!r}")
    return _ACTIVATIONS[activation]


class FeedForward(Module):
    """y = down(activation(up(x))), with dropout behind.

    Shapes: (..., embed_dim) -> (..., embed_dim); hidden_dim is 4 * embed_dim unless given.

    >>> nn.FeedForward(64)(md.randn(2, 10, 64)).shape
    (2, 10, 64)
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int | None = None,
        *,
        activation: str | Callable[[Tensor], Tensor] = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        hidden = 4 * embed_dim if hidden_dim is None else hidden_dim
        self.activation = activation_function(activation)
        self._name = activation if isinstance(activation, str) else ""
        self.up = Linear(embed_dim, hidden, bias, device, dtype)
        self.down = Linear(hidden, embed_dim, bias, device, dtype)
        self.dropout = dropout

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., embed_dim) -> (..., embed_dim); what ``residual`` holds is added."""
        if residual is None:
            y = self.down(self.activation(self.up(x)))
            return F.dropout(y, self.dropout, self.training)
        hidden = activated(self.up, x, self._name)
        if hidden is None:
            hidden = self.activation(self.up(x))
        return _with_residual(self, hidden, residual)


class SwiGLU(Module):
    """y = down(silu(gate(x)) * up(x)), with dropout behind.

    Shapes: (..., embed_dim) -> (..., embed_dim); hidden_dim is 8/3 * embed_dim, rounded up to a
    multiple of 64, unless given.

    >>> nn.SwiGLU(64)(md.randn(2, 10, 64)).shape
    (2, 10, 64)
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_dim: int | None = None,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        hidden = -(-embed_dim * 8 // (3 * 64)) * 64 if hidden_dim is None else hidden_dim
        self.gate = Linear(embed_dim, hidden, bias, device, dtype)
        self.up = Linear(embed_dim, hidden, bias, device, dtype)
        self.down = Linear(hidden, embed_dim, bias, device, dtype)
        self.dropout = dropout

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(..., embed_dim) -> (..., embed_dim); what ``residual`` holds is added."""
        hidden = F.silu(self.gate(x)) * self.up(x)
        if residual is None:
            return F.dropout(self.down(hidden), self.dropout, self.training)
        return _with_residual(self, hidden, residual)


def _with_residual(layer: FeedForward | SwiGLU, hidden: Tensor, residual: Tensor) -> Tensor:
    if layer.dropout and layer.training:
        return residual + F.dropout(layer.down(hidden), layer.dropout, True)
    return add_linear(layer.down, hidden, residual)
