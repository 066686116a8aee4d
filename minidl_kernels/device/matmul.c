/* C = alpha A B + beta C + bias for a batch of matrices of any strides: tiles of 64 x 64, sixteen
 * elements of C a thread. Where a vendor's BLAS fits it is faster; this is for what it does not take. */
#define TILE 64
#define DEPTH 16

/* What becomes of a finished element v beside the bias, EPILOGUE: 1 adds extra, which lies as C
 * does; 2 keeps v there and puts ACT(v), a formula, into C. */
#ifndef EPILOGUE
#define EPILOGUE 0
#endif
#if EPILOGUE == 2
#include "formulas.h"
#endif

/* Sizes, then strides of a row, a column and the two batch axes of each matrix. */
typedef struct {
    int32_t M, N, K, inner_batch;
    int32_t a_row, a_column, a_outer, a_inner;
    int32_t b_row, b_column, b_outer, b_inner;
    int32_t c_row, c_column, c_outer, c_inner;
    float alpha, beta;
    int32_t parts; /* 1: bias [N] exists, 2: sums [M] are wanted, the sums of the rows of A */
} Gemm;

/* Grid: column tiles, row tiles, batch */
KERNEL(matmul, 256, IN(float, A), IN(float, B), OUT(float, C), IN(float, bias), OUT(float, extra),
       OUT(float, sums), VAL(Gemm, s))
{
    SHARED(float, left, [DEPTH][TILE + 1]);
    SHARED(float, right, [DEPTH][TILE + 1]);
    const int outer = BLOCK_Z / s.inner_batch, inner = BLOCK_Z - outer * s.inner_batch;
    const int row0 = BLOCK_Y * TILE, column0 = BLOCK_X * TILE;
    const int tx = THREAD % 16, ty = THREAD / 16;
    GLOBAL const float *a = A + (int64_t)outer * s.a_outer + (int64_t)inner * s.a_inner;
    GLOBAL const float *b = B + (int64_t)outer * s.b_outer + (int64_t)inner * s.b_inner;
    GLOBAL float *c = C + (int64_t)outer * s.c_outer + (int64_t)inner * s.c_inner;
    const int adds_rows = s.parts & 2 && BLOCK_X == 0;
    float acc[4][4], row_sum = 0.0f;
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) acc[i][j] = 0.0f;
    for (int k0 = 0; k0 < s.K; k0 += DEPTH) {
        for (int e = THREAD; e < TILE * DEPTH; e += THREADS) {
            /* neighbours in memory go to neighbouring threads */
            int r = s.a_column == 1 ? e / DEPTH : e % TILE;
            int k = s.a_column == 1 ? e % DEPTH : e / TILE;
            left[k][r] = row0 + r < s.M && k0 + k < s.K
                ? a[(int64_t)(row0 + r) * s.a_row + (int64_t)(k0 + k) * s.a_column] : 0.0f;
            r = s.b_row == 1 ? e / DEPTH : e % TILE;
            k = s.b_row == 1 ? e % DEPTH : e / TILE;
            right[k][r] = column0 + r < s.N && k0 + k < s.K
                ? b[(int64_t)(k0 + k) * s.b_row + (int64_t)(column0 + r) * s.b_column] : 0.0f;
        }
        BARRIER();
        for (int k = 0; k < DEPTH; k++) {
            float v[4];
            UNROLL for (int j = 0; j < 4; j++) v[j] = right[k][tx + 16 * j];
            UNROLL for (int i = 0; i < 4; i++) {
                float u = left[k][ty * 4 + i];
                UNROLL for (int j = 0; j < 4; j++) acc[i][j] = FMA(u, v[j], acc[i][j]);
            }
        }
        if (adds_rows && THREAD < TILE)
            for (int k = 0; k < DEPTH; k++) row_sum += left[k][THREAD];
        BARRIER();
    }
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) {
        int r = row0 + ty * 4 + i, q = column0 + tx + 16 * j;
        if (r < s.M && q < s.N) {
            const int64_t at = (int64_t)r * s.c_row + (int64_t)q * s.c_column;
            float v = s.beta != 0.0f ? FMA(s.alpha, acc[i][j], s.beta * c[at])
                                     : s.alpha * acc[i][j];
            if (s.parts & 1) v += bias[q];
#if EPILOGUE == 1
            v += extra[at];
#elif EPILOGUE == 2
            extra[at] = v;
            v = ACT(v);
#endif
            c[at] = v;
        }
    }
    if (adds_rows && THREAD < TILE && row0 + THREAD < s.M) sums[row0 + THREAD] = row_sum;
}
