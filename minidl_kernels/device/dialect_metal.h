/* The kernel dialect in the Metal Shading Language, compiled without fast math. */
#include <metal_stdlib>
using namespace metal;

#define DEVICE static inline
#define GLOBAL device
#define CONSTANT constant
#define SHARED(T, name, dims) threadgroup T name dims
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define THREAD ((int)thread_.x) /* the kernel's last arguments, see source.py */
#define BLOCK_X ((int)block_.x)
#define BLOCK_Y ((int)block_.y)
#define BLOCK_Z ((int)block_.z)
#define BLOCKS_X ((int)blocks_.x)
#define UNROLL _Pragma("clang loop unroll(full)")
#define FMA(a, b, c) fma(a, b, c)
#define RSQRT(x) (1.0f / sqrt(x))
#define SHUFFLE_XOR(v, lanes) simd_shuffle_xor(v, lanes)
#define HIGH_PRODUCT(a, b) mulhi((uint)(a), (uint)(b))

#define S_FN DEVICE
#define S_CONSTANT CONSTANT
#define S_PRIVATE thread
#define S_INF INFINITY
#define S_NAN NAN
#define S_ABS fabs
#define S_SQRT sqrt
#define S_RINT rint
#define S_FLOOR floor
#define S_CEIL ceil
#define S_TRUNC trunc
#define S_FMOD fmod
#define S_COPYSIGN copysign
#define S_NO_DOUBLE /* Metal has none */
DEVICE int32_t s_bits(float x) { return as_type<int>(x); }
DEVICE float s_float(int32_t i) { return as_type<float>(i); }
DEVICE float s_pow(float a, float b) { return pow(a, b); }
DEVICE float s_fmod_fast(float a, float b) { return fmod(a, b); }
