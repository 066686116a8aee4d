/* Flash attention in plain C: B batches, H query heads, Hk key heads, T queries, S keys,
 * D and Dv the widths of a head. Serial functions over ranges of tasks; see attention.c. */
#ifndef MINIDL_ATTENTION_H
#define MINIDL_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "isa.h"

/* x[b, h, t, :] starts at data + b * b_step + h * h_step + t * t_step and is contiguous */
typedef struct {
    float *data;
    ptrdiff_t b, h, t;
} AttentionRows;

typedef struct {
    AttentionRows q, k, v, out, g; /* in [B,H,T,D] [B,Hk,S,D] [B,Hk,S,Dv] [B,H,T,Dv] [B,H,T,Dv] */
    AttentionRows dq, dk, dv;      /* OUT of backward, data NULL where no gradient is wanted */
    double *lse;                   /* [B,H,T] contiguous */
    const void *mask;              /* NULL, or unsigned char / float with the steps below */
    int mask_is_bool;
    ptrdiff_t mask_b, mask_h, mask_t, mask_s;
    ptrdiff_t B, H, Hk, T, S, D, Dv;
    int causal;
    float scale;
    int dropout;        /* element e is kept where word e of the Philox stream is >= threshold */
    uint32_t threshold;
    float keep_scale;
    uint64_t seed, offset;
    ptrdiff_t parts;    /* backward: the keys of a head are dealt to this many tasks */
    float *dq_parts;    /* [parts, B, H, T, D], each part's share of dq, when parts > 1 */
    int failed;         /* set when scratch memory could not be had */
} Attention;

typedef struct {
    ptrdiff_t (*forward_tasks)(const Attention *a);
    void (*forward)(void *attention, ptrdiff_t begin, ptrdiff_t end);
    void (*backward)(void *attention, ptrdiff_t begin, ptrdiff_t end); /* B * Hk * parts tasks */
    void (*sum_parts)(void *attention, ptrdiff_t begin, ptrdiff_t end); /* B * H * T rows of dq */
} AttentionTable;

extern const AttentionTable minidl_attention_baseline;
extern const AttentionTable minidl_attention_avx2;
extern const AttentionTable minidl_attention_avx512;

#endif
