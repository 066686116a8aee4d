"""Softmax, LayerNorm and RMSNorm over the last axis, each with its gradient."""

import numpy as np

from minidl_kernels.device.layout import same_device
from minidl_kernels.device.move import contiguous
from minidl_kernels.device.reduce import sum as sum_over

__all__ = ["layer_norm", "layer_norm_grad", "log_softmax", "log_softmax_grad", "rms_norm",
           "rms_norm_grad", "softmax", "softmax_grad"]

_F32 = np.dtype(np.float32)
_ROWS_AT_ONCE = 4096  # up to here one launch makes all gradients of a norm


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


def layer_norm_grad(g, x, weight, mean, rstd, need, skip=None):
    """rstd (h - mean(h) - xhat mean(h xhat)) with h = g weight, sum(g xhat), sum(g)

    `skip`, of x's shape, is added to the first: the gradient that went round the norm.
    """
    sums = (need[1] and weight is not None) or need[2]
    dx, dweight, dbias = _grad("layer_norm_grad", g, x, weight, mean, rstd, need[0], sums, skip)
    return (dx, dweight.reshape(weight.shape) if need[1] and weight is not None else None,
            dbias if need[2] else None)


def _grad(name, g, x, weight, mean, rstd, need_dx, sums, skip):
    """dx, sum(g xhat) and sum(g) over the rows, in one launch unless there are very many rows."""
    g, x, n = contiguous(g), contiguous(x), x.shape[-1]
    parts, (flat,) = _parameters(name, n, weight)
    rows = x.size // max(n, 1)
    dx = x.device.empty(x.shape, _F32) if need_dx else None
    together = sums and rows <= _ROWS_AT_ONCE
    dweight, dbias = [x.device.empty((n,), _F32) if together else None for _ in range(2)]
    blocks = (rows if need_dx else 0) + (-(-n // 32) if together else 0)
    if blocks:
        centred = () if mean is None else (mean,)
        outs = (dx, dweight) if mean is None else (dx, dweight, dbias)
        skip = None if skip is None else contiguous(skip)
        x.device.launch("norm", name, (blocks, 1, 1),
                        (g, x, flat, *centred, rstd, skip, *outs, rows, rows if need_dx else 0, n,
                         parts + 2 * (skip is not None)), ROW_THREADS=128 if n <= 128 else 256)
    if sums and not together:
        dweight, *rest = _weight_grad(g, x, n, mean, rstd)
        dbias = rest[0] if rest else None
    return dx, dweight, dbias


def _weight_grad(g, x, n, mean, rstd):
    """sum(g xhat) and sum(g) over many rows, [n]; without a mean (RMSNorm) only the first."""
    rows = x.size // max(n, 1)
    chunk = max(512, -(-rows // 64))
    chunks = max(1, -(-rows // chunk))
    parts = [x.device.empty((chunks, n), _F32) for _ in range(1 if mean is None else 2)]
    if n:
        x.device.launch("norm", "norm_grad_weight", (-(-n // 64), chunks, 1),
                        (g, x, mean, rstd, parts[0], parts[-1], rows, n, chunk, len(parts) - 1),
                        ROW_THREADS=128 if n <= 128 else 256)
    return [p.reshape((n,)) if chunks == 1 else sum_over(p, (0,), False) for p in parts]


def rms_norm(x, weight, eps):
    """x rstd weight with rstd = 1 / sqrt(mean(x^2) + eps) -> y, rstd"""
    device, x, n = same_device("rms_norm", x, weight), contiguous(x), x.shape[-1]
    parts, (weight,) = _parameters("rms_norm", n, weight)
    y, rstd = device.empty(x.shape, _F32), device.empty(x.shape[:-1], _F32)
    _launch("rms_norm", x, n, (x, weight, y, rstd, n, eps, parts))
    return y, rstd


def rms_norm_grad(g, x, weight, rstd, need, skip=None):
    """rstd (h - xhat mean(h xhat)) + skip with h = g weight, sum(g xhat)"""
    sums = need[1] and weight is not None
    dx, dweight, _ = _grad("rms_norm_grad", g, x, weight, None, rstd, need[0], sums, skip)
    return dx, dweight.reshape(weight.shape) if sums else None
