#include "reduce.h"

/* Partial results are of type ACC over DEPTH rows (or ROW_BLOCK elements of one row), and double
   from there on. Few columns are made many by taking several rows as one, folded in the end. */
#define DEPTH 64
#define WIDE 64

#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define LARGER(a, b) (((a) >= (b)) | ((a) != (a)) ? (a) : (b))
#define SMALLER(a, b) (((a) <= (b)) | ((a) != (a)) ? (a) : (b))

#define REDUCTION(name, ACC, NONE, TERM, ADD)                                                      \
    /* acc[i] = acc[i] ADD x[0, i] ADD x[1, i] ... */                                              \
    S_FN void name##_columns(const float *restrict x, ptrdiff_t rows, ptrdiff_t stride,            \
                             ptrdiff_t cols, const float *restrict shift, ACC *restrict acc)       \
    {                                                                                              \
        ptrdiff_t r = 0;                                                                           \
        for (; r + 4 <= rows; r += 4, x += 4 * stride) {                                           \
            const float *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;                    \
            for (ptrdiff_t i = 0; i < cols; i++) {                                                 \
                const ACC a = TERM(x[i], shift[i]), b = TERM(x1[i], shift[i]);                     \
                const ACC c = TERM(x2[i], shift[i]), d = TERM(x3[i], shift[i]);                    \
                const ACC ab = ADD(a, b), cd = ADD(c, d), abcd = ADD(ab, cd);                      \
                acc[i] = ADD(acc[i], abcd);                                                        \
            }                                                                                      \
        }                                                                                          \
        for (; r < rows; r++, x += stride)                                                         \
            for (ptrdiff_t i = 0; i < cols; i++) {                                                 \
                const ACC a = TERM(x[i], shift[i]);                                                \
                acc[i] = ADD(acc[i], a);                                                           \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    /* The same for few columns: `times` rows, a power of two, go as one. */                       \
    static void name##_narrow(const float *x, ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t times,     \
                              const float *shift, ACC *acc)                                        \
    {                                                                                              \
        ACC wide[WIDE];                                                                            \
        float wide_shift[WIDE];                                                                    \
        const ptrdiff_t width = cols * times, done = rows / times * times;                         \
        for (ptrdiff_t i = 0; i < width; i++) wide[i] = (NONE);                                    \
        for (ptrdiff_t k = 0; k < times; k++)                                                      \
            for (ptrdiff_t i = 0; i < cols; i++) wide_shift[k * cols + i] = shift[i];              \
        name##_columns(x, done / times, width, width, wide_shift, wide);                           \
        for (ptrdiff_t half = width / 2; half >= cols; half /= 2)                                  \
            for (ptrdiff_t i = 0; i < half; i++) wide[i] = ADD(wide[i], wide[i + half]);           \
        for (ptrdiff_t i = 0; i < cols; i++) acc[i] = ADD(acc[i], wide[i]);                        \
        name##_columns(x + done * cols, rows - done, cols, cols, shift, acc);                      \
    }                                                                                              \
                                                                                                   \
    static void name##_tile(const float *restrict x, ptrdiff_t rows, ptrdiff_t stride,             \
                            ptrdiff_t cols, const float *restrict shift, double *restrict total)   \
    {                                                                                              \
        ACC acc[REDUCE_STRIP];                                                                     \
        ptrdiff_t times = 1, depth = stride == 1 ? ROW_BLOCK : DEPTH;                              \
        while (stride == cols && 2 * times * cols <= WIDE) times *= 2;                             \
        if (times > 1 && stride > 1) depth *= times;                                               \
        for (ptrdiff_t i = 0; i < cols; i++) total[i] = (NONE);                                    \
        for (; rows > 0; rows -= depth, x += depth * stride) {                                     \
            const ptrdiff_t m = ROW_MIN(rows, depth);                                              \
            if (stride == 1) {                                                                     \
                const float s = shift[0];                                                          \
                (void)s;                                                                           \
                ROW_REDUCE(ACC, acc[0], m, m, NONE, name##_term, ADD);                             \
            } else {                                                                               \
                for (ptrdiff_t i = 0; i < cols; i++) acc[i] = (NONE);                              \
                if (times > 1)                                                                     \
                    name##_narrow(x, m, cols, times, shift, acc);                                  \
                else                                                                               \
                    name##_columns(x, m, stride, cols, shift, acc);                                \
            }                                                                                      \
            for (ptrdiff_t i = 0; i < cols; i++) total[i] = ADD(total[i], acc[i]);                 \
        }                                                                                          \
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
            if (job->blocks == 1)                                                                  \
                for (ptrdiff_t i = 0; i < p.columns; i++)                                          \
                    job->out[at + i] = (float)(acc[i] * job->scale + job->zero);                   \
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
                job->out[o * job->inner + i] = (float)(acc * job->scale + job->zero);              \
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

static const float no_shift[REDUCE_STRIP] = {0};

#define PLAIN(x, shift) (x)
#define DEVIATION(x, shift) ((x) - (shift))
#define SQUARE(x, shift) square((x) - (shift))
#define EXP(x, shift) s_exp((x) - (shift))
static inline float square(float x) { return x * x; }

/* The term of element i of a single row, whose shift is s. */
#define sum_term(i) x[i]
#define prod_term(i) x[i]
#define max_term(i) x[i]
#define min_term(i) x[i]
#define dev_term(i) (x[i] - s)
#define sqdev_term(i) square(x[i] - s)
#define expsum_term(i) s_exp(x[i] - s)

REDUCTION(sum, float, -0.0f, PLAIN, PLUS)
REDUCTION(dev, float, -0.0f, DEVIATION, PLUS)
REDUCTION(sqdev, float, -0.0f, SQUARE, PLUS)
REDUCTION(expsum, float, -0.0f, EXP, PLUS)
REDUCTION(prod, double, 1.0, PLAIN, TIMES)
REDUCTION(max, float, -INFINITY, PLAIN, LARGER)
REDUCTION(min, float, INFINITY, PLAIN, SMALLER)

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
    const ptrdiff_t inner = job->inner;
    double acc[REDUCE_STRIP];
    for (ptrdiff_t item = begin; item < end; item++) {
        const Place p = place(job, item);
        const float *restrict x = job->x + p.outer * job->R * inner + p.column;
        float *restrict y = job->out + p.outer * job->R * inner + p.column;
        if (inner == 1) {
            double sum = 0;
            for (ptrdiff_t r = 0; r < job->R; r++) y[r] = (float)(sum += x[r]);
            continue;
        }
        for (ptrdiff_t i = 0; i < p.columns; i++) acc[i] = 0;
        for (ptrdiff_t r = 0; r < job->R; r++, x += inner, y += inner)
            for (ptrdiff_t i = 0; i < p.columns; i++) y[i] = (float)(acc[i] += x[i]);
    }
}

const ReduceTable MINIDL_CAT(minidl_reduce, ISA_SUFFIX) = {
    {sum_items, dev_items, sqdev_items, expsum_items, prod_items, max_items, min_items},
    {sum_combine, dev_combine, sqdev_combine, expsum_combine, prod_combine, max_combine,
     min_combine},
    find,
    cumsum,
};
