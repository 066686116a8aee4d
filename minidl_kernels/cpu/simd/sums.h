/* The sums of a tile of a product, in registers: the loop that most of a training step is spent in.
 *
 * Every instruction in it counts that is not a multiplication, above all where a neighbour on the
 * same core takes its share of the decoder. Four steps of K go round at once, so that counting them
 * costs little, and are held in their order: left to itself, the compiler loads for all four before
 * it multiplies, and runs out of registers. */
#ifndef MINIDL_SUMS_H
#define MINIDL_SUMS_H

#include "lanes.h"

#if defined(__GNUC__)

#define STEPS 4

/* What is in the accumulators is final before anything after this is done with them. */
#if defined(__x86_64__)
#define HOLD(acc) \
    __asm__("" : "+v"((acc)[0][0]), "+v"((acc)[0][1]), "+v"((acc)[1][0]), "+v"((acc)[1][1]), \
                 "+v"((acc)[2][0]), "+v"((acc)[2][1]), "+v"((acc)[3][0]), "+v"((acc)[3][1]), \
                 "+v"((acc)[4][0]), "+v"((acc)[4][1]), "+v"((acc)[5][0]), "+v"((acc)[5][1]))
#else
#define HOLD(acc) ((void)0)
#endif

/* One step of K. Three rows are addressed from `low` and three from `high`: two pointers and the
 * stride reach all of them. */
INLINE void add_step(const int rows, const int vectors, Vec acc[MR][2], const float *low,
                     const float *high, Index row, const float *b)
{
    Vec b0 = *(const Vec *)b, b1 = vectors > 1 ? *(const Vec *)(b + LANES) : b0;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        float x = r < 3 ? low[r * row] : high[(r - 3) * row];
        acc[r][0] += x * b0;
        if (vectors > 1)
            acc[r][1] += x * b1;
    }
}

/* acc[rows][vectors] += A[rows, depth] @ B[depth, vectors], element (r, k) of A at
 * a[r * row + k * col], a row of B at b[k * ldb]; `rows` and `vectors` are constants after inlining.
 * All of acc must have been set. */
INLINE void add_sums(const int rows, const int vectors, Vec acc[MR][2], Index depth, const float *a,
                     Index row, Index col, const float *b, Index ldb)
{
    const float *low = a, *high = a + (rows > 3 ? 3 * row : 0);
    for (; depth >= STEPS; depth -= STEPS)
#pragma GCC unroll 4
        for (int step = 0; step < STEPS; step++) {
            add_step(rows, vectors, acc, low, high, row, b);
            low += col, high += col, b += ldb;
            HOLD(acc);
        }
    for (; depth; depth--) {
        add_step(rows, vectors, acc, low, high, row, b);
        low += col, high += col, b += ldb;
    }
}

#endif

#endif
