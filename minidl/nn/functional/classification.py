"""Losses of classifiers: class ids, class probabilities, yes-or-no targets."""

from __future__ import annotations

from typing import Any

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ArgumentError, DimensionError, DTypeError, ShapeError, UnsupportedError

from .loss import check_legacy, reduce_loss


def _classes_last(name: str, input: Tensor, target: Tensor) -> Tensor:
    """(C), (N, C) or (N, C, d1, ...) with the axis of the classes moved to the end."""
    if input.ndim == 0:
        raise ShapeError(f"{name}: takes scores (C), (N, C) or (N, C, d1, ...), got a 0-d tensor")
    shape = tuple(input.shape)
    axis = 0 if len(shape) == 1 else 1
    expected = shape[:axis] + shape[axis + 1 :]
    if tuple(target.shape) != expected:
        raise ShapeError(
            f"{name}: the target has shape {tuple(target.shape)}, expected {expected} class ids "
            f"for an input of shape {shape}"
        )
    return input if axis == len(shape) - 1 else input.movedim(axis, -1)


def _check_weight(name: str, weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(
            f"{name}: weight must have one entry for each of the {classes} classes, got shape "
            f"{tuple(weight.shape)}"
        )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-weight[target] * input[target] for log-probabilities ``input``; 'mean' divides by the sum
    of the weights. Targets equal to ``ignore_index`` count for nothing.

    Shapes: input (C), (N, C) or (N, C, d1, ...), target of class ids (), (N) or (N, d1, ...).

    >>> F.nll_loss(md.tensor([[-0.1, -2.0]]), md.tensor([0]))
    tensor(0.1000)
    """
    check_legacy("nll_loss", size_average, reduce)
    logp = _classes_last("nll_loss", input, target)
    return _nll(_Target("nll_loss", logp, target, weight, ignore_index), logp, reduction)


class _Target:
    """Class ids with the ignored ones set apart: what nll_loss and label smoothing share.

    ids: the targets, 0 where ignored; kept: which ones count; scale: the weight of each.
    """

    def __init__(
        self, name: str, logp: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
    ) -> None:
        classes = logp.shape[-1]
        if target.is_floating_point():
            raise DTypeError(f"{name}: class ids must be integers, the target is {target.dtype}")
        _check_weight(name, weight, classes)
        self.name = name
        self.kept = target != ignore_index
        self.ids = ops.where(self.kept, target, 0)
        if bool(((self.ids < 0) | (self.ids >= classes)).any()):
            raise DimensionError(
                f"{name}: the target has class ids outside [0, {classes}), for example "
                f"{int(_first_outside(self.ids, classes))}"
            )
        scale = self.kept.to(logp.dtype)
        self.scale = scale if weight is None else scale * weight[self.ids]

    def reduce(self, loss: Tensor, reduction: str) -> Tensor:
        """'mean' is the mean weighted by ``scale``."""
        if reduction == "mean":
            return loss.sum() / self.scale.sum()
        return reduce_loss(self.name, loss, reduction)


def _first_outside(ids: Tensor, classes: int) -> int:
    return next(i for i in ids.flatten().tolist() if not 0 <= i < classes)


def _nll(target: _Target, logp: Tensor, reduction: str) -> Tensor:
    picked = ops.gather(logp, -1, target.ids.unsqueeze(-1)).squeeze(-1)
    # where, not a product: an ignored -inf must not become NaN.
    loss = ops.where(target.kept, -picked * target.scale, 0.0)
    return target.reduce(loss, reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-sum_c q_c * weight_c * log_softmax(input)_c, where q is the target: one class, or a
    probability for each; label smoothing s makes it (1 - s) q + s / C.

    Shapes: input (C), (N, C) or (N, C, d1, ...); target of class ids (), (N) or (N, d1, ...), or
    of probabilities in the input's shape.

    >>> F.cross_entropy(md.zeros(1, 4), md.tensor([2]))
    tensor(1.3863)
    """
    check_legacy("cross_entropy", size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(
            f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}"
        )
    if tuple(target.shape) == tuple(input.shape) and target.is_floating_point():
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    scores = _classes_last("cross_entropy", input, target)
    if weight is None:
        return _fused_cross_entropy(scores, target, ignore_index, label_smoothing, reduction)
    logp = ops.log_softmax(scores, -1)
    ids = _Target("cross_entropy", logp, target, weight, ignore_index)
    loss = _nll(ids, logp, reduction)
    if label_smoothing == 0:
        return loss
    spread = -(logp * weight).sum(-1)
    spread = ids.reduce(ops.where(ids.kept, spread, 0.0), reduction)
    return loss * (1 - label_smoothing) + spread * (label_smoothing / logp.shape[-1])


def _fused_cross_entropy(
    scores: Tensor, target: Tensor, ignore_index: int, smoothing: float, reduction: str
) -> Tensor:
    """One pass over the rows of ``scores`` (..., C), without making the log-probabilities."""
    rows = scores.reshape((-1, scores.shape[-1])) if scores.ndim != 2 else scores
    ids = target.reshape((-1,)) if target.ndim != 1 else target
    loss = ops.cross_entropy(rows, ids, ignore_index, smoothing, reduction)
    return loss.reshape(tuple(target.shape)) if reduction == "none" else loss


def _soft_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    if ignore_index >= 0:
        raise UnsupportedError(
            "cross_entropy: ignore_index has no meaning for class probabilities"
        )
    if input.ndim > 1:
        input, target = input.movedim(1, -1), target.movedim(1, -1)
    classes = input.shape[-1]
    _check_weight("cross_entropy", weight, classes)
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    logp = ops.log_softmax(input, -1)
    loss = -(logp * target if weight is None else logp * target * weight).sum(-1)
    return reduce_loss("cross_entropy", loss, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-(pos_weight * t * log(sigmoid(x)) + (1 - t) * log(1 - sigmoid(x))), times ``weight``.

    Shapes: input and target the same; weight and pos_weight broadcast.

    >>> F.binary_cross_entropy_with_logits(md.zeros(2), md.ones(2))
    tensor(0.6931)
    """
    name = "binary_cross_entropy_with_logits"
    check_legacy(name, size_average, reduce)
    _same_shape(name, input, target)
    log_p = ops.logsigmoid(input)
    if pos_weight is None:
        loss = (1 - target) * input - log_p
    else:
        loss = (1 - target) * input - log_p * (1 + (pos_weight - 1) * target)
    return reduce_loss(name, loss if weight is None else loss * weight, reduction)


def _same_shape(name: str, input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        raise ShapeError(
            f"{name}: the target has shape {tuple(target.shape)}, the input {tuple(input.shape)}; "
            "they must be the same"
        )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t * log(x) + (1 - t) * log(1 - x)) for probabilities x, logarithms not below -100,
    times ``weight``. The gradient's denominator x (1 - x) is not below 1e-12.

    Shapes: input and target the same; weight broadcasts.

    >>> F.binary_cross_entropy(md.tensor([0.5]), md.tensor([1.0]))
    tensor(0.6931)
    """
    name = "binary_cross_entropy"
    check_legacy(name, size_average, reduce)
    _same_shape(name, input, target)
    x, t = input.detach(), target.detach()
    if bool(((x < 0) | (x > 1)).any()):
        raise ArgumentError(f"{name}: the input must be probabilities between 0 and 1")
    log_p, log_q = ops.log(x).clamp(min=-100), ops.log1p(-x).clamp(min=-100)
    slope = (x - t) / (x * (1 - x)).clamp(min=1e-12)
    # The value from the limited logarithms, the gradients given beside it: at x = 0 and 1 those
    # of the logarithms would be infinite.
    loss = -(t * log_p + (1 - t) * log_q) + (input - x) * slope + (target - t) * (log_q - log_p)
    return reduce_loss(name, loss if weight is None else loss * weight, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the classes of -(t log(sigmoid(x)) + (1 - t) log(sigmoid(-x))).

    Shapes: input and target (N, C) or (C); the loss of each row has shape (N) or ().

    >>> F.multilabel_soft_margin_loss(md.zeros(2, 3), md.ones(2, 3))
    tensor(0.6931)
    """
    name = "multilabel_soft_margin_loss"
    check_legacy(name, size_average, reduce)
    loss = -(target * ops.logsigmoid(input) + (1 - target) * ops.logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduce_loss(name, loss.sum(-1) / input.shape[-1], reduction)
