/* Scratch memory of a task: a few hundred kilobytes, kept between calls because fresh pages from
 * the system cost more than small tasks do. At most one buffer per running task is kept, and none
 * so large that its pages hardly count beside the work done in it. */
#ifndef MINIDL_SCRATCH_H
#define MINIDL_SCRATCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__GNUC__)
#define SCRATCH_SLOTS 64
#define SCRATCH_SWAP(slot, value) __atomic_exchange_n(slot, value, __ATOMIC_ACQ_REL)
static void *scratch_slots[SCRATCH_SLOTS];
#else
#define SCRATCH_SLOTS 0
#define SCRATCH_SWAP(slot, value) (value)
static void *scratch_slots[1];
#endif

#define SCRATCH_LARGE ((size_t)1 << 20) /* floats */

/* A block is [padding][size, pointer to free][64-byte aligned floats]. */
typedef struct {
    size_t count;
    void *whole;
} ScratchHead;

/* `count` floats, 64-byte aligned, or NULL */
static float *scratch_take(size_t count)
{
    for (int i = 0; i < SCRATCH_SLOTS; i++) {
        float *p = SCRATCH_SWAP(&scratch_slots[i], NULL);
        if (p && ((ScratchHead *)p)[-1].count >= count)
            return p;
        if (p)
            free(((ScratchHead *)p)[-1].whole);
    }
    if (count > (SIZE_MAX - 128) / sizeof(float))
        return NULL;
    char *whole = malloc(count * sizeof(float) + 128);
    if (!whole)
        return NULL;
    uintptr_t start = ((uintptr_t)whole + sizeof(ScratchHead) + 63) & ~(uintptr_t)63;
    ((ScratchHead *)start)[-1] = (ScratchHead){count, whole};
    return (float *)start;
}

static void scratch_give(float *p)
{
    int slots = ((ScratchHead *)p)[-1].count > SCRATCH_LARGE ? 0 : SCRATCH_SLOTS;
    for (int i = 0; i < slots; i++) {
        p = SCRATCH_SWAP(&scratch_slots[i], p);
        if (!p)
            return;
    }
    free(((ScratchHead *)p)[-1].whole);
}

/* The next n floats of a buffer, aligned; with no buffer yet it only counts. */
static float *scratch_carve(float *base, size_t *used, ptrdiff_t n)
{
    float *p = base ? base + *used : NULL;
    *used += ((size_t)n + 15) / 16 * 16;
    return p;
}

/* several tasks may fail at once */
static void scratch_failed(int *failed)
{
#if defined(__GNUC__)
    __atomic_store_n(failed, 1, __ATOMIC_RELAXED);
#else
    *failed = 1;
#endif
}

#endif
