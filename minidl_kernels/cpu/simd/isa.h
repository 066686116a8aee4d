/* Which instruction set to run: 0 baseline, 1 AVX2+FMA, 2 AVX-512. MINIDL_ISA lowers the choice. */
#ifndef MINIDL_ISA_H
#define MINIDL_ISA_H

#include <stdlib.h>
#include <string.h>

#define MINIDL_CAT2(a, b) a##b
#define MINIDL_CAT(a, b) MINIDL_CAT2(a, b)

#if defined(MINIDL_ONE_ISA)

static int minidl_isa_found(void) { return 0; }

#elif defined(_MSC_VER) && !defined(__clang__)

#include <immintrin.h>
#include <intrin.h>
static int minidl_isa_found(void)
{
    int r[4];
    __cpuid(r, 0);
    if (r[0] < 7) return 0;
    __cpuid(r, 1);
    int fma = (r[2] >> 12) & 1, osxsave = (r[2] >> 27) & 1, f16c = (r[2] >> 29) & 1;
    if (!fma || !osxsave || !f16c) return 0;
    unsigned long long xcr0 = _xgetbv(0);
    __cpuidex(r, 7, 0);
    if ((xcr0 & 6) != 6 || !((r[1] >> 5) & 1)) return 0;
    int f = (r[1] >> 16) & 1, dq = (r[1] >> 17) & 1, bw = (r[1] >> 30) & 1, vl = (r[1] >> 31) & 1;
    return ((xcr0 & 0xe6) == 0xe6 && f && dq && bw && vl) ? 2 : 1;
}

#else

static int minidl_isa_found(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return 2;
    return 1;
}

#endif

static int minidl_isa(void)
{
    int found = minidl_isa_found(), asked = 2;
    const char *name = getenv("MINIDL_ISA");
    if (name && strcmp(name, "baseline") == 0) asked = 0;
    if (name && strcmp(name, "avx2") == 0) asked = 1;
    return found < asked ? found : asked;
}

/* The table of `family` for this CPU; the three tables are declared by the family's header. */
#if defined(MINIDL_ONE_ISA)
#define MINIDL_PICK(family) (&family##_baseline)
#else
#define MINIDL_PICK(family)                                                                        \
    (minidl_isa() == 2 ? &family##_avx512 : minidl_isa() == 1 ? &family##_avx2 : &family##_baseline)
#endif

#endif
