#include "optim.h"

#include <math.h>

/* m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr/c1 * m / (sqrt(v)/c2 + eps). */
static void adam(float *restrict p, float *restrict m, float *restrict v, const float *restrict g,
                 ptrdiff_t n, const AdamSettings *s)
{
    const float step = s->lr / s->correction1, inv2 = 1.0f / s->correction2, eps = s->eps;
    const float b1 = 1.0f - s->beta1, b2 = s->beta2, c2 = 1.0f - s->beta2, sign = s->sign;
    const float shrink = s->decoupled ? 1.0f - s->lr * s->decay : 1.0f;
    const float l2 = s->decoupled ? 0.0f : s->decay;
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) {
        float gi = sign * g[i] + l2 * p[i];
        float mi = m[i] + b1 * (gi - m[i]);
        float vi = b2 * v[i] + c2 * gi * gi;
        m[i] = mi;
        v[i] = vi;
        p[i] = p[i] * shrink - step * mi / (sqrtf(vi) * inv2 + eps);
    }
}

/* b = momentum b + (1 - dampening) g;  p -= lr (g + momentum b if nesterov, else b). */
static void sgd(float *restrict p, float *restrict buffer, const float *restrict g, ptrdiff_t n,
                const SgdSettings *s)
{
    const float lr = s->lr, mu = s->momentum, decay = s->decay, sign = s->sign;
    const float keep = s->first ? 0.0f : mu, take = s->first ? 1.0f : 1.0f - s->dampening;
    const float direct = s->nesterov ? 1.0f : 0.0f, through = s->nesterov ? mu : 1.0f;
    if (!buffer) {
#pragma omp simd
        for (ptrdiff_t i = 0; i < n; i++) p[i] -= lr * (sign * g[i] + decay * p[i]);
        return;
    }
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) {
        float gi = sign * g[i] + decay * p[i];
        float bi = (s->first ? 0.0f : keep * buffer[i]) + take * gi;
        buffer[i] = bi;
        p[i] -= lr * (direct * gi + through * bi);
    }
}

/* p = p (1 - lr decay) - lr sign(m + (1 - b1)(g - m));  m += (1 - b2)(g - m). */
static void lion(float *restrict p, float *restrict m, const float *restrict g, ptrdiff_t n,
                 const LionSettings *s)
{
    const float lr = s->lr, take1 = 1.0f - s->beta1, take2 = 1.0f - s->beta2, sign = s->sign;
    const float shrink = 1.0f - lr * s->decay;
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) {
        float d = sign * g[i] - m[i];
        float u = m[i] + take1 * d;
        float way = u > 0.0f ? lr : u < 0.0f ? -lr : lr * u; /* u itself: 0 stays 0, NaN is NaN */
        p[i] = p[i] * shrink - way;
        m[i] += take2 * d;
    }
}

static double sqsum(const float *x, ptrdiff_t n)
{
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (ptrdiff_t i = 0; i < n; i++) total += (double)x[i] * (double)x[i];
    return total;
}

static void scale(float *x, ptrdiff_t n, float factor)
{
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) x[i] *= factor;
}

const OptimTable MINIDL_CAT(minidl_optim, ISA_SUFFIX) = {adam, sgd, lion, sqsum, scale};
