"""Activations as modules. Each works elementwise on any shape unless it says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minidl import ops
from minidl._core import Tensor

from . import functional as F
from .module import Module
from .parameter import Parameter


class Activation(Module):
    """A function without parameters; ``repr`` shows the arguments named in ``_shown``."""

    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


class _Plain(Activation):
    """A function without arguments."""

    _function: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return self._function(input)


class _InPlace(Activation):
    """A function whose only argument is ``inplace``: write the result over the input."""

    _function: Callable[..., Tensor]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return self._function(input, self.inplace)

    def extra_repr(self) -> str:
        """``inplace=True`` or nothing."""
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0).

    >>> nn.ReLU()(md.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    _function = staticmethod(F.relu)


class ReLU6(_InPlace):
    """min(max(x, 0), 6).

    >>> nn.ReLU6()(md.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """

    _function = staticmethod(F.relu6)


class SiLU(_InPlace):
    """x * sigmoid(x), also called swish.

    >>> nn.SiLU()(md.tensor([1.0]))
    tensor([0.7311])
    """

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """x * tanh(softplus(x)).

    >>> nn.Mish()(md.tensor([1.0]))
    tensor([0.8651])
    """

    _function = staticmethod(F.mish)


class Hardsigmoid(_InPlace):
    """relu6(x + 3) / 6.

    >>> nn.Hardsigmoid()(md.tensor([0.0]))
    tensor([0.5000])
    """

    _function = staticmethod(F.hardsigmoid)


class Hardswish(_InPlace):
    """x * relu6(x + 3) / 6.

    >>> nn.Hardswish()(md.tensor([1.0]))
    tensor([0.6667])
    """

    _function = staticmethod(F.hardswish)


class SELU(_InPlace):
    """scale * elu(x, alpha) with the constants of self-normalising networks.

    >>> nn.SELU()(md.tensor([1.0]))
    tensor([1.0507])
    """

    _function = staticmethod(F.selu)


class Sigmoid(_Plain):
    """1 / (1 + exp(-x)).

    >>> nn.Sigmoid()(md.tensor([0.0]))
    tensor([0.5000])
    """

    _function = staticmethod(F.sigmoid)


class Tanh(_Plain):
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x)).

    >>> nn.Tanh()(md.tensor([0.0]))
    tensor([0.])
    """

    _function = staticmethod(F.tanh)


class LogSigmoid(_Plain):
    """log(1 / (1 + exp(-x))).

    >>> nn.LogSigmoid()(md.tensor([0.0]))
    tensor([-0.6931])
    """

    _function = staticmethod(F.logsigmoid)


class Softsign(_Plain):
    """x / (1 + |x|).

    >>> nn.Softsign()(md.tensor([1.0]))
    tensor([0.5000])
    """

    _function = staticmethod(F.softsign)


class Tanhshrink(_Plain):
    """x - tanh(x).

    >>> nn.Tanhshrink()(md.tensor([1.0]))
    tensor([0.2384])
    """

    _function = staticmethod(F.tanhshrink)


class GELU(Activation):
    """x * Phi(x), Phi the normal distribution function; ``approximate="tanh"`` is
    x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).

    >>> nn.GELU()(md.tensor([1.0]))
    tensor([0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        return f"approximate={self.approximate!r}"


class ELU(Activation):
    """x where x > 0, else alpha * (exp(x) - 1).

    >>> nn.ELU()(md.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(ELU):
    """x where x > 0, else alpha * (exp(x / alpha) - 1).

    >>> nn.CELU(2.0)(md.tensor([-1.0, 2.0]))
    tensor([-0.7869,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Activation):
    """x where x > 0, else negative_slope * x.

    >>> nn.LeakyReLU(0.1)(md.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(Activation):
    """x where x > 0, else weight * x; the weight is learned.

    Shapes: input (N, C, ...), weight (num_parameters), which is 1 or C.

    >>> nn.PReLU()(md.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    _shown = ("num_parameters",)

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) -> the same shape."""
        return F.prelu(input, self.weight)


class Hardtanh(Activation):
    """min(max(x, min_val), max_val).

    >>> nn.Hardtanh()(md.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    _shown = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None or max_value is not None:
            raise TypeError("Hardtanh: min_value and max_value are called min_val and max_val")
        if not max_val > min_val:
            raise ValueError(f"Hardtanh: max_val ({max_val}) must exceed min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Threshold(Activation):
    """x where x > threshold, else value.

    >>> nn.Threshold(0.1, 20)(md.tensor([0.05, 2.0]))
    tensor([20.,  2.])
    """

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


class Softplus(Activation):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold.

    >>> nn.Softplus()(md.tensor([0.0]))
    tensor([0.6931])
    """

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.softplus(input, self.beta, self.threshold)


class Hardshrink(Activation):
    """0 where |x| <= lambd, else x.

    >>> nn.Hardshrink()(md.tensor([0.3, 2.0]))
    tensor([0., 2.])
    """

    _shown = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.hardshrink(input, self.lambd)


class Softshrink(Hardshrink):
    """x - lambd above lambd, x + lambd below -lambd, 0 between.

    >>> nn.Softshrink()(md.tensor([0.3, 2.0]))
    tensor([0.0000, 1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same shape."""
        return F.softshrink(input, self.lambd)
