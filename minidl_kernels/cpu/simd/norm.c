#include "norm.h"

#define GROUP 4

/* Rows that stay in the first cache together. */
static inline ptrdiff_t group_of(ptrdiff_t C)
{
    return C <= 1024 ? GROUP : 1;
}

/* Rows so short that the first cache holds the next group too */
static inline int is_near(ptrdiff_t C)
{
    return C <= 256;
}

/* y[i] = TERM(i) for 0 <= i < n, and FETCH(i) once every STRIDE elements: what the next rows need is
   asked for a little at a time, since the CPU can only wait for a few lines at once. A result too
   large for the caches is streamed past them. */
#define STRIDE 128
#define IN_STRIDES(y, n, streamed, TERM, FETCH)                                                    \
    do {                                                                                           \
        ptrdiff_t i_ = 0;                                                                          \
        for (; i_ + STRIDE <= (n); i_ += STRIDE) {                                                 \
            float line_[STRIDE], *restrict to_ = (streamed) ? line_ : (y) + i_;                    \
            FETCH(i_);                                                                             \
            for (int k_ = 0; k_ < STRIDE; k_++) to_[k_] = TERM(i_ + k_);                           \
            if (streamed) row_stream((y) + i_, line_, STRIDE);                                     \
        }                                                                                          \
        for (; i_ < (n); i_++) (y)[i_] = TERM(i_);                                                 \
    } while (0)

/* y = exp(x - shift); returns the sum of y. The maximum of the next row is found faster than that
   row arrives, so it is asked for here, where there is time. */
static double exp_row(float *restrict y, const float *restrict x, ptrdiff_t n, float shift,
                      const float *next)
{
    double total = 0;
    for (; n > 0; x += ROW_BLOCK, y += ROW_BLOCK, next += ROW_BLOCK, n -= ROW_BLOCK) {
        const ptrdiff_t m = ROW_MIN(n, ROW_BLOCK);
        float part;
#define TERM(i) (y[i] = row_exp(x[i] - shift))
#define ASK(i) ROW_PREFETCH(next + (i), ROW_LANES, 0)
        ROW_REDUCE_ASKING(float, part, m, m, -0.0f, TERM, ROW_PLUS, ROW_FOLD_PLUS, ASK);
#undef TERM
#undef ASK
        total += part;
    }
    return total;
}

static void softmax(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const SoftmaxJob *job = ctx;
    const ptrdiff_t C = job->C;
    for (ptrdiff_t r = begin; r < end; r++) {
        const float *x = job->a + r * C, *next = r + 1 < end ? x + C : x;
        float *restrict y = job->out + r * C;
        const float scale = (float)(1.0 / exp_row(y, x, C, row_max(x, C), next));
        for (ptrdiff_t i = 0; i < C; i++) y[i] *= scale;
    }
}

/* dx = y (g - sum(g y)) */
static void softmax_grad(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const SoftmaxJob *job = ctx;
    const ptrdiff_t C = job->C;
    const int streamed = row_streamed(job->out, job->N, C);
    for (ptrdiff_t r = begin; r < end; r++) {
        const float *restrict g = job->a + r * C, *restrict y = job->y + r * C;
        float *restrict dx = job->out + r * C;
        const float dot = (float)row_dot(g, y, C);
#define TERM(i) (y[i] * (g[i] - dot))
        IN_STRIDES(dx, C, streamed, TERM, ROW_ASK_NOTHING);
#undef TERM
    }
    if (streamed) row_stream_end();
}

/* y = (x - max) - log(sum(exp(x - max))): the maximum goes first, it may be large. */
static void log_softmax(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const SoftmaxJob *job = ctx;
    const ptrdiff_t C = job->C;
    for (ptrdiff_t r = begin; r < end; r++) {
        const float *restrict x = job->a + r * C;
        float *restrict y = job->out + r * C;
        const float top = row_max(x, C);
        const float log_sum = (float)log(row_exp_sum(x, C, top, C));
        for (ptrdiff_t i = 0; i < C; i++) y[i] = (x[i] - top) - log_sum;
    }
}

/* dx = g - exp(y) sum(g) */
static void log_softmax_grad(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const SoftmaxJob *job = ctx;
    const ptrdiff_t C = job->C;
    const int streamed = row_streamed(job->out, job->N, C);
    for (ptrdiff_t r = begin; r < end; r++) {
        const float *restrict g = job->a + r * C, *restrict y = job->y + r * C;
        float *restrict dx = job->out + r * C;
        const float sum = (float)row_sum(g, C);
#define TERM(i) (g[i] - row_exp(y[i]) * sum)
        IN_STRIDES(dx, C, streamed, TERM, ROW_ASK_NOTHING);
#undef TERM
    }
    if (streamed) row_stream_end();
}

/* first = sum of FIRST(i), second = sum of SECOND(i) for 0 <= i < n, as ROW_REDUCE does it. */
#define REDUCE2(first, second, n, FIRST, SECOND)                                                   \
    do {                                                                                           \
        float f_[ROW_LANES], s_[ROW_LANES];                                                        \
        ptrdiff_t i_ = 0;                                                                          \
        for (int l_ = 0; l_ < ROW_LANES; l_++) f_[l_] = s_[l_] = -0.0f;                            \
        for (; i_ + ROW_LANES <= (n); i_ += ROW_LANES)                                             \
            for (int l_ = 0; l_ < ROW_LANES; l_++) {                                               \
                f_[l_] += FIRST(i_ + l_);                                                          \
                s_[l_] += SECOND(i_ + l_);                                                         \
            }                                                                                      \
        for (int l_ = 0; l_ < (n) - i_; l_++) {                                                    \
            f_[l_] += FIRST(i_ + l_);                                                              \
            s_[l_] += SECOND(i_ + l_);                                                             \
        }                                                                                          \
        ROW_FOLD_PLUS(float, first, f_, ROW_PLUS);                                                 \
        ROW_FOLD_PLUS(float, second, s_, ROW_PLUS);                                                \
    } while (0)

/* d1, d2 = sum of (x - near), sum of (x - near)^2 */
S_FN void deviations(const float *restrict x, ptrdiff_t n, float near, double *d1, double *d2)
{
    float first, second;
#define FIRST(i) (x[i] - near)
#define SECOND(i) ((x[i] - near) * (x[i] - near))
    REDUCE2(first, second, n, FIRST, SECOND);
#undef FIRST
#undef SECOND
    *d1 = first;
    *d2 = second;
}

/* Mean and summed squared deviation of a row that is read once. A block is measured around zero;
   only when its mean turns out to be more than one standard deviation off (the squares would
   cancel, or are too large for a float) it is measured again, around its mean, while it is in the
   first cache. Blocks are merged by Chan's formula. */
static inline void moments(const float *x, ptrdiff_t n, double *mean, double *deviation)
{
    double m = 0, s = 0;
    for (ptrdiff_t done = 0; done < n; done += ROW_BLOCK) {
        const float *p = x + done;
        const ptrdiff_t b = ROW_MIN(n - done, ROW_BLOCK);
        const double share = 1.0 / (double)b;
        float near = 0;
        double d1, d2, off;
        deviations(p, b, near, &d1, &d2);
        off = d1 * share;
        if (!(2 * d1 * off <= d2 && d2 < INFINITY)) {
            near = (float)off;
            deviations(p, b, near, &d1, &d2);
            off = d1 * share;
        }
        const double squares = d2 - d1 * off, step = near + off - m;
        if (done == 0) {
            m = near + off;
            s = squares;
        } else {
            const double part = (double)b / (double)(done + b);
            m += step * part;
            s += squares + step * step * part * (double)done;
        }
    }
    *mean = m;
    *deviation = s > 0 || s != s ? s : 0;
}

/* y = (x - mean) rstd weight + bias. The mean is used in two parts, for a float holds too few
   digits of it when it is much larger than the deviations. Rows go in groups: the long tail of one
   row's statistics (folds, division, root) runs while the next row is being summed. */
static void layer_norm(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const NormJob *job = ctx;
    const ptrdiff_t C = job->C, group = group_of(C);
    const float *restrict w = job->weight, *restrict b = job->bias;
    const int streamed = row_streamed(job->y, job->N, C);
    for (ptrdiff_t first = begin; first < end; first += group) {
        const ptrdiff_t rows = ROW_MIN(group, end - first);
        double mean[GROUP], scale[GROUP];
        for (ptrdiff_t r = 0; r < rows; r++)
            moments(job->x + (first + r) * C, C, &mean[r], &scale[r]);
        for (ptrdiff_t r = 0; r < rows; r++)
            scale[r] = 1.0 / sqrt(scale[r] / (double)C + job->eps);
        for (ptrdiff_t r = 0; r < rows; r++) {
            const float *restrict x = job->x + (first + r) * C;
            float *restrict y = job->y + (first + r) * C;
            const float near = (float)mean[r], rstd = (float)scale[r];
            const float rest = (float)((near - mean[r]) * scale[r]);
            job->mean[first + r] = near;
            job->rstd[first + r] = rstd;
            const ptrdiff_t ahead = first + r + group < end ? group * C : 0;
#define TERM(i) (((x[i] - near) * rstd + rest) * w[i] + b[i])
#define FETCH(i) ROW_PREFETCH(x + ahead + (i), STRIDE, is_near(C))
            IN_STRIDES(y, C, streamed, TERM, FETCH);
#undef TERM
#undef FETCH
        }
    }
    if (streamed) row_stream_end();
}

/* With xhat = (x - mean) rstd and h = g weight:
   dx = rstd (h - sum(h) / C - xhat sum(h xhat) / C), dweight = sum(g xhat), dbias = sum(g).
   centred == 0 is RMSNorm: mean is 0, and the first sum and dbias fall away. */

/* sum(h) and sum(h (x - mean)) of one row */
S_FN void grad_sums(const NormGradJob *job, ptrdiff_t r, int centred, float *sum, float *dot)
{
    const ptrdiff_t C = job->C;
    const float *restrict w = job->weight;
    const float mean = centred ? job->mean[r] : 0;
    double s = 0, t = 0;
    for (ptrdiff_t done = 0; done < C; done += ROW_BLOCK) {
        const ptrdiff_t m = ROW_MIN(C - done, ROW_BLOCK);
        const float *restrict g = job->g + r * C + done, *restrict x = job->x + r * C + done;
        float first, second;
#define FIRST(i) (g[i] * w[done + i])
#define SECOND(i) (g[i] * w[done + i] * (x[i] - mean))
        REDUCE2(first, second, m, FIRST, SECOND);
#undef FIRST
#undef SECOND
        s += first;
        t += second;
    }
    *sum = (float)s;
    *dot = (float)t;
}

/* The same for GROUP rows in one pass over them, which also adds to dweight and dbias: they are
   loaded and stored once for the group. */
S_FN void grad_sums_group(const NormGradJob *job, ptrdiff_t r, int centred, float *sum, float *dot,
                          float *restrict dweight, float *restrict dbias)
{
    const ptrdiff_t C = job->C;
    const float *restrict w = job->weight, *rs = job->rstd + r;
    const float *restrict g0 = job->g + r * C, *restrict g1 = g0 + C, *restrict g2 = g1 + C,
                *restrict g3 = g2 + C;
    const float *restrict x0 = job->x + r * C, *restrict x1 = x0 + C, *restrict x2 = x1 + C,
                *restrict x3 = x2 + C;
    const float r0 = rs[0], r1 = rs[1], r2 = rs[2], r3 = rs[3];
    const float m0 = centred ? job->mean[r] : 0, m1 = centred ? job->mean[r + 1] : 0;
    const float m2 = centred ? job->mean[r + 2] : 0, m3 = centred ? job->mean[r + 3] : 0;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0, t0 = 0, t1 = 0, t2 = 0, t3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3, t0, t1, t2, t3)
    for (ptrdiff_t i = 0; i < C; i++) {
        const float d0 = x0[i] - m0, d1 = x1[i] - m1, d2 = x2[i] - m2, d3 = x3[i] - m3;
        const float p0 = g0[i] * d0, p1 = g1[i] * d1, p2 = g2[i] * d2, p3 = g3[i] * d3;
        dweight[i] += (p0 * r0 + p1 * r1) + (p2 * r2 + p3 * r3);
        if (centred) {
            dbias[i] += (g0[i] + g1[i]) + (g2[i] + g3[i]);
            s0 += g0[i] * w[i];
            s1 += g1[i] * w[i];
            s2 += g2[i] * w[i];
            s3 += g3[i] * w[i];
        }
        t0 += p0 * w[i];
        t1 += p1 * w[i];
        t2 += p2 * w[i];
        t3 += p3 * w[i];
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
    dot[0] = t0, dot[1] = t1, dot[2] = t2, dot[3] = t3;
}

S_FN void grad_params(const NormGradJob *job, ptrdiff_t r, int centred, float *restrict dweight,
                      float *restrict dbias)
{
    const ptrdiff_t C = job->C;
    const float *restrict g = job->g + r * C, *restrict x = job->x + r * C;
    const float mean = centred ? job->mean[r] : 0, rstd = job->rstd[r];
    for (ptrdiff_t i = 0; i < C; i++) dweight[i] += g[i] * ((x[i] - mean) * rstd);
    for (ptrdiff_t i = 0; centred && i < C; i++) dbias[i] += g[i];
}

S_FN void grad_x(const NormGradJob *job, ptrdiff_t r, int centred, float sum, float dot,
                 ptrdiff_t ahead, int streamed)
{
    const ptrdiff_t C = job->C;
    const float *restrict g = job->g + r * C, *restrict x = job->x + r * C;
    const float *restrict w = job->weight;
    const float mean = centred ? job->mean[r] : 0, rstd = job->rstd[r];
    const float a = centred ? sum / (float)C : 0, b = dot / (float)C * rstd * rstd;
    float *restrict dx = job->dx + r * C;
#define TERM(i) ((g[i] * w[i] - a - (x[i] - mean) * b) * rstd)
#define FETCH(i)                                                                                   \
    do {                                                                                           \
        ROW_PREFETCH(g + ahead + (i), STRIDE, is_near(C));                                         \
        ROW_PREFETCH(x + ahead + (i), STRIDE, is_near(C));                                         \
    } while (0)
    IN_STRIDES(dx, C, streamed, TERM, FETCH);
#undef TERM
#undef FETCH
}

S_FN void norm_grad(const NormGradJob *job, ptrdiff_t begin, ptrdiff_t end, int centred)
{
    const ptrdiff_t C = job->C, group = group_of(C);
    const int streamed = row_streamed(job->dx, job->N, C);
    for (ptrdiff_t c = begin; c < end; c++) {
        float *dweight = job->dweight ? job->dweight + c * C : NULL;
        float *dbias = job->dbias ? job->dbias + c * C : NULL;
        const ptrdiff_t stop = ROW_MIN(job->N, (c + 1) * job->chunk);
        if (dweight) memset(dweight, 0, (size_t)C * sizeof(float));
        if (dbias) memset(dbias, 0, (size_t)C * sizeof(float));
        for (ptrdiff_t first = c * job->chunk; first < stop; first += group) {
            const ptrdiff_t rows = ROW_MIN(group, stop - first);
            float sum[GROUP], dot[GROUP];
            if (dweight && rows == GROUP)
                grad_sums_group(job, first, centred, sum, dot, dweight, dbias);
            else
                for (ptrdiff_t r = 0; r < rows; r++) {
                    if (job->dx) grad_sums(job, first + r, centred, &sum[r], &dot[r]);
                    if (dweight) grad_params(job, first + r, centred, dweight, dbias);
                }
            for (ptrdiff_t r = 0; job->dx && r < rows; r++) {
                const ptrdiff_t ahead = first + r + group < stop ? group * C : 0;
                grad_x(job, first + r, centred, sum[r], dot[r], ahead, streamed);
            }
        }
    }
    if (streamed) row_stream_end();
}

static void layer_norm_grad(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    norm_grad(ctx, begin, end, 1);
}

static void rms_norm_grad(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    norm_grad(ctx, begin, end, 0);
}

/* out = sum over the chunks, in order and in double */
static void fold(float *restrict out, const float *restrict partial, ptrdiff_t chunks, ptrdiff_t C)
{
    double total[256];
    for (ptrdiff_t j = 0; j < C; j += 256) {
        const ptrdiff_t width = ROW_MIN(256, C - j);
        for (ptrdiff_t i = 0; i < width; i++) total[i] = 0;
        for (ptrdiff_t c = 0; c < chunks; c++)
            for (ptrdiff_t i = 0; i < width; i++) total[i] += partial[c * C + j + i];
        for (ptrdiff_t i = 0; i < width; i++) out[j + i] = (float)total[i];
    }
}

/* y = x rstd weight with rstd = 1 / sqrt(mean(x x) + eps) */
static void rms_norm(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const NormJob *job = ctx;
    const ptrdiff_t C = job->C;
    const float *restrict w = job->weight;
    for (ptrdiff_t r = begin; r < end; r++) {
        const float *restrict x = job->x + r * C;
        float *restrict y = job->y + r * C;
        const float rstd = (float)(1.0 / sqrt(row_dot(x, x, C) / (double)C + job->eps));
        job->rstd[r] = rstd;
        for (ptrdiff_t i = 0; i < C; i++) y[i] = x[i] * rstd * w[i];
    }
}

const NormTable MINIDL_CAT(minidl_norm, ISA_SUFFIX) = {
    softmax, softmax_grad, log_softmax, log_softmax_grad,
    layer_norm, layer_norm_grad, rms_norm, rms_norm_grad, fold,
};
