/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 *
 * Block i of a stream is the cipher of the counter (i low, i high, 0, 0) under the key
 * (seed low, seed high): four 32-bit words that depend on nothing else, so any thread or device can
 * make any part of the stream. Word w of the stream is lane w % 4 of block w / 4.
 */
#ifndef MINIDL_PHILOX_H
#define MINIDL_PHILOX_H

#include <stddef.h>
#include <stdint.h>

#define PHILOX_LANES 16 /* blocks made at once */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

#if defined(__GNUC__) && defined(__SSE2__)

/* Compilers do not find the 32 by 32 to 64 bit product of x86 in plain C, and it is all there is to
 * this cipher. Each 64-bit lane holds one word in its low half; the product ignores the rest. */
#include <immintrin.h>
#if defined(__AVX512F__)
#define PHILOX_WIDE 8
#define PHILOX_MUL(x, m) (PhiloxVec)_mm512_mul_epu32((__m512i)(x), _mm512_set1_epi64(m))
#elif defined(__AVX2__)
#define PHILOX_WIDE 4
#define PHILOX_MUL(x, m) (PhiloxVec)_mm256_mul_epu32((__m256i)(x), _mm256_set1_epi64x(m))
#else
#define PHILOX_WIDE 2
#define PHILOX_MUL(x, m) (PhiloxVec)_mm_mul_epu32((__m128i)(x), _mm_set1_epi64x(m))
#endif
typedef uint64_t PhiloxVec __attribute__((vector_size(8 * PHILOX_WIDE), aligned(4), may_alias));

static inline void philox_group(uint64_t seed, uint64_t first, uint32_t *words)
{
    for (int i = 0; i < PHILOX_LANES; i += PHILOX_WIDE) {
        PhiloxVec c0, c1, c2 = {0}, c3 = {0};
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int j = 0; j < PHILOX_WIDE; j++)
            c0[j] = first + (uint64_t)(i + j);
        c1 = c0 >> 32;
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            PhiloxVec p = PHILOX_MUL(c0, PHILOX_M0), q = PHILOX_MUL(c2, PHILOX_M1);
            c0 = (q >> 32) ^ c1 ^ (uint64_t)k0;
            c1 = q;
            c2 = (p >> 32) ^ c3 ^ (uint64_t)k1;
            c3 = p;
            k0 += PHILOX_W0;
            k1 += PHILOX_W1;
        }
        PhiloxVec low = (c0 & 0xffffffffu) | c1 << 32, high = (c2 & 0xffffffffu) | c3 << 32;
        PhiloxVec *out = (PhiloxVec *)(words + 4 * i);
#if PHILOX_WIDE == 8
        out[0] = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
        out[1] = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#elif PHILOX_WIDE == 4
        out[0] = __builtin_shufflevector(low, high, 0, 4, 1, 5);
        out[1] = __builtin_shufflevector(low, high, 2, 6, 3, 7);
#else
        out[0] = __builtin_shufflevector(low, high, 0, 2);
        out[1] = __builtin_shufflevector(low, high, 1, 3);
#endif
    }
}

#else

/* words[4 * PHILOX_LANES] = blocks first, first + 1, ... of the stream of `seed` */
static inline void philox_group(uint64_t seed, uint64_t first, uint32_t *words)
{
    for (int i = 0; i < PHILOX_LANES; i++) {
        uint64_t block = first + (uint64_t)i;
        uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = 0, c3 = 0;
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; round++) {
            uint64_t p = (uint64_t)c0 * PHILOX_M0, q = (uint64_t)c2 * PHILOX_M1;
            c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)q;
            c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)p;
            k0 += PHILOX_W0;
            k1 += PHILOX_W1;
        }
        words[4 * i] = c0;
        words[4 * i + 1] = c1;
        words[4 * i + 2] = c2;
        words[4 * i + 3] = c3;
    }
}

#endif

#endif
