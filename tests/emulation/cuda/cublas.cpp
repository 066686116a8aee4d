/* The calls of cuBLAS that minidl makes, over the streams of driver.cpp. Where the real header is
 * installed this file is compiled against it, so the signatures cannot differ from NVIDIA's. */
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#define REAL_HEADER 1
#else
#define REAL_HEADER 0
typedef struct cublasContext *cublasHandle_t;
typedef struct CUstream_st *cudaStream_t;
enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_TF32_TENSOR_OP_MATH = 3 };
#endif

#include <cstdint>
#include <cstring>
#include <initializer_list>

#define API extern "C" __attribute__((visibility("default")))

extern "C" int emu_queue(void *stream, void (*call)(void *), void *argument);
extern "C" bool emu_owned(const void *pointer, size_t n);
extern "C" void emu_reads(const void *pointer, size_t n);
extern "C" void emu_writes(void *pointer, size_t n);

struct cublasContext {
    cudaStream_t stream;
    int math;
};

namespace {

/* Matrices as cuBLAS sees them: column after column, `ld` apart, a batch `step` apart. */
struct Matrix {
    const float *data;
    bool transposed;
    int64_t rows, columns, ld, step;  /* as stored */

    float at(int64_t batch, int64_t row, int64_t column) const {
        return data[batch * step + (transposed ? column + row * ld : row + column * ld)];
    }
    bool fits(int64_t batch) const {
        if (ld < (rows > 1 ? rows : 1)) return false;
        return emu_owned(data, 4 * ((batch - 1) * step + (columns - 1) * ld + rows));
    }
    void look(int64_t batch) const {
        for (int64_t q = 0; q < batch; q++)
            for (int64_t j = 0; j < columns; j++) emu_reads(data + q * step + j * ld, 4 * rows);
    }
};

struct Product {
    int64_t m, n, k, batch;
    float alpha, beta;
    Matrix a, b, c;
    bool tf32;
};

/* A number with the ten bits after the point that tensor cores keep. */
float rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
    memcpy(&x, &bits, 4);
    return x;
}

void multiply(void *argument) {
    const Product p = *(Product *)argument;
    delete (Product *)argument;
    p.a.look(p.batch);
    p.b.look(p.batch);
    if (p.beta != 0) p.c.look(p.batch);
    for (int64_t q = 0; q < p.batch; q++)
        for (int64_t j = 0; j < p.n; j++) {
            float *column = const_cast<float *>(p.c.data) + q * p.c.step + j * p.c.ld;
            emu_writes(column, 4 * p.m);
            for (int64_t i = 0; i < p.m; i++) {
                float sum = 0;
                for (int64_t l = 0; l < p.k; l++) {
                    const float x = p.a.at(q, i, l), y = p.b.at(q, l, j);
                    sum += p.tf32 ? rounded(x) * rounded(y) : x * y;
                }
                column[i] = p.alpha * sum + (p.beta != 0 ? p.beta * column[i] : 0);
            }
        }
}

cublasStatus_t product(cublasHandle_t handle, const Product &p) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (!p.m || !p.n || !p.batch) return CUBLAS_STATUS_SUCCESS;
    for (const Matrix *x : {&p.a, &p.b, &p.c})
        if ((x == &p.c || p.k) && !x->fits(p.batch)) return CUBLAS_STATUS_INVALID_VALUE;
    Product *queued = new Product(p);
    queued->tf32 = handle->math == CUBLAS_TF32_TENSOR_OP_MATH;
    return emu_queue(handle->stream, multiply, queued) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                       : CUBLAS_STATUS_SUCCESS;
}

Matrix stored(const float *data, bool transposed, int rows, int columns, int ld, int64_t step) {
    return transposed ? Matrix{data, true, columns, rows, ld, step}
                      : Matrix{data, false, rows, columns, ld, step};
}

}  // namespace

API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = new cublasContext{nullptr, 0};
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    handle->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSgemmStridedBatched(
        cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
        const float *alpha, const float *a, int lda, long long sa, const float *b, int ldb,
        long long sb, const float *beta, float *c, int ldc, long long sc, int batch) {
    return product(handle, {m, n, k, batch, *alpha, *beta, stored(a, ta, m, k, lda, sa),
                            stored(b, tb, k, n, ldb, sb), stored(c, false, m, n, ldc, sc), false});
}

API cublasStatus_t cublasSgemm_v2(
        cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
        const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta,
        float *c, int ldc) {
    return cublasSgemmStridedBatched(handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c,
                                     ldc, 0, 1);
}

API int emu_cublas_real_header() { return REAL_HEADER; }
