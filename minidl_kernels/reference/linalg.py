"""Matrix products."""

import numpy as np


def matmul(a, b):
    """a[..., M, K] @ b[..., K, N] -> [..., M, N]."""
    return np.matmul(a, b)


def linear(x, weight, bias):
    """x[..., K] @ weight[N, K]^T + bias[N]."""
    y = np.matmul(x, weight.T)
    return y if bias is None else y + bias


def linear_grad_weight(g, x):
    """g[..., N]^T @ x[..., K] -> [N, K]."""
    rows = int(np.prod(g.shape[:-1]))
    return np.matmul(g.reshape(rows, g.shape[-1]).T, x.reshape(rows, x.shape[-1]))
