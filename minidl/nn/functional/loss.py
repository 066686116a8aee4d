"""Losses that compare two tensors element by element, or pairs of vectors."""

from __future__ import annotations

import math
import warnings
from typing import Any

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ArgumentError, ShapeError, UnsupportedError

from .distance import pairwise_distance


def check_legacy(name: str, size_average: Any, reduce: Any) -> None:
    """Refuse the arguments that PyTorch replaced by ``reduction`` long ago."""
    if size_average is not None or reduce is not None:
        raise UnsupportedError(
            f"{name}: size_average and reduce are not supported, use reduction='mean', 'sum' or "
            "'none'"
        )


def reduce_loss(name: str, loss: Tensor, reduction: str) -> Tensor:
    """``loss`` as it is ('none'), its mean or its sum."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ArgumentError(
        f"{name}: {reduction!r} is not a valid value for reduction, use 'mean', 'sum' or 'none'"
    )


def _warn_broadcast(name: str, input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"{name}: the target has shape {tuple(target.shape)}, the input "
            f"{tuple(input.shape)}; they are broadcast, which is seldom what was meant",
            stacklevel=3,
        )


def _weighted(name: str, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """The reduction of ``loss`` with a weight for each element; 'mean' is the weighted mean."""
    loss = _times(name, loss, weight)
    if weight is not None and reduction == "mean":
        return loss.sum() / weight.sum()
    return reduce_loss(name, loss, reduction)


def _times(name: str, loss: Tensor, weight: Tensor | None) -> Tensor:
    """``loss`` with a weight for each element."""
    if weight is None:
        return loss
    if tuple(weight.shape) != tuple(loss.shape):
        raise ShapeError(
            f"{name}: weight has shape {tuple(weight.shape)}, expected {tuple(loss.shape)}"
        )
    return loss * weight


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """mean((input - target)^2), weighted by ``weight`` if given.

    Shapes: input and target the same.

    >>> F.mse_loss(md.tensor([1.0, 2.0]), md.tensor([1.0, 4.0]))
    tensor(2.)
    """
    check_legacy("mse_loss", size_average, reduce)
    _warn_broadcast("mse_loss", input, target)
    return _weighted("mse_loss", ops.square(input - target), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """mean(|input - target|), weighted by ``weight`` if given.

    >>> F.l1_loss(md.tensor([1.0, 2.0]), md.tensor([1.0, 4.0]))
    tensor(1.)
    """
    check_legacy("l1_loss", size_average, reduce)
    _warn_broadcast("l1_loss", input, target)
    return _weighted("l1_loss", ops.abs(input - target), weight, reduction)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """With d = |input - target|: d^2 / 2 where d <= delta, else delta * (d - delta / 2).

    >>> F.huber_loss(md.tensor([0.0]), md.tensor([3.0]))
    tensor(2.5000)
    """
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta must be positive, got {delta}")
    _warn_broadcast("huber_loss", input, target)
    difference = input - target
    distance = ops.abs(difference)
    loss = ops.where(
        distance <= delta, ops.square(difference) * 0.5, (distance - 0.5 * delta) * delta
    )
    # PyTorch's mean here is the plain one, unlike that of mse_loss and l1_loss.
    return reduce_loss("huber_loss", _times("huber_loss", loss, weight), reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2.

    >>> F.smooth_l1_loss(md.tensor([0.0]), md.tensor([3.0]))
    tensor(2.5000)
    """
    check_legacy("smooth_l1_loss", size_average, reduce)
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    _warn_broadcast("smooth_l1_loss", input, target)
    difference = input - target
    distance = ops.abs(difference)
    loss = ops.where(
        distance < beta, ops.square(difference) * (0.5 / beta), distance - 0.5 * beta
    )
    return reduce_loss("smooth_l1_loss", loss, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log(target) - input), where ``input`` (and with ``log_target`` the target) is a
    log-probability; ``reduction='batchmean'`` is the sum over the number of rows.

    >>> p = md.tensor([[0.5, 0.5]])
    >>> F.kl_div(p.log(), p, reduction="batchmean")
    tensor(0.)
    """
    check_legacy("kl_div", size_average, reduce)
    if log_target:
        loss = ops.exp(target) * (target - input)
    else:
        # x log x is 0 at 0; the log of 1 keeps its gradient finite there.
        log = ops.log(ops.where(target == 0, ops.ones_like(target), target))
        loss = target * (log - input)
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss
    return reduce_loss("kl_div", loss, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """mean(log(1 + exp(-target * input))), targets -1 and 1.

    >>> F.soft_margin_loss(md.tensor([0.0]), md.tensor([1.0]))
    tensor(0.6931)
    """
    check_legacy("soft_margin_loss", size_average, reduce)
    return reduce_loss("soft_margin_loss", -ops.logsigmoid(target * input), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1.

    >>> F.hinge_embedding_loss(md.tensor([0.2, 0.2]), md.tensor([1.0, -1.0]), reduction="none")
    tensor([0.2000, 0.8000])
    """
    check_legacy("hinge_embedding_loss", size_average, reduce)
    apart = ops.where(target == 1, 0.0, (margin - input).clamp(min=0))
    together = ops.where(target == -1, 0.0, input)
    return reduce_loss("hinge_embedding_loss", apart + together, reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin): input1 should rank higher where target is 1.

    >>> F.margin_ranking_loss(md.tensor([1.0]), md.tensor([3.0]), md.tensor([1.0]))
    tensor(2.)
    """
    check_legacy("margin_ranking_loss", size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            "margin_ranking_loss: the inputs and the target must have the same number of axes, got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    loss = (-target * (input1 - input2) + float(margin)).clamp(min=0)
    return reduce_loss("margin_ranking_loss", loss, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1.

    Shapes: inputs (N, D) and target (N), or inputs (D) and target ().

    >>> a = md.randn(3, 8)
    >>> F.cosine_embedding_loss(a, a, md.ones(3))
    tensor(0.)
    """
    check_legacy("cosine_embedding_loss", size_average, reduce)
    if input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1 or target.ndim > 1:
        raise ShapeError(
            "cosine_embedding_loss: takes inputs (N, D) with a target (N), or (D) with (), got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    # eps as PyTorch has it in this loss: under the root, beside the squared lengths.
    eps = 1e-12
    product = (input1 * input2).sum(-1)
    lengths = (ops.square(input1).sum(-1) + eps) * (ops.square(input2).sum(-1) + eps)
    cosine = product / ops.sqrt(lengths)
    same = ops.where(target == 1, 1 - cosine, 0.0)
    other = ops.where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return reduce_loss("cosine_embedding_loss", same + other, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm distance;
    ``swap`` takes d(positive, negative) where it is smaller.

    Shapes: (N, D) or (D) each.

    >>> a = md.zeros(1, 2)
    >>> F.triplet_margin_loss(a, a, a)
    tensor(1.)
    """
    check_legacy("triplet_margin_loss", size_average, reduce)
    if margin <= 0:
        raise ArgumentError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduce_loss("triplet_margin_loss", (near - far + margin).clamp(min=0), reduction)


def _differ_in_one_axis_of_one(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    different = [m for n, m in zip(shape, other, strict=False) if n != m]
    return len(shape) == len(other) and different == [1]


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log(var) + (input - target)^2 / var) / 2 with var at least eps (no gradient through that
    limit); ``full`` adds log(2 pi) / 2.

    Shapes: input and target (...), var the same, or with one axis 1, or without the last one.

    >>> F.gaussian_nll_loss(md.zeros(3), md.ones(3), md.ones(3))
    tensor(0.5000)
    """
    if not isinstance(var, Tensor):
        var = ops.full_like(input, float(var))
    shape, var_shape = tuple(input.shape), tuple(var.shape)
    if var_shape == shape[:-1] != shape:
        var = var.unsqueeze(-1)
    elif var_shape != shape and not _differ_in_one_axis_of_one(shape, var_shape):
        raise ShapeError(f"gaussian_nll_loss: var has shape {var_shape}, the input {shape}")
    if bool((var < 0).any()):
        raise ArgumentError("gaussian_nll_loss: var has negative entries")
    # The value is max(var, eps), the gradient passes as if there were no limit.
    var = var + (var.clamp(min=eps) - var).detach()
    loss = (ops.log(var) + ops.square(input - target) / var) * 0.5
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce_loss("gaussian_nll_loss", loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target * input with ``log_input``, else input - target * log(input + eps);
    ``full`` adds Stirling's approximation of log(target!) for targets above 1.

    >>> F.poisson_nll_loss(md.zeros(2), md.ones(2))
    tensor(1.)
    """
    check_legacy("poisson_nll_loss", size_average, reduce)
    expected = ops.exp(input) if log_input else input
    loss = expected - target * (input if log_input else ops.log(input + eps))
    if full:
        safe = ops.where(target > 1, target, ops.ones_like(target))
        stirling = safe * ops.log(safe) - safe + ops.log(safe * (2 * math.pi)) * 0.5
        loss = loss + ops.where(target > 1, stirling, 0.0)
    return reduce_loss("poisson_nll_loss", loss, reduction)
