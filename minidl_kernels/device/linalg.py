"""Matrix products. Transposes and views are strides of the product, not copies."""

import math

import numpy as np

from minidl_kernels.device import elementwise
from minidl_kernels.device.elementwise import add_
from minidl_kernels.device.layout import broadcast_shape, merge, same_device, steps_in
from minidl_kernels.device.move import contiguous
from minidl_kernels.device.reduce import sum_to

__all__ = ["linear", "linear_activation", "linear_activation_grad", "linear_add",
           "linear_grad_both", "linear_grad_weight", "matmul"]

_F32 = np.dtype(np.float32)


def matmul(a, b):
    """a[..., M, K] @ b[..., K, N] -> [..., M, N]."""
    return _product(a, b, None)


def _product(a, b, bias):
    """a @ b + bias[N]."""
    device = same_device("matmul", a, b)
    for x in (a, b):
        if x.dtype != _F32:
            raise TypeError(f"matmul: {device.name} multiplies float32 matrices, got {x.dtype}")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul: shapes {a.shape} and {b.shape} do not fit")
    lead = broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.ndim == 2 and a.ndim > 2 and a.contiguous:  # one tall product instead of a batch
        return _product(a.reshape((-1, k)), b, bias).reshape((*lead, m, n))
    y = device.empty((*lead, m, n), _F32)
    if y.size:
        batch, strides = _batch(lead, a, b, y)
        device.gemm(*[x for x, _ in strides], (m, n, k), [s for _, s in strides], batch,
                    bias=bias)
    return y


def _batch(lead, *arrays):
    """((outer, inner), [(array, (row, column, outer, inner strides))]) of a batched product.

    Batch axes that lie evenly merge; where more than two are left, the arrays are copied.
    """
    full = [(x, steps_in(x, (*lead, *x.shape[-2:]))) for x in arrays]
    merged = merge((n, *[s[i] for _, s in full]) for i, n in enumerate(lead) if n != 1)
    if len(merged) > 2:
        whole = [contiguous(x._view((*lead, *x.shape[-2:]), s)) for x, s in full]
        return _batch((math.prod(lead),),
                      *[x.reshape((math.prod(lead), *x.shape[-2:])) for x in whole])
    merged = [(1, *[0] * len(arrays))] * (2 - len(merged)) + merged
    return (merged[0][0], merged[1][0]), [
        (x, (*s[-2:], merged[0][1 + i], merged[1][1 + i])) for i, (x, s) in enumerate(full)]


def linear(x, weight, bias):
    """x[..., K] @ weight[N, K]^T + bias[N]."""
    lead, k = x.shape[:-1], x.shape[-1]
    rows = contiguous(x).reshape((math.prod(lead), k))
    bias = None if bias is None else contiguous(bias)
    return _product(rows, weight.T, bias).reshape((*lead, weight.shape[0]))


def _rows(x):
    """x[..., K] as contiguous [rows, K]."""
    return contiguous(x).reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def _fused(x, weight, bias, extra, **epilogue):
    """linear() by our own product with an epilogue."""
    device, rows, (n, k) = same_device("linear", x, weight, bias, extra), _rows(x), weight.shape
    y = device.empty((rows.shape[0], n), _F32)
    if y.size:
        strides = [(*a.steps, 0, 0) for a in (rows, weight.T, y)]
        device.product(rows, weight.T, y, (rows.shape[0], n, k), strides, (1, 1),
                       bias=None if bias is None else contiguous(bias), extra=extra, **epilogue)
    return y.reshape((*x.shape[:-1], n))


def linear_add(x, weight, bias, residual):
    """residual + x @ weight^T + bias; residual has the result's shape."""
    if residual.device.own_products:
        return _fused(x, weight, bias, contiguous(residual), EPILOGUE=1)
    return add_(linear(x, weight, bias), residual)


def linear_activation(name, x, weight, bias):
    """(y, saved): y = NAME(x @ weight^T + bias), of a formula whose gradient needs its x."""
    if x.device.own_products:
        z = x.device.empty((*x.shape[:-1], weight.shape[0]), _F32)
        return _fused(x, weight, bias, z, EPILOGUE=2, ACT=f"f_{name}"), (z, None)
    z = linear(x, weight, None)
    if bias is None:
        return getattr(elementwise, name)(z), (z, None)
    return elementwise.bias_activation(name, z, bias), (z, bias)


def linear_activation_grad(name, g, saved):
    """g NAME'(z): the gradient of the product before NAME, from what linear_activation saved."""
    z, bias = saved
    if bias is None:
        return getattr(elementwise, f"{name}_grad")(g, z)
    return elementwise.bias_activation_grad(name, g, z, bias)


def linear_grad_both(g, x):
    """(dweight, dbias) of a linear layer: g[..., N]^T @ x[..., K], and the sums of g's columns."""
    device, rows, inputs = same_device("linear_grad_both", g, x), _rows(g), _rows(x)
    n, k = rows.shape[1], inputs.shape[1]
    if not device.own_products or not (rows.size and k):
        return linear_grad_weight(g, x), sum_to(rows, (n,))
    dw, db = device.empty((n, k), _F32), device.empty((n,), _F32)
    strides = [(*a.steps, 0, 0) for a in (rows.T, inputs, dw)]
    device.product(rows.T, inputs, dw, (n, k, rows.shape[0]), strides, (1, 1), sums=db)
    return dw, db


def linear_grad_weight(g, x):
    """g[..., N]^T @ x[..., K] -> [N, K]."""
    rows = math.prod(g.shape[:-1])
    return matmul(contiguous(g).reshape((rows, g.shape[-1])).T,
                  contiguous(x).reshape((rows, x.shape[-1])))
