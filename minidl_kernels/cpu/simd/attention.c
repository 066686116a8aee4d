/* Flash attention: out = softmax(q k^T * scale + mask) v without ever holding the T by S scores.
 *
 * Scores live in blocks of QUERIES by KEYS that fit the first-level cache. Forward keeps a running
 * maximum m and sum l for every row and rescales what it has when m grows. Backward recomputes a
 * block of probabilities from lse = m + log l. Inside, scores are in units of log 2 (the factor is
 * packed into k), because 2^x is cheaper than e^x.
 *
 * Forward task: one head and a run of query blocks, so that a packed key block serves several.
 * Backward task: one key head and every parts-th key block, all its query heads in order.
 * Tasks depend on the shape only and each sums in a fixed order.
 */
#include "attention.h"

#include "attention_rows.h"
#include "attention_tile.h"
#include "scratch.h"

#define QUERIES 64
#define KEYS 64

/* Is k better read in place than packed? A matter of the whole sequence, not of a task: backward
 * must compute the scores in the same order as forward did, to have them to the last bit. */
static int has_few_queries(const Attention *a) { return a->T < 4; }

/* ------------------------------------------------------------------ forward */

typedef struct {
    float *kt, *v, *q, *s, *o, *m, *l, *keep;
    Index rows; /* queries of a task */
} Forward;

/* Queries of one task: enough blocks that packing k is cheap, few enough to stay in cache. */
static Index task_rows(const Attention *a)
{
    Index width = a->D + a->Dv;
    return width <= 128 ? 4 * QUERIES : width <= 256 ? 2 * QUERIES : QUERIES;
}

static Index forward_tasks(const Attention *a)
{
    Index rows = task_rows(a);
    return a->B * a->H * ((a->T + rows - 1) / rows);
}

static size_t forward_layout(Forward *f, float *base, const Attention *a)
{
    size_t used = 0;
    Index Dp = padded(a->D), Ep = padded(a->Dv), rows = MIN(task_rows(a), a->T);
    f->rows = rows;
    f->kt = scratch_carve(base, &used, KEYS * a->D);
    f->v = scratch_carve(base, &used, KEYS * Ep);
    f->q = scratch_carve(base, &used, rows * Dp);
    f->s = scratch_carve(base, &used, QUERIES * KEYS);
    f->o = scratch_carve(base, &used, rows * Ep);
    f->m = scratch_carve(base, &used, rows);
    f->l = scratch_carve(base, &used, rows);
    f->keep = scratch_carve(base, &used, KEYS);
    return used;
}

/* One row of a score block: running maximum and sum, s becomes the (unnormalised) probabilities. */
INLINE void softmax_row(float *s, Index n, float *m, float *l, float *o, Index Ep)
{
    float top = *m;
#pragma omp simd reduction(max : top)
    for (Index j = 0; j < n; j++)
        top = s[j] > top ? s[j] : top;
    float base = top == -INFINITY ? 0.0f : top;
    if (top > *m) {
        float shrink = exp2_down(*m - base);
        if (*m != -INFINITY) /* else there is nothing to shrink yet */
            for (Index d = 0; d < Ep; d++)
                o[d] *= shrink;
        *l *= shrink;
        *m = top;
    }
#pragma omp simd
    for (Index j = 0; j < n; j++)
        s[j] = exp2_down(s[j] - base);
    *l += sum(s, n);
}

/* out = o / l and lse = log(l) + m; a row that has seen nothing has l = 0 */
static void store_forward(const Attention *a, const Forward *f, Index b, Index h, Index t0,
                          Index rows)
{
    double *lse = a->lse + (b * a->H + h) * a->T + t0;
    for (Index i = 0; i < rows; i++) {
        float *out = row(&a->out, b, h, t0 + i), *o = f->o + i * padded(a->Dv), l = f->l[i];
        float inverse = l == 0.0f ? 0.0f : 1.0f / l;
        for (Index d = 0; d < a->Dv; d++)
            out[d] = o[d] * inverse;
    }
#pragma omp simd
    for (Index i = 0; i < rows; i++) {
        double log = s_log(f->l[i]) + f->m[i] * LN2;
        lse[i] = f->l[i] == 0.0f ? -INFINITY : log;
    }
}

static void forward_task(const Attention *a, Forward *f, Index task)
{
    Index runs = (a->T + f->rows - 1) / f->rows, run = task % runs;
    Index h = task / runs % a->H, b = task / runs / a->H, hk = h / (a->H / a->Hk);
    Index t0 = run * f->rows, rows = MIN(f->rows, a->T - t0), Ep = padded(a->Dv), ldq, ldv;
    Index S = a->causal ? MIN(a->S, t0 + rows) : a->S;
    const float scale = a->scale * LOG2E;
    const int few = has_few_queries(a);
    const float *q = pack_rows(f->q, row(&a->q, b, h, t0), a->q.t, rows, a->D, &ldq);
    if (few || S == 0) /* else the first block of keys sets it */
        memset(f->o, 0, (size_t)(rows * Ep) * sizeof(float));
    for (Index i = 0; i < rows; i++)
        f->m[i] = -INFINITY, f->l[i] = 0;
    for (Index s0 = 0; s0 < S; s0 += KEYS) {
        Index nk = MIN(KEYS, S - s0);
        const float *k = row(&a->k, b, hk, s0), *v = row(&a->v, b, hk, s0);
        if (!few)
            pack_transposed(f->kt, k, a->k.t, nk, a->D, scale);
        if (few && a->Dv % NR == 0)
            ldv = a->v.t;
        else
            v = pack_rows(f->v, v, a->v.t, nk, a->Dv, &ldv);
        for (Index i0 = a->causal ? MAX(0, (s0 - t0) / QUERIES * QUERIES) : 0; i0 < rows;
             i0 += QUERIES) {
            Index nq = MIN(QUERIES, rows - i0), off = a->causal ? t0 + i0 - s0 : FULL;
            if (few)
                few_scores(f->s, KEYS, q, ldq, k, a->k.t, nq, nk, a->D, scale);
            else
                scores_product(f->s, KEYS, q + i0 * ldq, ldq, f->kt, nq, nk, a->D, off);
            for (Index i = 0; i < nq; i++) {
                float *s = f->s + i * KEYS;
                Index seen = visible(i, nk, off);
                ask_next(&a->q, a, b, h, a->H, t0 + i0 + i, a->D);
                if (i < nk) {
                    ask_next(&a->k, a, b, hk, a->Hk, s0 + i, a->D);
                    ask_next(&a->v, a, b, hk, a->Hk, s0 + i, a->Dv);
                }
                if (a->mask)
                    apply_mask(s, seen, a, b, h, t0 + i0 + i, s0);
                Index n = whole(seen);
                fill(s, seen, n, -INFINITY);
                softmax_row(s, n, f->m + i0 + i, f->l + i0 + i, f->o + (i0 + i) * Ep, Ep);
                fill_past(s, n, nk, 0.0f);
                if (a->dropout) {
                    dropout_row(f->keep, seen, a, b, h, t0 + i0 + i, s0);
                    for (Index j = 0; j < seen; j++)
                        s[j] *= f->keep[j];
                }
            }
            if (few)
                few_add_product(f->o, Ep, f->s, KEYS, v, ldv, nq, Ep, nk);
            else
                add_product(f->o + i0 * Ep, Ep, f->s, KEYS, v, ldv, nq, Ep, nk, off, s0 > 0);
        }
    }
    store_forward(a, f, b, h, t0, rows);
}

static void forward(void *attention, Index begin, Index end)
{
    Attention *a = attention;
    Forward f;
    float *scratch = scratch_take(forward_layout(&f, NULL, a));
    if (!scratch) {
        scratch_failed(&a->failed);
        return;
    }
    forward_layout(&f, scratch, a);
    for (Index task = begin; task < end; task++)
        forward_task(a, &f, task);
    scratch_give(scratch);
}

/* ------------------------------------------------------------------ backward */

typedef struct {
    float *kt, *vt, *k, *q, *g, *p, *ds, *dk, *dv, *delta, *lse2, *rest, *keep;
} Backward;

static size_t backward_layout(Backward *w, float *base, const Attention *a)
{
    size_t used = 0;
    Index Dp = padded(a->D), Ep = padded(a->Dv), group = a->H / a->Hk;
    w->kt = scratch_carve(base, &used, KEYS * a->D);
    w->vt = scratch_carve(base, &used, KEYS * a->Dv);
    w->k = scratch_carve(base, &used, KEYS * Dp);
    w->q = scratch_carve(base, &used, in_place(a->q.t, a->D) ? 0 : group * a->T * Dp);
    w->g = scratch_carve(base, &used, in_place(a->g.t, a->Dv) ? 0 : group * a->T * Ep);
    w->p = scratch_carve(base, &used, QUERIES * KEYS);
    w->ds = scratch_carve(base, &used, QUERIES * KEYS);
    w->dk = scratch_carve(base, &used, KEYS * Dp);
    w->dv = scratch_carve(base, &used, KEYS * Ep);
    w->keep = scratch_carve(base, &used, KEYS);
    w->delta = scratch_carve(base, &used, group * a->T);
    w->lse2 = scratch_carve(base, &used, group * a->T);
    w->rest = scratch_carve(base, &used, group * a->T);
    return used;
}

/* Where this task adds up dq of a head: the result itself, or its own part of it. */
static float *dq_rows(const Attention *a, Index part, Index b, Index h, Index t, Index *ld)
{
    if (a->parts == 1) {
        *ld = a->dq.t;
        return row(&a->dq, b, h, t);
    }
    *ld = a->D;
    return a->dq_parts + (((part * a->B + b) * a->H + h) * a->T + t) * a->D;
}

/* delta_t = scale * sum_d g out, lse in units of log 2 (+inf for a row that sees nothing) as the
 * sum of two floats, since it may be large where probabilities must be exact, dq = 0, and q and g
 * where the products can read them */
static void prepare_head(const Attention *a, Backward *w, Index part, Index b, Index h, Index slot)
{
    float *delta = w->delta + slot * a->T, *lse2 = w->lse2 + slot * a->T;
    float *rest = w->rest + slot * a->T;
    for (Index t = 0; t < a->T; t++) {
        const float *g = row(&a->g, b, h, t), *out = row(&a->out, b, h, t);
        double lse = a->lse[(b * a->H + h) * a->T + t] / LN2;
        delta[t] = dot(g, out, a->Dv) * a->scale;
        lse2[t] = lse == -INFINITY ? INFINITY : (float)lse;
        rest[t] = lse == -INFINITY ? 0.0f : (float)(lse - lse2[t]);
    }
    if (!in_place(a->q.t, a->D))
        copy_rows(w->q + slot * a->T * padded(a->D), row(&a->q, b, h, 0), a->q.t, a->T, a->D);
    if (!in_place(a->g.t, a->Dv))
        copy_rows(w->g + slot * a->T * padded(a->Dv), row(&a->g, b, h, 0), a->g.t, a->T, a->Dv);
    for (Index t = 0, ld; a->dq.data && (a->parts > 1 || a->S == 0) && t < a->T; t++)
        memset(dq_rows(a, part, b, h, t, &ld), 0, (size_t)a->D * sizeof(float));
}

/* p <- probabilities, dp (already times scale) <- gradient of the scores, both of one row */
INLINE void softmax_grad_row(float *p, float *dp, Index n, float lse2, float rest, float delta)
{
#pragma omp simd
    for (Index j = 0; j < n; j++) {
        float prob = exp2_down(p[j] - lse2 - rest);
        p[j] = prob;
        dp[j] = prob * (dp[j] - delta);
    }
}

INLINE void softmax_grad_row_dropout(float *p, float *dp, const float *keep, Index n, float lse2,
                                     float rest, float delta)
{
    for (Index j = 0; j < n; j++) {
        float prob = exp2_down(p[j] - lse2 - rest);
        p[j] = prob * keep[j];
        dp[j] = prob * (dp[j] * keep[j] - delta);
    }
}

/* One block of queries t0.. against one block of keys s0..: sets dk and dv, or adds to them, and
 * adds to dq's rows, which the first keys set where there are no parts. */
static void backward_block(const Attention *a, Backward *w, const float *k, Index ldk, Index part,
                           Index b, Index h, Index slot, Index t0, Index s0, int add)
{
    Index nq = MIN(QUERIES, a->T - t0), nk = MIN(KEYS, a->S - s0), Dp = padded(a->D);
    Index Ep = padded(a->Dv), off = a->causal ? t0 - s0 : FULL, t = slot * a->T + t0, ld;
    const int scores = a->dq.data || a->dk.data;
    const Index hk = h / (a->H / a->Hk);
    const float *q = in_place(a->q.t, a->D) ? row(&a->q, b, h, t0) : w->q + t * Dp;
    const float *g = in_place(a->g.t, a->Dv) ? row(&a->g, b, h, t0) : w->g + t * Ep;
    if (has_few_queries(a))
        few_scores(w->p, KEYS, q, Dp, k, ldk, nq, nk, a->D, a->scale * LOG2E);
    else
        scores_product(w->p, KEYS, q, Dp, w->kt, nq, nk, a->D, off);
    if (scores)
        scores_product(w->ds, KEYS, g, Ep, w->vt, nq, nk, a->Dv, off);
    for (Index i = 0; i < nq; i++) {
        float *p = w->p + i * KEYS, *ds = w->ds + i * KEYS;
        float lse2 = w->lse2[t + i], rest = w->rest[t + i], delta = w->delta[t + i];
        Index seen = visible(i, nk, off);
        ask_next(&a->q, a, b, h, a->H, t0 + i, a->D);
        ask_next(&a->g, a, b, h, a->H, t0 + i, a->Dv);
        ask_next(&a->out, a, b, h, a->H, t0 + i, a->Dv);
        if (i < nk) {
            ask_next(&a->k, a, b, hk, a->Hk, s0 + i, a->D);
            ask_next(&a->v, a, b, hk, a->Hk, s0 + i, a->Dv);
        }
        if (a->mask)
            apply_mask(p, seen, a, b, h, t0 + i, s0);
        if (a->dropout) {
            dropout_row(w->keep, seen, a, b, h, t0 + i, s0);
            softmax_grad_row_dropout(p, ds, w->keep, seen, lse2, rest, delta);
        } else {
            softmax_grad_row(p, ds, whole(seen), lse2, rest, delta);
        }
        fill_past(p, seen, nk, 0.0f);
        fill_past(ds, seen, nk, 0.0f);
    }
    if (a->dv.data)
        add_product_t(w->dv, Ep, w->p, KEYS, g, Ep, nk, Ep, nq, off, add);
    if (a->dk.data)
        add_product_t(w->dk, Dp, w->ds, KEYS, q, Dp, nk, Dp, nq, off, add);
    if (a->dq.data) {
        float *dq = dq_rows(a, part, b, h, t0, &ld);
        add_product(dq, ld, w->ds, KEYS, k, ldk, nq, a->D, nk, off,
                    a->parts > 1 || s0 > 0);
    }
}

static void store_rows(const AttentionRows *y, const float *x, Index ldx, Index b, Index h,
                       Index s0, Index n, Index D)
{
    if (y->data)
        for (Index j = 0; j < n; j++)
            copy_row(row(y, b, h, s0 + j), x + j * ldx, D);
}

static void backward_task(const Attention *a, Backward *w, Index task)
{
    Index part = task % a->parts, hk = task / a->parts % a->Hk, b = task / a->parts / a->Hk;
    Index group = a->H / a->Hk, Dp = padded(a->D), Ep = padded(a->Dv), ldk;
    for (Index slot = 0; slot < group; slot++)
        prepare_head(a, w, part, b, hk * group + slot, slot);
    for (Index s0 = part * KEYS; s0 < a->S; s0 += a->parts * KEYS) {
        Index nk = MIN(KEYS, a->S - s0), t_first = a->causal ? s0 / QUERIES * QUERIES : 0;
        const float *k_rows = row(&a->k, b, hk, s0);
        pack_transposed(w->kt, k_rows, a->k.t, nk, a->D, a->scale * LOG2E);
        pack_transposed(w->vt, row(&a->v, b, hk, s0), a->v.t, nk, a->Dv, a->scale);
        const float *k = pack_rows(w->k, k_rows, a->k.t, nk, a->D, &ldk);
        if (t_first >= a->T) { /* nobody looks at these keys */
            memset(w->dk, 0, (size_t)(KEYS * Dp) * sizeof(float));
            memset(w->dv, 0, (size_t)(KEYS * Ep) * sizeof(float));
        }
        for (Index slot = 0; slot < group; slot++)
            for (Index t0 = t_first; t0 < a->T; t0 += QUERIES)
                backward_block(a, w, k, ldk, part, b, hk * group + slot, slot, t0, s0,
                               slot > 0 || t0 > t_first);
        store_rows(&a->dk, w->dk, Dp, b, hk, s0, nk, a->D);
        store_rows(&a->dv, w->dv, Ep, b, hk, s0, nk, a->Dv);
    }
}

static void backward(void *attention, Index begin, Index end)
{
    Attention *a = attention;
    Backward w;
    float *scratch = scratch_take(backward_layout(&w, NULL, a));
    if (!scratch) {
        scratch_failed(&a->failed);
        return;
    }
    backward_layout(&w, scratch, a);
    for (Index task = begin; task < end; task++)
        backward_task(a, &w, task);
    scratch_give(scratch);
}

/* rows begin..end of dq [B, H, T] = the sum of the parts, in order */
static void sum_parts(void *attention, Index begin, Index end)
{
    const Attention *a = attention;
    Index D = a->D, step = a->B * a->H * a->T * D;
    for (Index r = begin; r < end; r++) {
        float *dq = row(&a->dq, r / a->T / a->H, r / a->T % a->H, r % a->T);
        const float *x = a->dq_parts + r * D;
        memcpy(dq, x, (size_t)D * sizeof(float));
        for (Index part = 1; part < a->parts; part++)
            for (Index d = 0; d < D; d++)
                dq[d] += x[part * step + d];
    }
}

const AttentionTable MINIDL_CAT(minidl_attention, ISA_SUFFIX) = {forward_tasks, forward, backward,
                                                                 sum_parts};
