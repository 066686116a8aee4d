/* Random numbers from Philox streams: see random.h for what the functions take. */
#include "random.h"

#include <math.h>
#include <string.h>

#include "philox.h"

#define WORDS (4 * PHILOX_LANES)

typedef ptrdiff_t Index;

/* FOR_WORDS(begin, end) runs its body with `words` for the elements w .. w + n */
#define FOR_WORDS(r, begin, end)                                                                   \
    uint32_t words[WORDS];                                                                         \
    for (Index w = begin, n; w < end && (n = end - w < WORDS ? end - w : WORDS,                    \
                                         philox_group(r->seed, r->offset + (uint64_t)w / 4, words), 1); \
         w += WORDS)

static void uniform(void *random, Index begin, Index end)
{
    const Random *r = random;
    FOR_WORDS(r, begin, end)
    {
        float *y = (float *)r->y + w;
        for (Index j = 0; j < n; j++)
            y[j] = (float)(int32_t)(words[j] >> 8) * 0x1p-24f;
    }
}

static void dropout(void *random, Index begin, Index end)
{
    const Random *r = random;
    const int all = r->threshold > UINT32_MAX;
    const uint32_t threshold = (uint32_t)r->threshold;
    const float scale = all ? 0.0f : r->scale;
    FOR_WORDS(r, begin, end)
    {
        float *y = (float *)r->y + w;
        const float *x = r->x + w;
        for (Index j = 0; j < n; j++)
            y[j] = x[j] * (words[j] < threshold ? 0.0f : scale);
    }
}

/* ------------------------------------------------------------------ normal */

static inline float bits_to_float(uint32_t i)
{
    float x;
    memcpy(&x, &i, 4);
    return x;
}

static inline uint32_t float_to_bits(float x)
{
    uint32_t i;
    memcpy(&i, &x, 4);
    return i;
}

/* (a + 1/2) 2^-32, rounded once; in two halves because vector units convert signed integers only */
static inline float unit(uint32_t a)
{
    return (float)(int32_t)(a >> 16) * 0x1p-16f + ((float)(int32_t)(a & 0xffff) + 0.5f) * 0x1p-32f;
}

/* sqrt(-2 log u), u = (a + 1/2) 2^-32: log(1 + f) + e log 2 with f = -(1 - u) exactly near u = 1,
 * where u itself would have lost it. Coefficients of Cephes' logf. */
static inline float radius(uint32_t a)
{
    float u = unit(a), near = -unit(~a);
    uint32_t i = float_to_bits(u) - 0x3f3504f3u; /* sqrt(1/2) */
    float e = (float)((int32_t)i >> 23), f = bits_to_float((i & 0x7fffff) + 0x3f3504f3u) - 1.0f;
    f = e == 0.0f ? near : f;
    float t = f * f, p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    p = p * f * t - e * 2.12194440e-4f;
    float log = (f + (p - 0.5f * t)) + e * 0.693359375f;
    return sqrtf(-2.0f * log);
}

/* cos and sin of 2 pi (b + 1/2) 2^-32: the quarter turn is taken off exactly, in integers */
static inline void circle(uint32_t b, float *cos, float *sin)
{
    uint32_t quarter = (b + 0x20000000u) >> 30;
    float x = ((float)(int32_t)(b - (quarter << 30)) + 0.5f) * 1.46291807926715968e-9f;
    float t = x * x;
    float s = ((-1.9515295891e-4f * t + 8.3321608736e-3f) * t - 1.6666654611e-1f) * t * x + x;
    float c = ((2.443315711809948e-5f * t - 1.388731625493765e-3f) * t + 4.166664568298827e-2f) * t
              * t - 0.5f * t + 1.0f;
    float first = quarter & 1 ? s : c, second = quarter & 1 ? c : s;
    *cos = bits_to_float(float_to_bits(first) ^ (((quarter + 1) & 2) << 30));
    *sin = bits_to_float(float_to_bits(second) ^ ((quarter & 2) << 30));
}

static void normal(void *random, Index begin, Index end)
{
    const Random *r = random;
    FOR_WORDS(r, begin, end)
    {
        float z[WORDS];
#pragma omp simd
        for (int j = 0; j < WORDS / 2; j++) {
            float length = radius(words[2 * j]), c, s;
            circle(words[2 * j + 1], &c, &s);
            z[2 * j] = length * c;
            z[2 * j + 1] = length * s;
        }
        memcpy((float *)r->y + w, z, (size_t)n * sizeof(float));
    }
}

/* ------------------------------------------------------------------ integers */

/* the high half of x * y */
static inline uint64_t multiply_high(uint64_t x, uint64_t y)
{
    uint64_t a = x >> 32, b = x & 0xffffffffu, c = y >> 32, d = y & 0xffffffffu;
    uint64_t middle = a * d + (b * d >> 32), low = b * c + (middle & 0xffffffffu);
    return a * c + (middle >> 32) + (low >> 32);
}

static void bits64(void *random, Index begin, Index end)
{
    const Random *r = random;
    uint64_t *y = r->y;
    FOR_WORDS(r, 2 * begin, 2 * end)
    for (Index j = 0; j < n / 2; j++)
        y[w / 2 + j] = words[2 * j] | (uint64_t)words[2 * j + 1] << 32;
}

static void integers(void *random, Index begin, Index end)
{
    const Random *r = random;
    int64_t *y = r->y;
    FOR_WORDS(r, 2 * begin, 2 * end)
    for (Index j = 0; j < n / 2; j++) {
        uint64_t bits = words[2 * j] | (uint64_t)words[2 * j + 1] << 32;
        y[w / 2 + j] = (int64_t)((uint64_t)r->low + multiply_high(bits, r->range));
    }
}

const RandomTable MINIDL_CAT(minidl_random, ISA_SUFFIX) = {uniform, normal, dropout, bits64,
                                                           integers};
