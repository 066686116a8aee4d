"""Scaled dot-product attention with all its scores in memory: the specification of the fast one."""

import numpy as np

from minidl_kernels.reference.random import keep_words, words

__all__ = ["attention", "attention_grad"]

_ROWS = 256  # queries at a time where the scores must not all be in memory


def _repeat(x, heads):
    return x if x.shape[1] == heads else np.repeat(x, heads // x.shape[1], axis=1)


def _factor(q, scale):
    return q.dtype.type(1 / np.sqrt(max(q.shape[-1], 1)) if scale is None else scale)


def _scores(q, k, mask, is_causal, scale, first=0):
    """q k^T * scale + mask, -inf where a query may not look; `first` is the first query's index."""
    s = np.matmul(q, k.swapaxes(-1, -2)) * _factor(q, scale)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == np.bool_ else s + mask
    if is_causal:
        T, S = s.shape[-2:]
        s = np.where(np.arange(S) <= first + np.arange(T)[:, None], s, -np.inf)
    return s.astype(q.dtype, copy=False)


def _keep(shape, dtype, dropout_p, seed, offset):
    """What dropout multiplies the probabilities by: 0 or 1 / (1 - p), None without dropout."""
    if dropout_p == 0:
        return None
    w = words(int(np.prod(shape, dtype=object)), seed, offset)
    scale = dtype.type(0 if dropout_p == 1 else 1 / (1 - dropout_p))
    return np.where(keep_words(w, dropout_p), scale, dtype.type(0)).reshape(shape)


def _softmax(s):
    """(probabilities, lse); a row of -inf gives zeros and -inf."""
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(top == -np.inf, 0, top)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        e = np.exp(s - top)
        total = e.sum(axis=-1, keepdims=True)
        p = e / np.where(total == 0, 1, total)
        return p.astype(s.dtype), (np.log(total) + top)[..., 0].astype(s.dtype)


def attention(q, k, v, mask=None, is_causal=False, scale=None, dropout_p=0.0, seed=0, offset=0):
    """out = dropout(softmax(q k^T * scale + mask)) v and lse; see the CPU kernel of the name."""
    k, v = _repeat(k, q.shape[1]), _repeat(v, q.shape[1])
    p, lse = _softmax(_scores(q, k, mask, is_causal, scale))
    keep = _keep(p.shape, p.dtype, dropout_p, seed, offset)
    return np.matmul(p if keep is None else p * keep, v), lse


def attention_grad(g, q, k, v, out, lse, mask=None, is_causal=False, scale=None, dropout_p=0.0,
                   seed=0, offset=0, need=(True, True, True, False)):
    """(dq, dk, dv, dmask), None where not needed; dmask summed to the mask's shape."""
    heads, key_heads = q.shape[1], k.shape[1]
    kr, vr = _repeat(k, heads), _repeat(v, heads)
    s = _scores(q, kr, mask, is_causal, scale)
    p = np.exp(s - np.where(lse == -np.inf, np.inf, lse)[..., None])
    keep = _keep(p.shape, p.dtype, dropout_p, seed, offset)
    dp, dropped = np.matmul(g, vr.swapaxes(-1, -2)), p
    if keep is not None:
        dp, dropped = dp * keep, p * keep
    ds = p * (dp - (g * out).sum(axis=-1, keepdims=True))
    scaled = ds * _factor(q, scale)

    def groups(x):
        group = heads // max(1, key_heads)
        return x.reshape(x.shape[0], key_heads, group, *x.shape[2:]).sum(axis=2)

    dq = np.matmul(scaled, kr) if need[0] else None
    dk = groups(np.matmul(scaled.swapaxes(-1, -2), q)) if need[1] else None
    dv = groups(np.matmul(dropped.swapaxes(-1, -2), g)) if need[2] else None
    wanted = need[3] and mask is not None and mask.dtype != np.bool_
    return dq, dk, dv, _sum_to(ds, mask.shape).astype(mask.dtype) if wanted else None


def _sum_to(x, shape):
    """x summed over the axes along which `shape` was broadcast."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


def attention_mask_grad(g, q, k, v, out, lse, mask, is_causal, scale, dropout_p, seed, offset):
    """dmask alone, a head and a run of queries at a time: memory linear in the sequence."""
    B, H, T, _ = q.shape
    S, group = k.shape[2], max(1, H // max(1, k.shape[1]))
    wide = np.broadcast_to(mask, (B, H, T, S))
    dmask = np.zeros((1,) * (4 - mask.ndim) + mask.shape, mask.dtype)
    for b, h, t in np.ndindex(B, H, -(-T // _ROWS)):
        at = (slice(b, b + 1), slice(h, h + 1), slice(t * _ROWS, min(T, (t + 1) * _ROWS)))
        key = (at[0], slice(h // group, h // group + 1))
        s = _scores(q[at], k[key], wide[at], is_causal, scale, first=t * _ROWS)
        rows_lse = np.where(lse[at] == -np.inf, np.inf, lse[at])
        dp = np.matmul(g[at], v[key].swapaxes(-1, -2))
        if dropout_p:
            e = ((b * H + h) * T + t * _ROWS) * S
            w = words(s.size + e % 4, seed, offset + e // 4)[e % 4:]
            keep = keep_words(w, dropout_p).reshape(s.shape)
            dp = dp * (keep * dp.dtype.type(0 if dropout_p == 1 else 1 / (1 - dropout_p)))
        ds = np.exp(s - rows_lse[..., None]) * (dp - (g[at] * out[at]).sum(-1, keepdims=True))
        into = tuple(slice(0, 1) if n == 1 else i for i, n in zip(at, dmask.shape[:3], strict=True))
        dmask[into] += _sum_to(ds, (*dmask[into].shape[:3], dmask.shape[3]))
    return dmask.reshape(mask.shape)
