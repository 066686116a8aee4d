/* Optimizer updates on ranges of flat arrays. */
#ifndef MINIDL_OPTIM_H
#define MINIDL_OPTIM_H

#include <stddef.h>

#include "isa.h"

typedef struct {
    float lr, beta1, beta2, eps, decay; /* decay: weight_decay */
    float correction1, correction2;     /* 1 - beta1^step, sqrt(1 - beta2^step) */
    float sign;                         /* -1 to maximize */
    int decoupled;                      /* AdamW: shrink the weights; Adam: add to the gradient */
} AdamSettings;

typedef struct {
    float lr, momentum, dampening, decay, sign;
    int nesterov, first; /* first: the buffer starts as the gradient */
} SgdSettings;

typedef struct {
    float lr, beta1, beta2, decay, sign;
} LionSettings;

typedef struct {
    void (*adam)(float *p, float *m, float *v, const float *g, ptrdiff_t n, const AdamSettings *s);
    void (*sgd)(float *p, float *buffer, const float *g, ptrdiff_t n, const SgdSettings *s);
    void (*lion)(float *p, float *m, const float *g, ptrdiff_t n, const LionSettings *s);
    double (*sqsum)(const float *x, ptrdiff_t n);
    void (*scale)(float *x, ptrdiff_t n, float factor);
} OptimTable;

extern const OptimTable minidl_optim_baseline;
#ifndef MINIDL_ONE_ISA
extern const OptimTable minidl_optim_avx2, minidl_optim_avx512;
#endif

#endif
