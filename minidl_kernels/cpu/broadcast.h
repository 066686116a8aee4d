/* A job: a serial kernel run over an output and up to three broadcast operands.
 *
 * Operands are contiguous arrays, or single values, that NumPy's rules stretch over the output's
 * shape. Axes that all operands walk alike are merged, so that what is left is usually one or two
 * axes, and the kernel is called for one run along the last of them at a time. */
#ifndef MINIDL_BROADCAST_H
#define MINIDL_BROADCAST_H

#include <stddef.h>
#include "elementwise.h"

enum {
    EW_MAX_NDIM = 64,
    EW_MAX_OPERANDS = 3,
    EW_GRAIN = 32768 /* elements to a piece of work */
};

typedef struct Job Job;
typedef void (*ew_row)(const Job *job, float *out, const ptrdiff_t *at, ptrdiff_t n);

typedef union { /* the serial kernel a row function calls */
    ew_unary unary;
    ew_unary_grad unary_grad;
    ew_binary binary;
    ew_binary_grad binary_grad;
} EwKernel;

struct Job {
    const ElementwiseTable *table;
    ew_row row;
    EwKernel kernel;
    float *out;
    const void *operand[EW_MAX_OPERANDS];
    int operands;
    int fixed; /* bit j: operand j stays put along the last axis */
    int keep;
    float lo, hi;
    int ndim; /* after merging: at least 1 */
    ptrdiff_t size;
    ptrdiff_t shape[EW_MAX_NDIM];
    ptrdiff_t stride[EW_MAX_OPERANDS][EW_MAX_NDIM]; /* in elements */
};

#define EW_F32(j) ((const float *)job->operand[j] + at[j])
#define EW_U8(j) ((const unsigned char *)job->operand[j] + at[j])
#define EW_ROW(name, call) \
    static void ew_##name##_row(const Job *job, float *out, const ptrdiff_t *at, ptrdiff_t n) { \
        (void)at; \
        call; \
    }

EW_ROW(unary, job->kernel.unary(out, EW_F32(0), n))
EW_ROW(unary_grad, job->kernel.unary_grad(out, EW_F32(0), EW_F32(1), n))
EW_ROW(binary, job->kernel.binary(out, EW_F32(0), EW_F32(1), n, job->fixed))
EW_ROW(binary_grad,
       job->kernel.binary_grad(out, EW_F32(2), EW_F32(0), EW_F32(1), n, job->fixed & 3))
EW_ROW(where, job->table->where(out, EW_U8(0), EW_F32(1), EW_F32(2), n, job->fixed))
EW_ROW(mask, job->table->mask(out, EW_F32(1), EW_U8(0), n, job->fixed & 1, job->keep))
EW_ROW(lerp, job->table->lerp(out, EW_F32(0), EW_F32(1), EW_F32(2), n, job->fixed))
EW_ROW(clamp, job->table->clamp(out, EW_F32(0), n, job->lo, job->hi))
EW_ROW(clamp_grad, job->table->clamp_grad(out, EW_F32(0), EW_F32(1), n, job->lo, job->hi))
EW_ROW(accumulate, job->table->accumulate(out, EW_F32(0), n, job->fixed))
EW_ROW(fill, job->table->fill(out, n, job->lo))

/* All operands have the output's shape, or are one value where `fixed` says so. */
static void ew_flat(Job *job, int operands, ptrdiff_t size, int fixed) {
    job->operands = operands;
    job->ndim = 1;
    job->size = size;
    job->shape[0] = size;
    job->fixed = fixed;
    for (int j = 0; j < operands; j++) job->stride[j][0] = 1 - (fixed >> j & 1);
}

/* Strides of contiguous operands (an operand with no shape is one value) over an output shape. */
static void ew_broadcast(Job *job, int ndim, const ptrdiff_t *shape, int operands,
                         const int *ndims, const ptrdiff_t *const *shapes) {
    ptrdiff_t step[EW_MAX_OPERANDS] = {1, 1, 1}, stride[EW_MAX_OPERANDS], size = 1;
    int first = EW_MAX_NDIM; /* axes are filled in from the end, then moved to the front */
    for (int d = ndim - 1; d >= 0; d--) {
        int merge = first < EW_MAX_NDIM;
        size *= shape[d];
        for (int j = 0; j < operands; j++) {
            const int k = d - ndim + ndims[j];
            stride[j] = k >= 0 && shapes[j][k] != 1 ? step[j] : 0;
            if (k >= 0) step[j] *= shapes[j][k];
            if (merge && stride[j] != job->stride[j][first] * job->shape[first]) merge = 0;
        }
        if (shape[d] == 1) continue;
        if (merge) {
            job->shape[first] *= shape[d];
            continue;
        }
        job->shape[--first] = shape[d];
        for (int j = 0; j < operands; j++) job->stride[j][first] = stride[j];
    }
    if (first == EW_MAX_NDIM || size == 0) {
        ew_flat(job, operands, size, 0);
        return;
    }
    job->operands = operands;
    job->size = size;
    job->ndim = EW_MAX_NDIM - first;
    job->fixed = 0;
    for (int d = 0; d < job->ndim; d++) job->shape[d] = job->shape[first + d];
    for (int j = 0; j < operands; j++) {
        for (int d = 0; d < job->ndim; d++) job->stride[j][d] = job->stride[j][first + d];
        if (job->stride[j][job->ndim - 1] == 0) job->fixed |= 1 << j;
    }
}

/* Output elements [begin, end) in C order: a task for threads.run. */
static void ew_piece(void *ctx, ptrdiff_t begin, ptrdiff_t end) {
    const Job *job = (const Job *)ctx;
    const int last = job->ndim - 1;
    ptrdiff_t index[EW_MAX_NDIM], at[EW_MAX_OPERANDS] = {0}, rest = begin;
    for (int d = last; d >= 0; d--) {
        index[d] = d ? rest % job->shape[d] : rest;
        rest = d ? rest / job->shape[d] : 0;
        for (int j = 0; j < job->operands; j++) at[j] += index[d] * job->stride[j][d];
    }
    while (begin < end) {
        ptrdiff_t n = job->shape[last] - index[last];
        n = n < end - begin ? n : end - begin;
        job->row(job, job->out + begin, at, n);
        begin += n;
        index[last] += n;
        for (int j = 0; j < job->operands; j++) at[j] += n * job->stride[j][last];
        for (int d = last; d > 0 && index[d] == job->shape[d]; d--) { /* carry */
            index[d] = 0;
            index[d - 1]++;
            for (int j = 0; j < job->operands; j++)
                at[j] += job->stride[j][d - 1] - job->shape[d] * job->stride[j][d];
        }
    }
}

/* ---- sums of a (outer, length, inner) array over its middle axis ---- */

typedef struct {
    const ElementwiseTable *table;
    float *out; /* (outer, chunks, inner) */
    const float *x;
    ptrdiff_t outer, length, inner;
    ptrdiff_t chunk, chunks; /* the middle axis is cut into pieces with a partial sum each */
    ptrdiff_t width, widths; /* the last one into blocks of columns */
} SumJob;

enum { EW_SUM_WIDTH = 4096 };

/* How the sum is cut follows from its shape alone, so that it gives the same bits on any number
 * of threads. Returns the tasks there are. */
static ptrdiff_t ew_sum_plan(SumJob *job) {
    const ptrdiff_t width = job->inner < EW_SUM_WIDTH ? job->inner : EW_SUM_WIDTH;
    ptrdiff_t chunk = EW_GRAIN / width;
    if (chunk < (job->length + 63) / 64) chunk = (job->length + 63) / 64;
    if (chunk < 64) chunk = 64;
    if (job->length < 2 * chunk) chunk = job->length ? job->length : 1;
    job->width = width;
    job->widths = (job->inner + width - 1) / width;
    job->chunk = chunk;
    job->chunks = job->length ? (job->length + chunk - 1) / chunk : 1;
    return job->outer * job->chunks * job->widths;
}

static void ew_sum_piece(void *ctx, ptrdiff_t begin, ptrdiff_t end) {
    const SumJob *job = (const SumJob *)ctx;
    for (ptrdiff_t task = begin; task < end; task++) {
        const ptrdiff_t column = task % job->widths * job->width;
        const ptrdiff_t slot = task / job->widths, first = slot % job->chunks * job->chunk;
        const ptrdiff_t n = job->length - first < job->chunk ? job->length - first : job->chunk;
        const ptrdiff_t w = job->inner - column < job->width ? job->inner - column : job->width;
        const float *x = job->x + (slot / job->chunks * job->length + first) * job->inner + column;
        float *out = job->out + slot * job->inner + column;
        if (job->inner == 1) job->table->sum_row(out, x, n);
        else job->table->sum_cols(out, x, n, w, job->inner);
    }
}

#endif
