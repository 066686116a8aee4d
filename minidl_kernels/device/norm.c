/* Softmax, LayerNorm and RMSNorm of the rows of [rows, n] arrays, one block a row.
 * ROW_THREADS is 32 for short rows, else 256. */

/* The gradient of a norm in one launch: the first `row_blocks` blocks make dx, a row each; of the
 * others each adds up 32 columns, dweight = sum(g xhat) and dbias = sum(g), the threads of a column
 * taking turns at its rows. Both kinds go through the same barriers, as every dialect wants it. */
#define ROW_BLOCK (BLOCK_X < row_blocks)
#define COLUMN ((BLOCK_X - row_blocks) * 32 + THREAD % 32)

/* u and v: this thread's part of sum(h xhat) and sum(h) of the row, or of sum(g xhat) and sum(g) of
 * its column; XHAT is that of element `at` in row r */
#define NORM_PARTS(u, v, XHAT) \
    float u = 0.0f, v = 0.0f; \
    if (ROW_BLOCK) { \
        const int r = BLOCK_X; \
        for (int i = THREAD; i < n; i += THREADS) { \
            const int64_t at = (int64_t)r * n + i; \
            const float h_ = parts & 1 ? g[at] * weight[i] : g[at]; \
            u = FMA(h_, XHAT, u); \
            v += h_; \
        } \
    } else if (COLUMN < n) { \
        for (int r = THREAD / 32; r < rows; r += THREADS / 32) { \
            const int64_t at = (int64_t)r * n + COLUMN; \
            u = FMA(g[at], XHAT, u); \
            v += g[at]; \
        } \
    } \
    shared[THREAD] = u; \
    more[THREAD] = v; \
    BARRIER();

/* Whether this thread writes the sums of a column, which this adds up from those who shared it */
#define COLUMN_TOTAL(total, array) \
    float total = 0.0f; \
    for (int o_ = THREAD % 32; o_ < THREADS; o_ += 32) total += array[o_];
#define WRITES_COLUMN (!ROW_BLOCK && THREAD < 32 && COLUMN < n)

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

/* dx = rstd (h - mean(h) - xhat mean(h xhat)) + skip, h = g weight; `parts` says which of weight (1)
 * and skip (2) exist */
KERNEL(layer_norm_grad, ROW_THREADS, IN(float, g), IN(float, x), IN(float, weight),
       IN(float, mean), IN(float, rstd), IN(float, skip), OUT(float, dx), OUT(float, dweight),
       OUT(float, dbias), VAL(int, rows), VAL(int, row_blocks), VAL(int, n), VAL(int, parts))
{
    SHARED(float, shared, [THREADS]);
    SHARED(float, more, [THREADS]);
    NORM_PARTS(hx, h, (x[at] - mean[r]) * rstd[r])
    if (WRITES_COLUMN) {
        COLUMN_TOTAL(total_gx, shared)
        COLUMN_TOTAL(total_g, more)
        dweight[COLUMN] = total_gx;
        dbias[COLUMN] = total_g;
    }
    BARRIER();
    BLOCK_SUM(hx, hx, shared);
    BLOCK_SUM(h, h, shared);
    if (ROW_BLOCK) {
        const int64_t row = (int64_t)BLOCK_X * n;
        const float m = mean[BLOCK_X], s = rstd[BLOCK_X], mean_h = h / (float)n;
        const float mean_hx = hx / (float)n;
        for (int i = THREAD; i < n; i += THREADS) {
            float d = parts & 1 ? g[row + i] * weight[i] : g[row + i];
            d = s * (d - mean_h - (x[row + i] - m) * s * mean_hx);
            dx[row + i] = parts & 2 ? d + skip[row + i] : d;
        }
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

/* dx = rstd (h - xhat mean(h xhat)) + skip, h = g weight; arguments as of layer_norm_grad */
KERNEL(rms_norm_grad, ROW_THREADS, IN(float, g), IN(float, x), IN(float, weight), IN(float, rstd),
       IN(float, skip), OUT(float, dx), OUT(float, dweight), VAL(int, rows), VAL(int, row_blocks),
       VAL(int, n), VAL(int, parts))
{
    SHARED(float, shared, [THREADS]);
    SHARED(float, more, [THREADS]);
    NORM_PARTS(hx, h, x[at] * rstd[r])
    if (WRITES_COLUMN) {
        COLUMN_TOTAL(total, shared)
        dweight[COLUMN] = total;
    }
    BARRIER();
    BLOCK_SUM(hx, hx, shared);
    if (ROW_BLOCK) {
        const int64_t row = (int64_t)BLOCK_X * n;
        const float s = rstd[BLOCK_X], mean_hx = hx / (float)n;
        for (int i = THREAD; i < n; i += THREADS) {
            float d = parts & 1 ? g[row + i] * weight[i] : g[row + i];
            d = s * (d - x[row + i] * s * mean_hx);
            dx[row + i] = parts & 2 ? d + skip[row + i] : d;
        }
    }
}
