/* Random numbers from Philox streams, the same as the CPU's: one thread makes one block of four
 * words. What each element is made of is written in reference/random.py. */
#define INDEX (BLOCK_X * THREADS + THREAD)

KERNEL(uniform, 256, OUT(float, y), VAL(Stream, stream), VAL(int, n))
{
    const int first = 4 * INDEX;
    uint32_t w[4];
    STREAM_BLOCK(stream, INDEX, w);
    UNROLL for (int j = 0; j < 4; j++)
        if (first + j < n) y[first + j] = (float)(int32_t)(w[j] >> 8) * 5.9604644775390625e-8f;
}

KERNEL(dropout, 256, IN(float, x), OUT(float, y), VAL(Stream, stream), VAL(uint32_t, threshold),
       VAL(float, scale), VAL(int, n))
{
    const int first = 4 * INDEX;
    uint32_t w[4];
    STREAM_BLOCK(stream, INDEX, w);
    UNROLL for (int j = 0; j < 4; j++)
        if (first + j < n) y[first + j] = x[first + j] * (w[j] < threshold ? 0.0f : scale);
}

/* (a + 1/2) 2^-32, rounded once */
DEVICE float unit(uint32_t a) {
    return (float)(int32_t)(a >> 16) * 1.52587890625e-5f
           + ((float)(int32_t)(a & 0xFFFFu) + 0.5f) * 2.3283064365386963e-10f;
}

/* sqrt(-2 log unit(a)); near 1 from the distance to 1, which unit() would have lost */
DEVICE float radius(uint32_t a) {
    float log = a >= 0xB504F334u ? s_log1p(-unit(~a)) : s_log(unit(a));
    return S_SQRT(-2.0f * log);
}

/* sin of q quarter turns + the rest of 2 pi (b + 1/2) 2^-32 beyond its nearest quarter turn */
DEVICE float turned(uint32_t b, int32_t q) {
    uint32_t quarter = (b + 0x20000000u) >> 30;
    float r = ((float)(int32_t)(b - (quarter << 30)) + 0.5f) * 1.46291807926715968e-9f;
    return s_trig_value(r, 0.0f, (int32_t)quarter + q);
}

KERNEL(normal, 256, OUT(float, y), VAL(Stream, stream), VAL(int, n))
{
    const int first = 4 * INDEX;
    uint32_t w[4];
    STREAM_BLOCK(stream, INDEX, w);
    UNROLL for (int j = 0; j < 4; j++)
        if (first + j < n)
            y[first + j] = radius(w[j & 2]) * turned(w[(j & 2) + 1], j & 1 ? 0 : 1);
}

/* Two 64-bit numbers of a block; `range` 0 keeps all bits, else low + (bits * range) // 2^64 */
KERNEL(bits64, 256, OUT(int64_t, y), VAL(Stream, stream), VAL(int64_t, low), VAL(uint64_t, range),
       VAL(int, n))
{
    const int first = 2 * INDEX;
    uint32_t w[4];
    STREAM_BLOCK(stream, INDEX, w);
    UNROLL for (int j = 0; j < 2; j++) {
        uint64_t a = w[2 * j + 1], b = w[2 * j], c = range >> 32, d = range & 0xFFFFFFFFu;
        uint64_t middle = a * d + (b * d >> 32), rest = b * c + (middle & 0xFFFFFFFFu);
        uint64_t scaled = a * c + (middle >> 32) + (rest >> 32);
        if (first + j < n)
            y[first + j] = (int64_t)(range ? (uint64_t)low + scaled : (a << 32 | b));
    }
}
