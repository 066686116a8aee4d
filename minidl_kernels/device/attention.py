"""Scaled dot-product attention, forward and backward, memory linear in the sequence.

Letters: B batches, H query heads, Hk key heads, T queries, S keys, D and Dv the widths of a head.
"""

import math
import struct

import numpy as np

from minidl_kernels.device.layout import same_device, steps_in
from minidl_kernels.device.move import assign, contiguous
from minidl_kernels.device.random import stream, threshold

__all__ = ["attention", "attention_grad"]

_F32 = np.dtype(np.float32)
_WIDEST = 128
_NONE = (0, 0, 0)


def _door(name, x):
    if x.ndim != 4 or x.dtype != _F32:
        raise ValueError(f"{name}: expected 4 axes (batch, heads, length, width) of float32, got "
                         f"{x.dtype} of shape {x.shape}")
    return x if x.steps[3] == 1 or x.shape[3] == 1 else contiguous(x)


class _Problem:
    """Checked inputs of one attention, and how its kernels are specialised."""

    def __init__(self, name, q, k, v, mask, is_causal, scale, dropout_p, seed, offset):
        self.q, self.k, self.v = q, k, v = [_door(name, x) for x in (q, k, v)]
        self.device = same_device(name, q, k, v, mask)
        (self.B, self.H, self.T, self.D), (_, self.Hk, self.S, _) = q.shape, k.shape
        self.Dv = v.shape[3]
        if k.shape != (self.B, self.Hk, self.S, self.D) or v.shape[:3] != k.shape[:3]:
            raise ValueError(f"{name}: query {q.shape}, key {k.shape} and value {v.shape} do not "
                             "belong together")
        if self.H and (self.Hk == 0 or self.H % self.Hk):
            raise ValueError(f"{name}: {self.H} query heads are not a multiple of {self.Hk} key "
                             "heads")
        if max(self.D, self.Dv) > _WIDEST:
            raise ValueError(f"{name}: heads wider than {_WIDEST} features do not fit a device's "
                             f"shared memory, got {max(self.D, self.Dv)}; compute it on the CPU")
        if not 0 <= dropout_p <= 1:
            raise ValueError(f"{name}: dropout_p must be between 0 and 1, got {dropout_p}")
        self.mask, self.mask_steps = self._mask(name, mask)
        self.causal = int(bool(is_causal))
        self.scale = 1 / math.sqrt(max(self.D, 1)) if scale is None else scale
        below, self.keep_scale = threshold(dropout_p)
        self.random = struct.pack("I", below) + stream(seed, offset)
        self.macros = {"HD": max(8, -(-max(self.D, self.Dv) // 8) * 8),
                       "MASK": 0 if mask is None else 1 if self.mask.dtype == np.bool_ else 2,
                       "DROPOUT": int(dropout_p > 0)}

    def _mask(self, name, mask):
        if mask is None:
            return None, (0, 0, 0, 0)
        full = (self.B, self.H, self.T, self.S)
        if mask.dtype not in (np.bool_, _F32):
            raise TypeError(f"{name}: the mask must be bool or float32, got {mask.dtype}")
        if mask.ndim > 4 or [n for n, m in zip(reversed(mask.shape), reversed(full), strict=False)
                             if n not in (1, m)]:
            raise ValueError(f"{name}: a mask of shape {mask.shape} does not broadcast to (batch, "
                             f"heads, queries, keys) = {full}")
        return mask, steps_in(mask, full)

    def pack(self, **rows):
        """The bytes of an Attention; rows are the arrays beside q, k and v."""
        places = [rows.get(r) for r in ("out", "g", "dq", "dk", "dv")]
        steps = [_NONE if x is None else x.steps[:3] for x in (self.q, self.k, self.v, *places)]
        return (struct.pack("7i2f", self.H, self.Hk, self.T, self.S, self.D, self.Dv, self.causal,
                            self.scale, self.keep_scale) + self.random
                + struct.pack("28i", *[s for three in steps for s in three], *self.mask_steps))

    def launch(self, kernel, rows, per_block, heads, args):
        if rows and heads:
            self.device.launch("attention", kernel, (-(-rows // per_block), heads, 1), args,
                               **self.macros)

    wide = property(lambda self: 32 if self.macros["HD"] <= 64 else 16)


def _rows_first(device, B, H, T, D):
    """[B, H, T, D] laid out as (B, T, H, D), so that joining the heads again is a free reshape."""
    return device.empty((B, T, H, D), _F32).swapaxes(1, 2)


def attention(q, k, v, mask=None, is_causal=False, scale=None, dropout_p=0.0, seed=0, offset=0):
    """out = dropout(softmax(q k^T * scale + mask)) v and lse; see the CPU kernel of the name."""
    p = _Problem("attention", q, k, v, mask, is_causal, scale, dropout_p, seed, offset)
    out = _rows_first(p.device, p.B, p.H, p.T, p.Dv)
    lse = p.device.empty((p.B, p.H, p.T), _F32)
    p.launch("attention", p.T, p.wide, p.B * p.H,
             (p.q, p.k, p.v, p.mask, out, lse, p.pack(out=out)))
    return out, lse


def attention_grad(g, q, k, v, out, lse, mask=None, is_causal=False, scale=None, dropout_p=0.0,
                   seed=0, offset=0, need=(True, True, True, False)):
    """(dq, dk, dv, dmask), None where not needed; dmask has the mask's own shape.

    When q, k and v are the thirds of one packed (B, T, 3 H D) array, dq, dk and dv are too.
    """
    p = _Problem("attention_grad", q, k, v, mask, is_causal, scale, dropout_p, seed, offset)
    g, out, lse = _door("attention_grad", g), _door("attention_grad", out), contiguous(lse)
    if g.shape != (p.B, p.H, p.T, p.Dv) or out.shape != g.shape:
        raise ValueError(f"attention_grad: g and out must have shape {(p.B, p.H, p.T, p.Dv)}, got "
                         f"{g.shape} and {out.shape}")
    delta = p.device.empty((p.B, p.H, p.T), _F32)
    p.launch("attention_delta", p.T, 128, p.B * p.H, (g, out, delta, p.pack(g=g, out=out)))
    dq, dk, dv = _gradients(p, need)
    inputs = (g, p.q, p.k, p.v, p.mask, lse, delta)
    kv_blocks = -(-p.S // p.wide) if need[1] or need[2] else 0
    q_blocks = -(-p.T // p.wide) if need[0] else 0
    kv_total = kv_blocks * p.B * p.Hk
    blocks = kv_total + q_blocks * p.B * p.H
    if blocks:
        p.device.launch("attention", "attention_grad", (blocks, 1, 1),
                        (*inputs, dq, dk, dv, p.pack(g=g, dq=dq, dk=dk, dv=dv), kv_total,
                         max(kv_blocks, 1), max(q_blocks, 1)), **p.macros)
    dmask = None
    if need[3] and mask is not None and p.mask.dtype == _F32:
        dmask = _mask_grad(p, inputs, g)
    return (dq if need[0] else None, dk if need[1] else None, dv if need[2] else None, dmask)


def _gradients(p, need):
    """Arrays for dq, dk and dv: one packed array when q, k and v are."""
    width = p.H * p.D
    row = (p.T * 3 * width, p.D, 3 * width)
    packed = (all(need[:3]) and p.Hk == p.H and p.T == p.S and p.Dv == p.D and width
              and p.q.block is p.k.block is p.v.block
              and p.k.offset - p.q.offset == p.v.offset - p.k.offset == width
              and not [x for x in (p.q, p.k, p.v) for n, s, r in zip(x.shape[:3], x.steps, row,
                                                                   strict=False)
                       if n != 1 and s != r])
    if packed:
        whole = p.device.empty((p.B, p.T, 3, p.H, p.D), _F32).transpose(2, 0, 3, 1, 4)
        return whole[0], whole[1], whole[2]
    dq = _rows_first(p.device, p.B, p.H, p.T, p.D) if need[0] else None
    if not (need[1] or need[2]):
        return dq, None, None
    return (dq, _rows_first(p.device, p.B, p.Hk, p.S, p.D),
            _rows_first(p.device, p.B, p.Hk, p.S, p.Dv))


def _mask_grad(p, inputs, g):
    shape = (1,) * (4 - p.mask.ndim) + p.mask.shape
    full = (p.B, p.H, p.T, p.S)
    dmask = p.device.empty(shape, _F32)
    if 0 in full:
        return assign(dmask, 0).reshape(p.mask.shape)
    if dmask.size:
        p.device.launch("attention", "attention_grad_mask", p.device.spread(dmask.size, 128),
                        (*inputs, dmask, p.pack(g=g), p.B, *shape), **p.macros)
    return dmask.reshape(p.mask.shape)
