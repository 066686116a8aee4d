"""Cross-entropy of logits [N, V] against class ids [N]."""

import numpy as np

from minidl_kernels.device.interface import FAULTS
from minidl_kernels.device.layout import same_device
from minidl_kernels.device.move import cast, contiguous

__all__ = ["cross_entropy", "cross_entropy_both", "cross_entropy_grad"]

_F32 = np.dtype(np.float32)
_CODE = FAULTS.index("cross_entropy")


def _checked(name, logits, target, label_smoothing):
    if logits.ndim != 2 or target.shape != logits.shape[:1]:
        raise ValueError(f"{name}: expected logits [N, V] and target [N], got shapes "
                         f"{logits.shape} and {target.shape}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing must be between 0 and 1, got {label_smoothing}")
    device = same_device(name, logits, target)
    ids = target if target.dtype == np.int64 else cast(target, np.int64)
    return device, contiguous(logits), contiguous(ids)


def cross_entropy(logits, target, ignore_index, label_smoothing):
    """log(sum(exp(x))) - (1 - s) x[target] - s mean(x), 0 where ignored -> losses, lse [N]

    A class id out of range raises an IndexError when values are next fetched from the device.
    """
    device, logits, ids = _checked("cross_entropy", logits, target, label_smoothing)
    losses, lse = (device.empty(ids.shape, _F32) for _ in range(2))
    if logits.size:
        device.launch("loss", "cross_entropy", (ids.size, 1, 1),
                      (logits, ids, losses, lse, device.fault, logits.shape[1], ignore_index,
                       label_smoothing, _CODE))
    return losses, lse


def cross_entropy_grad(g, logits, target, lse, ignore_index, label_smoothing):
    """g (softmax(x) - s / V - (1 - s) onehot(target)), 0 where ignored -> dlogits [N, V]"""
    device, logits, ids = _checked("cross_entropy_grad", logits, target, label_smoothing)
    d = device.empty(logits.shape, _F32)
    if d.size:
        device.launch("loss", "cross_entropy_grad", (ids.size, 1, 1),
                      (contiguous(g), logits, ids, lse, d, logits.shape[1], ignore_index,
                       label_smoothing))
    return d


def cross_entropy_both(logits, target, ignore_index, label_smoothing, factor):
    """(losses, dlogits) in one launch, dlogits being the gradient of factor * sum(losses)."""
    device, logits, ids = _checked("cross_entropy", logits, target, label_smoothing)
    losses, d = device.empty(ids.shape, _F32), device.empty(logits.shape, _F32)
    if d.size:
        device.launch("loss", "cross_entropy_both", (ids.size, 1, 1),
                      (logits, ids, losses, d, device.fault, logits.shape[1], ignore_index,
                       label_smoothing, factor, _CODE))
    return losses, d
