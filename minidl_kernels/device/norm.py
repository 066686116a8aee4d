"""Softmax, LayerNorm and RMSNorm over the last axis, each with its gradient."""

import numpy as np

from minidl_kernels.device.layout import same_device
from minidl_kernels.device.move import contiguous
from minidl_kernels.device.reduce import sum as sum_over

__all__ = ["layer_norm", "layer_norm_grad", "log_softmax", "log_softmax_grad", "rms_norm",
           "rms_norm_grad", "softmax", "softmax_grad"]

_F32 = np.dtype(np.float32)


def _launch(name, x, n, args):
    """A kernel of norm.c over the rows of x, which have n elements."""
    if x.size:
        x.device.launch("norm", name, (x.size // n, 1, 1), args,
                        ROW_THREADS=32 if n <= 128 else 256)


def _softmax(x, logarithm):
    x = contiguous(x)
    y = x.device.empty(x.shape, _F32)
    _launch("softmax", x, x.shape[-1], (x, y, x.shape[-1], logarithm))
    return y


def _softmax_grad(g, y, logarithm):
    if g.shape != y.shape:
        raise ValueError(f"softmax_grad: g has shape {g.shape} and y {y.shape}, expected the same")
    g, y = contiguous(g), contiguous(y)
    d = y.device.empty(y.shape, _F32)
    _launch("softmax_grad", y, y.shape[-1], (g, y, d, y.shape[-1], logarithm))
    return d


def softmax(x):
    """exp(x) / sum(exp(x)); a row of -inf gives NaN."""
    return _softmax(x, 0)


def softmax_grad(g, y):
    """y (g - sum(g y))"""
    return _softmax_grad(g, y, 0)


def log_softmax(x):
    """x - log(sum(exp(x))); a row of -inf gives NaN."""
    return _softmax(x, 1)


def log_softmax_grad(g, y):
    """g - exp(y) sum(g)"""
    return _softmax_grad(g, y, 1)


def _parameters(name, n, *params):
    """Contiguous weight and bias, and which of them exist."""
    for p in params:
        if p is not None and p.size != n:
            raise ValueError(f"{name}: a parameter of shape {p.shape} for rows of {n} elements")
    parts = sum([1 << i for i, p in enumerate(params) if p is not None])
    return parts, [None if p is None else contiguous(p) for p in params]


def layer_norm(x, weight, bias, eps):
    """(x - mean) rstd weight + bias with rstd = 1 / sqrt(var + eps) -> y, mean, rstd"""
    device, x, n = same_device("layer_norm", x, weight, bias), contiguous(x), x.shape[-1]
    parts, (weight, bias) = _parameters("layer_norm", n, weight, bias)
    y = device.empty(x.shape, _F32)
    mean, rstd = device.empty(x.shape[:-1], _F32), device.empty(x.shape[:-1], _F32)
    _launch("layer_norm", x, n, (x, weight, bias, y, mean, rstd, n, eps, parts))
    return y, mean, rstd


def layer_norm_grad(g, x, weight, mean, rstd, need):
    """rstd (h - mean(h) - xhat mean(h xhat)) with h = g weight, sum(g xhat), sum(g)"""
    g, x, n = contiguous(g), contiguous(x), x.shape[-1]
    parts, (flat,) = _parameters("layer_norm_grad", n, weight)
    dx = dweight = dbias = None
    if need[0]:
        dx = x.device.empty(x.shape, _F32)
        _launch("layer_norm_grad", x, n, (g, x, flat, mean, rstd, dx, n, parts))
    if (need[1] and weight is not None) or need[2]:
        dweight, dbias = _weight_grad(g, x, n, mean, rstd)
        dweight = dweight.reshape(weight.shape) if need[1] and weight is not None else None
        dbias = dbias if need[2] else None
    return dx, dweight, dbias


def _weight_grad(g, x, n, mean, rstd):
    """sum(g xhat) and sum(g) over the rows, [n]; without a mean (RMSNorm) only the first."""
    rows = x.size // max(n, 1)
    chunk = max(512, -(-rows // 64))
    chunks = max(1, -(-rows // chunk))
    parts = [x.device.empty((chunks, n), _F32) for _ in range(1 if mean is None else 2)]
    if n:
        x.device.launch("norm", "norm_grad_weight", (-(-n // 64), chunks, 1),
                        (g, x, mean, rstd, parts[0], parts[-1], rows, n, chunk, len(parts) - 1),
                        ROW_THREADS=32 if n <= 128 else 256)
    return [p.reshape((n,)) if chunks == 1 else sum_over(p, (0,), False) for p in parts]


def rms_norm(x, weight, eps):
    """x rstd weight with rstd = 1 / sqrt(mean(x^2) + eps) -> y, rstd"""
    device, x, n = same_device("rms_norm", x, weight), contiguous(x), x.shape[-1]
    parts, (weight,) = _parameters("rms_norm", n, weight)
    y, rstd = device.empty(x.shape, _F32), device.empty(x.shape[:-1], _F32)
    _launch("rms_norm", x, n, (x, weight, y, rstd, n, eps, parts))
    return y, rstd


def rms_norm_grad(g, x, weight, rstd, need):
    """rstd (h - xhat mean(h xhat)) with h = g weight, sum(g xhat)"""
    g, x, n = contiguous(g), contiguous(x), x.shape[-1]
    parts, (flat,) = _parameters("rms_norm_grad", n, weight)
    dx = dweight = None
    if need[0]:
        dx = x.device.empty(x.shape, _F32)
        _launch("rms_norm_grad", x, n, (g, x, flat, rstd, dx, n, parts))
    if need[1] and weight is not None:
        dweight = _weight_grad(g, x, n, None, rstd)[0].reshape(weight.shape)
    return dx, dweight
