/* One row of attention scores: its exponential, mask, dropout and causal limit. */
#ifndef MINIDL_ATTENTION_ROWS_H
#define MINIDL_ATTENTION_ROWS_H

#include "attention.h"
#include "attention_tile.h"
#include "philox.h"
#include "../../scalar.h"

#define LOG2E 1.44269504088896340736f
#define LN2 0.69314718055994530942

static float *row(const AttentionRows *x, Index b, Index h, Index t)
{
    return x->data + b * x->b + h * x->h + t * x->t;
}

/* How far head (b, h) is from the head after it; 0 when there is none, or when a head is so long
 * that the caches do not hold two */
static Index next_head(const AttentionRows *x, const Attention *a, Index b, Index h, Index heads)
{
    if (MAX(a->T, a->S) > 256)
        return 0;
    if (h + 1 < heads)
        return x->h;
    return b + 1 < a->B ? x->b - h * x->h : 0;
}

/* Rows of a head lie apart in the packed projection, and short ones end before the CPU has seen a
 * stream in them. So while the softmax of a row is computed, row t of the next head is asked for:
 * one at a time, for the CPU waits once too many are on their way. */
INLINE void ask_next(const AttentionRows *x, const Attention *a, Index b, Index h, Index heads,
                     Index t, Index width)
{
    Index ahead = next_head(x, a, b, h, heads);
    if (ahead)
        prefetch_row(row(x, b, h, t) + ahead, width);
}

/* 2^x for x <= 0, and 0 below 2^-126, to 2 ulp; NaN stays NaN. Half the work of s_exp2, which must
 * also serve large and subnormal results. */
INLINE float exp2_down(float x)
{
    float n = x + 12582912.0f; /* 1.5 * 2^23 rounds x to an integer in the low bits */
    float f = x - (n - 12582912.0f), p = 1.535336188319500e-4f, power;
    uint32_t bits;
    memcpy(&bits, &n, 4);
    bits = (bits << 23) + 0x3f800000u;
    memcpy(&power, &bits, 4);
    p = p * f + 1.339887440266574e-3f;
    p = p * f + 9.618437357674640e-3f;
    p = p * f + 5.550332471162809e-2f;
    p = p * f + 2.402264791363012e-1f;
    p = p * f + 6.931472028550421e-1f;
    p = p * f + 1.0f;
    return x < -126.0f ? 0.0f : p * power;
}

/* s[n] of query t and keys s0.. += mask, or -inf where a boolean mask forbids */
static void apply_mask(float *s, Index n, const Attention *a, Index b, Index h, Index t, Index s0)
{
    Index at = b * a->mask_b + h * a->mask_h + t * a->mask_t + s0 * a->mask_s, step = a->mask_s;
    if (a->mask_is_bool) {
        const unsigned char *m = (const unsigned char *)a->mask + at;
        for (Index j = 0; j < n; j++)
            s[j] = m[j * step] ? s[j] : -INFINITY;
    } else {
        const float *m = (const float *)a->mask + at;
        if (step == 1)
            for (Index j = 0; j < n; j++)
                s[j] += m[j] * LOG2E;
        else
            for (Index j = 0; j < n; j++)
                s[j] += m[j * step] * LOG2E;
    }
}

/* keep[n] = keep_scale or 0 for query t and keys s0.. : word ((b H + h) T + t) S + s of the stream */
static void dropout_row(float *keep, Index n, const Attention *a, Index b, Index h, Index t,
                        Index s0)
{
    uint32_t words[4 * PHILOX_LANES];
    uint64_t e = (uint64_t)((b * a->H + h) * a->T + t) * (uint64_t)a->S + (uint64_t)s0;
    uint64_t last = e + (uint64_t)n, first = e / 4;
    for (uint64_t w = first * 4; w < last; w += 4 * PHILOX_LANES) {
        philox_group(a->seed, a->offset + w / 4, words);
        Index skip = (Index)(e > w ? e - w : 0), from = (Index)(w + (uint64_t)skip - e);
        Index count = MIN(4 * PHILOX_LANES - skip, n - from);
        for (Index j = 0; j < count; j++)
            keep[from + j] = words[skip + j] < a->threshold ? 0.0f : a->keep_scale;
    }
}

/* Columns of row i that it may see, and the end of the vectors that hold them */
INLINE Index visible(Index i, Index n, Index off) { return MAX(0, MIN(n, i + off + 1)); }
INLINE Index whole(Index seen) { return (seen + LANES - 1) / LANES * LANES; }

/* Everything past `seen` that a later product touches, in a neighbouring tile too */
INLINE void fill_past(float *s, Index seen, Index n, float value)
{
    fill(s, seen, MIN(padded(n), padded(seen) + NR), value);
}

#endif
