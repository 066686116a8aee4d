/* Elementwise operations on float32 arrays. OP is f_ and the name of a formula in scalar.h (a
 * bare name may be a macro of the target). x y n: contiguous; a b c: broadcast by a Layout, or
 * numbers. */
#include "formulas.h"

#define OP_GRAD JOIN(OP, _grad)
#define OP_DA JOIN(OP, _da)
#define OP_DB JOIN(OP, _db)
#define INDEX (BLOCK_X * THREADS + THREAD)

#ifdef OP_UNARY

/* y = OP(x) */
KERNEL(unary, 256, IN(float, x), OUT(float, y), VAL(int, n))
{
    int i = INDEX;
    if (i < n) y[i] = OP(x[i]);
}

/* d = g OP'(x), from the saved x or y */
KERNEL(unary_grad, 256, IN(float, g), IN(float, saved), OUT(float, d), VAL(int, n))
{
    int i = INDEX;
    if (i < n) d[i] = OP_GRAD(g[i], saved[i]);
}

/* y = OP(x + bias). x [N, C], bias [C] */
KERNEL(bias_unary, 256, IN(float, x), IN(float, bias), OUT(float, y), VAL(int, n), VAL(int, C))
{
    int i = INDEX;
    if (i < n) y[i] = OP(x[i] + bias[i % C]);
}

/* d = g OP'(x + bias), of formulas whose gradient needs x */
KERNEL(bias_unary_grad, 256, IN(float, g), IN(float, x), IN(float, bias), OUT(float, d),
       VAL(int, n), VAL(int, C))
{
    int i = INDEX;
    if (i < n) d[i] = OP_GRAD(g[i], x[i] + bias[i % C]);
}

#elif defined(OP_BINARY)

/* y = OP(a, b) */
KERNEL(binary, 256, IN(float, a), IN(float, b), OUT(float, y), VAL(float, va), VAL(float, vb),
       VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        y[i] = OP(OPERAND(0, a, pa, va), OPERAND(1, b, pb, vb));
    }
}

/* dst = OP(dst, b), in place over contiguous dst */
KERNEL(binary_, 256, OUT(float, dst), IN(float, b), VAL(float, vb), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        dst[i] = OP(dst[i], OPERAND(1, b, pb, vb));
    }
}

/* d = g dOP/da, not yet summed to a's shape */
KERNEL(binary_da, 256, IN(float, g), IN(float, a), IN(float, b), OUT(float, d), VAL(float, va),
       VAL(float, vb), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        d[i] = OP_DA(g[pc], OPERAND(0, a, pa, va), OPERAND(1, b, pb, vb));
    }
}

KERNEL(binary_db, 256, IN(float, g), IN(float, a), IN(float, b), OUT(float, d), VAL(float, va),
       VAL(float, vb), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        d[i] = OP_DB(g[pc], OPERAND(0, a, pa, va), OPERAND(1, b, pb, vb));
    }
}

#else

/* y = x cut to [lo, hi] */
KERNEL(clamp, 256, IN(float, x), OUT(float, y), VAL(float, lo), VAL(float, hi), VAL(int, n))
{
    int i = INDEX;
    if (i < n) {
        float v = x[i] < lo ? lo : x[i];
        y[i] = v > hi ? hi : v;
    }
}

/* d = g where lo <= x <= hi, else 0 */
KERNEL(clamp_grad, 256, IN(float, g), IN(float, x), OUT(float, d), VAL(float, lo), VAL(float, hi),
       VAL(int, n))
{
    int i = INDEX;
    if (i < n) d[i] = (x[i] >= lo) & (x[i] <= hi) ? g[i] : 0.0f;
}

/* y = a + c (b - a), from the nearer end */
KERNEL(lerp, 256, IN(float, a), IN(float, b), IN(float, c), OUT(float, y), VAL(float, va),
       VAL(float, vb), VAL(float, vc), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        float s = OPERAND(0, a, pa, va), e = OPERAND(1, b, pb, vb), w = OPERAND(2, c, pc, vc);
        y[i] = S_ABS(w) < 0.5f ? s + w * (e - s) : e - (e - s) * (1.0f - w);
    }
}

#endif
