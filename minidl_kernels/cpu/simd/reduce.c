#include "reduce.h"

/* Columns x[0..rows) of `cols` floats each, `stride` apart, are reduced into acc, all in double: the
   conversion is hidden behind the loads, and rounding never shows. Few columns are made many by
   taking several rows as one (WIDE columns), and folding in the end. */
#define WIDE 64
#define WIDE_SHORT 16 /* for rows so short that folding would cost more than adding */

#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))

static inline float shifted_square(float x, float shift) { return (x - shift) * (x - shift); }

#define REDUCTION(name, NONE, TERM, ADD)                                                           \
    S_FN void name##_columns(const float *restrict x, ptrdiff_t rows, ptrdiff_t stride,            \
                             ptrdiff_t cols, const float *restrict shift, double *restrict acc)    \
    {                                                                                              \
        ptrdiff_t r = 0;                                                                           \
        for (; r + 4 <= rows; r += 4, x += 4 * stride) {                                           \
            const float *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;                    \
            for (ptrdiff_t i = 0; i < cols; i++) {                                                 \
                const double a = TERM(x[i], shift[i]), b = TERM(x1[i], shift[i]);                  \
                const double c = TERM(x2[i], shift[i]), d = TERM(x3[i], shift[i]);                 \
                const double ab = ADD(a, b), cd = ADD(c, d), abcd = ADD(ab, cd);                   \
                acc[i] = ADD(acc[i], abcd);                                                        \
            }                                                                                      \
        }                                                                                          \
        for (; r < rows; r++, x += stride)                                                         \
            for (ptrdiff_t i = 0; i < cols; i++) {                                                 \
                const double a = TERM(x[i], shift[i]);                                             \
                acc[i] = ADD(acc[i], a);                                                           \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    S_FN void name##_wide(const float *x, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t times,         \
                          const float *shift, double *acc)                                         \
    {                                                                                              \
        double wide[WIDE];                                                                         \
        float wide_shift[WIDE];                                                                    \
        const ptrdiff_t width = cols * times, wides = rows / times, done = wides * times;          \
        for (ptrdiff_t i = 0; i < width; i++) wide[i] = (NONE);                                    \
        for (ptrdiff_t k = 0; k < times; k++)                                                      \
            for (ptrdiff_t i = 0; i < cols; i++) wide_shift[k * cols + i] = shift[i];              \
        name##_columns(x, wides, width, width, wide_shift, wide);                                  \
        for (ptrdiff_t k = 0; k < times; k++)                                                      \
            for (ptrdiff_t i = 0; i < cols; i++) acc[i] = ADD(acc[i], wide[k * cols + i]);         \
        name##_columns(x + done * cols, rows - done, cols, cols, shift, acc);                      \
    }                                                                                              \
                                                                                                   \
    static void name##_tile(const float *x, ptrdiff_t rows, ptrdiff_t stride, ptrdiff_t cols,      \
                            const float *shift, double *acc)                                       \
    {                                                                                              \
        for (ptrdiff_t i = 0; i < cols; i++) acc[i] = (NONE);                                      \
        if (stride == 1 && rows >= 8 * WIDE)                                                       \
            name##_wide(x, rows, 1, WIDE, shift, acc);                                             \
        else if (stride == 1 && rows >= WIDE_SHORT)                                                \
            name##_wide(x, rows, 1, WIDE_SHORT, shift, acc);                                       \
        else if (cols == stride && cols <= WIDE / 2 && rows >= WIDE)                               \
            name##_wide(x, rows, cols, WIDE / cols, shift, acc);                                   \
        else                                                                                       \
            name##_columns(x, rows, stride, cols, shift, acc);                                     \
    }                                                                                              \
                                                                                                   \
    static void name##_items(void *ctx, ptrdiff_t begin, ptrdiff_t end)                            \
    {                                                                                              \
        const ReduceJob *job = ctx;                                                                \
        double acc[REDUCE_STRIP];                                                                  \
        for (ptrdiff_t item = begin; item < end; item++) {                                         \
            const Place p = place(job, item);                                                      \
            const ptrdiff_t at = p.outer * job->inner + p.column;                                  \
            double *to = acc;                                                                      \
            if (job->blocks > 1)                                                                   \
                to = job->partial + (p.outer * job->blocks + p.block) * job->inner + p.column;     \
            name##_tile(job->x + (p.outer * job->R + p.row) * job->inner + p.column, p.rows,       \
                        job->inner, p.columns, job->shift ? job->shift + at : no_shift, to);       \
            if (job->blocks == 1) finish(job, at, p.columns, acc);                                 \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name##_combine(void *ctx, ptrdiff_t begin, ptrdiff_t end)                          \
    {                                                                                              \
        const ReduceJob *job = ctx;                                                                \
        for (ptrdiff_t o = begin; o < end; o++)                                                    \
            for (ptrdiff_t i = 0; i < job->inner; i++) {                                           \
                const double *part = job->partial + o * job->blocks * job->inner + i;              \
                double acc = (NONE);                                                               \
                for (ptrdiff_t b = 0; b < job->blocks; b++) acc = ADD(acc, part[b * job->inner]);  \
                finish(job, o * job->inner + i, 1, &acc);                                          \
            }                                                                                      \
    }

/* Where an item lies: its outer slice, its block of rows, its strip of columns. */
typedef struct {
    ptrdiff_t outer, block, row, rows, column, columns;
} Place;

static inline Place place(const ReduceJob *job, ptrdiff_t item)
{
    Place p;
    p.column = item % job->strips * job->strip;
    p.columns = ROW_MIN(job->strip, job->inner - p.column);
    item /= job->strips;
    p.block = item % job->blocks;
    p.row = p.block * job->block;
    p.rows = ROW_MIN(job->block, job->R - p.row);
    p.outer = item / job->blocks;
    return p;
}

static inline void finish(const ReduceJob *job, ptrdiff_t at, ptrdiff_t n, const double *acc)
{
    for (ptrdiff_t i = 0; i < n; i++) job->out[at + i] = (float)(acc[i] * job->scale);
    if (job->rest)
        for (ptrdiff_t i = 0; i < n; i++)
            job->rest[at + i] = (float)(acc[i] * job->scale - job->out[at + i]);
}

static const float no_shift[REDUCE_STRIP] = {0};

#define TERM_X(x, shift) (x)
#define TERM_SQDEV(x, shift) shifted_square(x, shift)
#define TERM_EXP(x, shift) s_exp((x) - (shift))

REDUCTION(sum, 0.0, TERM_X, PLUS)
REDUCTION(sqdev, 0.0, TERM_SQDEV, PLUS)
REDUCTION(expsum, 0.0, TERM_EXP, PLUS)
REDUCTION(prod, 1.0, TERM_X, TIMES)
REDUCTION(max, -INFINITY, TERM_X, LARGER)
REDUCTION(min, INFINITY, TERM_X, SMALLER)

/* The first r where x is `best`; 64 at a time, so that the search itself is vectorised. */
static ptrdiff_t first_of(const float *x, ptrdiff_t n, float best)
{
    const int nan = best != best;
    for (ptrdiff_t i = 0; i < n; i += 64) {
        const ptrdiff_t m = ROW_MIN(64, n - i);
        int found = 0;
        for (ptrdiff_t k = 0; k < m; k++)
            found |= (x[i + k] == best) | (nan & (x[i + k] != x[i + k]));
        if (!found) continue;
        for (ptrdiff_t k = 0; k < m; k++)
            if (x[i + k] == best || (nan && x[i + k] != x[i + k])) return i + k;
    }
    return 0;
}

static void find(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const ReduceJob *job = ctx;
    const ptrdiff_t inner = job->inner;
    for (ptrdiff_t item = begin; item < end; item++) {
        const Place p = place(job, item);
        const float *x = job->x + p.outer * job->R * inner + p.column;
        const float *restrict best = job->shift + p.outer * inner + p.column;
        int64_t *restrict index = job->index + p.outer * inner + p.column;
        if (inner == 1) {
            index[0] = first_of(x, job->R, best[0]);
            continue;
        }
        for (ptrdiff_t r = job->R - 1; r >= 0; r--) {
            const float *restrict row = x + r * inner;
            for (ptrdiff_t i = 0; i < p.columns; i++) {
                const int hit = (row[i] == best[i]) | ((row[i] != row[i]) & (best[i] != best[i]));
                index[i] = hit ? r : index[i];
            }
        }
    }
}

static void cumsum(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const ReduceJob *job = ctx;
    double acc[REDUCE_STRIP];
    for (ptrdiff_t item = begin; item < end; item++) {
        const Place p = place(job, item);
        const ptrdiff_t start = p.outer * job->R * job->inner + p.column;
        for (ptrdiff_t i = 0; i < p.columns; i++) acc[i] = 0;
        for (ptrdiff_t r = 0; r < job->R; r++) {
            const float *restrict x = job->x + start + r * job->inner;
            float *restrict y = job->out + start + r * job->inner;
            for (ptrdiff_t i = 0; i < p.columns; i++) {
                acc[i] += x[i];
                y[i] = (float)acc[i];
            }
        }
    }
}

const ReduceTable MINIDL_CAT(minidl_reduce, ISA_SUFFIX) = {
    {sum_items, sqdev_items, expsum_items, prod_items, max_items, min_items},
    {sum_combine, sqdev_combine, expsum_combine, prod_combine, max_combine, min_combine},
    find,
    cumsum,
};
