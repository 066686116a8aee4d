/* Softmax, log-softmax, LayerNorm and RMSNorm over the last axis of [N, C], and their gradients. */
#ifndef MINIDL_NORM_H
#define MINIDL_NORM_H

#include "rows.h"

typedef struct {
    float *out;      /* OUT [N, C] */
    const float *a;  /* IN  [N, C]: x, or g in a gradient */
    const float *y;  /* IN  [N, C]: the saved result, in a gradient */
    ptrdiff_t N, C;
} SoftmaxJob;

typedef struct {
    float *y;            /* OUT [N, C] */
    float *mean, *rstd;  /* OUT [N]; mean is not written by rms_norm */
    const float *x;      /* IN  [N, C] */
    const float *weight; /* IN  [C] */
    const float *bias;   /* IN  [C], not read by rms_norm */
    ptrdiff_t N, C;
    double eps;
} NormJob;

typedef struct {
    float *dx;                 /* OUT [N, C] or NULL */
    float *dweight, *dbias;    /* OUT [chunks, C]: one row of sums per chunk of rows; both or none,
                                  no dbias in rms_norm_grad */
    const float *g, *x;        /* IN  [N, C] */
    const float *weight;       /* IN  [C] */
    const float *mean, *rstd;  /* IN  [N]; mean is not read by rms_norm_grad */
    ptrdiff_t N, C, chunk;     /* chunk: rows per item, from the shape alone */
} NormGradJob;

/* The items of a table's functions are rows, of the norm gradients chunks of rows. */
typedef struct {
    RowTask softmax, softmax_grad, log_softmax, log_softmax_grad;
    RowTask layer_norm, layer_norm_grad, rms_norm, rms_norm_grad;
    void (*fold)(float *out, const float *partial, ptrdiff_t chunks, ptrdiff_t C);
} NormTable;

extern const NormTable minidl_norm_baseline, minidl_norm_avx2, minidl_norm_avx512;

#endif
