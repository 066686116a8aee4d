#include "loss.h"

/* loss = lse - (1 - smoothing) x[target] - smoothing mean(x); what is close to the maximum is taken
   from it first, so that large logits cancel before they are rounded. */
static void cross_entropy(void *ctx, ptrdiff_t begin, ptrdiff_t end)
{
    const LossJob *job = ctx;
    const ptrdiff_t V = job->V;
    const double s = job->smoothing;
    for (ptrdiff_t r = begin; r < end; r++) {
        const float *x = job->logits + r * V;
        if (job->target[r] == job->ignore) {
            job->out[r] = 0;
            job->lse[r] = 0;
            continue;
        }
        const double top = row_max(x, V), log_sum = log(row_exp_sum(x, V, (float)top));
        double likely = x[job->target[r]] - top;
        if (s != 0) likely = (1 - s) * likely + s * (row_sum(x, V) / (double)V - top);
        job->lse[r] = top + log_sum;
        job->out[r] = (float)(log_sum - likely);
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
        const float g = job->g[r], near = (float)job->lse[r], rest = (float)(job->lse[r] - near);
        for (ptrdiff_t i = 0; i < V; i++) dx[i] = g * (row_exp((x[i] - near) - rest) - even);
        dx[t] = g * ((row_exp((x[t] - near) - rest) - peak) - even);
    }
}

const LossTable MINIDL_CAT(minidl_loss, ISA_SUFFIX) = {cross_entropy, cross_entropy_grad};
