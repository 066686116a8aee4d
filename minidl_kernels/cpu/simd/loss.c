#include "loss.h"

#define GROUP 32

/* log(x) for x >= 1 to 1e-14, in a loop that vectorises; infinity and NaN are kept. */
S_FN double row_log(double x)
{
    int64_t bits;
    double m, t, q;
    memcpy(&bits, &x, 8);
    const int64_t split = bits - 0x3FE6A09E667F3BCD; /* sqrt(1/2): m is around 1 */
    const int32_t e = (int32_t)(split >> 52);
    bits = (split & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD;
    memcpy(&m, &bits, 8);
    m = (m - 1.0) / (m + 1.0);
    t = m * m; /* log((1 + m) / (1 - m)) = 2 (m + m^3 / 3 + m^5 / 5 + ...), |m| < 0.172 */
    q = 1.0 / 17.0;
    q = q * t + 1.0 / 15.0;
    q = q * t + 1.0 / 13.0;
    q = q * t + 1.0 / 11.0;
    q = q * t + 1.0 / 9.0;
    q = q * t + 1.0 / 7.0;
    q = q * t + 1.0 / 5.0;
    q = q * t + 1.0 / 3.0;
    q = 2.0 * (m + m * t * q) + e * 0.69314718055994530942;
    return x - x == 0.0 ? q : x;
}

/* loss = lse - (1 - smoothing) x[target] - smoothing mean(x); what is close to the maximum is taken
   from it first, so that large logits cancel before they are rounded. Rows go in groups, step by
   step: a row of few classes is one long chain, which runs while the next rows' chains do. */
static void cross_entropy(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const LossJob *job = ctx;
    const ptrdiff_t V = job->V, group = V <= 512 ? GROUP : 1;
    const double s = job->smoothing;
    for (ptrdiff_t first = begin; first < end; first += group) {
        const ptrdiff_t rows = ROW_MIN(group, end - first);
        float top[GROUP];
        double log_sum[GROUP];
        for (ptrdiff_t r = 0; r < rows; r++)
            top[r] = row_max(job->logits + (first + r) * V, V);
        for (ptrdiff_t r = 0; r < rows; r++)
            log_sum[r] = row_exp_sum(job->logits + (first + r) * V, V, top[r],
                                     (end - first - r) * V);
        for (ptrdiff_t r = rows; r < GROUP; r++) log_sum[r] = 1;
        for (ptrdiff_t r = 0; r < GROUP; r++) log_sum[r] = row_log(log_sum[r]);
        for (ptrdiff_t r = 0; r < rows; r++) {
            const float *x = job->logits + (first + r) * V;
            const int64_t t = job->target[first + r];
            const int seen = t != job->ignore;
            double likely = seen ? x[t] - (double)top[r] : 0;
            if (s != 0) likely = (1 - s) * likely + s * (row_sum(x, V) / (double)V - top[r]);
            job->lse[first + r] = seen ? top[r] + log_sum[r] : 0;
            job->out[first + r] = seen ? (float)(log_sum[r] - likely) : 0;
        }
    }
}

/* dx = g (exp(x - lse) - smoothing / V - (1 - smoothing) [i == target]) */
static void cross_entropy_grad(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const LossJob *job = ctx;
    const ptrdiff_t V = job->V;
    const float even = (float)(job->smoothing / (double)V), peak = (float)(1 - job->smoothing);
    for (ptrdiff_t r = begin; r < end; r++) {
        const float *restrict x = job->logits + r * V;
        float *restrict dx = job->out + r * V;
        if (job->target[r] == job->ignore) {
            memset(dx, 0, (size_t)V * sizeof(float));
            continue;
        }
        const int64_t t = job->target[r];
        const float g = job->g[job->each ? r : 0], near = (float)job->lse[r];
        const float rest = (float)(job->lse[r] - near);
        for (ptrdiff_t i = 0; i < V; i++) dx[i] = g * (row_exp((x[i] - near) - rest) - even);
        dx[t] = g * ((row_exp((x[t] - near) - rest) - peak) - even);
    }
}

const LossTable MINIDL_CAT(minidl_loss, ISA_SUFFIX) = {cross_entropy, cross_entropy_grad};
