"""Rotary position embedding: pairs of features turned by an angle that grows with the position."""

import numpy as np

__all__ = ["rotary", "rotary_grad"]


def rotary(x, cos, sin, interleaved=False):
    """y = (x1 cos - x2 sin, x2 cos + x1 sin) for every pair (x1, x2) of features.

    x [..., T, D] with D even; cos, sin [T, D/2], one row per position of x. A pair is
    (x[i], x[i + D/2]), as in Llama, or (x[2i], x[2i + 1]) when interleaved.
    """
    half = x.shape[-1] // 2
    first, second = (np.s_[..., ::2], np.s_[..., 1::2]) if interleaved else (
        np.s_[..., :half], np.s_[..., half:])
    y = np.empty_like(x, shape=x.shape)
    y[first] = x[first] * cos - x[second] * sin
    y[second] = x[second] * cos + x[first] * sin
    return y


def rotary_grad(g, cos, sin, interleaved=False):
    """The gradient of a rotation: the rotation back."""
    return rotary(g, cos, -sin, interleaved)
