/* Register-tiled matrix products for blocks of a few dozen rows and columns.
 *
 *     C[M, N] (+)= A[M, K] @ B[K, N]
 *
 * A is read one scalar at a time, a[i * rs + k * cs], so that A and its transpose cost the same.
 * B is read in panels of NR columns, b[panel * step + k * ldb], so that a row-major matrix
 * (step NR, ldb its row stride) and a packed transpose (step K * NR, ldb NR) cost the same.
 * Rows of B are readable up to a multiple of NR columns; C is written in its N columns only.
 *
 * A causal block needs only a staircase of the work. Row i of the scores may see columns
 * j <= i + off; each product below skips the tiles (or the part of k) that lie above the stairs.
 * A block without a diagonal passes off = FULL.
 */
#ifndef MINIDL_ATTENTION_TILE_H
#define MINIDL_ATTENTION_TILE_H

#include "lanes.h"
#include "sums.h"

#define FULL ((Index)1 << 40)

#if defined(__GNUC__)

/* `rows` is a constant after inlining */
INLINE void tile(const int rows, Index K, const float *a, Index rs, Index cs, const float *b,
                 Index ldb, float *c, Index ldc, int add)
{
    Vec acc[MR][2] = {{{0}}};
#pragma GCC unroll 6
    for (int r = 0; add && r < rows; r++) {
        acc[r][0] = *(const Vec *)(c + r * ldc);
        acc[r][1] = *(const Vec *)(c + r * ldc + LANES);
    }
    add_sums(rows, 2, acc, K, a, rs, cs, b, ldb);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        *(Vec *)(c + r * ldc) = acc[r][0];
        *(Vec *)(c + r * ldc + LANES) = acc[r][1];
    }
}

/* C = A @ B for MR rows and the first LANES columns of a panel */
INLINE void half_tile(Index K, const float *a, Index lda, const float *b, float *c, Index ldc)
{
    Vec acc[MR][2] = {{{0}}};
    add_sums(MR, 1, acc, K, a, lda, 1, b, NR);
#pragma GCC unroll 6
    for (int r = 0; r < MR; r++)
        *(Vec *)(c + r * ldc) = acc[r][0];
}

/* x[0] + ... + x[n - 1]; n is a multiple of LANES */
INLINE float sum(const float *x, Index n)
{
    Vec s = {0};
    for (Index i = 0; i < n; i += LANES)
        s += *(const Vec *)(x + i);
    return lane_sum(s);
}

INLINE float dot(const float *x, const float *y, Index n)
{
    Vec s = {0};
    Index whole = n / LANES * LANES;
    for (Index i = 0; i < whole; i += LANES)
        s += *(const Vec *)(x + i) * *(const Vec *)(y + i);
    float total = lane_sum(s);
    for (Index i = whole; i < n; i++)
        total += x[i] * y[i];
    return total;
}

/* Ask for a row that is read soon */
INLINE void prefetch_row(const float *x, Index n)
{
    for (Index i = 0; i < n; i += 16)
        __builtin_prefetch(x + i);
}

INLINE void copy_lanes(float *y, const float *x) { *(Vec *)y = *(const Vec *)x; }

/* s[j] = value for from <= j < end; end is a multiple of LANES, and s up to there may be written */
INLINE void fill(float *s, Index from, Index end, float value)
{
    typedef int32_t Lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
    Lanes place;
    for (int l = 0; l < LANES; l++)
        place[l] = l;
    for (Index j = from / LANES * LANES; j < end; j += LANES) {
        Lanes before = place < (int32_t)(from - j); /* the lanes to keep */
        Lanes kept = *(const Lanes *)(s + j) & before;
        Vec all = (Vec){0} + value;
        *(Lanes *)(s + j) = kept | ((Lanes)all & ~before);
    }
}

/* y[d, j] = x[j, d] * scale for LANES rows and 4 columns of x; y has row stride NR */
INLINE void transpose_lines(const float *x, Index ldx, float scale, float *y)
{
    Vec r[4];
    columns4(r, x, ldx);
#pragma GCC unroll 4
    for (int d = 0; d < 4; d++)
        *(Vec *)(y + d * NR) = r[d] * scale;
}

/* The same for 4 rows */
INLINE void transpose4(const float *x, Index ldx, float scale, float *y)
{
    Vec4 r[4] = {*(const Vec4 *)x, *(const Vec4 *)(x + ldx), *(const Vec4 *)(x + 2 * ldx),
                 *(const Vec4 *)(x + 3 * ldx)};
    transpose(r);
#pragma GCC unroll 4
    for (int d = 0; d < 4; d++)
        *(Vec4 *)(y + d * NR) = r[d] * scale;
}

/* The four sums over the lanes of a, b, c and d */
INLINE Vec4 lane_sums(Vec a, Vec b, Vec c, Vec d)
{
    Vec4 s[4] = {{0}, {0}, {0}, {0}};
    const Vec x[4] = {a, b, c, d};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
        for (int j = 0; j < LANES / 4; j++)
            s[i] += ((const Vec4 *)&x[i])[j];
    Vec4 lo = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5) +
              __builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);
    Vec4 hi = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5) +
              __builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);
    return __builtin_shufflevector(lo, hi, 0, 1, 4, 5) +
           __builtin_shufflevector(lo, hi, 2, 3, 6, 7);
}

/* s[0..3] = scale * q . k_j for four keys at once; D is a multiple of LANES */
INLINE void dots4(float *s, const float *q, const float *k, Index ldk, Index D, float scale)
{
    Vec a = {0}, b = {0}, c = {0}, d = {0};
    for (Index i = 0; i < D; i += LANES) {
        Vec x = *(const Vec *)(q + i);
        a += x * *(const Vec *)(k + i);
        b += x * *(const Vec *)(k + ldk + i);
        c += x * *(const Vec *)(k + 2 * ldk + i);
        d += x * *(const Vec *)(k + 3 * ldk + i);
    }
    *(Vec4 *)s = lane_sums(a, b, c, d) * scale;
}

/* c[4 NR] += a[K] @ b[K, 4 NR]: eight accumulators hide the latency that one row leaves open */
INLINE void wide_row(float *c, const float *a, const float *b, Index ldb, Index K)
{
    Vec acc[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        acc[i] = *(const Vec *)(c + i * LANES);
    for (Index k = 0; k < K; k++, b += ldb)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            acc[i] += a[k] * *(const Vec *)(b + i * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        *(Vec *)(c + i * LANES) = acc[i];
}

#else /* the same arithmetic in the same order for compilers without vector types */

INLINE void tile(const int rows, Index K, const float *a, Index rs, Index cs, const float *b,
                 Index ldb, float *c, Index ldc, int add)
{
    float acc[MR][NR];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < NR; j++)
            acc[r][j] = add ? c[r * ldc + j] : 0;
    for (Index k = 0; k < K; k++)
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < NR; j++)
                acc[r][j] += a[r * rs + k * cs] * b[k * ldb + j];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < NR; j++)
            c[r * ldc + j] = acc[r][j];
}

INLINE void half_tile(Index K, const float *a, Index lda, const float *b, float *c, Index ldc)
{
    tile(MR, K, a, lda, 1, b, NR, c, ldc, 0);
}

INLINE float sum(const float *x, Index n)
{
    float s = 0;
    for (Index i = 0; i < n; i++)
        s += x[i];
    return s;
}

INLINE float dot(const float *x, const float *y, Index n)
{
    float s = 0;
    for (Index i = 0; i < n; i++)
        s += x[i] * y[i];
    return s;
}

INLINE void prefetch_row(const float *x, Index n) { (void)x, (void)n; }

INLINE void copy_lanes(float *y, const float *x) { memcpy(y, x, LANES * sizeof(float)); }

INLINE void fill(float *s, Index from, Index end, float value)
{
    for (Index j = from; j < end; j++)
        s[j] = value;
}

INLINE void transpose_lines(const float *x, Index ldx, float scale, float *y)
{
    for (int d = 0; d < 4; d++)
        for (int j = 0; j < LANES; j++)
            y[d * NR + j] = x[j * ldx + d] * scale;
}

INLINE void transpose4(const float *x, Index ldx, float scale, float *y)
{
    transpose_lines(x, ldx, scale, y); /* LANES is 4 here */
}

INLINE void dots4(float *s, const float *q, const float *k, Index ldk, Index D, float scale)
{
    for (int j = 0; j < 4; j++) {
        float dot = 0;
        for (Index i = 0; i < D; i++)
            dot += q[i] * k[j * ldk + i];
        s[j] = dot * scale;
    }
}

INLINE void wide_row(float *c, const float *a, const float *b, Index ldb, Index K)
{
    for (Index k = 0; k < K; k++)
        for (int i = 0; i < 4 * NR; i++)
            c[i] += a[k] * b[k * ldb + i];
}

#endif

/* y[n] = x[n]; not memcpy: a call costs more than the few vectors of a row */
INLINE void copy_row(float *y, const float *x, Index n)
{
    Index i = 0;
    for (; i + LANES <= n; i += LANES)
        copy_lanes(y + i, x + i);
    for (; i < n; i++)
        y[i] = x[i];
}

static Index padded(Index n) { return (n + NR - 1) / NR * NR; }

INLINE void tile_rows(int rows, Index K, const float *a, Index rs, Index cs, const float *b,
                      Index ldb, float *c, Index ldc, int add)
{
    switch (rows) {
    case 6: tile(6, K, a, rs, cs, b, ldb, c, ldc, add); break;
    case 5: tile(5, K, a, rs, cs, b, ldb, c, ldc, add); break;
    case 4: tile(4, K, a, rs, cs, b, ldb, c, ldc, add); break;
    case 3: tile(3, K, a, rs, cs, b, ldb, c, ldc, add); break;
    case 2: tile(2, K, a, rs, cs, b, ldb, c, ldc, add); break;
    default: tile(1, K, a, rs, cs, b, ldb, c, ldc, add); break;
    }
}

/* One tile whose C may have fewer than NR columns left: it then goes through a small buffer. */
INLINE void tile_edge(int rows, Index cols, Index K, const float *a, Index rs, Index cs,
                      const float *b, Index ldb, float *c, Index ldc, int add)
{
    if (cols >= NR) {
        tile_rows(rows, K, a, rs, cs, b, ldb, c, ldc, add);
        return;
    }
    float edge[MR * NR];
    memset(edge, 0, sizeof edge);
    for (int r = 0; add && r < rows; r++)
        memcpy(edge + r * NR, c + r * ldc, (size_t)cols * sizeof(float));
    tile_rows(rows, K, a, rs, cs, b, ldb, edge, NR, add);
    for (int r = 0; r < rows; r++)
        memcpy(c + r * ldc, edge + r * NR, (size_t)cols * sizeof(float));
}

/* C = A @ B in the tiles, or halves, that hold some j <= i + off; the others are left as they are */
static void scores_product(float *c, Index ldc, const float *a, Index lda, const float *b,
                           Index M, Index N, Index K, Index off)
{
    for (Index j = 0; j < N; j += NR)
        for (Index i = 0; i < M; i += MR) {
            int rows = (int)MIN(MR, M - i);
            Index seen = i + rows + off - j;
            if (seen > LANES || (seen > 0 && rows < MR))
                tile_rows(rows, K, a + i * lda, lda, 1, b + j * K, NR, c + i * ldc + j, ldc, 0);
            else if (seen > 0)
                half_tile(K, a + i * lda, lda, b + j * K, c + i * ldc + j, ldc);
        }
}

/* C = A @ B, or C += A @ B with `add`, where a[i, k] = 0 for k > i + off */
static void add_product(float *c, Index ldc, const float *a, Index lda, const float *b, Index ldb,
                        Index M, Index N, Index K, Index off, int add)
{
    for (Index j = 0; j < N; j += NR)
        for (Index i = 0; i < M; i += MR) {
            int rows = (int)MIN(MR, M - i);
            Index depth = MAX(0, MIN(K, i + rows + off));
            if (depth > 0 || !add)
                tile_edge(rows, N - j, depth, a + i * lda, lda, 1, b + j, ldb, c + i * ldc + j,
                          ldc, add);
        }
}

/* C = A @ B.T * scale for so few rows of A that packing B would cost more than it saves */
static void few_scores(float *c, Index ldc, const float *a, Index lda, const float *b, Index ldb,
                       Index M, Index N, Index K, float scale)
{
    Index j = 0;
    if (K % LANES == 0)
        for (; j + 4 <= N; j += 4)
            for (Index i = 0; i < M; i++)
                dots4(c + i * ldc + j, a + i * lda, b + j * ldb, ldb, K, scale);
    for (; j < N; j++)
        for (Index i = 0; i < M; i++) {
            float dot = 0;
            for (Index k = 0; k < K; k++)
                dot += a[i * lda + k] * b[j * ldb + k];
            c[i * ldc + j] = dot * scale;
        }
}

/* C += A @ B for few rows of A, reading B from start to end; N is a multiple of NR */
static void few_add_product(float *c, Index ldc, const float *a, Index lda, const float *b,
                            Index ldb, Index M, Index N, Index K)
{
    for (Index i = 0; i < M; i++) {
        Index j = 0;
        for (; j + 4 * NR <= N; j += 4 * NR)
            wide_row(c + i * ldc + j, a + i * lda, b + j, ldb, K);
        for (; j < N; j += NR)
            tile(1, K, a + i * lda, lda, 1, b + j, ldb, c + i * ldc + j, ldc, 1);
    }
}

/* C = A.T @ B, or C += A.T @ B with `add`, where a[k, i] = 0 for i > k + off */
static void add_product_t(float *c, Index ldc, const float *a, Index lda, const float *b,
                          Index ldb, Index M, Index N, Index K, Index off, int add)
{
    for (Index j = 0; j < N; j += NR)
        for (Index i = 0; i < M; i += MR) {
            Index first = MIN(K, MAX(0, i - off));
            if (first < K || !add)
                tile_edge((int)MIN(MR, M - i), N - j, K - first, a + first * lda + i, 1, lda,
                          b + first * ldb + j, ldb, c + i * ldc + j, ldc, add);
        }
}

/* y: panels of NR rows of x, transposed: y[j / NR, d, j % NR] = x[j, d] * scale, zeros past n */
static void pack_transposed(float *y, const float *x, Index ldx, Index n, Index D, float scale)
{
    for (Index j = 0; j < n; j += NR, y += D * NR) {
        Index rows = MIN(NR, n - j), whole = rows / LANES * LANES, deep = D / 4 * 4;
        if (rows < NR)
            memset(y, 0, (size_t)(D * NR) * sizeof(float));
        for (Index r = 0; r < whole; r += LANES)
            for (Index d = 0; d < deep; d += 4)
                transpose_lines(x + (j + r) * ldx + d, ldx, scale, y + d * NR + r);
        for (; whole + 4 <= rows; whole += 4)
            for (Index d = 0; d < deep; d += 4)
                transpose4(x + (j + whole) * ldx + d, ldx, scale, y + d * NR + whole);
        for (Index r = 0; r < rows; r++)
            for (Index d = r < whole ? deep : 0; d < D; d++)
                y[d * NR + r] = x[(j + r) * ldx + d] * scale;
    }
}

/* Can the products read rows of D columns, ldx apart, where they are? They read up to a multiple of
 * NR columns, and rows far apart would cost a page each in every product. */
INLINE int in_place(Index ldx, Index D) { return ldx == D && D % NR == 0; }

/* y [n, padded(D)] = x [n, D], zeros past D */
static void copy_rows(float *y, const float *x, Index ldx, Index n, Index D)
{
    Index ld = padded(D), whole = D / LANES * LANES;
    for (Index j = 0; j < n; j++, x += ldx, y += ld) {
        for (Index d = 0; d < whole; d += LANES)
            copy_lanes(y + d, x + d);
        for (Index d = whole; d < ld; d++)
            y[d] = d < D ? x[d] : 0.0f;
    }
}

/* Rows of x that the products can read: x itself, or its copy in y */
static const float *pack_rows(float *y, const float *x, Index ldx, Index n, Index D, Index *ld)
{
    *ld = padded(D);
    if (in_place(ldx, D))
        return x;
    copy_rows(y, x, ldx, n, D);
    return y;
}

#endif
