/* Every elementwise formula of minidl, written once in plain C for all backends.
 *
 * A backend expands these lists. In a formula of S_UNARY, x is the input, y the result and g the
 * incoming gradient; the last word says which of x and y the gradient needs. In a formula of
 * S_BINARY, a and b are the operands. A _GUARDED list of unary ones has formulas for |x| <= limit,
 * and exact ones for the rare larger x, infinities and NaN; S_BINARY_GUARDED has a guard for that.
 */
#ifndef MINIDL_SCALAR_H
#define MINIDL_SCALAR_H

#include "scalar_math.h"

/* X(name, forward, gradient, what the gradient needs) */
#define S_UNARY(X) \
    X(exp, s_exp(x), g * y, y) \
    X(exp2, s_exp2(x), g * y * 0.69314718056f, y) \
    X(expm1, s_expm1(x), g * (y + 1.0f), y) \
    X(log, s_log(x), g / x, x) \
    X(log2, s_log2(x), g / (x * 0.69314718056f), x) \
    X(log10, s_log10(x), g / (x * 2.30258509299f), x) \
    X(log1p, s_log1p(x), g / (x + 1.0f), x) \
    X(sqrt, S_SQRT(x), g / (2.0f * y), y) \
    X(rsqrt, 1.0f / S_SQRT(x), -0.5f * g * (y * y * y), y) \
    X(square, x * x, g * (2.0f * x), x) \
    X(cube, x * x * x, g * (3.0f * (x * x)), x) \
    X(reciprocal, 1.0f / x, -g * (y * y), y) \
    X(tanh, s_tanh(x), g * (1.0f - y * y), y) \
    X(logsigmoid, s_logsigmoid(x), g * s_sigmoid(-x), x) \
    X(softplus, s_softplus(x), g * s_sigmoid(x), x) \
    X(silu, s_silu(x), g * s_silu_grad(x), x) \
    X(relu, x < 0.0f ? 0.0f : x, y <= 0.0f ? 0.0f : g, y) \
    X(erf, s_erf(x), g * (1.1283791670955126f * s_exp_neg(-x * x)), x) \
    X(gelu_tanh, s_gelu_tanh(x), g * s_gelu_tanh_grad(x), x) \
    X(neg, -x, -g, x) \
    X(abs, S_ABS(x), x > 0.0f ? g : (x < 0.0f ? -g : g * 0.0f), x) \
    X(sign, (float)((x > 0.0f) - (x < 0.0f)), 0.0f, x) \
    X(floor, S_FLOOR(x), 0.0f, x) \
    X(ceil, S_CEIL(x), 0.0f, x) \
    X(round, S_RINT(x), 0.0f, x) \
    X(trunc, S_TRUNC(x), 0.0f, x)

/* X(name, forward, gradient, what the gradient needs, limit, exact forward) */
#define S_UNARY_GUARDED_FORWARD(X) \
    X(sigmoid, s_sigmoid_near(x), g * ((1.0f - y) * y), y, 87.0f, s_sigmoid(x))

/* X(name, forward, gradient, what the gradient needs: x, limit, exact forward, exact gradient) */
#define S_UNARY_GUARDED(X) \
    X(gelu, s_gelu_near(x), g * s_gelu_near_grad(x), x, 12.0f, \
      s_gelu(x), g * s_gelu_grad(x)) \
    X(sin, s_sin(x), g * s_cos(x), x, S_TRIG_LIMIT, s_sin_exact(x), g * s_cos_exact(x)) \
    X(cos, s_cos(x), -g * s_sin(x), x, S_TRIG_LIMIT, s_cos_exact(x), -g * s_sin_exact(x))

/* X(name, forward, gradient of a, gradient of b) */
#define S_BINARY(X) \
    X(add, a + b, g, g) \
    X(sub, a - b, g, -g) \
    X(mul, a * b, g * b, g * a) \
    X(div, a / b, g / b, -g * ((a / b) / b)) \
    X(pow, s_pow(a, b), g * s_pow_da(a, b), g * s_pow_db(a, b)) \
    X(maximum, (a > b) | (a != a) ? a : b, \
      a == b ? 0.5f * g : (a < b ? 0.0f : g), a == b ? 0.5f * g : (a > b ? 0.0f : g)) \
    X(minimum, (a < b) | (a != a) ? a : b, \
      a == b ? 0.5f * g : (a > b ? 0.0f : g), a == b ? 0.5f * g : (a < b ? 0.0f : g))

/* X(name, forward, gradient of a, gradient of b, guard, exact forward) */
#define S_BINARY_GUARDED(X) \
    X(fmod, s_fmod_fast(a, b), g, -g * S_TRUNC(a / b), S_MOD_GUARD, S_FMOD(a, b)) \
    X(remainder, s_remainder(s_fmod_fast(a, b), b), g, -g * s_floor_ratio(a, b), S_MOD_GUARD, \
      s_remainder(S_FMOD(a, b), b)) \
    X(floor_divide, s_floor_divide(s_fmod_fast(a, b), a, b), 0.0f, 0.0f, S_MOD_GUARD, \
      s_floor_divide(S_FMOD(a, b), a, b))

#endif
