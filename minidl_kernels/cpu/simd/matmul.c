/* Matrix products for the caches of a CPU.
 *
 * B is packed in panels of NR columns, a small one by every thread for itself, a large one once for
 * all. A tile packs its own rows of A, in panels of MR rows, into the second-level cache, and then
 * walks the panels of B; the innermost loop keeps MR by NR sums in registers. K is walked in steps
 * that depend on K only and are added in order, so that the bits depend neither on the tiles nor on
 * threads.
 */
#include "matmul.h"
#include "lanes.h"
#include "scratch.h"

#if defined(__GNUC__) && LANES > 4

#include "matmul_pack.h"
#include "sums.h"

#define DEPTH 384 /* of K at a time: a panel of B stays in the first two caches */
#define NEAR ((Index)128 << 10) /* floats of B that stay in the second-level cache */
#define NARROW 256 /* columns for which the rows of A are not packed, */
/* unless they lie side by side: then only where they are not so far apart along K that a cache has
 * few places for them, and where wide panels of B do not read them too often */
#define APART (LANES == 16 ? 512 : 2)
#define WIDE (8 * LANES) /* columns of a piece of a product of few rows */

/* C[rows, vectors of columns] (+)= A @ B + bias, element (r, k) of A at a[r * row + k * col], B a
 * packed panel; `rows` and `vectors` are constants after inlining, MR and 2 but at the edges. The
 * prefetched C arrives while the sums run. */
INLINE void micro(const int rows, const int vectors, float *c, Index ldc, const float *a, Index row,
                  Index col, const float *b, Index depth, int add, const float *bias)
{
    Vec acc[MR][2] = {{{0}}};
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        __builtin_prefetch(c + r * ldc, 1);
    add_sums(rows, vectors, acc, depth, a, row, col, b, NR);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            Vec *place = (Vec *)(c + r * ldc + v * LANES);
            if (add)
                acc[r][v] += *place;
            else if (bias)
                acc[r][v] += *(const Vec *)(bias + v * LANES);
            *place = acc[r][v];
        }
}

static void whole_tile(float *c, Index ldc, const float *a, const float *b, Index depth, int add,
                       const float *bias)
{
    micro(MR, 2, c, ldc, a, 1, MR, b, depth, add, bias);
}

/* The same from rows of A where they are, one after the other or side by side */
static void unpacked_tile(float *c, Index ldc, const float *a, Index row, Index col, const float *b,
                          Index depth, int add, const float *bias)
{
    if (col == 1)
        micro(MR, 2, c, ldc, a, row, 1, b, depth, add, bias);
    else
        micro(MR, 2, c, ldc, a, 1, col, b, depth, add, bias);
}

/* As much of a tile as `rows` and `cols` need */
static void part_tile(float *c, Index rows, Index cols, const float *a, const float *b, Index depth,
                      int add, const float *bias)
{
    if (cols > LANES && rows > 2)
        micro(MR, 2, c, NR, a, 1, MR, b, depth, add, bias);
    else if (cols > LANES)
        micro(2, 2, c, NR, a, 1, MR, b, depth, add, bias);
    else if (rows > 2)
        micro(MR, 1, c, NR, a, 1, MR, b, depth, add, bias);
    else
        micro(2, 1, c, NR, a, 1, MR, b, depth, add, bias);
}

/* The same at the right and lower edges of C, by way of a tile beside it */
static void edge_tile(float *c, Index ldc, Index rows, Index cols, const float *a, const float *b,
                      Index depth, int add, const float *bias)
{
    float edge[MR * NR] = {0}, edge_bias[NR] = {0};
    for (Index r = 0; add && r < rows; r++)
        memcpy(edge + r * NR, c + r * ldc, (size_t)cols * sizeof(float));
    if (bias)
        memcpy(edge_bias, bias, (size_t)cols * sizeof(float));
    part_tile(edge, rows, cols, a, b, depth, add, bias ? edge_bias : NULL);
    for (Index r = 0; r < rows; r++)
        memcpy(c + r * ldc, edge + r * NR, (size_t)cols * sizeof(float));
}

/* Panels [begin, end) of the columns first to last of B */
static void pack(void *product, Index begin, Index end)
{
    const Product *p = product;
    Index j = begin;
    if (p->b_col == 1) {
        j = MAX(begin, MIN(end, (p->last - p->first) / NR));
        pack_side_by_side(p->packed + begin * NR * p->k, NR, p->b + p->first + begin * NR,
                          p->b_row, j - begin, p->k, NR * p->k);
    }
    for (; j < end; j++) {
        Index column = p->first + j * NR;
        pack_panel(p->packed + j * NR * p->k, NR, p->b + column * p->b_col, p->b_col, p->b_row,
                   MIN(NR, p->last - column), p->k);
    }
}

/* Part of a tile: `m` packed rows of A by the columns from `column` on, over `depth` of K. The
 * next panel of B is fetched a slice at a time while the rows go by. */
static void multiply_panels(const Product *p, float *c, const float *a, Index m, Index column,
                            Index end, Index k, Index depth)
{
    Index slice = (depth * NR * MR / m + 15) / 16 * 16;
    const int far = (p->last - p->first) * p->k > NEAR;
    for (Index j = column; j < end; j += NR) {
        const float *b = p->packed + (j - p->first) * p->k + k * NR, *next = b + NR * p->k;
        for (Index i = 0; i < m; i += MR, next += slice) {
            const float *bias = p->bias ? p->bias + j : NULL;
            if (far && j + NR < end)
                for (Index ahead = 0; ahead < slice; ahead += 16)
                    __builtin_prefetch(next + ahead, 0, 2);
            if (m - i >= MR && end - j >= NR)
                whole_tile(c + i * p->n + j, p->n, a + i * depth, b, depth, k > 0, bias);
            else
                edge_tile(c + i * p->n + j, p->n, MIN(MR, m - i), MIN(NR, end - j),
                          a + i * depth, b, depth, k > 0, bias);
        }
    }
}

/* Part of a tile of so few columns that packing its rows would not pay: whole panels of rows are
 * read where they are, and stay in the first-level cache while all columns go by. The number of
 * rows done is returned. */
static Index multiply_unpacked(const Product *p, Index row, Index m, Index column, Index end,
                               Index k, Index depth)
{
    Index i = 0;
    for (; i + MR <= m; i += MR)
        for (Index j = column; j + NR <= end; j += NR)
            unpacked_tile(p->c + (row + i) * p->n + j, p->n,
                          p->a + (row + i) * p->a_row + k * p->a_col, p->a_row, p->a_col,
                          p->packed + (j - p->first) * p->k + k * NR, depth, k > 0,
                          p->bias ? p->bias + j : NULL);
    return i;
}

static Index across(const Product *p) { return (p->last - p->first + p->columns - 1) / p->columns; }

static Index tiles(const Product *p) { return p->down * across(p); }

/* The first row of the i-th tile from the top: panels of rows are dealt out evenly */
static Index tile_row(const Product *p, Index i)
{
    return MIN(p->m, (p->m + MR - 1) / MR * i / p->down * MR);
}

static Index steps(Index k) { return (k + DEPTH - 1) / DEPTH; }

static Index depth_of(Index k) { return (k + steps(k) - 1) / steps(k); }

static void multiply_tiles(const Product *p, float *a, Index begin, Index end)
{
    Index most = depth_of(p->k);
    for (Index t = begin; t < end; t++) {
        Index row = tile_row(p, t / across(p)), m = tile_row(p, t / across(p) + 1) - row;
        Index column = p->first + t % across(p) * p->columns;
        Index end_column = MIN(column + p->columns, p->last), width = end_column - column;
        int in_place = p->a_col < APART && width <= NARROW && width % NR == 0;
        for (Index k = 0; k < p->k && m > 0; k += most) {
            Index depth = MIN(most, p->k - k), done = 0;
            if (in_place)
                done = multiply_unpacked(p, row, m, column, end_column, k, depth);
            if (done == m)
                continue;
            pack_rows(a, p->a + (row + done) * p->a_row + k * p->a_col, p->a_row, p->a_col,
                      m - done, depth);
            multiply_panels(p, p->c + (row + done) * p->n, a, m - done, column, end_column, k,
                            depth);
        }
    }
}

static size_t rows_room(const Product *p)
{
    Index panels = (p->m + MR - 1) / MR;
    return (size_t)((panels + p->down - 1) / p->down * MR * depth_of(p->k));
}

static void multiply(void *product, Index begin, Index end)
{
    Product *p = product;
    float *a = scratch_take(rows_room(p));
    if (!a) {
        scratch_failed(&p->failed);
        return;
    }
    multiply_tiles(p, a, begin, end);
    scratch_give(a);
}

/* Scratch for `columns` of B, at p->packed, and for the rows of a tile, which is returned */
static float *take_both(Product *p, Index columns)
{
    size_t used = 0;
    scratch_carve(NULL, &used, columns * p->k);
    p->packed = scratch_take(used + rows_room(p));
    return p->packed ? p->packed + used : NULL;
}

/* Tiles whose thread packs B by itself, all of it, once: where the cores have few caches in common,
 * what another one packed takes longer to come than packing does. With `steps`, the steps of K are
 * products of their own: a gradient of a weight sums over all rows of two activations, and a step
 * needs only those rows that its thread has in its cache from the kernels before. */
static void own(void *product, Index begin, Index end)
{
    Product *all = product;
    Index most = depth_of(all->k);
    for (Index t = begin; t < end; t++) {
        Product p = *all;
        Index step = t / tiles(all);
        int kept;
        if (all->steps) {
            p.k = MIN(most, all->k - step * most);
            p.a += step * most * p.a_col;
            p.b += step * most * p.b_row;
            p.c = step ? all->steps + (step - 1) * p.m * p.n : p.c;
        }
        Index panels = (p.n + NR - 1) / NR;
        size_t used = 0;
        scratch_carve(NULL, &used, panels * NR * p.k);
        p.packed = scratch_take_marked(used + rows_room(&p), all->number + (uint64_t)step, &kept);
        if (!p.packed) {
            scratch_failed(&all->failed);
            return;
        }
        if (!kept)
            pack(&p, 0, panels);
        multiply_tiles(&p, p.packed + used, t % tiles(all), t % tiles(all) + 1);
        scratch_give(p.packed);
    }
}

/* C += the products of the later steps, in their order: the bits of a product in one go */
static void add_steps(void *product, Index begin, Index end)
{
    const Product *p = product;
    for (Index step = 1; step < steps(p->k); step++) {
        const float *x = p->steps + (step - 1) * p->m * p->n;
        for (Index i = begin; i < end; i++)
            p->c[i] += x[i];
    }
}

static void items(void *product, Index begin, Index end)
{
    Product *all = product, p = *all;
    Index panels = (p.n + NR - 1) / NR;
    float *a = take_both(&p, panels * NR);
    if (!a) {
        scratch_failed(&all->failed);
        return;
    }
    for (Index i = begin; i < end; i++) {
        p.c = all->c + i * p.m * p.n;
        p.a = all->a + (all->a_item ? all->a_item[i] : 0);
        if (i == begin || !all->b_item || all->b_item[i] != all->b_item[i - 1]) {
            p.b = all->b + (all->b_item ? all->b_item[i] : 0);
            pack(&p, 0, panels);
        }
        multiply_tiles(&p, a, 0, tiles(&p));
    }
    scratch_give(p.packed);
}

/* Strips of columns of one product of few rows: each packs its own part of B, which then need not
 * travel from the cache of another core. */
static void strips(void *product, Index begin, Index end)
{
    Product *all = product, p = *all;
    float *a = take_both(&p, p.columns);
    if (!a) {
        scratch_failed(&all->failed);
        return;
    }
    for (Index t = begin; t < end; t++) {
        p.first = t * p.columns;
        p.last = MIN(p.first + p.columns, p.n);
        pack(&p, 0, (p.last - p.first + NR - 1) / NR);
        multiply_tiles(&p, a, 0, tiles(&p));
    }
    scratch_give(p.packed);
}

/* c[0..3] = a . w_j + bias for four rows of W, in two sums each to hide the latency; K is walked
 * once, so that a W that no cache holds is read at the speed of memory. */
static void dots4(float *c, const float *a, const float *const w[4], Index K)
{
    Vec s[4][2] = {{{0}}};
    Index k = 0;
    for (; k + 2 * LANES <= K; k += 2 * LANES) {
        Vec a0 = *(const Vec *)(a + k), a1 = *(const Vec *)(a + k + LANES);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            s[j][0] += a0 * *(const Vec *)(w[j] + k);
            s[j][1] += a1 * *(const Vec *)(w[j] + k + LANES);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        c[j] = lane_sum(s[j][0] + s[j][1]);
        for (Index rest = k; rest < K; rest++)
            c[j] += a[rest] * w[j][rest];
    }
}

/* c[WIDE] = a @ B for WIDE columns of a B whose rows are contiguous */
INLINE void wide(float *c, const float *a, const float *b, Index ldb, Index K)
{
    Vec acc[WIDE / LANES] = {{0}};
    for (Index k = 0; k < K; k++, b += ldb)
#pragma GCC unroll 8
        for (int i = 0; i < WIDE / LANES; i++)
            acc[i] += a[k] * *(const Vec *)(b + i * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < WIDE / LANES; i++)
        *(Vec *)(c + i * LANES) = acc[i];
}

/* Row i of A by `columns` <= WIDE columns of B from the j-th on */
static void few_columns(float *c, const float *a, const float *b, const Product *p, Index columns)
{
    if (p->b_row == 1) {
        for (Index j = 0; j < columns; j += 4) {
            const float *w[4];
            float four[4];
            for (Index i = 0; i < 4; i++)
                w[i] = b + MIN(j + i, columns - 1) * p->b_col;
            dots4(four, a, w, p->k);
            for (Index i = 0; i < MIN(4, columns - j); i++)
                c[j + i] = four[i];
        }
    } else if (columns == WIDE) {
        wide(c, a, b, p->b_row, p->k);
    } else {
        for (Index j = 0; j < columns; j++)
            c[j] = 0;
        for (Index k = 0; k < p->k; k++)
            for (Index j = 0; j < columns; j++)
                c[j] += a[k] * b[k * p->b_row + j];
    }
}

/* Products of so few rows that packing B would cost more than it saves: pieces of WIDE columns */
static void few(void *product, Index begin, Index end)
{
    Product *p = product;
    Index pieces = (p->n + WIDE - 1) / WIDE;
    float *row = p->a_col == 1 ? NULL : scratch_take((size_t)p->k);
    if (p->a_col != 1 && !row) {
        scratch_failed(&p->failed);
        return;
    }
    for (Index t = begin; t < end; t++) {
        Index item = t / pieces, j = t % pieces * WIDE, columns = MIN(WIDE, p->n - j);
        const float *b = p->b + (p->b_item ? p->b_item[item] : 0) + j * p->b_col;
        for (Index i = 0; i < p->m; i++) {
            const float *a = p->a + (p->a_item ? p->a_item[item] : 0) + i * p->a_row;
            float *c = p->c + (item * p->m + i) * p->n + j;
            for (Index k = 0; row && k < p->k; k++)
                row[k] = a[k * p->a_col];
            few_columns(c, row ? row : a, b, p, columns);
            for (Index x = 0; p->bias && x < columns; x++)
                c[x] += p->bias[j + x];
        }
    }
    if (row)
        scratch_give(row);
}

const MatmulTable MINIDL_CAT(minidl_matmul, ISA_SUFFIX) = {
    NR, WIDE, tiles, steps, pack, multiply, own, add_steps, items, strips, few,
};

#else

const MatmulTable MINIDL_CAT(minidl_matmul, ISA_SUFFIX) = {0};

#endif
