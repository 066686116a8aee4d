/* Random numbers from Philox streams; which counter makes which element is said in
 * minidl_kernels/reference/random.py. Ranges begin at multiples of RANDOM_STEP elements. */
#ifndef MINIDL_RANDOM_H
#define MINIDL_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "isa.h"

#define RANDOM_STEP 64

typedef struct {
    void *y;            /* OUT */
    const float *x;     /* IN  dropout only */
    uint64_t seed, offset;
    uint64_t threshold; /* dropout: words below it drop their element */
    float scale;        /* dropout: what kept elements are multiplied by */
    int64_t low;        /* integers: low <= y < low + range */
    uint64_t range;
} Random;

typedef struct {
    void (*uniform)(void *random, ptrdiff_t begin, ptrdiff_t end);
    void (*normal)(void *random, ptrdiff_t begin, ptrdiff_t end);
    void (*dropout)(void *random, ptrdiff_t begin, ptrdiff_t end);
    void (*bits64)(void *random, ptrdiff_t begin, ptrdiff_t end);
    void (*integers)(void *random, ptrdiff_t begin, ptrdiff_t end);
} RandomTable;

extern const RandomTable minidl_random_baseline;
extern const RandomTable minidl_random_avx2;
extern const RandomTable minidl_random_avx512;

#endif
