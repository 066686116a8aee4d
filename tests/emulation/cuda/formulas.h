/* The types of PTX, and the formulas of ops.h that take more than a line. */
#pragma once
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>

typedef uint32_t pred;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef float f32;

inline float fma_toward_zero(float x, float y, float z) {
    const int mode = fegetround();
    volatile float a = x, b = y, c = z;
    fesetround(FE_TOWARDZERO);
    volatile float r = fmaf(a, b, c);
    fesetround(mode);
    return r;
}

inline float flushed(float x) {
    return fabsf(x) < std::numeric_limits<float>::min() ? copysignf(0.0f, x) : x;
}

template <class T> inline T saturated(float x) {
    typedef std::numeric_limits<T> Limits;
    if (x != x) return 0;
    if (x <= (float)Limits::min()) return Limits::min();
    return x >= (float)Limits::max() ? Limits::max() : (T)x;
}

inline u64 insert_bits(u64 bits, u64 into, u32 place, u32 length) {
    const u64 mask = (length > 63 ? ~0ull : (1ull << length) - 1) << (place & 63);
    return (into & ~mask) | (bits << (place & 63) & mask);
}

inline u32 any_logic(u32 x, u32 y, u32 z, u32 table) {
    u32 r = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) r |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
    return r;
}
