/* Sums over a table of 64-bit words with 512 in a row (4 KiB), from any address, in one pass. */
#ifndef MINIDL_PAGES_H
#define MINIDL_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PAGE_WORDS = 512, PAGE_BYTES = 4096 };

static inline uint64_t word_at(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* columns [512] += , rows [count] = ; four rows at once, so that columns are touched less often. */
static void sum_pages(uint64_t *columns, uint64_t *rows, const unsigned char *data, ptrdiff_t count)
{
    ptrdiff_t r = 0;
    for (; r + 4 <= count; r += 4) {
        const unsigned char *p = data + r * PAGE_BYTES;
        uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (ptrdiff_t c = 0; c < PAGE_WORDS; c++) {
            uint64_t a = word_at(p + 8 * c), b = word_at(p + PAGE_BYTES + 8 * c);
            uint64_t d = word_at(p + 2 * PAGE_BYTES + 8 * c), e = word_at(p + 3 * PAGE_BYTES + 8 * c);
            columns[c] += a + b + d + e;
            s0 += a;
            s1 += b;
            s2 += d;
            s3 += e;
        }
        rows[r] = s0;
        rows[r + 1] = s1;
        rows[r + 2] = s2;
        rows[r + 3] = s3;
    }
    for (; r < count; r++) {
        uint64_t sum = 0;
        for (ptrdiff_t c = 0; c < PAGE_WORDS; c++) {
            uint64_t a = word_at(data + r * PAGE_BYTES + 8 * c);
            columns[c] += a;
            sum += a;
        }
        rows[r] = sum;
    }
}

#endif
