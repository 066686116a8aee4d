/* Every formula of scalar.h as functions: f_NAME, f_NAME_grad, f_NAME_da and f_NAME_db. */
#include "scalar.h"

#define UNARY(name, forward, gradient, saved) \
    DEVICE float f_##name(float x) { return forward; } \
    DEVICE float f_##name##_grad(float g, float saved) { return gradient; }
/* Not by way of UNARY: `sin` is a macro in some OpenCL, expanded when it is passed on. */
#define UNARY_GUARDED_FORWARD(name, forward, gradient, saved, limit, exact) \
    DEVICE float f_##name(float x) { return S_ABS(x) <= limit ? forward : exact; } \
    DEVICE float f_##name##_grad(float g, float saved) { return gradient; }
#define UNARY_GUARDED(name, forward, gradient, saved, limit, exact, exact_gradient) \
    DEVICE float f_##name(float x) { return S_ABS(x) <= limit ? forward : exact; } \
    DEVICE float f_##name##_grad(float g, float saved) \
    { \
        return S_ABS(saved) <= limit ? gradient : exact_gradient; \
    }
#define BINARY(name, forward, gradient_a, gradient_b) \
    DEVICE float f_##name(float a, float b) { return forward; } \
    DEVICE float f_##name##_da(float g, float a, float b) { return gradient_a; } \
    DEVICE float f_##name##_db(float g, float a, float b) { return gradient_b; }
#define BINARY_GUARDED(name, forward, gradient_a, gradient_b, guard, exact) \
    DEVICE float f_##name(float a, float b) { return guard ? forward : exact; } \
    DEVICE float f_##name##_da(float g, float a, float b) { return gradient_a; } \
    DEVICE float f_##name##_db(float g, float a, float b) { return gradient_b; }
S_UNARY(UNARY)
S_UNARY_GUARDED_FORWARD(UNARY_GUARDED_FORWARD)
S_UNARY_GUARDED(UNARY_GUARDED)
S_BINARY(BINARY)
S_BINARY_GUARDED(BINARY_GUARDED)
