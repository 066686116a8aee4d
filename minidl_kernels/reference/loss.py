"""Cross-entropy of logits [N, V] against class ids [N] in NumPy."""

import numpy as np


def cross_entropy(logits, target, ignore_index, label_smoothing):
    """log(sum(exp(x))) - (1 - s) x[target] - s mean(x), 0 where ignored -> losses, lse [N]"""
    keep, picked = _targets("cross_entropy", logits, target, ignore_index, label_smoothing)
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.max(logits, 1, keepdims=True, initial=-np.inf)
        log_sum = np.log(np.sum(np.exp(logits - top), 1))
        likely = np.take_along_axis(logits, picked[:, None], 1)[:, 0] if logits.size else top[:, 0]
        if label_smoothing:
            even = np.sum(logits, 1) / logits.dtype.type(logits.shape[1])
            likely = (1 - label_smoothing) * likely + label_smoothing * even
        losses = log_sum - (likely - top[:, 0])
        return np.where(keep, losses, 0).astype(logits.dtype), top[:, 0] + log_sum


def counted_mean(losses, target, ignore_index):
    """(sum of the losses / number of targets that are not ignored, this number) -> 0-d, int"""
    count = int(np.count_nonzero(target != ignore_index))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sum(losses) / losses.dtype.type(count)), count


def cross_entropy_grad(g, logits, target, lse, ignore_index, label_smoothing, count=None):
    """g (softmax(x) - s / V - (1 - s) onehot(target)), 0 where ignored -> dlogits [N, V]

    g is [N]; or 0-d, for every row, and divided by `count` where that is given.
    """
    keep, picked = _targets("cross_entropy_grad", logits, target, ignore_index, label_smoothing)
    with np.errstate(invalid="ignore", divide="ignore"):
        if count is not None:
            g = g / logits.dtype.type(count)
        dx = np.exp(logits - lse[:, None]) - label_smoothing / max(logits.shape[1], 1)
        if logits.size:
            dx[np.arange(len(picked)), picked] -= 1 - label_smoothing
        return np.where(keep[:, None], g[..., None] * dx, 0).astype(logits.dtype)


def _targets(name, logits, target, ignore_index, label_smoothing):
    """Which rows count, and the class to pick in each (any class where it does not count)."""
    if logits.ndim != 2 or target.shape != logits.shape[:1]:
        raise ValueError(f"{name}: expected logits [N, V] and target [N], got shapes "
                         f"{logits.shape} and {target.shape}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing must be between 0 and 1, got {label_smoothing}")
    V = logits.shape[1]
    keep = target != ignore_index
    wrong = np.flatnonzero(keep & ((target < 0) | (target >= V)))
    if wrong.size:
        raise IndexError(f"{name}: target[{wrong[0]}] is {target[wrong[0]]}, expected a class "
                         f"from 0 to {V - 1} ({V} classes) or ignore_index {ignore_index}")
    return keep, np.where(keep, target, 0)
