/* Reductions of x [outer, R, inner] over the middle axis. */
#ifndef MINIDL_REDUCE_H
#define MINIDL_REDUCE_H

#include "rows.h"

typedef enum {
    REDUCE_SUM,    /* sum of x */
    REDUCE_DEV,    /* sum of x - shift */
    REDUCE_SQDEV,  /* sum of (x - shift)^2 */
    REDUCE_EXPSUM, /* sum of exp(x - shift) */
    REDUCE_PROD,
    REDUCE_MAX,    /* NaN wins */
    REDUCE_MIN,    /* NaN wins */
    REDUCE_KINDS
} ReduceKind;

/* An item is one strip of columns of one block of rows of one outer slice, in the order
   [outer, blocks, strips]; all sizes come from the shape alone. */
typedef struct {
    float *out;         /* OUT [outer, inner] */
    double *partial;    /* [outer, blocks, inner], used when blocks > 1 */
    int64_t *index;     /* OUT [outer, inner], of `find` */
    const float *x;     /* IN  [outer, R, inner] */
    const float *shift; /* IN  [outer, inner] or NULL */
    ptrdiff_t outer, R, inner;
    ptrdiff_t block, blocks; /* rows of a block, blocks of R */
    ptrdiff_t strip, strips; /* columns of a strip (at most REDUCE_STRIP), strips of inner */
    double scale, zero;      /* the result is multiplied by scale; then zero, 0 or -0, is added */
} ReduceJob;

#define REDUCE_STRIP 512

typedef struct {
    RowTask reduce[REDUCE_KINDS];  /* items */
    RowTask combine[REDUCE_KINDS]; /* after reduce, when blocks > 1: outer slices */
    RowTask find;                  /* first r with x[r] == shift, or both NaN; blocks must be 1 */
    RowTask cumsum;                /* x and out [outer, R, inner]; blocks must be 1 */
} ReduceTable;

extern const ReduceTable minidl_reduce_baseline, minidl_reduce_avx2, minidl_reduce_avx512;

#endif
