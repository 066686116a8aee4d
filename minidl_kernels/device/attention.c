/* Scaled dot-product attention in memory linear in the sequence, forward and backward, with sums in
 * an order that depends on the shapes only (no atomics: delta first, then dk and dv by blocks of
 * keys, then dq by blocks of queries).
 *
 * q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, Dv], any strides but 1 along the last axis.
 * Compiled for HD, a multiple of 8 not below D and Dv and not above 128; MASK 0 (none), 1 (bool) or
 * 2 (added); DROPOUT 0 or 1. 128 threads: 16 groups of 8; the tiles fit 32 KB of shared memory. */
#if HD <= 64
#define ROWS 2 /* rows of a group in a wide tile */
#define NARROW 16 /* rows of the narrow tiles of the backward kernels */
#else
#define ROWS 1
#define NARROW 8
#endif
#define WIDE (16 * ROWS)
#define COLUMNS (2 * ROWS) /* scores of a thread in a row of the forward kernel */
#define FEATURES (HD / 8) /* features of a thread */
#define PAIRS (WIDE * NARROW / 128) /* scores of a thread in the backward kernels */

typedef struct {
    int32_t b, h, t;
} Rows;

typedef struct {
    int32_t H, Hk, T, S, D, Dv, causal;
    float scale, keep_scale;
    uint32_t threshold;
    Stream stream;
    Rows q, k, v, out, g, dq, dk, dv;
    int32_t mask_b, mask_h, mask_t, mask_s;
} Attention;

#if MASK == 1
#define MASK_TYPE uint8_t
#define APPLY_MASK(v, at) v = mask[at] ? v : LOWEST
#else
#define MASK_TYPE float
#define APPLY_MASK(v, at) v += mask[at]
#endif

/* result = the score of query t and key s from their product, LOWEST where t may not see s */
#if MASK
#define SCORE(result, product, t, s) \
    do { \
        float v_ = (product) * a.scale; \
        if ((t) >= a.T || (s) >= a.S || (a.causal && (s) > (t))) v_ = LOWEST; \
        else APPLY_MASK(v_, (int64_t)b * a.mask_b + (int64_t)h * a.mask_h \
                            + (int64_t)(t) * a.mask_t + (int64_t)(s) * a.mask_s); \
        result = v_; \
    } while (0)
#else
#define SCORE(result, product, t, s) \
    result = (t) >= a.T || (s) >= a.S || (a.causal && (s) > (t)) ? LOWEST : (product) * a.scale
#endif

/* What dropout multiplies a probability by */
#if DROPOUT
DEVICE float kept(S_PRIVATE const uint32_t *w, int lane, uint32_t threshold, float scale) {
    uint32_t low = lane & 1 ? w[1] : w[0], high = lane & 1 ? w[3] : w[2];
    return (lane & 2 ? high : low) < threshold ? 0.0f : scale;
}
#define KEEP(result, t, s) \
    do { \
        uint64_t e_ = ((uint64_t)(b * a.H + h) * (uint64_t)a.T + (uint64_t)(t)) * (uint64_t)a.S \
                      + (uint64_t)(s); \
        uint32_t w_[4]; \
        STREAM_BLOCK(a.stream, e_ >> 2, w_); \
        result = kept(w_, (int)(e_ & 3), a.threshold, a.keep_scale); \
    } while (0)
#else
#define KEEP(result, t, s) result = 1.0f
#endif

/* result = OP over the 8 threads of a group */
#ifdef SHUFFLE_XOR
#define GROUP(OP, result, value) \
    do { \
        float v_ = (value), w_; \
        w_ = SHUFFLE_XOR(v_, 1); v_ = OP(v_, w_); \
        w_ = SHUFFLE_XOR(v_, 2); v_ = OP(v_, w_); \
        w_ = SHUFFLE_XOR(v_, 4); v_ = OP(v_, w_); \
        result = v_; \
    } while (0)
#define GROUP_SHARED
#else
#define GROUP(OP, result, value) \
    do { \
        group[THREAD] = (value); \
        BARRIER(); \
        float v_ = group[THREAD & ~7]; \
        for (int i_ = 1; i_ < 8; i_++) v_ = OP(v_, group[(THREAD & ~7) + i_]); \
        result = v_; \
        BARRIER(); \
    } while (0)
#define GROUP_SHARED SHARED(float, group, [THREADS]);
#endif

/* tile[r][d] = row first + r of a head, zero beyond `limit` rows and `width` features */
#define LOAD_TILE(tile, rows, source, step, first, limit, width) \
    for (int e_ = THREAD; e_ < (rows) * HD; e_ += THREADS) { \
        int r_ = e_ / HD, d_ = e_ % HD; \
        tile[r_][d_] = (first) + r_ < (limit) && d_ < (width) \
            ? (source)[(int64_t)((first) + r_) * (step) + d_] : 0.0f; \
    }

#define HEAD(pointer, rows, i, j) ((pointer) + (int64_t)(i) * rows.b + (int64_t)(j) * rows.h)

/* out = dropout(softmax(q k^T scale + mask)) v, lse = logsumexp of each row of scores. Grid: blocks
 * of WIDE queries, heads */
KERNEL(attention, 128, IN(float, q), IN(float, k), IN(float, v), IN(MASK_TYPE, mask),
       OUT(float, out), OUT(float, lse), VAL(Attention, a))
{
    SHARED(float, qs, [WIDE][HD + 1]);
    SHARED(float, ks, [WIDE][HD + 1]);
    SHARED(float, vs, [WIDE][HD]);
    SHARED(float, ps, [WIDE][WIDE + 1]);
    GROUP_SHARED
    const int b = BLOCK_Y / a.H, h = BLOCK_Y - b * a.H, hk = h / (a.H / a.Hk);
    const int tx = THREAD % 8, r0 = THREAD / 8 * ROWS, q0 = BLOCK_X * WIDE;
    GLOBAL const float *kh = HEAD(k, a.k, b, hk), *vh = HEAD(v, a.v, b, hk);
    float sums[ROWS][FEATURES], top[ROWS], total[ROWS];
    UNROLL for (int i = 0; i < ROWS; i++) {
        top[i] = LOWEST;
        total[i] = 0.0f;
        UNROLL for (int c = 0; c < FEATURES; c++) sums[i][c] = 0.0f;
    }
    LOAD_TILE(qs, WIDE, HEAD(q, a.q, b, h), a.q.t, q0, a.T, a.D)
    const int end = a.causal ? MIN(q0 + WIDE, a.S) : a.S;
    for (int k0 = 0; k0 < end; k0 += WIDE) {
        LOAD_TILE(ks, WIDE, kh, a.k.t, k0, a.S, a.D)
        LOAD_TILE(vs, WIDE, vh, a.v.t, k0, a.S, a.Dv)
        BARRIER();
        float s[ROWS][COLUMNS];
        UNROLL for (int i = 0; i < ROWS; i++)
            UNROLL for (int j = 0; j < COLUMNS; j++) s[i][j] = 0.0f;
        for (int d = 0; d < HD; d++)
            UNROLL for (int j = 0; j < COLUMNS; j++) {
                float kd = ks[tx + 8 * j][d];
                UNROLL for (int i = 0; i < ROWS; i++) s[i][j] = FMA(qs[r0 + i][d], kd, s[i][j]);
            }
        UNROLL for (int i = 0; i < ROWS; i++) {
            const int t = q0 + r0 + i;
            float high = LOWEST, sum = 0.0f;
            UNROLL for (int j = 0; j < COLUMNS; j++) {
                SCORE(s[i][j], s[i][j], t, k0 + tx + 8 * j);
                high = LARGER(high, s[i][j]);
            }
            GROUP(LARGER, high, high);
            high = LARGER(high, top[i]);
            UNROLL for (int j = 0; j < COLUMNS; j++) {
                float p = s[i][j] <= LOWEST ? 0.0f : s_exp_neg(s[i][j] - high), keep;
                KEEP(keep, t, k0 + tx + 8 * j);
                sum += p;
                ps[r0 + i][tx + 8 * j] = p * keep;
            }
            GROUP(ADD, sum, sum);
            const float rescale = s_exp_neg(top[i] - high);
            total[i] = FMA(total[i], rescale, sum);
            top[i] = high;
            UNROLL for (int c = 0; c < FEATURES; c++) sums[i][c] *= rescale;
        }
        BARRIER();
        for (int j = 0; j < WIDE; j++)
            UNROLL for (int c = 0; c < FEATURES; c++) {
                float vd = vs[j][tx + 8 * c];
                UNROLL for (int i = 0; i < ROWS; i++)
                    sums[i][c] = FMA(ps[r0 + i][j], vd, sums[i][c]);
            }
        BARRIER();
    }
    GLOBAL float *oh = HEAD(out, a.out, b, h);
    UNROLL for (int i = 0; i < ROWS; i++) {
        const int t = q0 + r0 + i;
        const float inverse = total[i] == 0.0f ? 0.0f : 1.0f / total[i];
        if (t < a.T) {
            UNROLL for (int c = 0; c < FEATURES; c++)
                if (tx + 8 * c < a.Dv) oh[(int64_t)t * a.out.t + tx + 8 * c] = sums[i][c] * inverse;
            if (tx == 0) {
                const float sum = total[i] == 0.0f ? -S_INF : top[i] + s_log(total[i]);
                lse[(int64_t)BLOCK_Y * a.T + t] = sum;
            }
        }
    }
}

/* delta = sum(g out) of each query; one thread a query */
KERNEL(attention_delta, 128, IN(float, g), IN(float, out), OUT(float, delta), VAL(Attention, a))
{
    const int b = BLOCK_Y / a.H, h = BLOCK_Y - b * a.H, t = BLOCK_X * THREADS + THREAD;
    if (t < a.T) {
        GLOBAL const float *gt = HEAD(g, a.g, b, h) + (int64_t)t * a.g.t;
        GLOBAL const float *ot = HEAD(out, a.out, b, h) + (int64_t)t * a.out.t;
        float sum = 0.0f;
        for (int d = 0; d < a.Dv; d++) sum = FMA(gt[d], ot[d], sum);
        delta[(int64_t)BLOCK_Y * a.T + t] = sum;
    }
}

/* Of query t and key s, from q k and g v: the probability p as v saw it, after dropout, and
 * d = p (g v keep - delta) with p before it */
#define PROBABILITY(p, d, qk, gv, t, s) \
    do { \
        float score_, keep_; \
        SCORE(score_, qk, t, s); \
        p = d = 0.0f; \
        if (!(score_ <= LOWEST)) { \
            const int64_t row_ = (int64_t)(b * a.H + h) * a.T + (t); \
            float p_ = lse[row_] <= LOWEST ? 0.0f : s_exp(score_ - lse[row_]); \
            KEEP(keep_, t, s); \
            p = p_ * keep_; \
            d = p_ * ((gv) * keep_ - delta[row_]); \
        } \
    } while (0)

/* dk and dv of WIDE keys, over all queries of all heads that read them. Grid: blocks, key heads */
KERNEL(attention_grad_kv, 128, IN(float, g), IN(float, q), IN(float, k), IN(float, v),
       IN(MASK_TYPE, mask), IN(float, lse), IN(float, delta), OUT(float, dk), OUT(float, dv),
       VAL(Attention, a))
{
    SHARED(float, qs, [NARROW][HD + 1]);
    SHARED(float, gs, [NARROW][HD + 1]);
    SHARED(float, ks, [WIDE][HD + 1]);
    SHARED(float, vs, [WIDE][HD + 1]);
    SHARED(float, ps, [NARROW][WIDE + 1]);
    SHARED(float, ds, [NARROW][WIDE + 1]);
    const int b = BLOCK_Y / a.Hk, hk = BLOCK_Y - b * a.Hk, heads = a.H / a.Hk;
    const int tx = THREAD % 8, r0 = THREAD / 8 * ROWS, k0 = BLOCK_X * WIDE;
    const int key = THREAD % WIDE;
    float sk[ROWS][FEATURES], sv[ROWS][FEATURES];
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int c = 0; c < FEATURES; c++) sk[i][c] = sv[i][c] = 0.0f;
    LOAD_TILE(ks, WIDE, HEAD(k, a.k, b, hk), a.k.t, k0, a.S, a.D)
    LOAD_TILE(vs, WIDE, HEAD(v, a.v, b, hk), a.v.t, k0, a.S, a.Dv)
    for (int h = hk * heads; h < (hk + 1) * heads; h++) {
        for (int q0 = a.causal ? k0 / NARROW * NARROW : 0; q0 < a.T; q0 += NARROW) {
            LOAD_TILE(qs, NARROW, HEAD(q, a.q, b, h), a.q.t, q0, a.T, a.D)
            LOAD_TILE(gs, NARROW, HEAD(g, a.g, b, h), a.g.t, q0, a.T, a.Dv)
            BARRIER();
            float qk[PAIRS], gv[PAIRS];
            UNROLL for (int j = 0; j < PAIRS; j++) qk[j] = gv[j] = 0.0f;
            for (int d = 0; d < HD; d++) {
                float kd = ks[key][d], vd = vs[key][d];
                UNROLL for (int j = 0; j < PAIRS; j++) {
                    const int r = THREAD / WIDE + j * (THREADS / WIDE);
                    qk[j] = FMA(qs[r][d], kd, qk[j]);
                    gv[j] = FMA(gs[r][d], vd, gv[j]);
                }
            }
            UNROLL for (int j = 0; j < PAIRS; j++) {
                const int r = THREAD / WIDE + j * (THREADS / WIDE);
                float p, d;
                PROBABILITY(p, d, qk[j], gv[j], q0 + r, k0 + key);
                ps[r][key] = p;
                ds[r][key] = d * a.scale;
            }
            BARRIER();
            for (int r = 0; r < NARROW; r++)
                UNROLL for (int i = 0; i < ROWS; i++) {
                    float p = ps[r][r0 + i], d = ds[r][r0 + i];
                    UNROLL for (int c = 0; c < FEATURES; c++) {
                        sv[i][c] = FMA(p, gs[r][tx + 8 * c], sv[i][c]);
                        sk[i][c] = FMA(d, qs[r][tx + 8 * c], sk[i][c]);
                    }
                }
            BARRIER();
        }
    }
    UNROLL for (int i = 0; i < ROWS; i++) {
        const int s = k0 + r0 + i;
        if (s < a.S)
            UNROLL for (int c = 0; c < FEATURES; c++) {
                const int d = tx + 8 * c;
                if (d < a.D) HEAD(dk, a.dk, b, hk)[(int64_t)s * a.dk.t + d] = sk[i][c];
                if (d < a.Dv) HEAD(dv, a.dv, b, hk)[(int64_t)s * a.dv.t + d] = sv[i][c];
            }
    }
}

/* dq of WIDE queries. Grid: blocks, heads */
KERNEL(attention_grad_q, 128, IN(float, g), IN(float, q), IN(float, k), IN(float, v),
       IN(MASK_TYPE, mask), IN(float, lse), IN(float, delta), OUT(float, dq), VAL(Attention, a))
{
    SHARED(float, qs, [WIDE][HD + 1]);
    SHARED(float, gs, [WIDE][HD + 1]);
    SHARED(float, ks, [NARROW][HD + 1]);
    SHARED(float, vs, [NARROW][HD + 1]);
    SHARED(float, ds, [WIDE][NARROW + 1]);
    const int b = BLOCK_Y / a.H, h = BLOCK_Y - b * a.H, hk = h / (a.H / a.Hk);
    const int tx = THREAD % 8, r0 = THREAD / 8 * ROWS, q0 = BLOCK_X * WIDE;
    const int row = THREAD % WIDE;
    float sums[ROWS][FEATURES];
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int c = 0; c < FEATURES; c++) sums[i][c] = 0.0f;
    LOAD_TILE(qs, WIDE, HEAD(q, a.q, b, h), a.q.t, q0, a.T, a.D)
    LOAD_TILE(gs, WIDE, HEAD(g, a.g, b, h), a.g.t, q0, a.T, a.Dv)
    const int end = a.causal ? MIN(q0 + WIDE, a.S) : a.S;
    for (int k0 = 0; k0 < end; k0 += NARROW) {
        LOAD_TILE(ks, NARROW, HEAD(k, a.k, b, hk), a.k.t, k0, a.S, a.D)
        LOAD_TILE(vs, NARROW, HEAD(v, a.v, b, hk), a.v.t, k0, a.S, a.Dv)
        BARRIER();
        float qk[PAIRS], gv[PAIRS];
        UNROLL for (int j = 0; j < PAIRS; j++) qk[j] = gv[j] = 0.0f;
        for (int d = 0; d < HD; d++) {
            float qd = qs[row][d], gd = gs[row][d];
            UNROLL for (int j = 0; j < PAIRS; j++) {
                const int s = THREAD / WIDE + j * (THREADS / WIDE);
                qk[j] = FMA(qd, ks[s][d], qk[j]);
                gv[j] = FMA(gd, vs[s][d], gv[j]);
            }
        }
        UNROLL for (int j = 0; j < PAIRS; j++) {
            const int s = THREAD / WIDE + j * (THREADS / WIDE);
            float p, d;
            PROBABILITY(p, d, qk[j], gv[j], q0 + row, k0 + s);
            ds[row][s] = d * a.scale;
        }
        BARRIER();
        for (int s = 0; s < NARROW; s++)
            UNROLL for (int i = 0; i < ROWS; i++) {
                float d = ds[r0 + i][s];
                UNROLL for (int c = 0; c < FEATURES; c++)
                    sums[i][c] = FMA(d, ks[s][tx + 8 * c], sums[i][c]);
            }
        BARRIER();
    }
    GLOBAL float *to = HEAD(dq, a.dq, b, h);
    UNROLL for (int i = 0; i < ROWS; i++) {
        const int t = q0 + r0 + i;
        if (t < a.T)
            UNROLL for (int c = 0; c < FEATURES; c++)
                if (tx + 8 * c < a.D) to[(int64_t)t * a.dq.t + tx + 8 * c] = sums[i][c];
    }
}

#if MASK == 2

/* dmask [mb, mh, mt, ms], each the full size or 1: one thread an element, which adds up the scores
 * that the element was added to */
KERNEL(attention_grad_mask, 128, IN(float, g), IN(float, q), IN(float, k), IN(float, v),
       IN(float, mask), IN(float, lse), IN(float, delta), OUT(float, dmask), VAL(Attention, a),
       VAL(int, B), VAL(int, mb), VAL(int, mh), VAL(int, mt), VAL(int, ms))
{
    const int e = BLOCK_X * THREADS + THREAD;
    const int es = e % ms, et = e / ms % mt, eh = e / ms / mt % mh, eb = e / ms / mt / mh;
    float total = 0.0f;
    if (eb < mb) {
        for (int b = eb; b < (mb == 1 ? B : eb + 1); b++)
            for (int h = eh; h < (mh == 1 ? a.H : eh + 1); h++)
                for (int t = et; t < (mt == 1 ? a.T : et + 1); t++)
                    for (int s = es; s < (ms == 1 ? a.S : es + 1); s++) {
                        GLOBAL const float *qt = HEAD(q, a.q, b, h) + (int64_t)t * a.q.t;
                        GLOBAL const float *gt = HEAD(g, a.g, b, h) + (int64_t)t * a.g.t;
                        const int hk = h / (a.H / a.Hk);
                        GLOBAL const float *kt = HEAD(k, a.k, b, hk) + (int64_t)s * a.k.t;
                        GLOBAL const float *vt = HEAD(v, a.v, b, hk) + (int64_t)s * a.v.t;
                        float qk = 0.0f, gv = 0.0f, p, d;
                        for (int i = 0; i < a.D; i++) qk = FMA(qt[i], kt[i], qk);
                        for (int i = 0; i < a.Dv; i++) gv = FMA(gt[i], vt[i], gv);
                        PROBABILITY(p, d, qk, gv, t, s);
                        total += d;
                    }
        dmask[e] = total;
    }
}

#endif
