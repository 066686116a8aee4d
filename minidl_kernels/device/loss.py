"""Cross-entropy of logits [N, V] against class ids [N]."""

import numpy as np

from minidl_kernels.device.interface import FAULTS
from minidl_kernels.device.layout import same_device
from minidl_kernels.device.move import cast, contiguous

__all__ = ["counted_mean", "cross_entropy", "cross_entropy_grad"]

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


def cross_entropy_grad(g, logits, target, lse, ignore_index, label_smoothing, count=None):
    """g (softmax(x) - s / V - (1 - s) onehot(target)), 0 where ignored -> dlogits [N, V]

    g is [N]; or 0-d, for every row, and divided by `count` (0-d) where that is given.
    """
    device, logits, ids = _checked("cross_entropy_grad", logits, target, label_smoothing)
    d = device.empty(logits.shape, _F32)
    if d.size:
        device.launch("loss", "cross_entropy_grad", (ids.size, 1, 1),
                      (contiguous(g), count, logits, ids, lse, d, logits.shape[1], ignore_index,
                       label_smoothing, g.ndim == 0, count is not None))
    return d


def counted_mean(losses, target, ignore_index):
    """(mean of the losses whose target is not ignored, how many they are), both 0-d arrays.

    The number stays on the device: a training step must not wait for it.
    """
    device = same_device("cross_entropy", losses, target)
    mean, count = (device.empty((), _F32) for _ in range(2))
    device.launch("loss", "counted_mean", (1, 1, 1),
                  (losses, contiguous(target), mean, count, losses.size, ignore_index))
    return mean, count
