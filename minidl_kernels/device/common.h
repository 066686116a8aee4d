/* What every kernel file may use, in any dialect: reductions over a block, strided places, Philox.
 *
 * Rules of the dialect: a pointer names its address space (GLOBAL, none for a thread's own); shared
 * arrays are declared at the start of a kernel, with sizes known when compiling; every thread of a
 * block reaches every BARRIER; what needs the thread's number is a macro; float atomics, templates
 * and double do not exist; -inf inside an algorithm is the finite LOWEST.
 */
#define LOWEST (-3.402823466e38f)
#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* result = the values of all threads combined by OP(a, b); `shared` holds one value per thread.
 * Ends with a barrier, so that `shared` may be used again at once. */
#define BLOCK_TREE(OP, result, value, shared) \
    do { \
        shared[THREAD] = (value); \
        BARRIER(); \
        for (int o_ = THREADS / 2; o_ > 0; o_ >>= 1) { \
            if (THREAD < o_) shared[THREAD] = OP(shared[THREAD], shared[THREAD + o_]); \
            BARRIER(); \
        } \
        result = shared[0]; \
        BARRIER(); \
    } while (0)
#ifdef SHUFFLE_XOR /* of floats: within warps by shuffles */
#define BLOCK_FLOAT(OP, result, value, shared) \
    do { \
        float v_ = (value); \
        for (int o_ = 16; o_ > 0; o_ >>= 1) { \
            float w_ = SHUFFLE_XOR(v_, o_); \
            v_ = OP(v_, w_); \
        } \
        if (THREAD % 32 == 0) shared[THREAD / 32] = v_; \
        BARRIER(); \
        v_ = shared[0]; \
        for (int o_ = 1; o_ < THREADS / 32; o_++) v_ = OP(v_, shared[o_]); \
        result = v_; \
        BARRIER(); \
    } while (0)
#else
#define BLOCK_FLOAT BLOCK_TREE
#endif
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b)) /* NaN wins */
#define SMALLER(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define BLOCK_SUM(result, value, shared) BLOCK_FLOAT(ADD, result, value, shared)
#define BLOCK_MAX(result, value, shared) BLOCK_FLOAT(LARGER, result, value, shared)

/* Element i of a broadcast shape n[0..rank), in up to four arrays with strides a, b, c, d (0 along
 * a broadcast axis); rank 1 with strides 1 is the usual case. Bit k of `numbers` says that operand
 * k is not an array but a number. */
typedef struct {
    int32_t size, rank, numbers;
    int32_t n[6], a[6], b[6], c[6], d[6];
} Layout;

#define PLACES(i, at) \
    int pa = 0, pb = 0, pc = 0, pd = 0; \
    { \
        int rest_ = (i); \
        UNROLL for (int x_ = 5; x_ > 0; x_--) { \
            if (x_ < at.rank) { \
                int q_ = rest_ / at.n[x_], r_ = rest_ - q_ * at.n[x_]; \
                rest_ = q_; \
                pa += r_ * at.a[x_]; \
                pb += r_ * at.b[x_]; \
                pc += r_ * at.c[x_]; \
                pd += r_ * at.d[x_]; \
            } \
        } \
        pa += rest_ * at.a[0]; \
        pb += rest_ * at.b[0]; \
        pc += rest_ * at.c[0]; \
        pd += rest_ * at.d[0]; \
    }

#define OPERAND(k, pointer, place, value) (at.numbers >> k & 1 ? (value) : (pointer)[place])
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* An index from a tensor that is out of range: note it for the host, which looks when it next waits
 * for results, and go on with index 0. code says whose index it was. */
#define CHECKED(index, size, code, fault) \
    if ((index) < 0 || (index) >= (size)) { \
        if (fault[0] == 0) { \
            fault[0] = code; \
            fault[1] = index; \
            fault[2] = size; \
        } \
        index = 0; \
    }

/* ---- Philox4x32-10: w = block i of a stream, four words, as cpu/simd/philox.h ---- */
typedef struct {
    uint32_t seed_low, seed_high, offset_low, offset_high;
} Stream;

DEVICE void philox(uint32_t k0, uint32_t k1, uint64_t block, S_PRIVATE uint32_t *w) {
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        uint32_t p_high = HIGH_PRODUCT(c0, 0xD2511F53u), p_low = c0 * 0xD2511F53u;
        uint32_t q_high = HIGH_PRODUCT(c2, 0xCD9E8D57u), q_low = c2 * 0xCD9E8D57u;
        c0 = q_high ^ c1 ^ k0;
        c1 = q_low;
        c2 = p_high ^ c3 ^ k1;
        c3 = p_low;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    w[0] = c0;
    w[1] = c1;
    w[2] = c2;
    w[3] = c3;
}

#define STREAM_BLOCK(stream, i, w) \
    philox(stream.seed_low, stream.seed_high, \
           (((uint64_t)stream.offset_high << 32) | stream.offset_low) + (uint64_t)(i), w)
