/* C[M, N] = A[M, K] @ B[K, N] in plain C over packed operands; see matmul.c.
 * The tables are empty where BLAS is the better choice: no wide vectors, or not gcc or clang. */
#ifndef MINIDL_MATMUL_H
#define MINIDL_MATMUL_H

#include <stddef.h>
#include <stdint.h>

#include "isa.h"

typedef struct {
    float *c;                          /* OUT [batch, M, N] contiguous */
    const float *a, *b;                /* IN, element (i, k) of A at a[i * a_row + k * a_col]; */
    ptrdiff_t a_row, a_col;            /*     one step of a pair is 1 */
    ptrdiff_t b_row, b_col;
    const float *bias;                 /* IN [N] or NULL */
    const ptrdiff_t *a_item, *b_item;  /* IN [batch] where a matrix starts, or NULL for one */
    ptrdiff_t m, n, k;
    ptrdiff_t down, columns;           /* tiles from top to bottom, columns of a tile */
    ptrdiff_t first, last;             /* the columns that are packed now */
    float *packed;                     /* scratch: those columns, packed */
    float *steps;                      /* scratch [steps of K but one, M, N], or NULL: see `own` */
    uint64_t number;                   /* of the product, for `own`; a step of K takes one more */
    int failed;                        /* set when scratch memory could not be had */
} Product;

typedef struct {
    ptrdiff_t nr, wide;                     /* columns of a packed panel, of a piece of `few` */
    ptrdiff_t (*tiles)(const Product *p);
    ptrdiff_t (*steps)(ptrdiff_t k);                                /* in which K is walked */
    void (*pack)(void *product, ptrdiff_t begin, ptrdiff_t end);    /* panels of B */
    void (*multiply)(void *product, ptrdiff_t begin, ptrdiff_t end); /* tiles of C */
    void (*own)(void *product, ptrdiff_t begin, ptrdiff_t end);     /* tiles, of steps if any */
    void (*add_steps)(void *product, ptrdiff_t begin, ptrdiff_t end); /* elements of C */
    void (*items)(void *product, ptrdiff_t begin, ptrdiff_t end);   /* whole small products */
    void (*strips)(void *product, ptrdiff_t begin, ptrdiff_t end);  /* `columns` of C each */
    void (*few)(void *product, ptrdiff_t begin, ptrdiff_t end);     /* pieces of few rows */
} MatmulTable;

extern const MatmulTable minidl_matmul_baseline;
extern const MatmulTable minidl_matmul_avx2;
extern const MatmulTable minidl_matmul_avx512;

#endif
