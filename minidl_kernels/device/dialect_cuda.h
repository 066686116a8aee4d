/* The kernel dialect in CUDA C, for nvcc and NVRTC. */
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define CONSTANT static __device__ const
#define SHARED(T, name, dims) __shared__ T name dims
#define BARRIER() __syncthreads()
#define THREAD ((int)threadIdx.x)
#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#define BLOCK_Z ((int)blockIdx.z)
#define BLOCKS_X ((int)gridDim.x)
#define UNROLL _Pragma("unroll")
#define FMA(a, b, c) fmaf(a, b, c)
#define RSQRT(x) (1.0f / sqrtf(x))
#define SHUFFLE_XOR(v, lanes) __shfl_xor_sync(0xffffffffu, v, lanes)
#define HIGH_PRODUCT(a, b) __umulhi(a, b)

#define S_FN DEVICE
#define S_CONSTANT CONSTANT
#define S_PRIVATE
#define S_INF __int_as_float(0x7f800000)
#define S_NAN __int_as_float(0x7fc00000)
#define S_ABS fabsf
#define S_SQRT sqrtf
#define S_RINT rintf
#define S_FLOOR floorf
#define S_CEIL ceilf
#define S_TRUNC truncf
#define S_FMOD fmodf
#define S_COPYSIGN copysignf
#define S_NO_DOUBLE /* a quarter to a sixty-fourth of the speed of float */
DEVICE int32_t s_bits(float x) { return __float_as_int(x); }
DEVICE float s_float(int32_t i) { return __int_as_float(i); }
DEVICE float s_pow(float a, float b) { return powf(a, b); }
DEVICE float s_fmod_fast(float a, float b) { return fmodf(a, b); }
