#include "pages.h"

static inline uint64_t word_at(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Four rows at once, so that columns are touched less often. */
static void sum_rows(uint64_t *restrict columns, uint64_t *restrict rows,
                     const unsigned char *data, ptrdiff_t count)
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

static void add(PageSums *sums, const unsigned char *data, ptrdiff_t size)
{
    ptrdiff_t count;
    if (sums->held) {
        const ptrdiff_t room = PAGE_BYTES - sums->held, part = size < room ? size : room;
        memcpy(sums->rest + sums->held, data, (size_t)part);
        sums->held += part;
        if (sums->held < PAGE_BYTES) return;
        sum_rows(sums->columns, sums->rows + sums->done++, sums->rest, 1);
        data += part;
        size -= part;
    }
    count = size / PAGE_BYTES;
    sum_rows(sums->columns, sums->rows + sums->done, data, count);
    sums->done += count;
    sums->held = size % PAGE_BYTES;
    memcpy(sums->rest, data + count * PAGE_BYTES, (size_t)sums->held);
}

const PagesTable MINIDL_CAT(minidl_pages, ISA_SUFFIX) = {add};
