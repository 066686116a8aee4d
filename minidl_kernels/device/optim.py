"""Optimizer steps over lists of arrays, in place, in one launch each.

Arrays lie in a few segments of memory; a table says where each chunk of each array starts in its
segment. The table is made anew only when the arrays have moved.
"""

import math
import struct
from itertools import groupby

import numpy as np

from minidl_kernels.device.array import DeviceArray
from minidl_kernels.device.layout import same_device

__all__ = ["adam_", "clip_", "lion_", "norm_of", "scale_", "sgd_", "total_norm"]

_CHUNK = 16384
_tables: dict = {}


def _plain(name, arrays):
    for x in arrays:
        if not isinstance(x, DeviceArray):
            raise ValueError(f"{name}: some arrays are on a device and one is on the CPU; make the "
                             "optimizer, or load its state, when the parameters are in place")
        if x.dtype != np.float32 or not x.contiguous:
            raise ValueError(f"{name}: expected contiguous float32 arrays, got {x.dtype} of shape "
                             f"{x.shape}")


def _groups(name, *lists):
    """For each set of segments: (a whole-segment array for each list, table, rows of the table).

    A row holds, for up to four lists, where a chunk starts in its segment, and the chunk's length.
    """
    for arrays in lists:
        _plain(name, arrays)
    device = same_device(name, *lists[0])
    tuples = [t for t in zip(*lists, strict=True) if t[0].size]
    for t in tuples:
        if len({x.size for x in t}) != 1:
            raise ValueError(f"{name}: arrays of {[x.shape for x in t]} belong together but differ "
                             "in size")

    def segments(t):
        return tuple([x.block.number for x in t])

    for _, members in groupby(sorted(tuples, key=segments), key=segments):
        together = list(members)
        places = tuple([(*[x.offset for x in t], t[0].size) for t in together])
        yield device, [x[()] for x in map(_whole, together[0])], *_table(device, places)


def _whole(x):
    """An array at the first byte of x's segment, for a kernel that adds offsets itself."""
    return x._view((1,), (1,), 0)


def _table(device, places):
    """The table of these places on the device, and how many rows it has."""
    key = (id(device), places)
    if key not in _tables:
        if len(_tables) > 16:  # gradients that never stay in one place must not pile up here
            _tables.clear()
        rows = [[*[p + start for p in at], *[0] * (4 - len(at)), min(_CHUNK, n - start)]
                for *at, n in places for start in range(0, n, _CHUNK)]
        _tables[key] = device.array(np.array(rows, np.int64)), len(rows)
    return _tables[key]


def adam_(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, step, decoupled, maximize):
    """One step of Adam, or of AdamW when decoupled."""
    packed = struct.pack(
        "9f", lr, beta1, beta2, eps, 1 - lr * weight_decay * decoupled,
        0.0 if decoupled else weight_decay, lr / (1 - beta1**step), math.sqrt(1 - beta2**step),
        -1.0 if maximize else 1.0)
    for device, arrays, table, rows in _groups("adam_", params, grads, m, v):
        device.launch("optim", "adam", (rows, 1, 1), (*arrays, table, packed))


def sgd_(params, grads, buffers, lr, momentum, dampening, weight_decay, nesterov, first, maximize):
    """One step of SGD; buffers is None without momentum."""
    packed = struct.pack("5f3i", lr, momentum, 1 - dampening, weight_decay,
                         -1.0 if maximize else 1.0, buffers is not None, first, nesterov)
    lists = (params, grads) if buffers is None else (params, grads, buffers)
    for device, arrays, table, rows in _groups("sgd_", *lists):
        device.launch("optim", "sgd", (rows, 1, 1), (*arrays[:2], arrays[-1], table, packed))


def lion_(params, grads, m, lr, beta1, beta2, weight_decay, maximize):
    """One step of Lion: the sign of a momentum."""
    packed = struct.pack("5f", lr, 1 - beta1, 1 - beta2, 1 - lr * weight_decay,
                         -1.0 if maximize else 1.0)
    for device, arrays, table, rows in _groups("lion_", params, grads, m):
        device.launch("optim", "lion", (rows, 1, 1), (*arrays, table, packed))


def norm_of(arrays):
    """The root of the sum of squares over all arrays, as a 0-d array: nothing waits for it."""
    groups = list(_groups("total_norm", arrays))
    device = same_device("total_norm", *arrays)
    norm, total = device.empty((), np.float32), sum([rows for *_, rows in groups])
    part, at = device.empty((total,), np.float32), 0
    for _, (segment,), table, rows in groups:
        device.launch("optim", "square_sums", (rows, 1, 1), (segment, part, table, at))
        at += rows
    device.launch("optim", "root_sum", (1, 1, 1), (part, norm, total))
    return norm


def total_norm(arrays):
    """The root of the sum of squares over all arrays, as a number: waits for the device."""
    return float(norm_of(arrays).item()) if arrays else 0.0


def scale_(arrays, factor):
    """Multiply every array by a factor."""
    for device, (segment,), table, rows in _groups("scale_", arrays):
        device.launch("optim", "scale", (rows, 1, 1), (segment, None, table, factor, 0.0))


def clip_(arrays, norm, max_norm):
    """Multiply every array by min(1, max_norm / (norm + 1e-6)), norm being a 0-d array."""
    for device, (segment,), table, rows in _groups("clip_", arrays):
        device.launch("optim", "scale", (rows, 1, 1), (segment, norm, table, 1.0, max_norm))
