/* Optimizer steps over all parameters in one launch. A block works on one row of `table`: where a
 * chunk of a tensor starts in each of the buffers, in elements, and how long it is. */
#define COLUMNS 5
#define ROW(k) table[(int64_t)BLOCK_X * COLUMNS + (k)]

typedef struct {
    float lr, beta1, beta2, eps, decay, weight_decay, step_size, root_correction, sign;
} Adam;

/* m += (1 - beta1) (g - m), v += (1 - beta2) (g^2 - v),
 * p = p decay - step_size m / (sqrt(v) / root_correction + eps), g += weight_decay p before */
KERNEL(adam, 256, OUT(float, params), IN(float, grads), OUT(float, m), OUT(float, v),
       IN(int64_t, table), VAL(Adam, adam))
{
    GLOBAL float *p = params + ROW(0), *mi = m + ROW(2), *vi = v + ROW(3);
    GLOBAL const float *g = grads + ROW(1);
    const int n = (int)ROW(4);
    for (int i = THREAD; i < n; i += THREADS) {
        float w = p[i], d = FMA(adam.weight_decay, w, adam.sign * g[i]), m1 = mi[i], v1 = vi[i];
        m1 = FMA(1.0f - adam.beta1, d - m1, m1);
        v1 = FMA(1.0f - adam.beta2, d * d - v1, v1);
        mi[i] = m1;
        vi[i] = v1;
        d = m1 / (S_SQRT(v1) / adam.root_correction + adam.eps);
        p[i] = w * adam.decay - adam.step_size * d;
    }
}

typedef struct {
    float lr, momentum, damped, weight_decay, sign;
    int32_t buffered, first, nesterov;
} Sgd;

KERNEL(sgd, 256, OUT(float, params), IN(float, grads), OUT(float, buffers), IN(int64_t, table),
       VAL(Sgd, sgd))
{
    GLOBAL float *p = params + ROW(0), *b = buffers + ROW(2);
    GLOBAL const float *g = grads + ROW(1);
    const int n = (int)ROW(4);
    for (int i = THREAD; i < n; i += THREADS) {
        float d = FMA(sgd.weight_decay, p[i], sgd.sign * g[i]);
        if (sgd.buffered) {
            float u = sgd.first ? d : sgd.momentum * b[i] + sgd.damped * d;
            b[i] = u;
            d = sgd.nesterov ? FMA(sgd.momentum, u, d) : u;
        }
        p[i] = FMA(-sgd.lr, d, p[i]);
    }
}

typedef struct {
    float lr, new1, new2, decay, sign;
} Lion;

/* p = p decay - lr sign(m + (1 - beta1) (g - m)), m += (1 - beta2) (g - m) */
KERNEL(lion, 256, OUT(float, params), IN(float, grads), OUT(float, m), IN(int64_t, table),
       VAL(Lion, lion))
{
    GLOBAL float *p = params + ROW(0), *mi = m + ROW(2);
    GLOBAL const float *g = grads + ROW(1);
    const int n = (int)ROW(4);
    for (int i = THREAD; i < n; i += THREADS) {
        float d = lion.sign * g[i] - mi[i], u = FMA(lion.new1, d, mi[i]);
        float step = u > 0.0f ? lion.lr : u < 0.0f ? -lion.lr : 0.0f;
        p[i] = p[i] * lion.decay - step;
        mi[i] = FMA(lion.new2, d, mi[i]);
    }
}

/* part[block] = the sum of squares of one chunk */
KERNEL(square_sums, 256, IN(float, x), OUT(float, part), IN(int64_t, table), VAL(int, at))
{
    SHARED(float, shared, [THREADS]);
    GLOBAL const float *first = x + ROW(0);
    const int n = (int)ROW(4);
    float total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total = FMA(first[i], first[i], total);
    BLOCK_SUM(total, total, shared);
    if (THREAD == 0) part[at + BLOCK_X] = total;
}

/* norm = sqrt(sum(part)) */
KERNEL(root_sum, 256, IN(float, part), OUT(float, norm), VAL(int, n))
{
    SHARED(float, shared, [THREADS]);
    float total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total += part[i];
    BLOCK_SUM(total, total, shared);
    if (THREAD == 0) norm[0] = S_SQRT(total);
}

/* x *= factor, or with `limit` > 0 x *= min(1, limit / (norm + 1e-6)) */
KERNEL(scale, 256, OUT(float, x), IN(float, norm), IN(int64_t, table), VAL(float, factor),
       VAL(float, limit))
{
    GLOBAL float *first = x + ROW(0);
    const int n = (int)ROW(4);
    const float ratio = limit > 0.0f ? limit / (norm[0] + 1e-6f) : factor;
    const float by = limit > 0.0f && !(ratio < 1.0f) ? 1.0f : ratio;
    if (by != 1.0f)
        for (int i = THREAD; i < n; i += THREADS) first[i] *= by;
}
