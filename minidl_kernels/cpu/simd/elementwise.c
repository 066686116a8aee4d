/* Loops over the formulas of scalar.h. Compiled once per instruction set (see elementwise.h). */
#include "elementwise.h"
#include "../../scalar.h"

#if defined(_MSC_VER) && !defined(__clang__)
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

typedef ptrdiff_t idx;

enum { BLOCK = 512 }; /* elements between two looks at the guards: they stay in the L1 cache */

#define LOOP for (idx i = 0; i < n; i++)

/* ---- unary: y = f(x), dx = f'(g, s) ---- */

#define UNARY_LOOP(name, formula) \
    static void name(float *RESTRICT out, const float *RESTRICT in, idx n) { \
        LOOP { const float x = in[i]; out[i] = formula; } \
    }
#define UNARY_GRAD_LOOP(name, formula) \
    static void name(float *RESTRICT out, const float *RESTRICT grad, \
                     const float *RESTRICT saved, idx n) { \
        LOOP { const float g = grad[i], x = saved[i], y = x; (void)g; (void)y; out[i] = formula; } \
    }
#define UNARY(name, forward, gradient, saves) \
    UNARY_LOOP(name##_forward, forward) \
    UNARY_GRAD_LOOP(name##_grad, gradient)

/* The fast formula over a block, then the exact one for what lies beyond the limit. The block's
 * largest magnitude tells: without their sign, the bits of floats are ordered as the floats are,
 * infinity and NaN last. */
#define SEE(x) { const int32_t bits = s_bits(S_ABS(x)); top = bits > top ? bits : top; }
#define GUARDED_FORWARD(name, forward, limit, exact) \
    static int name##_fast(float *RESTRICT out, const float *RESTRICT in, idx n) { \
        int32_t top = 0; \
        LOOP { const float x = in[i]; SEE(x) out[i] = forward; } \
        return top > s_bits(limit); \
    } \
    static void name##_forward(float *out, const float *in, idx total) { \
        for (idx at = 0; at < total; at += BLOCK, in += BLOCK, out += BLOCK) { \
            const idx n = total - at < BLOCK ? total - at : BLOCK; \
            if (name##_fast(out, in, n)) \
                LOOP { const float x = in[i]; if (!(S_ABS(x) <= limit)) out[i] = exact; } \
        } \
    }
#define UNARY_GUARDED_FORWARD(name, forward, gradient, saves, limit, exact) \
    GUARDED_FORWARD(name, forward, limit, exact) \
    UNARY_GRAD_LOOP(name##_grad, gradient)
#define UNARY_GUARDED(name, forward, gradient, saves, limit, exact, exact_gradient) \
    GUARDED_FORWARD(name, forward, limit, exact) \
    UNARY_GRAD_LOOP(name##_grad_fast, gradient) \
    static int name##_beyond(const float *in, idx n) { \
        int32_t top = 0; \
        LOOP SEE(in[i]) \
        return top > s_bits(limit); \
    } \
    static void name##_grad(float *out, const float *grad, const float *saved, idx total) { \
        for (idx at = 0; at < total; at += BLOCK, grad += BLOCK, saved += BLOCK, out += BLOCK) { \
            const idx n = total - at < BLOCK ? total - at : BLOCK; \
            name##_grad_fast(out, grad, saved, n); \
            if (name##_beyond(saved, n)) \
                LOOP { \
                    const float g = grad[i], x = saved[i]; \
                    if (!(S_ABS(x) <= limit)) out[i] = exact_gradient; \
                } \
        } \
    }

S_UNARY(UNARY)
S_UNARY_GUARDED_FORWARD(UNARY_GUARDED_FORWARD)
S_UNARY_GUARDED(UNARY_GUARDED)

/* ---- binary: y = f(a, b) with operands that advance or stay ---- */

#define EACH_FIXED(body) \
    switch (fixed) { \
    case 0: LOOP { const float a = pa[i], b = pb[i]; body } break; \
    case 1: { const float a = pa[0]; LOOP { const float b = pb[i]; body } break; } \
    case 2: { const float b = pb[0]; LOOP { const float a = pa[i]; body } break; } \
    default: { const float a = pa[0], b = pb[0]; LOOP { body } } \
    }

#define BINARY_LOOP(name, formula) \
    static void name(float *RESTRICT out, const float *pa, const float *pb, idx n, int fixed) { \
        EACH_FIXED(out[i] = formula;) \
    }
#define BINARY_GRAD_LOOP(name, formula) \
    static void name(float *RESTRICT out, const float *RESTRICT grad, const float *pa, \
                     const float *pb, idx n, int fixed) { \
        EACH_FIXED(const float g = grad[i]; (void)a; (void)b; (void)g; out[i] = formula;) \
    }
#define BINARY(name, forward, da, db) \
    BINARY_LOOP(name##_forward, forward) \
    BINARY_GRAD_LOOP(name##_da, da) \
    BINARY_GRAD_LOOP(name##_db, db)

#define BINARY_GUARDED(name, forward, da, db, guard, exact) \
    BINARY_LOOP(name##_fast, forward) \
    BINARY_GRAD_LOOP(name##_da, da) \
    BINARY_GRAD_LOOP(name##_db, db) \
    static int name##_refused(const float *pa, const float *pb, idx n, int fixed) { \
        int32_t refused = 0; \
        EACH_FIXED(refused |= !(guard);) \
        return refused; \
    } \
    static void name##_forward(float *out, const float *pa, const float *pb, idx total, \
                               int fixed) { \
        const idx sa = fixed & 1 ? 0 : 1, sb = fixed & 2 ? 0 : 1; \
        for (idx at = 0; at < total; at += BLOCK) { \
            const idx n = total - at < BLOCK ? total - at : BLOCK; \
            name##_fast(out + at, pa + at * sa, pb + at * sb, n, fixed); \
            if (!name##_refused(pa + at * sa, pb + at * sb, n, fixed)) continue; \
            for (idx i = at; i < at + n; i++) { \
                const float a = pa[i * sa], b = pb[i * sb]; \
                if (!(guard)) out[i] = exact; \
            } \
        } \
    }

S_BINARY(BINARY)
S_BINARY_GUARDED(BINARY_GUARDED)

/* ---- where, lerp, clamp, accumulate, fill ---- */

static void where_forward(float *RESTRICT out, const unsigned char *RESTRICT c, const float *pa,
                          const float *pb, idx n, int fixed) {
    if (fixed & 1) { /* one condition: a copy or a fill */
        const float *p = c[0] ? pa : pb;
        if (fixed & (c[0] ? 2 : 4)) LOOP out[i] = p[0];
        else LOOP out[i] = p[i];
        return;
    }
    fixed >>= 1;
    EACH_FIXED(out[i] = c[i] ? a : b;)
}

static void mask(float *RESTRICT out, const float *RESTRICT g, const unsigned char *RESTRICT c,
                 idx n, int fixed, int keep) {
    if (fixed) {
        if ((c[0] != 0) == keep) LOOP out[i] = g[i];
        else LOOP out[i] = 0.0f;
    } else if (keep) LOOP out[i] = c[i] ? g[i] : 0.0f;
    else LOOP out[i] = c[i] ? 0.0f : g[i];
}

/* a + w (b - a), from the nearer end so that w = 1 gives b exactly */
S_FN float lerp_one(float a, float b, float w) {
    return S_ABS(w) < 0.5f ? a + w * (b - a) : b - (b - a) * (1.0f - w);
}

static void lerp_forward(float *RESTRICT out, const float *pa, const float *pb, const float *pw,
                         idx n, int fixed) {
    const idx sw = fixed & 4 ? 0 : 1;
    fixed &= 3;
    if (sw) { EACH_FIXED(out[i] = lerp_one(a, b, pw[i]);) }
    else { const float w = pw[0]; EACH_FIXED(out[i] = lerp_one(a, b, w);) }
}

static void clamp_forward(float *RESTRICT out, const float *RESTRICT x, idx n, float lo, float hi) {
    if (lo != lo || hi != hi) LOOP out[i] = S_NAN;
    else LOOP { float v = x[i] < lo ? lo : x[i]; out[i] = v > hi ? hi : v; }
}

static void clamp_grad(float *RESTRICT out, const float *RESTRICT g, const float *RESTRICT x, idx n,
                       float lo, float hi) {
    LOOP out[i] = (x[i] >= lo) & (x[i] <= hi) ? g[i] : 0.0f;
}

static void accumulate(float *RESTRICT dst, const float *RESTRICT src, idx n, int fixed) {
    if (fixed) { const float v = src[0]; LOOP dst[i] += v; }
    else LOOP dst[i] += src[i];
}

static void fill(float *RESTRICT dst, idx n, float value) { LOOP dst[i] = value; }

/* ---- sums: float partials of short runs, added up in double ---- */

enum { LANES = 32, RUN = 64, WIDTH = 256 };

static void sum_row(float *out, const float *RESTRICT x, idx n) {
    double total = 0.0;
    idx at = 0;
    while (at + LANES <= n) {
        const idx stop = n - at < RUN * LANES ? at + (n - at) / LANES * LANES : at + RUN * LANES;
        float lane[LANES] = {0.0f};
        for (; at < stop; at += LANES)
            for (int j = 0; j < LANES; j++) lane[j] += x[at + j];
        for (int half = LANES / 2; half; half /= 2)
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];
        total += lane[0];
    }
    for (; at < n; at++) total += x[at];
    out[0] = (float)total;
}

static void sum_cols(float *RESTRICT out, const float *RESTRICT x, idx rows, idx cols, idx pitch) {
    /* out[c] = sum over r of x[r, c]; rows lie pitch elements apart */
    for (idx c = 0; c < cols; c += WIDTH, x += WIDTH, out += WIDTH) {
        const idx n = cols - c < WIDTH ? cols - c : WIDTH;
        double total[WIDTH];
        LOOP total[i] = 0.0;
        for (idx r = 0; r < rows;) {
            const idx stop = rows - r < RUN ? rows : r + RUN;
            float part[WIDTH];
            LOOP part[i] = 0.0f;
            for (; r + 4 <= stop; r += 4) {
                const float *p0 = x + r * pitch, *p1 = p0 + pitch, *p2 = p1 + pitch;
                const float *p3 = p2 + pitch;
                LOOP part[i] += (p0[i] + p1[i]) + (p2[i] + p3[i]);
            }
            for (; r < stop; r++) LOOP part[i] += x[r * pitch + i];
            LOOP total[i] += part[i];
        }
        LOOP out[i] = (float)total[i];
    }
}

/* ---- the table ---- */

#define UNARY_ENTRY(name, forward, gradient, saves) {#name, #saves, name##_forward, name##_grad},
#define UNARY_GUARDED_ENTRY(name, forward, gradient, saves, ...) \
    UNARY_ENTRY(name, forward, gradient, saves)
#define BINARY_ENTRY(name, forward, da, db) \
    {#name, #da, #db, name##_forward, name##_da, name##_db},
#define BINARY_GUARDED_ENTRY(name, forward, da, db, ...) BINARY_ENTRY(name, forward, da, db)

static const EwUnary unary[] = {
    S_UNARY(UNARY_ENTRY) S_UNARY_GUARDED_FORWARD(UNARY_GUARDED_ENTRY)
    S_UNARY_GUARDED(UNARY_GUARDED_ENTRY) {NULL, NULL, NULL, NULL}};
static const EwBinary binary[] = {
    S_BINARY(BINARY_ENTRY) S_BINARY_GUARDED(BINARY_GUARDED_ENTRY)
    {NULL, NULL, NULL, NULL, NULL, NULL}};

const ElementwiseTable MINIDL_CAT(minidl_elementwise, ISA_SUFFIX) = {
    unary, binary, where_forward, mask, lerp_forward, clamp_forward, clamp_grad,
    accumulate, fill, sum_row, sum_cols};
