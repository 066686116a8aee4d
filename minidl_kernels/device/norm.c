/* Softmax, LayerNorm and RMSNorm of the rows of [rows, n] arrays, one block a row.
 * ROW_THREADS is 32 for short rows, else 256. */

/* y = exp(x - top) / sum, or x - top - log(sum) */
KERNEL(softmax, ROW_THREADS, IN(float, x), OUT(float, y), VAL(int, n), VAL(int, logarithm))
{
    SHARED(float, shared, [THREADS]);
    const int64_t row = (int64_t)BLOCK_X * n;
    float top = -S_INF, total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) top = LARGER(top, x[row + i]);
    BLOCK_MAX(top, top, shared);
    for (int i = THREAD; i < n; i += THREADS) total += s_exp(x[row + i] - top);
    BLOCK_SUM(total, total, shared);
    if (logarithm) {
        total = s_log(total);
        for (int i = THREAD; i < n; i += THREADS) y[row + i] = (x[row + i] - top) - total;
    } else {
        for (int i = THREAD; i < n; i += THREADS) y[row + i] = s_exp(x[row + i] - top) / total;
    }
}

/* d = y (g - sum(g y)), or g - exp(y) sum(g) */
KERNEL(softmax_grad, ROW_THREADS, IN(float, g), IN(float, y), OUT(float, d), VAL(int, n),
       VAL(int, logarithm))
{
    SHARED(float, shared, [THREADS]);
    const int64_t row = (int64_t)BLOCK_X * n;
    float total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS)
        total += logarithm ? g[row + i] : g[row + i] * y[row + i];
    BLOCK_SUM(total, total, shared);
    for (int i = THREAD; i < n; i += THREADS)
        d[row + i] = logarithm ? g[row + i] - s_exp(y[row + i]) * total
                               : y[row + i] * (g[row + i] - total);
}

/* y = (x - mean) rstd weight + bias, where `parts` says which of weight (1) and bias (2) exist */
KERNEL(layer_norm, ROW_THREADS, IN(float, x), IN(float, weight), IN(float, bias), OUT(float, y),
       OUT(float, mean), OUT(float, rstd), VAL(int, n), VAL(float, eps), VAL(int, parts))
{
    SHARED(float, shared, [THREADS]);
    const int64_t row = (int64_t)BLOCK_X * n;
    float m, v, total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total += x[row + i];
    BLOCK_SUM(m, total, shared);
    m /= (float)n;
    total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total = FMA(x[row + i] - m, x[row + i] - m, total);
    BLOCK_SUM(v, total, shared);
    const float r = RSQRT(v / (float)n + eps);
    for (int i = THREAD; i < n; i += THREADS) {
        float z = (x[row + i] - m) * r;
        if (parts & 1) z *= weight[i];
        y[row + i] = parts & 2 ? z + bias[i] : z;
    }
    if (THREAD == 0) {
        mean[BLOCK_X] = m;
        rstd[BLOCK_X] = r;
    }
}

/* dx = rstd (h - mean(h) - xhat mean(h xhat)), h = g weight */
KERNEL(layer_norm_grad, ROW_THREADS, IN(float, g), IN(float, x), IN(float, weight),
       IN(float, mean), IN(float, rstd), OUT(float, dx), VAL(int, n), VAL(int, parts))
{
    SHARED(float, shared, [THREADS]);
    const int64_t row = (int64_t)BLOCK_X * n;
    const float m = mean[BLOCK_X], r = rstd[BLOCK_X];
    float sum_h = 0.0f, sum_hx = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) {
        float h = parts & 1 ? g[row + i] * weight[i] : g[row + i];
        sum_h += h;
        sum_hx = FMA(h, (x[row + i] - m) * r, sum_hx);
    }
    BLOCK_SUM(sum_h, sum_h, shared);
    BLOCK_SUM(sum_hx, sum_hx, shared);
    sum_h /= (float)n;
    sum_hx /= (float)n;
    for (int i = THREAD; i < n; i += THREADS) {
        float h = parts & 1 ? g[row + i] * weight[i] : g[row + i];
        dx[row + i] = r * (h - sum_h - (x[row + i] - m) * r * sum_hx);
    }
}

/* dweight[chunk] = sum(g xhat) and dbias[chunk] = sum(g) of a chunk of rows, one thread a column.
 * Without `centred` (RMSNorm) there is neither a mean nor a bias. */
KERNEL(norm_grad_weight, 64, IN(float, g), IN(float, x), IN(float, mean), IN(float, rstd),
       OUT(float, dweight), OUT(float, dbias), VAL(int, rows), VAL(int, n), VAL(int, chunk),
       VAL(int, centred))
{
    const int column = BLOCK_X * THREADS + THREAD, end = MIN(rows, (BLOCK_Y + 1) * chunk);
    float sum_gx = 0.0f, sum_g = 0.0f;
    if (column < n) {
        for (int r = BLOCK_Y * chunk; r < end; r++) {
            float d = g[(int64_t)r * n + column], v = x[(int64_t)r * n + column];
            sum_g += d;
            sum_gx = FMA(d, (centred ? v - mean[r] : v) * rstd[r], sum_gx);
        }
        dweight[(int64_t)BLOCK_Y * n + column] = sum_gx;
        if (centred) dbias[(int64_t)BLOCK_Y * n + column] = sum_g;
    }
}

/* y = x rstd weight, rstd = 1 / sqrt(mean(x^2) + eps) */
KERNEL(rms_norm, ROW_THREADS, IN(float, x), IN(float, weight), OUT(float, y), OUT(float, rstd),
       VAL(int, n), VAL(float, eps), VAL(int, parts))
{
    SHARED(float, shared, [THREADS]);
    const int64_t row = (int64_t)BLOCK_X * n;
    float total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total = FMA(x[row + i], x[row + i], total);
    BLOCK_SUM(total, total, shared);
    const float r = RSQRT(total / (float)n + eps);
    for (int i = THREAD; i < n; i += THREADS)
        y[row + i] = parts & 1 ? x[row + i] * r * weight[i] : x[row + i] * r;
    if (THREAD == 0) rstd[BLOCK_X] = r;
}

/* dx = rstd (h - xhat mean(h xhat)), h = g weight */
KERNEL(rms_norm_grad, ROW_THREADS, IN(float, g), IN(float, x), IN(float, weight), IN(float, rstd),
       OUT(float, dx), VAL(int, n), VAL(int, parts))
{
    SHARED(float, shared, [THREADS]);
    const int64_t row = (int64_t)BLOCK_X * n;
    const float r = rstd[BLOCK_X];
    float total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) {
        float h = parts & 1 ? g[row + i] * weight[i] : g[row + i];
        total = FMA(h, x[row + i] * r, total);
    }
    BLOCK_SUM(total, total, shared);
    total /= (float)n;
    for (int i = THREAD; i < n; i += THREADS) {
        float h = parts & 1 ? g[row + i] * weight[i] : g[row + i];
        dx[row + i] = r * (h - x[row + i] * r * total);
    }
}
