/* The kernel dialect in OpenCL C 1.2: no subgroups, no half, no double. */
typedef char int8_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;

#define DEVICE static inline
#define GLOBAL __global
#define CONSTANT __constant
#define SHARED(T, name, dims) __local T name dims
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define THREAD ((int)get_local_id(0))
#define BLOCK_X ((int)get_group_id(0))
#define BLOCK_Y ((int)get_group_id(1))
#define BLOCK_Z ((int)get_group_id(2))
#define BLOCKS_X ((int)get_num_groups(0))
#define UNROLL
#define FMA(a, b, c) fma(a, b, c)
#define RSQRT(x) (1.0f / sqrt(x))
#define HIGH_PRODUCT(a, b) mul_hi((uint)(a), (uint)(b))

#define S_FN DEVICE
#define S_CONSTANT CONSTANT
#define S_PRIVATE
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
#define S_NO_DOUBLE /* optional in OpenCL */
DEVICE int32_t s_bits(float x) { return as_int(x); }
DEVICE float s_float(int32_t i) { return as_float(i); }
DEVICE float s_pow(float a, float b) { return pow(a, b); }
DEVICE float s_fmod_fast(float a, float b) { return fmod(a, b); }
