"""Optimizer steps, in place over lists of arrays."""

import numpy as np


def adam_(params, grads, m, v, lr, beta1, beta2, eps, weight_decay, step, decoupled, maximize):
    """One step of Adam, or of AdamW when decoupled."""
    for p, g, mi, vi in zip(params, grads, m, v, strict=True):
        g = (-g if maximize else g) + (0 if decoupled else weight_decay) * p
        mi += (1 - beta1) * (g - mi)
        vi += (1 - beta2) * (g * g - vi)
        denominator = np.sqrt(vi) / np.sqrt(1 - beta2**step) + eps
        p *= 1 - lr * weight_decay * decoupled
        p -= lr / (1 - beta1**step) * mi / denominator


def sgd_(params, grads, buffers, lr, momentum, dampening, weight_decay, nesterov, first, maximize):
    """One step of SGD; buffers is None without momentum."""
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = (-g if maximize else g) + weight_decay * p
        if buffers is not None:
            buffers[i][...] = g if first else momentum * buffers[i] + (1 - dampening) * g
            g = g + momentum * buffers[i] if nesterov else buffers[i]
        p -= lr * g


def lion_(params, grads, m, lr, beta1, beta2, weight_decay, maximize):
    """One step of Lion: the sign of a momentum."""
    for p, g, mi in zip(params, grads, m, strict=True):
        g = -g if maximize else g
        p *= 1 - lr * weight_decay
        p -= lr * np.sign(mi + (1 - beta1) * (g - mi))
        mi += (1 - beta2) * (g - mi)


def total_norm(arrays):
    """The root of the sum of squares over all arrays."""
    return float(np.sqrt(sum(np.square(x, dtype=np.float64).sum() for x in arrays)))


def scale_(arrays, factor):
    """Multiply every array by a factor."""
    for x in arrays:
        x *= factor
