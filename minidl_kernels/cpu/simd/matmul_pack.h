/* How operands of a product are packed: lines of a matrix become panels of a few lines side by side,
 * with K as the slow axis, so that the innermost loop reads one stretch of memory. */
#ifndef MINIDL_MATMUL_PACK_H
#define MINIDL_MATMUL_PACK_H

#include "lanes.h"

#define TOGETHER 8 /* panels packed at a time */
#define AHEAD 8 /* steps of K for which packing asks in advance */

/* y[k * width + i] = x[i * line + k * step] for `width` lines, of which `lines` exist: past them
 * the last one is repeated, for results that nobody reads. line or step is 1. */
INLINE void pack_panel(float *y, const int width, const float *x, Index line, Index step,
                       Index lines, Index depth)
{
    Index k = 0;
    if (step != 1) {
        for (; k < depth; k++)
            for (int i = 0; i < width; i++)
                y[k * width + i] = x[MIN(i, lines - 1) * line + k * step];
        return;
    }
    for (; k + 4 <= depth && width % LANES == 0 && lines == width; k += 4)
        for (int i = 0; i < width; i += LANES) {
            Vec r[4];
            columns4(r, x + i * line + k, line);
#pragma GCC unroll 4
            for (int d = 0; d < 4; d++)
                *(Vec *)(y + (k + d) * width + i) = r[d];
        }
    const float *from[NR];
    for (int i = 0; i < width; i++)
        from[i] = x + MIN(i, lines - 1) * line;
    for (; k + 4 <= depth; k += 4)
#pragma GCC unroll 8
        for (int i = 0; i < width; i += 4) {
            int at = MIN(i, width - 4); /* six lines: the second four overlap the first */
            Vec4 r[4] = {*(const Vec4 *)(from[at] + k), *(const Vec4 *)(from[at + 1] + k),
                         *(const Vec4 *)(from[at + 2] + k), *(const Vec4 *)(from[at + 3] + k)};
            transpose(r);
#pragma GCC unroll 4
            for (int d = 0; d < 4; d++)
                *(Vec4 *)(y + (k + d) * width + at) = r[d];
        }
    for (; k < depth; k++)
        for (int i = 0; i < width; i++)
            y[k * width + i] = from[i][k];
}

/* A line of `panels` panels of `width`, MR or NR, each to its own. Six floats are copied as eight
 * where `over` says that two more may be read and written. */
INLINE void pack_line(float *to, const int width, const float *from, Index panels, Index panel_size,
                      const int over)
{
    for (Index panel = 0; panel < panels; panel++, from += width, to += panel_size)
        if (width % LANES == 0)
#pragma GCC unroll 2
            for (int i = 0; i < width; i += LANES)
                *(Vec *)(to + i) = *(const Vec *)(from + i);
        else if (over)
            *(Vec8 *)to = *(const Vec8 *)from;
        else
            memcpy(to, from, (size_t)width * sizeof(float));
}

/* Whole panels of `width` lines that lie side by side in memory, `step` apart along K: some panels
 * at a time, so that a line of the cache that is fetched is used up. Rows this far apart are not
 * foreseen by the hardware, so they are asked for AHEAD. What the copy of a line writes past its
 * end is overwritten by the next one. */
INLINE void pack_side_by_side(float *y, const int width, const float *x, Index step, Index panels,
                              Index depth, Index panel_size)
{
    for (Index first = 0; first < panels; first += TOGETHER) {
        Index count = MIN(TOGETHER, panels - first);
        const float *from = x + first * width;
        float *to = y + first * panel_size;
        for (Index k = 0; k + 1 < depth; k++, from += step, to += width) {
            for (Index ahead = 0; ahead < count * width; ahead += 16)
                __builtin_prefetch(from + AHEAD * step + ahead);
            pack_line(to, width, from, count, panel_size, 1);
        }
        pack_line(to, width, from, count, panel_size, 0);
    }
}

/* m rows of A from the pointer on, over `depth` of K, in panels of MR */
static void pack_rows(float *y, const float *a, Index row, Index col, Index m, Index depth)
{
    Index i = 0;
    if (col != 1) {
        i = m / MR * MR;
        pack_side_by_side(y, MR, a, col, m / MR, depth, MR * depth);
    }
    for (; i < m; i += MR)
        pack_panel(y + i * depth, MR, a + i * row, row, col, MIN(MR, m - i), depth);
}

#endif
