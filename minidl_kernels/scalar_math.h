/* The functions behind the formulas of scalar.h: branch-free float32 in plain C.
 *
 * GCC, Clang and MSVC vectorise them. They keep their accuracy with and without fused multiply-add,
 * and rely on IEEE NaN, infinity, signed zero and subnormals: compile with -fno-math-errno
 * -fno-trapping-math, never with -ffast-math.
 *
 * A device dialect (device/dialect_*.h) defines S_FN and the names of the first section before it
 * includes this file; without double precision it also defines S_NO_DOUBLE and its own s_pow and
 * s_fmod_fast.
 */
#ifndef MINIDL_SCALAR_MATH_H
#define MINIDL_SCALAR_MATH_H

#ifndef S_FN
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__GNUC__)
#define S_FN static inline __attribute__((always_inline, unused))
#elif defined(_MSC_VER)
#define S_FN static __forceinline
#else
#define S_FN static inline
#endif
#define S_CONSTANT static const
#define S_PRIVATE /* the address space of a thread's own variables, where it has a name */
#define S_INF INFINITY
#define S_NAN NAN
#define S_ABS fabsf
#define S_SQRT sqrtf
#define S_RINT rintf
#define S_FLOOR floorf
#define S_CEIL ceilf
#define S_TRUNC truncf
#define S_FMOD fmodf
#define S_COPYSIGN copysignf
S_FN int32_t s_bits(float x) { int32_t i; memcpy(&i, &x, 4); return i; }
S_FN float s_float(int32_t i) { float x; memcpy(&x, &i, 4); return x; }
#endif

#define S_FLT_MAX 3.402823466e38f
#define S_FLT_MIN 1.175494351e-38f
#define S_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, kept in the low bits */
#define S_LN2_HI 0.693359375f /* few bits, so that n * S_LN2_HI is exact */
#define S_LN2_LO 2.12194440e-4f /* S_LN2_HI - ln 2 */

/* ---- exponential: e^x = 2^n (1 + p), p = e^r - 1, |r| <= ln(2) / 2 ----
 * What lies outside the range is selected at the end, not clamped at the start: a clamp to a
 * constant makes GCC compute a second, constant path through everything that follows. */

S_FN float s_expm1_poly(float r) { /* two short chains instead of one long: latency counts */
    float t = r * r;
    float lo = 0.1666651964187622f * r + 0.4999999403953552f;
    float hi = 0.00836889911442995f * r + 0.04166840389370918f;
    return r + t * (lo + t * (hi + t * 0.001381422160193324f));
}

S_FN float s_exp_split(float x, S_PRIVATE int32_t *n) { /* p; n's low bits: the exponent's */
    float t = x * 1.44269504088896341f + S_MAGIC;
    float k = t - S_MAGIC;
    *n = s_bits(t);
    return s_expm1_poly((x - k * S_LN2_HI) + k * S_LN2_LO);
}

S_FN float s_pow2(int32_t n) { /* 2^n for -127 < n < 128, of n or of n + S_MAGIC's bits */
    return s_float((int32_t)(((uint32_t)n << 23) + 0x3F800000u));
}

S_FN float s_scale(float p, int32_t n) { /* 2^n (1 + p) in two steps: subnormals round once */
    uint32_t part = (uint32_t)n >> 1; /* not `half`, which is a type on devices */
    float s = s_pow2((int32_t)part);
    return (p * s + s) * s_pow2((int32_t)((uint32_t)n - part));
}

S_FN float s_exp_neg(float x) { /* e^x for x <= 0 */
    int32_t n;
    float p = s_exp_split(x, &n), y = s_scale(p, n);
    return x < -104.0f ? 0.0f : y;
}

S_FN float s_exp(float x) {
    float y = s_exp_neg(x);
    return x > 88.73f ? S_INF : y;
}

S_FN float s_exp2m1_poly(float f) { /* 2^f - 1, |f| <= 1/2 */
    float t = f * f;
    float lo = 0.24022647738456726f * f + 0.6931471824645996f;
    float mid = 0.00961843691766262f * f + 0.055503323674201965f;
    float hi = 0.00015353361959569156f * f + 0.0013398875016719103f;
    return f * (lo + t * (mid + t * hi));
}

S_FN float s_exp2(float x) {
    float t = x + S_MAGIC, k = t - S_MAGIC, y;
    y = s_scale(s_exp2m1_poly(x - k), s_bits(t));
    y = x < -151.0f ? 0.0f : y;
    return x >= 128.0f ? S_INF : y;
}

S_FN float s_exp2_raw(float x) { /* 2^x for |x| <= 125, anything beyond: the caller selects */
    float t = x + S_MAGIC, k = t - S_MAGIC, p = s_exp2m1_poly(x - k), s = s_pow2(s_bits(t));
    return p * s + s;
}

S_FN float s_exp2_short(float f) { /* 2^f, |f| <= 1/2, to 8e-8 */
    float q = 0.0013276472222059965f * f + 0.009675540961325169f;
    q = q * f + 0.05550713464617729f;
    q = q * f + 0.2402212023735046f;
    q = q * f + 0.6931469440460205f;
    return q * f + 1.0000001192092896f;
}

S_FN float s_times_pow2(float x, int32_t n) { /* x 2^n where both are normal, or n is 0 */
    return s_float((int32_t)((uint32_t)s_bits(x) + ((uint32_t)n << 23)));
}

S_FN float s_expm1(float x) {
    int32_t n;
    float p = s_exp_split(x, &n);
    float s = s_pow2(n - 1), y = 2.0f * (s * p + (s - 0.5f)); /* 2^n itself may overflow */
    y = x < -30.0f ? -1.0f : y;
    y = x > 88.73f ? S_INF : y;
    return S_ABS(x) < 1e-8f ? x : y;
}

/* ---- logarithm: x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2) ---- */

S_FN float s_log_poly(float f, float t) { /* log(1 + f) - f + t / 2, t = f f */
    float q = 0.067477285861969f;
    q = q * f - 0.11677515506744385f;
    q = q * f + 0.11888697743415833f;
    q = q * f - 0.12405340373516083f;
    q = q * f + 0.14219452440738678f;
    q = q * f - 0.16668005287647247f;
    q = q * f + 0.20002123713493347f;
    q = q * f - 0.25000008940696716f;
    q = q * f + 0.3333331346511841f;
    return f * t * q;
}

S_FN float s_log_split(float x, S_PRIVATE float *e) { /* f; anything where x is not > 0 */
    int32_t tiny = x < S_FLT_MIN, i;
    x = tiny ? x * 8388608.0f : x;
    i = (int32_t)((uint32_t)s_bits(x) - 0x3F3504F3u);
    *e = (float)((i >> 23) - (tiny ? 23 : 0));
    return s_float((i & 0x7FFFFF) + 0x3F3504F3) - 1.0f;
}

S_FN float s_log_join(float f, float e) { /* e ln 2 + log(1 + f), the small terms first */
    float t = f * f;
    float y = s_log_poly(f, t) - e * S_LN2_LO;
    return (f + (y - 0.5f * t)) + e * S_LN2_HI;
}

S_FN float s_log_ends(float x, float y) { /* y, or what any logarithm of x <= 0, inf, NaN is */
    y = x > 0.0f ? y : (x == 0.0f ? -S_INF : S_NAN);
    return x > S_FLT_MAX ? x : y;
}

S_FN float s_log(float x) {
    float e, f = s_log_split(x, &e);
    return s_log_ends(x, s_log_join(f, e));
}

S_FN float s_log2(float x) {
    float e, f = s_log_split(x, &e);
    float t = f * f, y = s_log_poly(f, t) - 0.5f * t;
    /* log2(e) = 1.4425048828125 + 1.9015796e-4: f times the short part loses nothing that counts */
    y = (y * 1.44269504f + f * 1.9015796e-4f) + f * 1.4425048828125f;
    return s_log_ends(x, y + e);
}

S_FN float s_log10(float x) {
    float e, f = s_log_split(x, &e);
    float t = f * f, y = s_log_poly(f, t) - 0.5f * t;
    y = (y * 0.434294482f + e * 4.6050390e-6f) + f * 0.434294482f;
    return s_log_ends(x, y + e * 0.301025390625f);
}

S_FN float s_log1p(float x) {
    /* the exponent of 1 + x, but f from x itself: f = 2^-e x + (2^-e - 1) */
    float u = 1.0f + x;
    int32_t e = (int32_t)((uint32_t)s_bits(u) - 0x3F3504F3u) >> 23;
    float s = s_pow2(2 - e); /* 4 2^-e, which is normal even for the largest x */
    float y = s_log_join(s * (0.25f * x) + (0.25f * s - 1.0f), (float)e);
    y = s_log_ends(u, y);
    return S_ABS(x) < 1e-8f ? x : y;
}

/* ---- logistic family, from z = e^-|x| <= 1 ---- */

S_FN float s_sigmoid(float x) {
    float z = s_exp_neg(-S_ABS(x));
    return (x < 0.0f ? z : 1.0f) / (1.0f + z);
}

S_FN float s_sigmoid_near(float x) { /* for |x| <= 87, where nothing overflows */
    float t = x * -1.44269504088896341f + S_MAGIC, k = t - S_MAGIC;
    float e = 1.0f + s_expm1_poly((-x - k * S_LN2_HI) + k * S_LN2_LO);
    return 1.0f / (1.0f + s_times_pow2(e, s_bits(t)));
}

S_FN float s_ramp(float x) { return x < 0.0f ? x * 0.0f : x; } /* max(x, 0); NaN for -inf */

S_FN float s_silu(float x) { /* max(x, 0) - |x| z / (1 + z): next to x, no error but the last */
    float u = S_ABS(x), z = s_exp_neg(-u), r = u * z / (1.0f + z);
    return s_ramp(x) - (u > 110.0f ? 0.0f : r);
}

S_FN float s_silu_grad(float x) {
    float z = s_exp_neg(-S_ABS(x)), r = 1.0f / (1.0f + z), s = z * r;
    return (x < 0.0f ? s : r) + x * (s * r); /* s r is sigmoid(x) (1 - sigmoid(x)) */
}

S_FN float s_softplus(float x) { /* log(1 + e^x) */
    return (x > 0.0f ? x : 0.0f) + s_log1p(s_exp_neg(-S_ABS(x)));
}

S_FN float s_logsigmoid(float x) {
    return (x > 0.0f ? 0.0f : x) - s_log1p(s_exp_neg(-S_ABS(x)));
}

S_FN float s_tanh(float x) { /* a series near 0, 1 - 2 / (e^2|x| + 1) beyond: both to an ulp */
    int32_t n;
    float u = S_ABS(x), t = x * x, small, large;
    float p = s_exp_split(2.0f * u, &n), s = s_pow2(n);
    small = -0.0004554603365249932f * t + 0.0025826687924563885f;
    small = small * t - 0.008264545351266861f;
    small = small * t + 0.021663542836904526f;
    small = small * t - 0.05392930284142494f;
    small = small * t + 0.13332977890968323f;
    small = small * t - 0.33333322405815125f;
    small = (small * t) * x + x;
    large = 1.0f - 2.0f / (p * s + (s + 1.0f));
    large = u > 9.02f ? 1.0f : large;
    return S_COPYSIGN(u < 0.9f ? small : large, x); /* that of -0.0 too */
}

/* ---- normal distribution: with e = e^(-u u / 2), its upper tail is e s_tail(u) for u >= 0 ---- */

S_FN float s_tail_over(float u, float t) { /* t = u u */
    return (0.33093729615211487f * u + 0.4999999701976776f)
        + t * (0.013211680576205254f * u + 0.10254719853401184f);
}

S_FN float s_tail_under(float u, float t) {
    float q = (0.2564348578453064f * u + 0.8698376417160034f) + t * 0.03314032405614853f;
    return (1.4597564935684204f * u + 1.0f) + t * q;
}

S_FN float s_tail(float u) {
    float t = u * u;
    return s_tail_over(u, t) / s_tail_under(u, t);
}

S_FN float s_erf(float x) {
    float u = S_ABS(x), t = x * x, small, large;
    small = 8.577317930758e-05f * t - 0.0008191985543817282f;
    small = small * t + 0.0052054449915885925f;
    small = small * t - 0.02686123736202717f;
    small = small * t + 0.1128373071551323f;
    small = small * t - 0.37612637877464294f;
    small = (small * t + 0.12837916709551f) * x + x;
    large = 1.0f - 2.0f * (s_exp2_raw(t * -1.44269504088896341f) * s_tail(u * 1.4142135623730951f));
    large = S_COPYSIGN(u > 4.0f ? 1.0f : large, x);
    return u < 0.9f ? small : large;
}

S_FN float s_gelu(float x) { /* max(x, 0) - |x| tail(|x|) */
    float u = S_ABS(x), r = u * (s_exp2_raw(x * x * -0.72134752044448170f) * s_tail(u));
    return s_ramp(x) - (u > 13.0f ? 0.0f : r);
}

S_FN float s_gelu_grad(float x) { /* cdf(x) + x pdf(x) */
    float u = S_ABS(x), e = s_exp2_raw(x * x * -0.72134752044448170f);
    float r = x * (0.3989422804014327f * e) - S_COPYSIGN(e * s_tail(u), x);
    return (0.5f + S_COPYSIGN(0.5f, x)) + (u > 13.0f ? x * 0.0f : r);
}

/* The same for |x| <= 12, where nothing underflows: no choices, and the power of two at the end */
S_FN float s_gelu_near(float x) {
    float u = S_ABS(x), t = x * x, m = t * -0.72134752044448170f + S_MAGIC, k = m - S_MAGIC;
    float f = t * -0.72134752044448170f - k, s = 0.11523575335741043f * (f * f) + 2.885408163f;
    /* 2^f is (s + f) / (s - f) to 4e-7, and the quotient of the tail is there anyway */
    float r = (s + f) * (u * s_tail_over(u, t)) / ((s - f) * s_tail_under(u, t));
    return (x < 0.0f ? -0.0f : x) - s_times_pow2(r, s_bits(m));
}

S_FN float s_gelu_near_grad(float x) {
    float w = x * x * -0.72134752044448170f, m = w + S_MAGIC, k = m - S_MAGIC;
    float e = s_times_pow2(s_exp2_short(w - k), s_bits(m));
    float r = 0.3989422804014327f * x - S_COPYSIGN(s_tail(S_ABS(x)), x);
    return (0.5f + S_COPYSIGN(0.5f, x)) + e * r;
}

S_FN float s_gelu_tanh(float x) { /* x / (1 + e^-2u), which is x (1 + tanh u) / 2 */
    float w = x * (-2.3022081987f - 0.1029432396f * (x * x)), e = s_exp2_raw(w);
    e = w < -124.0f ? 0.0f : e;
    return x / (1.0f + (w > 124.0f ? S_INF : e));
}

S_FN float s_gelu_tanh_grad(float x) { /* as s_silu_grad, of 2u */
    float t = x * x, w = S_ABS(x) * (-2.3022081987f - 0.1029432396f * t), z = s_exp2_raw(w), r, s;
    z = w < -124.0f ? 0.0f : z;
    r = 1.0f / (1.0f + z);
    s = z * r;
    t = x * (1.5957691216057308f + 0.2140644488178f * t); /* x times the slope of 2u */
    return (x < 0.0f ? s : r) + t * (s * r);
}

/* ---- sine and cosine: x = q pi/2 + r, |r| <= pi/4 ---- */

#define S_TRIG_LIMIT 1e8f

S_CONSTANT uint32_t s_two_over_pi[9] = { /* 2/pi in binary after 64 zero bits */
    0u, 0u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u,
    0xFE5163ABu};

S_FN float s_trig_reduce_exact(float ax, S_PRIVATE int32_t *q) { /* Payne-Hanek, in integers */
    int32_t bits = s_bits(ax), k = (bits >> 23) - 150 + 62, word = k >> 5, shift = k & 31;
    uint32_t m = (uint32_t)((bits & 0x7FFFFF) | 0x800000), w[3];
    uint64_t p;
    int i;
    for (i = 0; i < 3; i++) { /* the 96 bits that matter: higher ones give whole turns */
        uint64_t two = (uint64_t)s_two_over_pi[word + i] << 32 | s_two_over_pi[word + i + 1];
        w[i] = (uint32_t)(two << shift >> 32);
    }
    p = ((uint64_t)m * w[2] >> 32) + (uint64_t)m * w[1] + ((uint64_t)m * w[0] << 32);
    *q = (int32_t)((p + 0x2000000000000000u) >> 62);
    p -= (uint64_t)*q << 62;
    return (float)(int64_t)p * 3.4061215800304e-19f + (ax - ax); /* pi/2 / 2^62; NaN for inf */
}

#define S_MAGIC64 6755399441055744.0 /* what S_MAGIC is for float */

/* r for ax beyond S_TRIG_LIMIT as for 0; *low is what r lost when it was rounded to a float */
#ifdef S_NO_DOUBLE
S_FN float s_trig_reduce(float ax, S_PRIVATE int32_t *q, S_PRIVATE float *low) {
    *q = 0;
    *low = 0.0f;
    return ax < 0.75f ? ax : s_trig_reduce_exact(ax, q);
}
#else
S_FN float s_trig_reduce(float ax, S_PRIVATE int32_t *q, S_PRIVATE float *low) {
    double x = ax <= S_TRIG_LIMIT ? ax : 0.0f;
    double k = (x * 0.63661977236758134 + S_MAGIC64) - S_MAGIC64;
    double r = (x - k * 1.57079631090164184570) - k * 1.58932547735281966916e-8;
    *q = (int32_t)k;
    *low = (float)(r - (float)r);
    return (float)r;
}
#endif

S_FN float s_trig_value(float r, float low, int32_t q) { /* sin(r + low + q pi/2) */
    float t = r * r, h = 0.5f * t, w = 1.0f - h, s, c, y;
    s = -0.00019516480097081512f;
    s = s * t + 0.00833217240869999f;
    s = s * t - 0.16666655242443085f;
    s = r + (r * t * s + low);
    c = 2.4437533284071833e-05f;
    c = c * t - 0.0013887359527871013f;
    c = c * t + 0.04166664555668831f;
    c = w + (((1.0f - w) - h) + (t * t * c - r * low)); /* the first term is what w lost */
    y = (q & 1) ? c : s;
    return (q & 2) ? -y : y;
}

S_FN float s_odd(float y, float x) { return s_bits(x) < 0 ? -y : y; }
S_FN float s_sin(float x) {
    int32_t q;
    float low, r = s_trig_reduce(S_ABS(x), &q, &low);
    return s_odd(s_trig_value(r, low, q), x);
}
S_FN float s_cos(float x) {
    int32_t q;
    float low, r = s_trig_reduce(S_ABS(x), &q, &low);
    return s_trig_value(r, low, q + 1);
}
S_FN float s_sin_exact(float x) { /* for x beyond S_TRIG_LIMIT */
    int32_t q;
    float r = s_trig_reduce_exact(S_ABS(x), &q);
    return s_odd(s_trig_value(r, 0.0f, q), x);
}
S_FN float s_cos_exact(float x) {
    int32_t q;
    float r = s_trig_reduce_exact(S_ABS(x), &q);
    return s_trig_value(r, 0.0f, q + 1);
}

/* ---- powers and division with remainder ---- */

#ifndef S_NO_DOUBLE
S_FN float s_pow(float a, float b) { /* 2^(b log2 |a|) with the product in double */
    float ax = S_ABS(a), b2 = 0.5f * b, e, f, y;
    int32_t sign = S_RINT(b) != b ? 0 : S_RINT(b2) != b2 ? (int32_t)0x80000000u : 0;
    float broken = S_RINT(b) != b ? S_NAN : -0.0f; /* a negative number to a broken power */
    double s, t, q, k;
    f = s_log_split(ax, &e);
    s = (double)f / ((double)f + 2.0);
    t = s * s;
    q = 0.0791;
    q = q * t + 0.0908871;
    q = q * t + 0.111111262;
    q = q * t + 0.142857141;
    q = q * t + 0.2;
    q = q * t + 0.33333333333333331;
    s = (double)e + (s + s * t * q) * 2.8853900817779268;
    s = ax == 0.0f ? -(double)S_INF : s;
    s = (ax > S_FLT_MAX ? (double)S_INF : s) * b;
    s = s > 160.0 ? 160.0 : s;
    s = s > -160.0 ? s : -160.0; /* NaN too: the integer below must exist */
    k = (s + S_MAGIC64) - S_MAGIC64;
    y = s_scale(s_exp2m1_poly((float)(s - k)), (int32_t)k);
    y = s_float(s_bits(y) | (s_bits(a) & sign));
    y = (a < 0.0f) & (a >= -S_FLT_MAX) ? y + broken : y;
    y = a != a ? a : y;
    y = b != b ? b : y;
    y = b == 0.0f ? 1.0f : y;
    f = S_ABS(b) > S_FLT_MAX ? ax : a;
    return f == 1.0f ? 1.0f : y;
}
#endif

S_FN float s_pow_da(float a, float b) {
    float y = b * s_pow(a, b - 1.0f);
    return b == 0.0f ? 0.0f : y;
}

S_FN float s_pow_db(float a, float b) {
    float y = s_pow(a, b) * s_log(a);
    return (a == 0.0f) & (b >= 0.0f) ? 0.0f : y;
}

/* the quotient fits in the 53 bits of a double beside b, so that a - q b is exact */
#define S_MOD_GUARD \
    ((S_ABS(a) < 536870912.0f * S_ABS(b)) & (S_ABS(b) <= S_FLT_MAX) & (S_ABS(a) <= S_FLT_MAX))

#ifndef S_NO_DOUBLE
S_FN float s_fmod_fast(float a, float b) {
    double q = (((double)a / (double)b) + S_MAGIC64) - S_MAGIC64;
    float r = (float)((double)a - q * (double)b); /* rounded quotient: |r| <= |b| / 2 */
    r = a < 0.0f ? -r : r;
    r = r < 0.0f ? r + S_ABS(b) : r;
    return S_COPYSIGN(r, a);
}
#endif

S_FN float s_remainder(float m, float b) { /* from m = fmod(a, b) to the sign of b */
    float y = (s_bits(m) ^ s_bits(b)) < 0 ? m + b : m;
    return m == 0.0f ? m : y;
}

S_FN float s_floor_divide(float m, float a, float b) { /* m = fmod(a, b) */
    float c = (s_bits(m) ^ s_bits(b)) < 0 ? 1.0f : 0.0f, d = (a - m) / b, f;
    d = d - (m == 0.0f ? 0.0f : c);
    f = S_FLOOR(d);
    f = d - f > 0.5f ? f + 1.0f : f;
    f = d == 0.0f ? S_COPYSIGN(0.0f, a / b) : f;
    return b == 0.0f ? a / b : f;
}

S_FN float s_floor_ratio(float a, float b) { /* s_floor_divide, or a / b where that is whole */
    float m = s_fmod_fast(a, b), y;
    y = s_floor_divide(S_ABS(b) > S_FLT_MAX ? a : m, a, b);
    m = b == 0.0f ? 0.0f : a - a; /* NaN for infinite a */
    return S_ABS(a) < 536870912.0f * S_ABS(b) ? y : S_FLOOR(a / b) + m;
}

#endif
