/* Serial elementwise kernels over contiguous float32 ranges, one table per instruction set. */
#ifndef MINIDL_ELEMENTWISE_H
#define MINIDL_ELEMENTWISE_H

#include <stddef.h>
#include "isa.h"

/* Operand j of a kernel with several has its bit in `fixed` set when it is one value for the
 * whole range, read from its first element; otherwise it advances with the output. */
typedef void (*ew_unary)(float *y, const float *x, ptrdiff_t n);
typedef void (*ew_unary_grad)(float *dx, const float *g, const float *s, ptrdiff_t n);
typedef void (*ew_binary)(float *y, const float *a, const float *b, ptrdiff_t n, int fixed);
typedef void (*ew_binary_grad)(float *d, const float *g, const float *a, const float *b,
                               ptrdiff_t n, int fixed);

typedef struct {
    const char *name;
    const char *saves; /* "x" or "y": what the gradient reads */
    ew_unary forward;
    ew_unary_grad grad;
} EwUnary;

typedef struct {
    const char *name;
    const char *da_formula; /* exactly "g" when the gradient is the incoming one */
    const char *db_formula;
    ew_binary forward;
    ew_binary_grad da;
    ew_binary_grad db;
} EwBinary;

typedef struct {
    const EwUnary *unary; /* both lists end with a NULL name */
    const EwBinary *binary;
    void (*where)(float *y, const unsigned char *c, const float *a, const float *b, ptrdiff_t n,
                  int fixed);                       /* y = c ? a : b; bits 1 c, 2 a, 4 b */
    void (*mask)(float *d, const float *g, const unsigned char *c, ptrdiff_t n, int fixed,
                 int keep);                         /* d = (c != 0) == keep ? g : 0 */
    void (*lerp)(float *y, const float *a, const float *b, const float *w, ptrdiff_t n, int fixed);
    void (*clamp)(float *y, const float *x, ptrdiff_t n, float lo, float hi);
    void (*clamp_grad)(float *dx, const float *g, const float *x, ptrdiff_t n, float lo, float hi);
    void (*accumulate)(float *dst, const float *src, ptrdiff_t n, int fixed); /* dst += src */
    void (*fill)(float *dst, ptrdiff_t n, float value);
    void (*sum_row)(float *out, const float *x, ptrdiff_t n);      /* out[0] = sum of x[:n] */
    void (*sum_cols)(float *out, const float *x, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t pitch);
} ElementwiseTable;

extern const ElementwiseTable minidl_elementwise_baseline;
extern const ElementwiseTable minidl_elementwise_avx2;
extern const ElementwiseTable minidl_elementwise_avx512;

#endif
