"""Softmax, LayerNorm and RMSNorm over the last axis in NumPy, each with its gradient."""

import numpy as np


def softmax(x):
    """exp(x) / sum(exp(x)); a row of -inf gives NaN."""
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.max(x, -1, keepdims=True, initial=-np.inf))
        return e / np.sum(e, -1, keepdims=True)


def softmax_grad(g, y):
    """y (g - sum(g y))"""
    return y * (g - np.sum(g * y, -1, keepdims=True))


def log_softmax(x):
    """x - log(sum(exp(x))); a row of -inf gives NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = x - np.max(x, -1, keepdims=True, initial=-np.inf)
        return shifted - np.log(np.sum(np.exp(shifted), -1, keepdims=True))


def log_softmax_grad(g, y):
    """g - exp(y) sum(g)"""
    return g - np.exp(y) * np.sum(g, -1, keepdims=True)


def layer_norm(x, weight, bias, eps):
    """(x - mean) rstd weight + bias with rstd = 1 / sqrt(var + eps) -> y, mean, rstd"""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.sum(x, -1, keepdims=True) / x.dtype.type(x.shape[-1])
        var = np.sum((x - mean) ** 2, -1, keepdims=True) / x.dtype.type(x.shape[-1])
        rstd = 1 / np.sqrt(var + x.dtype.type(eps))
        y = (x - mean) * rstd
    y = y if weight is None else y * weight.ravel()
    y = y if bias is None else y + bias.ravel()
    return y, mean[..., 0], rstd[..., 0]


def layer_norm_grad(g, x, weight, mean, rstd, need):
    """rstd (h - mean(h) - xhat mean(h xhat)) with h = g weight, sum(g xhat), sum(g)"""
    rstd = rstd[..., None]
    xhat = (x - mean[..., None]) * rstd
    h = g if weight is None else g * weight.ravel()
    dx = dweight = dbias = None
    if need[0]:
        dx = rstd * (h - _mean(h) - xhat * _mean(h * xhat))
    if need[1] and weight is not None:
        dweight = np.sum(g * xhat, tuple(range(x.ndim - 1))).reshape(weight.shape)
    if need[2]:
        dbias = np.sum(g, tuple(range(x.ndim - 1)))
    return dx, dweight, dbias


def _mean(x):
    return np.sum(x, -1, keepdims=True) / x.dtype.type(max(x.shape[-1], 1))


def rms_norm(x, weight, eps):
    """x rstd weight with rstd = 1 / sqrt(mean(x^2) + eps) -> y, rstd"""
    with np.errstate(invalid="ignore", divide="ignore"):
        square = np.sum(x * x, -1, keepdims=True) / x.dtype.type(x.shape[-1])
        rstd = 1 / np.sqrt(square + x.dtype.type(eps))
    y = x * rstd
    return (y if weight is None else y * weight.ravel()), rstd[..., 0]


def rms_norm_grad(g, x, weight, rstd, need):
    """rstd (h - xhat mean(h xhat)) with h = g weight, sum(g xhat)"""
    xhat = x * rstd[..., None]
    h = g if weight is None else g * weight.ravel()
    dx = dweight = None
    if need[0]:
        dx = rstd[..., None] * (h - xhat * _mean(h * xhat))
    if need[1] and weight is not None:
        dweight = np.sum(g * xhat, tuple(range(x.ndim - 1))).reshape(weight.shape)
    return dx, dweight
