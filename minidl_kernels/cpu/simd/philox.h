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

#define PHILOX_LANES 16 /* blocks made at once: wide enough for any vector unit */

/* words[4 * PHILOX_LANES] = blocks first, first + 1, ... of the stream of `seed` */
static inline void philox_group(uint64_t seed, uint64_t first, uint32_t *words)
{
    uint32_t c0[PHILOX_LANES], c1[PHILOX_LANES], c2[PHILOX_LANES], c3[PHILOX_LANES];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < PHILOX_LANES; i++) {
        uint64_t block = first + (uint64_t)i;
        c0[i] = (uint32_t)block;
        c1[i] = (uint32_t)(block >> 32);
        c2[i] = c3[i] = 0;
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < PHILOX_LANES; i++) {
            uint64_t p = (uint64_t)c0[i] * 0xD2511F53u, q = (uint64_t)c2[i] * 0xCD9E8D57u;
            uint32_t a = (uint32_t)(q >> 32) ^ c1[i] ^ k0, b = (uint32_t)(p >> 32) ^ c3[i] ^ k1;
            c0[i] = a;
            c1[i] = (uint32_t)q;
            c2[i] = b;
            c3[i] = (uint32_t)p;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < PHILOX_LANES; i++) {
        words[4 * i] = c0[i];
        words[4 * i + 1] = c1[i];
        words[4 * i + 2] = c2[i];
        words[4 * i + 3] = c3[i];
    }
}

#endif
