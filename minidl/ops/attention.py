"""Attention: any layout of queries, keys and values brought to the kernel's [B, H, T, D].

Shape letters: B batch, H heads, T queries, S keys, D features of a head.
"""

import numpy as np

from minidl import errors
from minidl._core import Tensor, op
from minidl.ops.generator import default_generator
from minidl.ops.neural import need_float
from minidl.ops.promotion import check_broadcast

__all__ = ["scaled_dot_product_attention"]


def _check_attention(q, k, v, enable_gqa):
    name = "scaled_dot_product_attention"
    shape, keys, dtype = q.shape, k.shape, q.dtype
    if len(shape) == 4 and keys == v.shape and shape[:2] == keys[:2] and shape[3] == keys[3] \
            and dtype.kind == "f" and dtype is k.dtype and dtype is v.dtype:
        return                              # what it nearly always is
    for what, x in (("query", q), ("key", k), ("value", v)):
        need_float(name, x)
        if x.ndim < 2:
            raise errors.ShapeError(f"{name}: {what} has shape {x.shape}, expected [..., T, D]")
        if x.dtype != q.dtype:
            raise errors.DTypeError(f"{name}: query is {q.dtype.name}, {what} {x.dtype.name}")
    if q.shape[-1] != k.shape[-1]:
        raise errors.ShapeError(f"{name}: query {q.shape} and key {k.shape} differ in their last "
                                "axis")
    if k.shape[-2] != v.shape[-2]:
        raise errors.ShapeError(f"{name}: key {k.shape} and value {v.shape} differ in their number "
                                "of positions")
    if enable_gqa:
        if min(q.ndim, k.ndim, v.ndim) < 3:
            raise errors.ShapeError(f"{name}: enable_gqa needs a head axis in every input")
        for what, x in (("key", k), ("value", v)):
            if x.shape[-3] == 0 or q.shape[-3] % x.shape[-3]:
                raise errors.ShapeError(f"{name}: {q.shape[-3]} query heads are not a multiple of "
                                        f"{x.shape[-3]} {what} heads")
    else:
        check_broadcast(name, q.shape[:-2], k.shape[:-2], v.shape[:-2])


def _heads(x, lead):
    """x[..., T, D] with leading axes `lead` as [B, H, T, D]."""
    if x.ndim == 4 and x.shape[:-2] == lead:
        return x
    x = np.broadcast_to(x, (*lead, *x.shape[-2:]))
    if x.ndim == 4:
        return x
    if x.ndim < 4:
        return x.reshape((1,) * (4 - x.ndim) + x.shape)
    return x.reshape((-1, *x.shape[-3:]))


@op(method=False)
def _attention(be, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, seed,
               offset):
    q, k, v = query, key, value
    shape, keys = q.shape, k.shape
    usual = len(shape) == 4 and keys == v.shape and shape[:2] == keys[:2]
    if usual or (len(shape) == len(keys) == v.ndim == 4
                 and (enable_gqa or shape[:2] == keys[:2] == v.shape[:2])):
        lead = shape[:2]
    else:
        lead = np.broadcast_shapes(*(x.shape[:-3 if enable_gqa else -2] for x in (q, k, v)))
        heads = [x.shape[-3:-2] if enable_gqa else () for x in (q, k, v)]
        q, k, v = (_heads(x, lead + h) for x, h in zip((q, k, v), heads, strict=True))
        lead = lead + heads[0]
    if not usual and k.shape[1] != v.shape[1]:
        count = max(k.shape[1], v.shape[1])
        k, v = (np.repeat(x, count // x.shape[1], axis=1) for x in (k, v))
        if key.shape[-3] != count or value.shape[-3] != count:
            raise errors.UnsupportedError("scaled_dot_product_attention: key and value need the "
                                          "same number of heads")
    mask = None
    if attn_mask is not None:
        mask = _mask(attn_mask, q, k, lead)
    out, lse = be.attention(q, k, v, mask, is_causal, scale, dropout_p, seed, offset)
    y = out if usual or (query.ndim == 4 and out.shape[:2] == lead) else out.reshape(
        (*lead, *out.shape[-2:]))

    def vjp(g, need):
        wanted = (need[0], need[1], need[2], mask is not None and need[3])
        grads = be.attention_grad(g.reshape(out.shape), q, k, v, out, lse, mask, is_causal, scale,
                                  dropout_p, seed, offset, wanted)
        return tuple(None if d is None else _unheads(be, d, x)
                     for d, x in zip(grads, (query, key, value, attn_mask), strict=True))

    return y, vjp


def _mask(attn_mask, q, k, lead):
    """attn_mask as a view that broadcasts over [B, H, T, S]."""
    name = "scaled_dot_product_attention"
    if attn_mask.dtype.kind != "b" and attn_mask.dtype != q.dtype:
        raise errors.DTypeError(f"{name}: attn_mask must be bool or {q.dtype.name}, got "
                                f"{attn_mask.dtype.name}")
    full = (*lead, q.shape[-2], k.shape[-2])
    check_broadcast(name, attn_mask.shape, full)
    if len(np.broadcast_shapes(attn_mask.shape, full)) > len(full) \
            or np.broadcast_shapes(attn_mask.shape, full) != full:
        raise errors.ShapeError(f"{name}: attn_mask {attn_mask.shape} does not fit the scores "
                                f"{full}")
    if len(full) <= 4:
        return attn_mask
    return np.broadcast_to(attn_mask, full).reshape((*q.shape[:2], *full[-2:]))


def _unheads(be, d, x):
    """The gradient d of a reshaped, broadcast operand, summed back to the operand x."""
    if d.shape == x.shape:
        return d
    if d.ndim == 4 and x.ndim <= 4 and d.size == x.size:
        return d.reshape(x.shape)
    if d.ndim > x.ndim or d.size != x.size:
        lead = d.shape if d.ndim >= x.ndim else None
        return be.sum_to(d if lead is None else be.contiguous(d), x.shape)
    return d.reshape(x.shape)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0,
                                 is_causal=False, scale=None, enable_gqa=False):
    """softmax(query @ key^T * scale + mask) @ value, in memory linear in the sequence.

    query [B, H, T, D], key and value [B, H, S, D] -> [B, H, T, D]. A bool mask is True where a
    query may look, a float mask is added to the scores; a row that may look nowhere gives zeros.

    >>> import minidl as md
    >>> q = md.randn(1, 2, 5, 4)
    >>> md.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    (1, 2, 5, 4)
    """
    name = "scaled_dot_product_attention"
    if is_causal and attn_mask is not None:
        raise errors.ArgumentError(f"{name}: give attn_mask or is_causal=True, not both")
    if not 0 <= dropout_p <= 1:
        raise errors.ArgumentError(f"{name}: dropout_p must be from 0 to 1, got {dropout_p}")
    for what, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: {what} must be a tensor, got {type(x).__name__}")
    _check_attention(query.array, key.array, value.array, enable_gqa)
    seed = offset = 0
    if dropout_p:
        count = query.array.size // max(query.shape[-1], 1) * key.shape[-2]
        seed, offset = default_generator.reserve(count)
    return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, seed,
                      offset)


@op(method=False)
def cached_attention(be, qkv, keys, values, start, attn_mask, is_causal, cos, sin, positions):
    """Write the new keys and values behind `start` earlier ones, then attend to all of them.

    qkv [B, T, (H + 2 K) * D] is a packed projection, keys and values [B, K, max_len, D] are the
    buffers written to; the result is [B, T, H * D]. With tables cos and sin [max_len, D/2],
    queries and keys are turned by their positions: start, start + 1, ... or positions [B, T].
    One op, because a token of a small model costs little more than the calls it takes.
    """
    (B, T, _), (_, K, _, D), end = qkv.shape, keys.shape, start + qkv.shape[1]
    x = qkv.reshape(B, T, -1, D)
    H = x.shape[2] - 2 * K
    turned = x[:, :, : H + K]
    if cos is not None and positions is None:
        turned = be.rotary(turned.swapaxes(1, 2), cos[start:end], sin[start:end]).swapaxes(1, 2)
    elif cos is not None:
        # Rows at different positions are to the kernel one row that is B times as long.
        at = positions.reshape(-1)
        flat = turned.reshape(1, B * T, H + K, D).swapaxes(1, 2)
        turned = be.rotary(flat, cos.take(at, 0), sin.take(at, 0)).swapaxes(1, 2)
        turned = turned.reshape(B, T, H + K, D)
    keys[:, :, start:end] = turned[:, :, H:].swapaxes(1, 2)
    values[:, :, start:end] = x[:, :, H + K :].swapaxes(1, 2)
    q, k, v = turned[:, :, :H].swapaxes(1, 2), keys[:, :, :end], values[:, :, :end]
    mask = None if attn_mask is None else _mask(attn_mask, q, k, (B, H))
    out, _ = be.attention(q, k, v, mask, is_causal, None, 0.0, 0, 0)
    return be.contiguous(out.swapaxes(1, 2)).reshape(B, T, H * D), None
