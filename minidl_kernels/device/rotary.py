"""Rotary position embedding: pairs of features turned by an angle that grows with the position."""

from minidl_kernels.device.layout import layout, same_device
from minidl_kernels.device.move import contiguous

__all__ = ["rotary", "rotary_grad"]


def _turned(name, x, cos, sin, interleaved, sign):
    device = same_device(name, x, cos, sin)
    half = x.shape[-1] // 2
    if x.shape[-1] % 2 or cos.shape != (x.shape[-2], half) or sin.shape != cos.shape:
        raise ValueError(f"{name}: x of shape {x.shape} needs cos and sin of shape "
                         f"{(x.shape[-2], half)}, got {cos.shape} and {sin.shape}")
    y = _like(device, x)
    if y.size:
        cos, sin = contiguous(cos), contiguous(sin)
        steps = [(*a.steps[:-1], a.steps[-1] * (2 if interleaved else 1)) for a in (x, y)]
        places = (0,) * (x.ndim - 2) + cos.steps
        between = [a.steps[-1] * (1 if interleaved else half) for a in (x, y)]
        at = layout((*x.shape[:-1], half), (*steps, places))
        device.launch("rotary", "rotary", device.spread(y.size // 2),
                      (x, cos, sin, y, *between, sign, at))
    return y


def _like(device, x):
    """An empty array of x's shape whose axes lie in memory in x's order: heads stay strided."""
    order = sorted(range(x.ndim), key=lambda d: -x.steps[d])
    y = device.empty(tuple([x.shape[d] for d in order]), x.dtype)
    back = [order.index(d) for d in range(x.ndim)]
    return y.transpose(back) if x.ndim else y


def rotary(x, cos, sin, interleaved=False):
    """y = (x1 cos - x2 sin, x2 cos + x1 sin) for every pair (x1, x2) of features.

    x [..., T, D] with D even; cos, sin [T, D/2]. A pair is (x[i], x[i + D/2]), or
    (x[2i], x[2i + 1]) when interleaved.
    """
    return _turned("rotary", x, cos, sin, interleaved, 1.0)


def rotary_grad(g, cos, sin, interleaved=False):
    """The gradient of a rotation: the rotation back."""
    return _turned("rotary_grad", g, cos, sin, interleaved, -1.0)
