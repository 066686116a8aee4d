/* Reductions of [outer, n, inner] arrays, deterministic: the way of adding depends on the shape
 * only. T is the element type, A the type of the result. OP: _sum, _prod, _amax, _amin, _sqsum,
 * _any, _all, _count. Long reductions are cut into chunks whose results are reduced again. */
#define LOAD_sum(x) ((A)(x))
#define LOAD_prod(x) ((A)(x))
#define LOAD_amax(x) ((A)(x))
#define LOAD_amin(x) ((A)(x))
#define LOAD_sqsum(x) ((A)(x) * (A)(x))
#define LOAD_any(x) ((A)((x) != (T)0))
#define LOAD_all(x) ((A)((x) != (T)0))
#define LOAD_count(x) ((A)((x) != (T)0))
#define START_sum(x) ((A)0)
#define START_prod(x) ((A)1)
#define START_amax(x) ((A)(x)) /* taken twice, which does not matter */
#define START_amin(x) ((A)(x))
#define START_sqsum(x) ((A)0)
#define START_any(x) ((A)0)
#define START_all(x) ((A)1)
#define START_count(x) ((A)0)
#define COMBINE_sum(a, b) ADD(a, b)
#define COMBINE_prod(a, b) MUL(a, b)
#define COMBINE_amax(a, b) LARGER(a, b)
#define COMBINE_amin(a, b) SMALLER(a, b)
#define COMBINE_sqsum(a, b) ADD(a, b)
#define COMBINE_any(a, b) LARGER(a, b)
#define COMBINE_all(a, b) SMALLER(a, b)
#define COMBINE_count(a, b) ADD(a, b)
#define LOAD JOIN(LOAD, OP)
#define START JOIN(START, OP)
#define COMBINE JOIN(COMBINE, OP)

#ifdef OP

/* y[row, chunk] = x[row, chunk] reduced, / divisor. Grid: rows, chunks */
KERNEL(reduce_rows, 256, IN(T, x), OUT(A, y), VAL(int, n), VAL(int, chunk), VAL(int, chunks),
       VAL(A, divisor))
{
    SHARED(A, shared, [THREADS]);
    const int begin = BLOCK_Y * chunk, end = MIN(n, begin + chunk);
    GLOBAL const T *row = x + (int64_t)BLOCK_X * n;
    A total = START(row[begin]);
    for (int i = begin + THREAD; i < end; i += THREADS) {
        A v = LOAD(row[i]);
        total = COMBINE(total, v);
    }
    BLOCK_TREE(COMBINE, total, total, shared);
    if (THREAD == 0) y[(int64_t)BLOCK_X * chunks + BLOCK_Y] = total / divisor;
}

/* y[outer, chunk, inner] of x[outer, n, inner]: one thread for each outer and inner */
KERNEL(reduce_columns, 256, IN(T, x), OUT(A, y), VAL(int, lines), VAL(int, n), VAL(int, inner),
       VAL(int, chunk), VAL(int, chunks), VAL(A, divisor))
{
    const int line = BLOCK_X * THREADS + THREAD;
    if (line < lines) {
        const int outer = line / inner, column = line - outer * inner;
        const int begin = BLOCK_Y * chunk, end = MIN(n, begin + chunk);
        GLOBAL const T *first = x + (int64_t)outer * n * inner + column;
        A total = START(first[(int64_t)begin * inner]);
        for (int i = begin; i < end; i++) {
            A v = LOAD(first[(int64_t)i * inner]);
            total = COMBINE(total, v);
        }
        y[((int64_t)outer * chunks + BLOCK_Y) * inner + column] = total / divisor;
    }
}

#else

/* y[row] = where x[row] is largest or, with `smallest`, smallest: the first NaN, else the
 * first of equals */
KERNEL(arg_rows, 256, IN(T, x), OUT(int64_t, y), VAL(int, n), VAL(int, smallest))
{
    SHARED(T, values, [THREADS]);
    SHARED(int, places, [THREADS]);
    GLOBAL const T *row = x + (int64_t)BLOCK_X * n;
    T best = row[MIN(THREAD, n - 1)];
    int at = MIN(THREAD, n - 1);
    for (int i = THREAD; i < n; i += THREADS) {
        T v = row[i];
        if (best == best && (v != v || (smallest ? v < best : v > best))) {
            best = v;
            at = i;
        }
    }
    values[THREAD] = best;
    places[THREAD] = at;
    BARRIER();
    for (int o = THREADS / 2; o > 0; o >>= 1) {
        if (THREAD < o) {
            T u = values[THREAD], v = values[THREAD + o];
            int nan_u = u != u, nan_v = v != v, earlier = places[THREAD + o] < places[THREAD];
            int better = nan_u | nan_v ? nan_v & (!nan_u | earlier)
                : (smallest ? v < u : v > u) || (v == u && earlier);
            if (better) {
                values[THREAD] = v;
                places[THREAD] = places[THREAD + o];
            }
        }
        BARRIER();
    }
    if (THREAD == 0) y[BLOCK_X] = places[0];
}

/* y[row, i] = x[row, 0] + ... + x[row, i] */
KERNEL(cumsum_rows, 256, IN(T, x), OUT(A, y), VAL(int, n))
{
    SHARED(A, shared, [THREADS]);
    const int64_t row = (int64_t)BLOCK_X * n;
    A before = (A)0;
    for (int i0 = 0; i0 < n; i0 += THREADS) {
        const int i = i0 + THREAD;
        A v = i < n ? (A)x[row + i] : (A)0;
        shared[THREAD] = v;
        BARRIER();
        for (int o = 1; o < THREADS; o <<= 1) {
            A left = THREAD >= o ? shared[THREAD - o] : (A)0;
            BARRIER();
            shared[THREAD] += left;
            BARRIER();
        }
        if (i < n) y[row + i] = before + shared[THREAD];
        before += shared[THREADS - 1];
        BARRIER();
    }
}

#ifdef FLOATING

/* y[row] = sum((x - mean)^2) / left */
KERNEL(var_rows, 256, IN(float, x), OUT(float, y), VAL(int, n), VAL(float, left))
{
    SHARED(float, shared, [THREADS]);
    GLOBAL const float *row = x + (int64_t)BLOCK_X * n;
    float mean, total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total += row[i];
    BLOCK_SUM(mean, total, shared);
    mean /= (float)n;
    total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total = FMA(row[i] - mean, row[i] - mean, total);
    BLOCK_SUM(total, total, shared);
    if (THREAD == 0) y[BLOCK_X] = total / left;
}

/* y[row] = log(sum(exp(x))), around the largest finite element */
KERNEL(logsumexp_rows, 256, IN(float, x), OUT(float, y), VAL(int, n))
{
    SHARED(float, shared, [THREADS]);
    GLOBAL const float *row = x + (int64_t)BLOCK_X * n;
    float top = row[0], total = 0.0f;
    for (int i = THREAD; i < n; i += THREADS) top = LARGER(top, row[i]);
    BLOCK_MAX(top, top, shared);
    top = top - top == 0.0f ? top : 0.0f;
    for (int i = THREAD; i < n; i += THREADS) total += s_exp(row[i] - top);
    BLOCK_SUM(total, total, shared);
    if (THREAD == 0) y[BLOCK_X] = s_log(total) + top;
}

#endif
#endif
