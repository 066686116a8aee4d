/* Cross-entropy of logits [N, V] against class ids [N], one block a row. */

/* The loss of one row (0 where ignored) and its logsumexp; `target` becomes the checked class. */
#define ROW_LOSS(logits, shared) \
    const int64_t row = (int64_t)BLOCK_X * V; \
    int64_t target = targets[BLOCK_X]; \
    const int ignored = target == ignore_index; \
    if (ignored) target = 0; \
    CHECKED(target, V, code, fault) \
    float top = -S_INF, total = 0.0f, even = 0.0f; \
    for (int i = THREAD; i < V; i += THREADS) { \
        top = LARGER(top, logits[row + i]); \
        even += logits[row + i]; \
    } \
    BLOCK_MAX(top, top, shared); \
    for (int i = THREAD; i < V; i += THREADS) total += s_exp(logits[row + i] - top); \
    BLOCK_SUM(total, total, shared); \
    total = s_log(total); \
    float likely = logits[row + target]; \
    if (smoothing > 0.0f) { \
        BLOCK_SUM(even, even, shared); \
        likely = (1.0f - smoothing) * likely + smoothing * (even / (float)V); \
    } \
    const float loss = ignored ? 0.0f : total - (likely - top);

/* d of element i of the row: factor (softmax - smoothing / V - (1 - smoothing) onehot) */
#define ROW_GRAD(x, lse, factor) \
    ((factor) * ((s_exp((x) - (lse)) - smoothing / (float)V) \
                 - (i == (int)target ? 1.0f - smoothing : 0.0f)))

KERNEL(cross_entropy, 256, IN(float, logits), IN(int64_t, targets), OUT(float, losses),
       OUT(float, lse), OUT(int64_t, fault), VAL(int, V), VAL(int64_t, ignore_index),
       VAL(float, smoothing), VAL(int, code))
{
    SHARED(float, shared, [THREADS]);
    ROW_LOSS(logits, shared)
    if (THREAD == 0) {
        losses[BLOCK_X] = loss;
        lse[BLOCK_X] = top + total;
    }
}

/* d of every row, from g[N], or with `shared` from g[1], divided by the number of rows that count
 * where that is there */
KERNEL(cross_entropy_grad, 256, IN(float, g), IN(float, count), IN(float, logits),
       IN(int64_t, targets), IN(float, lse), OUT(float, d), VAL(int, V),
       VAL(int64_t, ignore_index), VAL(float, smoothing), VAL(int, shared), VAL(int, counted))
{
    const int64_t row = (int64_t)BLOCK_X * V, target = targets[BLOCK_X];
    const float number = counted ? count[0] : 1.0f, log_sum = lse[BLOCK_X];
    const float factor = number > 0.0f ? g[shared ? 0 : BLOCK_X] / number : 0.0f;
    for (int i = THREAD; i < V; i += THREADS)
        d[row + i] = target == ignore_index ? 0.0f : ROW_GRAD(logits[row + i], log_sum, factor);
}

/* mean = sum(losses) / count, count = how many targets are not ignored; one block */
KERNEL(counted_mean, 256, IN(float, losses), IN(int64_t, targets), OUT(float, mean),
       OUT(float, count), VAL(int, n), VAL(int64_t, ignore_index))
{
    SHARED(float, shared, [THREADS]);
    float total = 0.0f, number = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) {
        total += losses[i];
        number += targets[i] == ignore_index ? 0.0f : 1.0f;
    }
    BLOCK_SUM(total, total, shared);
    BLOCK_SUM(number, number, shared);
    if (THREAD == 0) {
        mean[0] = total / number;
        count[0] = number;
    }
}
