/* What the kernels over rows share: maxima and sums of one contiguous row.
   A sum runs in ROW_LANES accumulators, which the compiler keeps in vector registers, over blocks
   of ROW_BLOCK floats; the lanes are folded pairwise and the blocks are added in double. The order
   of the adds depends on the length alone. (GCC unrolls loops of 16 and fewer before it looks for
   vectors: fewer lanes are slower.) */
#ifndef MINIDL_ROWS_H
#define MINIDL_ROWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../scalar.h"
#include "isa.h"

#define ROW_LANES 32
#define ROW_BLOCK 4096
#define ROW_MIN(a, b) ((a) < (b) ? (a) : (b))

/* Ask for n floats that are read soon: a short row ends before the CPU has seen a stream in it.
   `near` says that the first cache has room for them, else they come to the second. */
#if defined(__GNUC__)
#define ROW_PREFETCH(p, n, near)                                                                   \
    for (ptrdiff_t f_ = 0; f_ < (n); f_ += 16) {                                                   \
        if (near) __builtin_prefetch((p) + f_);                                                    \
        else __builtin_prefetch((p) + f_, 0, 2);                                                   \
    }
#else
#define ROW_PREFETCH(p, n, near) ((void)0)
#endif

/* Results past the caches: a store that would first read the line it overwrites, and push out what
   is still needed, goes to memory directly, in vectors as wide as there are. */
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#if defined(__AVX512F__)
#define ROW_VECTOR 16 /* floats */
#define ROW_STREAM(y, x) _mm512_stream_ps(y, _mm512_loadu_ps(x))
#elif defined(__AVX__)
#define ROW_VECTOR 8
#define ROW_STREAM(y, x) _mm256_stream_ps(y, _mm256_loadu_ps(x))
#else
#define ROW_VECTOR 4
#define ROW_STREAM(y, x) _mm_stream_ps(y, _mm_loadu_ps(x))
#endif
#define ROW_STREAMED ((size_t)1 << 21) /* floats */
#define row_stream_end() _mm_sfence()
#else
#define ROW_VECTOR 1
#define ROW_STREAM(y, x) (*(y) = *(x))
#define ROW_STREAMED SIZE_MAX
#define row_stream_end() ((void)0)
#endif
static inline void row_stream(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += ROW_VECTOR) ROW_STREAM(y + i, x + i);
}

/* Is a result of N rows of C to be streamed? Its rows must then begin at aligned addresses. */
static inline int row_streamed(const float *y, ptrdiff_t N, ptrdiff_t C)
{
    return (size_t)(N * C) >= ROW_STREAMED && C % ROW_VECTOR == 0 &&
           (uintptr_t)y % (ROW_VECTOR * sizeof(float)) == 0;
}

#if defined(__GNUC__) && !defined(__clang__)
#define ROW_NOT_UNROLLED _Pragma("GCC unroll 1")
#else
#define ROW_NOT_UNROLLED
#endif

/* A kernel as the thread pool calls it: items [begin, end) of the work that `job` describes. */
typedef void (*RowTask)(void *job, ptrdiff_t begin, ptrdiff_t end);

/* e^x for x <= 0, exactly 0 where the result would be subnormal: the scale 2^-127 has no bits. */
S_FN float row_exp(float x)
{
    int32_t n;
    float p, scale;
    x = x < -88.0f ? -88.0f : x;
    p = s_exp_split(x, &n);
    scale = s_pow2(n);
    return p * scale + scale;
}

/* result = the lanes folded to one value by ADD: a tree of fixed shape, in loops that vectorise. */
#define ROW_FOLD(type, result, lane, ADD)                                                          \
    do {                                                                                           \
        type eight_[8], four_[4], two_[2];                                                         \
        for (int l_ = 0; l_ < 8; l_++)                                                             \
            eight_[l_] = ADD(ADD((lane)[l_], (lane)[l_ + 8]),                                      \
                             ADD((lane)[l_ + 16], (lane)[l_ + 24]));                               \
        for (int l_ = 0; l_ < 4; l_++) four_[l_] = ADD(eight_[l_], eight_[l_ + 4]);                \
        for (int l_ = 0; l_ < 2; l_++) two_[l_] = ADD(four_[l_], four_[l_ + 2]);                   \
        (result) = ADD(two_[0], two_[1]);                                                          \
    } while (0)

/* result = TERM(0) ADD TERM(1) ADD ... for 0 <= i < n, starting from `none`, lane by lane.
   A sum starts from -0.0f: adding it changes nothing, and it is no memset, which starts slowly.
   Up to `room` >= n the terms may be computed, though not used: the last lanes then need no loop
   of their own, which rows of 65 classes would spend half of their time in. ASK(i) is a statement
   once for ROW_LANES terms: what a later loop reads can be asked for there. */
#define ROW_LAST(type, lanes, n, TERM, ADD)                                                        \
    {                                                                                              \
        ROW_NOT_UNROLLED                                                                           \
        for (int l_ = 0; l_ < (lanes); l_++) {                                                     \
            const type term_ = TERM(i_ + l_);                                                      \
            lane_[l_] = l_ < (n) - i_ ? ADD(lane_[l_], term_) : lane_[l_];                         \
        }                                                                                          \
    }
#define ROW_REDUCE(type, result, n, room, none, TERM, ADD)                                         \
    ROW_REDUCE_TO(type, result, n, room, none, TERM, ADD, ROW_FOLD)
#define ROW_REDUCE_TO(type, result, n, room, none, TERM, ADD, FOLD)                                \
    ROW_REDUCE_ASKING(type, result, n, room, none, TERM, ADD, FOLD, ROW_ASK_NOTHING)
#define ROW_ASK_NOTHING(i)
#define ROW_REDUCE_ASKING(type, result, n, room, none, TERM, ADD, FOLD, ASK)                       \
    do {                                                                                           \
        ptrdiff_t i_ = 0;                                                                          \
        if ((n) >= ROW_LANES) {                                                                    \
            type lane_[ROW_LANES];                                                                 \
            for (int l_ = 0; l_ < ROW_LANES; l_++) lane_[l_] = (none);                             \
            do {                                                                                   \
                ASK(i_);                                                                           \
                for (int l_ = 0; l_ < ROW_LANES; l_++)                                             \
                    lane_[l_] = ADD(lane_[l_], TERM(i_ + l_));                                     \
                i_ += ROW_LANES;                                                                   \
            } while (i_ + ROW_LANES <= (n));                                                       \
            if (i_ < (n) && i_ + ROW_LANES <= (room)) {                                            \
                if ((n) - i_ <= ROW_LANES / 2) ROW_LAST(type, ROW_LANES / 2, n, TERM, ADD)         \
                else ROW_LAST(type, ROW_LANES, n, TERM, ADD)                                       \
            } else                                                                                 \
                for (int l_ = 0; l_ < (n) - i_; l_++) lane_[l_] = ADD(lane_[l_], TERM(i_ + l_));   \
            FOLD(type, result, lane_, ADD);                                                        \
        } else {                                                                                   \
            (result) = (none);                                                                     \
            for (; i_ < (n); i_++) (result) = ADD(result, TERM(i_));                               \
        }                                                                                          \
    } while (0)

#define ROW_PLUS(a, b) ((a) + (b))
#define ROW_LARGER(a, b) ((b) > (a) ? (b) : (a))

/* The same tree for floats, in vectors: GCC makes scalars of loops this short. */
#if defined(__GNUC__)
typedef float Row8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float Row4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t RowMask8 __attribute__((vector_size(32), may_alias));
typedef int32_t RowMask4 __attribute__((vector_size(16), may_alias));
#define ROW_LARGER8(a, b) ROW_SELECT(Row8, RowMask8, a, b)
#define ROW_LARGER4(a, b) ROW_SELECT(Row4, RowMask4, a, b)
#define ROW_SELECT(Row, Mask, a, b)                                                                \
    __extension__({                                                                                \
        const Row a_ = (a), b_ = (b);                                                              \
        const Mask take_ = b_ > a_;                                                                \
        (Row)(((Mask)b_ & take_) | ((Mask)a_ & ~take_));                                           \
    })
#define ROW_FOLD_VECTORS(result, lane, ADD8, ADD4, ADD)                                            \
    do {                                                                                           \
        const Row8 *v_ = (const Row8 *)(lane);                                                     \
        const Row8 eight_ = ADD8(ADD8(v_[0], v_[1]), ADD8(v_[2], v_[3]));                          \
        Row4 four_ = ADD4(__builtin_shufflevector(eight_, eight_, 0, 1, 2, 3),                     \
                          __builtin_shufflevector(eight_, eight_, 4, 5, 6, 7));                    \
        four_ = ADD4(four_, __builtin_shufflevector(four_, four_, 2, 3, 0, 1));                    \
        (result) = ADD(four_[0], four_[1]);                                                        \
    } while (0)
#define ROW_FOLD_PLUS(type, result, lane, ADD)                                                     \
    ROW_FOLD_VECTORS(result, lane, ROW_PLUS, ROW_PLUS, ADD)
#define ROW_FOLD_LARGER(type, result, lane, ADD)                                                   \
    ROW_FOLD_VECTORS(result, lane, ROW_LARGER8, ROW_LARGER4, ADD)
#else
#define ROW_FOLD_PLUS ROW_FOLD
#define ROW_FOLD_LARGER ROW_FOLD
#endif

/* The largest element, -inf of none; NaN may be passed over (it returns with the exp or sum). The
   last lanes overlap those before: a maximum may see an element twice. */
static inline float row_max(const float *x, ptrdiff_t n)
{
    float lane[ROW_LANES], top = -INFINITY;
    if (n < ROW_LANES) {
        for (ptrdiff_t i = 0; i < n; i++) top = ROW_LARGER(top, x[i]);
        return top;
    }
    for (int l = 0; l < ROW_LANES; l++) lane[l] = -INFINITY;
    for (ptrdiff_t i = 0; i < n; i += ROW_LANES) {
        const float *some = x + ROW_MIN(i, n - ROW_LANES);
        for (int l = 0; l < ROW_LANES; l++) lane[l] = ROW_LARGER(lane[l], some[l]);
    }
    ROW_FOLD_LARGER(float, top, lane, ROW_LARGER);
    return top;
}

/* sum of x */
static inline double row_sum(const float *x, ptrdiff_t n)
{
    double total = 0;
    for (; n > 0; x += ROW_BLOCK, n -= ROW_BLOCK) {
        const ptrdiff_t m = ROW_MIN(n, ROW_BLOCK);
        float part;
#define TERM(i) x[i]
        ROW_REDUCE_TO(float, part, m, m, -0.0f, TERM, ROW_PLUS, ROW_FOLD_PLUS);
#undef TERM
        total += part;
    }
    return total;
}

/* sum of a b */
static inline double row_dot(const float *a, const float *b, ptrdiff_t n)
{
    double total = 0;
    for (; n > 0; a += ROW_BLOCK, b += ROW_BLOCK, n -= ROW_BLOCK) {
        const ptrdiff_t m = ROW_MIN(n, ROW_BLOCK);
        float part;
#define TERM(i) a[i] * b[i]
        ROW_REDUCE_TO(float, part, m, m, -0.0f, TERM, ROW_PLUS, ROW_FOLD_PLUS);
#undef TERM
        total += part;
    }
    return total;
}

/* sum of exp(x - shift), where no x is above shift; `room` floats may be read */
static inline double row_exp_sum(const float *x, ptrdiff_t n, float shift, ptrdiff_t room)
{
    double total = 0;
    for (; n > 0; x += ROW_BLOCK, n -= ROW_BLOCK, room -= ROW_BLOCK) {
        const ptrdiff_t m = ROW_MIN(n, ROW_BLOCK);
        float part;
#define TERM(i) row_exp(x[i] - shift)
        ROW_REDUCE_TO(float, part, m, room, -0.0f, TERM, ROW_PLUS, ROW_FOLD_PLUS);
#undef TERM
        total += part;
    }
    return total;
}

#endif
