/* Vectors as wide as the instruction set has them, and the tile of a product that fits in registers:
 * MR rows by NR = two vectors of columns, twelve accumulators. */
#ifndef MINIDL_LANES_H
#define MINIDL_LANES_H

#include <stddef.h>
#include <string.h>

typedef ptrdiff_t Index;

#define MR 6
#define NR (2 * LANES)
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))

#if defined(__GNUC__)

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define INLINE static inline __attribute__((always_inline))

/* aligned(4): every access is an unaligned one, which costs nothing where the address is aligned */
typedef float Vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float Vec4 __attribute__((vector_size(16), aligned(4), may_alias));

/* r[i][j] becomes r[j][i] */
INLINE void transpose(Vec4 r[4])
{
    Vec4 a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    Vec4 b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    Vec4 c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    Vec4 d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

#if LANES > 4
typedef float Vec8 __attribute__((vector_size(32), aligned(4), may_alias));
#endif

/* The sum of all lanes, by halves */
INLINE float lane_sum(Vec v)
{
#if LANES == 16
    Vec8 h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
             __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#elif LANES == 8
    Vec8 h = v;
#endif
#if LANES > 4
    Vec4 q = __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#else
    Vec4 q = v;
#endif
    q += __builtin_shufflevector(q, q, 2, 3, 0, 1);
    return q[0] + q[1];
}

/* r[d][i] = x[i * line + d] for LANES lines: four lines each become a part of a vector, and the
 * parts are transposed together */
#if LANES == 4
INLINE void columns4(Vec r[4], const float *x, Index line)
{
    for (int i = 0; i < 4; i++)
        r[i] = *(const Vec *)(x + i * line);
    transpose(r);
}
#else
#if LANES == 8
#define IN_FOURS(a, b, i, j, k, l) \
    __builtin_shufflevector(a, b, i, j, k, l, i + 4, j + 4, k + 4, l + 4)
#define SECOND 8
#else
#define IN_FOURS(a, b, i, j, k, l) \
    __builtin_shufflevector(a, b, i, j, k, l, i + 4, j + 4, k + 4, l + 4, \
                            i + 8, j + 8, k + 8, l + 8, i + 12, j + 12, k + 12, l + 12)
#define SECOND 16
#endif

INLINE Vec8 two_fours(const float *x, Index line)
{
    return __builtin_shufflevector(*(const Vec4 *)x, *(const Vec4 *)(x + 4 * line),
                                   0, 1, 2, 3, 4, 5, 6, 7);
}

INLINE void columns4(Vec r[4], const float *x, Index line)
{
    Vec a, b, c, d;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++, x += line)
#if LANES == 8
        r[i] = two_fours(x, line);
#else
        r[i] = __builtin_shufflevector(two_fours(x, line), two_fours(x + 8 * line, line), 0, 1, 2,
                                       3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
    a = IN_FOURS(r[0], r[1], 0, SECOND, 1, SECOND + 1);
    b = IN_FOURS(r[0], r[1], 2, SECOND + 2, 3, SECOND + 3);
    c = IN_FOURS(r[2], r[3], 0, SECOND, 1, SECOND + 1);
    d = IN_FOURS(r[2], r[3], 2, SECOND + 2, 3, SECOND + 3);
    r[0] = IN_FOURS(a, c, 0, 1, SECOND, SECOND + 1);
    r[1] = IN_FOURS(a, c, 2, 3, SECOND + 2, SECOND + 3);
    r[2] = IN_FOURS(b, d, 0, 1, SECOND, SECOND + 1);
    r[3] = IN_FOURS(b, d, 2, 3, SECOND + 2, SECOND + 3);
}
#endif

#else

#define LANES 4
#define INLINE static inline

#endif

#endif
