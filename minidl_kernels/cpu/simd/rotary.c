/* y = (x1 cos - x2 sin, x2 cos + x1 sin) for every pair of features. Rows go by position, then
 * head: the angles of a position are then read once, and a packed projection from start to end. */
#include "rotary.h"

typedef ptrdiff_t Index;

static void turn_halves(float *y, const float *x, const float *cos, const float *sin, Index half,
                        float sign)
{
#pragma omp simd
    for (Index i = 0; i < half; i++) {
        float a = x[i], b = x[half + i], c = cos[i], s = sign * sin[i];
        y[i] = a * c - b * s;
        y[half + i] = b * c + a * s;
    }
}

static void turn_pairs(float *y, const float *x, const float *cos, const float *sin, Index half,
                       float sign)
{
#pragma omp simd
    for (Index i = 0; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1], c = cos[i], s = sign * sin[i];
        y[2 * i] = a * c - b * s;
        y[2 * i + 1] = b * c + a * s;
    }
}

static void turn(void *rotary, Index begin, Index end)
{
    const Rotary *r = rotary;
    Index half = r->D / 2;
    for (Index i = begin; i < end; i++) {
        Index h = i % r->H, t = i / r->H % r->T, b = i / r->H / r->T;
        float *y = r->y + b * r->y_b + h * r->y_h + t * r->y_t;
        const float *x = r->x + b * r->x_b + h * r->x_h + t * r->x_t;
        if (r->interleaved)
            turn_pairs(y, x, r->cos + t * half, r->sin + t * half, half, r->sign);
        else
            turn_halves(y, x, r->cos + t * half, r->sin + t * half, half, r->sign);
    }
}

const RotaryTable MINIDL_CAT(minidl_rotary, ISA_SUFFIX) = {turn};
