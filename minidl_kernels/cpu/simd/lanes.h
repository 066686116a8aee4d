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

#else

#define LANES 4
#define INLINE static inline

#endif

#endif
