/* Kernels of any element type T: moving elements, choosing, comparing, integer arithmetic.
 * OP is F_ and the name of an operation of two operands, OP1 of one. */
#define INDEX (BLOCK_X * THREADS + THREAD)

#if !defined(OP) && !defined(OP1)

/* y[pb] = x[pa]: copies, transposes, slices, concatenation, broadcasting */
KERNEL(copy, 256, IN(T, x), OUT(T, y), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        y[pb] = x[pa];
    }
}

/* y[pb] = value */
KERNEL(fill, 256, OUT(T, y), VAL(T, value), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        y[pb] = value;
    }
}

/* y = first + step i */
KERNEL(arange, 256, OUT(T, y), VAL(T, first), VAL(T, step), VAL(int, n))
{
    int i = INDEX;
    if (i < n) y[i] = first + step * (T)i;
}

/* y = c ? a : b */
KERNEL(where, 256, IN(uint8_t, c), IN(T, a), IN(T, b), OUT(T, y), VAL(T, va), VAL(T, vb),
       VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        y[i] = c[pc] ? OPERAND(0, a, pa, va) : OPERAND(1, b, pb, vb);
    }
}

/* y = x where column - row lies in [low, high], else 0. x [..., rows, columns] */
KERNEL(band, 256, IN(T, x), OUT(T, y), VAL(int, rows), VAL(int, columns), VAL(int, low),
       VAL(int, high), VAL(int, n))
{
    int i = INDEX;
    if (i < n) {
        int diagonal = i % columns - i / columns % rows;
        y[i] = diagonal >= low && diagonal <= high ? x[i] : (T)0;
    }
}

/* y[r] = x[idx[r]]. x [V, C], idx [N], y [N, C] */
KERNEL(take_rows, 256, IN(T, x), IN(int64_t, idx), OUT(T, y), OUT(int64_t, fault), VAL(int, n),
       VAL(int, C), VAL(int, V), VAL(int, code))
{
    int i = INDEX;
    if (i < n) {
        int64_t row = idx[i / C];
        CHECKED(row, V, code, fault)
        y[i] = x[row * C + i % C];
    }
}

/* y[idx[r]] = src[r]. y [V, C], idx [N], src [N, C]; one of the values where an index is repeated */
KERNEL(put_rows, 256, OUT(T, y), IN(int64_t, idx), IN(T, src), OUT(int64_t, fault), VAL(int, n),
       VAL(int, C), VAL(int, V), VAL(int, code))
{
    int i = INDEX;
    if (i < n) {
        int64_t row = idx[i / C];
        const int wrong = row < 0 || row >= V;
        CHECKED(row, V, code, fault)
        if (!wrong) y[row * C + i % C] = src[i];
    }
}

/* y = x[..., index, ...]: element i of the index lies at pa, its line of x at pb */
KERNEL(gather, 256, IN(int64_t, index), IN(T, x), OUT(T, y), OUT(int64_t, fault), VAL(int, size),
       VAL(int, step), VAL(int, code), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        int64_t k = index[pa];
        CHECKED(k, size, code, fault)
        y[i] = x[pb + k * step];
    }
}

/* y[..., index[k], ...] = src[k], or += when `add`, in order of k: each thread owns one element of
 * y and reads the whole line of the index. pa: y, pb: along the dim, pc: index, pd: src */
KERNEL(scatter, 256, OUT(T, y), IN(int64_t, index), IN(T, src), VAL(int, length),
       VAL(int, index_step), VAL(int, src_step), VAL(int, add), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        T value = y[pa];
        for (int k = 0; k < length; k++)
            if (index[pc + k * index_step] == pb)
                value = add ? (T)(value + src[pd + k * src_step]) : src[pd + k * src_step];
        y[pa] = value;
    }
}

/* fault when some index lies outside [0, size) */
KERNEL(check_index, 256, IN(int64_t, index), OUT(int64_t, fault), VAL(int, size), VAL(int, code),
       VAL(int, n))
{
    int i = INDEX;
    if (i < n) {
        int64_t k = index[i];
        CHECKED(k, size, code, fault)
    }
}

/* dst[idx[r]] += src[r] in order of r: the block of the first row with an index adds all of them.
 * dst [V, C], idx [N], src [N, C]; rows of index `skip` are left out */
KERNEL(add_rows, 128, OUT(T, dst), IN(int64_t, idx), IN(T, src), OUT(int64_t, fault), VAL(int, N),
       VAL(int, C), VAL(int, V), VAL(int, skip), VAL(int, code))
{
    SHARED(int, seen, [1]);
    SHARED(int64_t, tile, [THREADS]);
    const int first = BLOCK_X;
    int64_t own = idx[first];
    CHECKED(own, V, code, fault)
    if (THREAD == 0) seen[0] = own == skip;
    BARRIER();
    for (int r = THREAD; r < first; r += THREADS)
        if (idx[r] == own) seen[0] = 1; /* all write the same */
    BARRIER();
    const int idle = seen[0];
    for (int r0 = first; r0 < (idle ? 0 : N); r0 += THREADS) {
        tile[THREAD] = r0 + THREAD < N ? idx[r0 + THREAD] : -1;
        BARRIER();
        for (int r = 0; r < THREADS; r++)
            if (tile[r] == own)
                for (int c = THREAD; c < C; c += THREADS)
                    dst[own * C + c] += src[(int64_t)(r0 + r) * C + c];
        BARRIER();
    }
}

#else

#define F_eq(a, b) ((a) == (b))
#define F_ne(a, b) ((a) != (b))
#define F_lt(a, b) ((a) < (b))
#define F_le(a, b) ((a) <= (b))
#define F_gt(a, b) ((a) > (b))
#define F_ge(a, b) ((a) >= (b))
#define F_logical_and(a, b) ((a) != (T)0 && (b) != (T)0)
#define F_logical_or(a, b) ((a) != (T)0 || (b) != (T)0)
#define F_logical_xor(a, b) (((a) != (T)0) != ((b) != (T)0))
#define F_add(a, b) ((a) + (b))
#define F_sub(a, b) ((a) - (b))
#define F_mul(a, b) ((a) * (b))
#define F_maximum(a, b) ((a) > (b) ? (a) : (b))
#define F_minimum(a, b) ((a) < (b) ? (a) : (b))
#define F_bitwise_and(a, b) ((a) & (b))
#define F_bitwise_or(a, b) ((a) | (b))
#define F_bitwise_xor(a, b) ((a) ^ (b))
/* of integers; by zero: 0, as there is nobody to raise an error to */
#define F_fmod(a, b) ((b) == 0 ? (T)0 : (T)((a) % (b)))
#define F_remainder(a, b) \
    ((b) == 0 ? (T)0 : (T)((a) % (b) != 0 && ((a) < 0) != ((b) < 0) ? (a) % (b) + (b) : (a) % (b)))
#define F_floor_divide(a, b) \
    ((b) == 0 ? (T)0 \
     : (T)((a) % (b) != 0 && ((a) < 0) != ((b) < 0) ? (a) / (b) - 1 : (a) / (b)))

#ifdef OP

/* y = OP(a, b) with a result of type U */
KERNEL(typed_binary, 256, IN(T, a), IN(T, b), OUT(U, y), VAL(T, va), VAL(T, vb), VAL(Layout, at))
{
    int i = INDEX;
    if (i < at.size) {
        PLACES(i, at)
        T p = OPERAND(0, a, pa, va), q = OPERAND(1, b, pb, vb);
        y[i] = (U)(OP(p, q));
    }
}

#endif

#define F1_isnan(x) ((x) != (x))
#define F1_isinf(x) (((x) == (x)) & !((x) - (x) == (x) - (x)))
#define F1_isfinite(x) ((x) - (x) == (x) - (x))
#define F1_logical_not(x) ((x) == (T)0)
#define F1_bitwise_not(x) (~(x))
#define F1_neg(x) (-(x))
#define F1_abs(x) ((x) < 0 ? -(x) : (x))
#define F1_sign(x) (((x) > 0) - ((x) < 0))
#define F1_square(x) ((x) * (x))
#define F1_relu(x) ((x) > 0 ? (x) : (T)0)

#ifdef OP1

/* y = OP1(x) with a result of type U */
KERNEL(typed_unary, 256, IN(T, x), OUT(U, y), VAL(int, n))
{
    int i = INDEX;
    if (i < n) y[i] = (U)(OP1(x[i]));
}

#endif

#endif
