"""Losses as modules: the functions of ``nn.functional`` with their options fixed."""

from __future__ import annotations

from typing import Any

from minidl._core import Tensor

from . import functional as F
from .functional.loss import check_legacy
from .module import Module


class _Loss(Module):
    """A loss with a ``reduction``: 'mean', 'sum' or 'none'."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"):
        super().__init__()
        check_legacy(type(self).__name__, size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight tensor, kept as a buffer so that it follows ``to()``."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """mean((input - target)^2).

    Shapes: input and target the same; output (), or theirs with ``reduction='none'``.

    >>> nn.MSELoss()(md.tensor([1.0, 2.0]), md.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` against ``target``."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """mean(|input - target|).

    Shapes: input and target the same; output (), or theirs with ``reduction='none'``.

    >>> nn.L1Loss()(md.tensor([1.0, 2.0]), md.tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` against ``target``."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2.

    Shapes: input and target the same; output (), or theirs with ``reduction='none'``.

    >>> nn.SmoothL1Loss()(md.tensor([0.0]), md.tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` against ``target``."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """With d = |input - target|: d^2 / 2 where d <= delta, else delta * (d - delta / 2).

    Shapes: input and target the same; output (), or theirs with ``reduction='none'``.

    >>> nn.HuberLoss()(md.tensor([0.0]), md.tensor([3.0]))
    tensor(2.5000)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (int, float)):
            raise TypeError(f"HuberLoss: delta must be a float or int, got {type(delta).__name__}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` against ``target``."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_WeightedLoss):
    """-sum_c q_c * weight_c * log_softmax(input)_c, where q is the target: one class, or a
    probability for each; label smoothing s makes it (1 - s) q + s / C.

    Shapes: input (C), (N, C) or (N, C, d1, ...); target of class ids (), (N) or (N, d1, ...), or
    of probabilities in the input's shape.

    >>> nn.CrossEntropyLoss()(md.zeros(1, 4), md.tensor([2]))
    tensor(1.3863)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the scores ``input`` against ``target``."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """-weight[target] * input[target] for log-probabilities ``input``.

    Shapes: input (C), (N, C) or (N, C, d1, ...); target of class ids (), (N) or (N, d1, ...).

    >>> nn.NLLLoss()(md.tensor([[-0.1, -2.0]]), md.tensor([0]))
    tensor(0.1000)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the log-probabilities ``input`` against ``target``."""
        return F.nll_loss(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class BCELoss(_WeightedLoss):
    """-(t * log(x) + (1 - t) * log(1 - x)) for probabilities x, logarithms not below -100.

    Shapes: input and target the same; output (), or theirs with ``reduction='none'``.

    >>> nn.BCELoss()(md.tensor([0.5]), md.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the probabilities ``input`` against ``target``."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """-(pos_weight * t * log(sigmoid(x)) + (1 - t) * log(1 - sigmoid(x))).

    Shapes: input and target the same; weight and pos_weight broadcast.

    >>> nn.BCEWithLogitsLoss()(md.zeros(2), md.ones(2))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the scores ``input`` against ``target``."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """target * (log(target) - input), where ``input`` (and with ``log_target`` the target) is a
    log-probability; ``reduction='batchmean'`` is the sum over the number of rows.

    Shapes: input and target the same; output (), or theirs with ``reduction='none'``.

    >>> p = md.tensor([[0.5, 0.5]])
    >>> nn.KLDivLoss(reduction="batchmean")(p.log(), p)
    tensor(0.)
    """

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The divergence of ``input`` from ``target``."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class SoftMarginLoss(_Loss):
    """mean(log(1 + exp(-target * input))), targets -1 and 1.

    >>> nn.SoftMarginLoss()(md.tensor([0.0]), md.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` against ``target``."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over the classes of -(t log(sigmoid(x)) + (1 - t) log(sigmoid(-x))).

    Shapes: input and target (N, C) or (C).

    >>> nn.MultiLabelSoftMarginLoss()(md.zeros(2, 3), md.ones(2, 3))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the scores ``input`` against ``target``."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """exp(input) - target * input with ``log_input``, else input - target * log(input + eps).

    Shapes: input and target the same; output (), or theirs with ``reduction='none'``.

    >>> nn.PoissonNLLLoss()(md.zeros(2), md.ones(2))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: Any = None,
        eps: float = 1e-8,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """The loss of the rates against the counts ``target``."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """(log(var) + (input - target)^2 / var) / 2, var not below eps.

    Shapes: input and target (...), var the same, or with one axis 1, or without the last one.

    >>> nn.GaussianNLLLoss()(md.zeros(3), md.ones(3), md.ones(3))
    tensor(0.5000)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """The loss of the means ``input`` and variances ``var`` against ``target``."""
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
