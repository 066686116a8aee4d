/* Rotary position embedding over rows of x [B, H, T, D]; see rotary.c. */
#ifndef MINIDL_ROTARY_H
#define MINIDL_ROTARY_H

#include <stddef.h>

#include "isa.h"

typedef struct {
    float *y;                      /* OUT [B, H, T, D], steps as below, last axis contiguous */
    const float *x, *cos, *sin;    /* IN  x likewise; cos, sin [T, D/2] contiguous */
    ptrdiff_t y_b, y_h, y_t, x_b, x_h, x_t;
    ptrdiff_t B, H, T, D;
    int interleaved;
    float sign;                    /* 1 turns forward, -1 back */
} Rotary;

typedef struct {
    void (*turn)(void *rotary, ptrdiff_t begin, ptrdiff_t end); /* B * T * H rows, h fastest */
} RotaryTable;

extern const RotaryTable minidl_rotary_baseline;
extern const RotaryTable minidl_rotary_avx2;
extern const RotaryTable minidl_rotary_avx512;

#endif
