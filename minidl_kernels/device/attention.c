/* Scaled dot-product attention in memory linear in the sequence, forward and backward, with sums in
 * an order that depends on the shapes only (no atomics: delta first, then dk and dv by blocks of
 * keys and dq by blocks of queries).
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

/* dk and dv of WIDE keys, over all queries of all heads that read them (blocks below kv_total, of
 * which kv_blocks for each key head), and dq of WIDE queries over all their keys (the others,
 * q_blocks for each head): one launch, as neither waits for the other. A block keeps its own WIDE
 * rows (of k and v, or of q and g) and goes through the others NARROW at a time. */
KERNEL(attention_grad, 128, IN(float, g), IN(float, q), IN(float, k), IN(float, v),
       IN(MASK_TYPE, mask), IN(float, lse), IN(float, delta), OUT(float, dq), OUT(float, dk),
       OUT(float, dv), VAL(Attention, a), VAL(int, kv_total), VAL(int, kv_blocks),
       VAL(int, q_blocks))
{
    SHARED(float, own1, [WIDE][HD + 1]); /* k or q */
    SHARED(float, own2, [WIDE][HD + 1]); /* v or g */
    SHARED(float, other1, [NARROW][HD + 1]); /* q or k */
    SHARED(float, other2, [NARROW][HD + 1]); /* g or v */
    SHARED(float, ps, [NARROW][WIDE + 1]);
    SHARED(float, ds, [NARROW][WIDE + 1]);
    const int of_keys = BLOCK_X < kv_total, block = of_keys ? BLOCK_X : BLOCK_X - kv_total;
    const int blocks = of_keys ? kv_blocks : q_blocks, head = block / blocks;
    const int own0 = (block - head * blocks) * WIDE, heads = a.H / a.Hk;
    const int b = head / (of_keys ? a.Hk : a.H), h0 = head - b * (of_keys ? a.Hk : a.H);
    const int hk = of_keys ? h0 : h0 / heads;
    const int first = of_keys ? hk * heads : h0, last = of_keys ? first + heads : h0 + 1;
    const int begin = of_keys && a.causal ? own0 / NARROW * NARROW : 0;
    const int end = of_keys ? a.T : a.causal ? MIN(own0 + WIDE, a.S) : a.S;
    const int tx = THREAD % 8, r0 = THREAD / 8 * ROWS, own = THREAD % WIDE;
    float sum1[ROWS][FEATURES], sum2[ROWS][FEATURES]; /* dk and dv, or dq */
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int c = 0; c < FEATURES; c++) sum1[i][c] = sum2[i][c] = 0.0f;
    LOAD_TILE(own1, WIDE, (of_keys ? HEAD(k, a.k, b, hk) : HEAD(q, a.q, b, h0)),
              (of_keys ? a.k.t : a.q.t), own0, (of_keys ? a.S : a.T), a.D)
    LOAD_TILE(own2, WIDE, (of_keys ? HEAD(v, a.v, b, hk) : HEAD(g, a.g, b, h0)),
              (of_keys ? a.v.t : a.g.t), own0, (of_keys ? a.S : a.T), a.Dv)
    for (int h = first; h < last; h++) {
        for (int n0 = begin; n0 < end; n0 += NARROW) {
            LOAD_TILE(other1, NARROW, (of_keys ? HEAD(q, a.q, b, h) : HEAD(k, a.k, b, hk)),
                      (of_keys ? a.q.t : a.k.t), n0, (of_keys ? a.T : a.S), a.D)
            LOAD_TILE(other2, NARROW, (of_keys ? HEAD(g, a.g, b, h) : HEAD(v, a.v, b, hk)),
                      (of_keys ? a.g.t : a.v.t), n0, (of_keys ? a.T : a.S), a.Dv)
            BARRIER();
            float qk[PAIRS], gv[PAIRS];
            UNROLL for (int j = 0; j < PAIRS; j++) qk[j] = gv[j] = 0.0f;
            for (int d = 0; d < HD; d++) {
                float e1 = own1[own][d], e2 = own2[own][d];
                UNROLL for (int j = 0; j < PAIRS; j++) {
                    const int r = THREAD / WIDE + j * (THREADS / WIDE);
                    qk[j] = FMA(other1[r][d], e1, qk[j]);
                    gv[j] = FMA(other2[r][d], e2, gv[j]);
                }
            }
            UNROLL for (int j = 0; j < PAIRS; j++) {
                const int r = THREAD / WIDE + j * (THREADS / WIDE);
                const int t = of_keys ? n0 + r : own0 + own, s = of_keys ? own0 + own : n0 + r;
                float p, d;
                PROBABILITY(p, d, qk[j], gv[j], t, s);
                ps[r][own] = p;
                ds[r][own] = d * a.scale;
            }
            BARRIER();
            for (int r = 0; r < NARROW; r++)
                UNROLL for (int i = 0; i < ROWS; i++) {
                    float p = ps[r][r0 + i], d = ds[r][r0 + i];
                    UNROLL for (int c = 0; c < FEATURES; c++) {
                        sum1[i][c] = FMA(d, other1[r][tx + 8 * c], sum1[i][c]);
                        if (of_keys) sum2[i][c] = FMA(p, other2[r][tx + 8 * c], sum2[i][c]);
                    }
                }
            BARRIER();
        }
    }
    GLOBAL float *to = of_keys ? HEAD(dk, a.dk, b, hk) : HEAD(dq, a.dq, b, h0);
    const int rows = of_keys ? a.S : a.T, step = of_keys ? a.dk.t : a.dq.t;
    UNROLL for (int i = 0; i < ROWS; i++) {
        const int row = own0 + r0 + i;
        if (row < rows)
            UNROLL for (int c = 0; c < FEATURES; c++) {
                const int d = tx + 8 * c;
                if (d < a.D) to[(int64_t)row * step + d] = sum1[i][c];
                if (of_keys && d < a.Dv)
                    HEAD(dv, a.dv, b, hk)[(int64_t)row * a.dv.t + d] = sum2[i][c];
            }
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
