/* Conversion between element types: FROM and TO are _ and a name of the list below. float16 and
 * bfloat16 are storage: 16 bits that become a float and come from one, rounded to nearest even. */
#define INDEX (BLOCK_X * THREADS + THREAD)

DEVICE float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, bits = (uint32_t)(h & 0x7FFF) << 13;
    if (bits >= 0x0F800000u) return s_float((int32_t)(sign | 0x7F800000u | bits)); /* inf, NaN */
    /* 2^112 moves the exponent and makes subnormals normal */
    bits = (uint32_t)s_bits(s_float((int32_t)bits) * 5.192296858534828e33f);
    return s_float((int32_t)(sign | bits));
}

DEVICE uint16_t float_to_half(float x) {
    uint32_t u = (uint32_t)s_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
    if (a >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
    if (a < 0x38800000u) /* adding 1/2 leaves the subnormal's bits at the low end, rounded */
        return (uint16_t)(sign | (uint32_t)(s_bits(s_float((int32_t)a) + 0.5f) - 0x3F000000));
    a += 0xC8000FFFu + (a >> 13 & 1u);
    return (uint16_t)(sign | a >> 13);
}

DEVICE float bfloat_to_float(uint16_t b) { return s_float((int32_t)((uint32_t)b << 16)); }

DEVICE uint16_t float_to_bfloat(float x) {
    uint32_t u = (uint32_t)s_bits(x);
    if (x != x) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}

#define LOAD_float32(x) (x)
#define LOAD_int64(x) (x)
#define LOAD_int32(x) (x)
#define LOAD_uint8(x) (x)
#define LOAD_bool(x) (x)
#define LOAD_float16(x) half_to_float(x)
#define LOAD_bfloat16(x) bfloat_to_float(x)
#define STORE_float32(x) ((float)(x))
#define STORE_int64(x) ((int64_t)(x))
#define STORE_int32(x) ((int32_t)(x))
#define STORE_uint8(x) ((uint8_t)(int32_t)(x))
#define STORE_bool(x) ((uint8_t)((x) != 0))
#define STORE_float16(x) float_to_half((float)(x))
#define STORE_bfloat16(x) float_to_bfloat((float)(x))
#define LOAD JOIN(LOAD, FROM)
#define STORE JOIN(STORE, TO)

/* y[i] = x[pa] */
KERNEL(cast, 256, IN(T, x), OUT(U, y), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        y[i] = STORE(LOAD(x[pa]));
    }
}
