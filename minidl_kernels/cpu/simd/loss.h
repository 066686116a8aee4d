/* Cross-entropy of logits [N, V] against class ids [N], and its gradient. */
#ifndef MINIDL_LOSS_H
#define MINIDL_LOSS_H

#include "rows.h"

typedef struct {
    float *out;            /* OUT [N] losses, or [N, V] in the gradient */
    double *lse;           /* OUT [N] log(sum(exp(logits))); IN for the gradient */
    const float *g;        /* IN  [N] if each, else one for all rows, in the gradient */
    const float *logits;   /* IN  [N, V] */
    const int64_t *target; /* IN  [N], each in [0, V) or ignore */
    ptrdiff_t V;
    int each;
    int64_t ignore;
    double smoothing;
} LossJob;

typedef struct {
    RowTask cross_entropy, cross_entropy_grad;
} LossTable;

extern const LossTable minidl_loss_baseline, minidl_loss_avx2, minidl_loss_avx512;

#endif
