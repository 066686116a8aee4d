/* Scratch memory of a task: a few hundred kilobytes, kept between calls because fresh pages from
 * the system cost more than small tasks do. Each thread has a place of its own, so that it gets the
 * memory back that is in its cache; none is kept that is so large that its pages hardly count
 * beside the work done in it. */
#ifndef MINIDL_SCRATCH_H
#define MINIDL_SCRATCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SCRATCH_LARGE ((size_t)1 << 20) /* floats */
#define SCRATCH_PLACES 64

#if defined(__GNUC__)
#define SCRATCH_SWAP(place, value) __atomic_exchange_n(place, value, __ATOMIC_ACQ_REL)
static void *scratch_places[SCRATCH_PLACES];
static unsigned scratch_threads;               /* that have asked for a place */
static _Thread_local unsigned scratch_thread;  /* the number of this one, from 1 */
#else
#define SCRATCH_SWAP(place, value) (value)
static void *scratch_places[1];
#endif

/* A block is [padding][its size, pointer to free, mark][64-byte aligned floats]. */
typedef struct {
    size_t count;
    void *whole;
    uint64_t mark;
} ScratchHead;

/* The place of this thread; beyond SCRATCH_PLACES threads two share one, which is slower only. */
static void **scratch_place(void)
{
#if defined(__GNUC__)
    if (!scratch_thread)
        scratch_thread = __atomic_add_fetch(&scratch_threads, 1, __ATOMIC_RELAXED);
    return &scratch_places[scratch_thread % SCRATCH_PLACES];
#else
    return scratch_places;
#endif
}

static void scratch_free(float *p)
{
    if (p)
        free(((ScratchHead *)p)[-1].whole);
}

/* `count` floats, 64-byte aligned, or NULL. `kept` is set when they still hold what was in them
 * when they were last taken with this mark, which is not 0. */
static float *scratch_take_marked(size_t count, uint64_t mark, int *kept)
{
    float *p = SCRATCH_SWAP(scratch_place(), NULL);
    *kept = 0;
    if (!p || ((ScratchHead *)p)[-1].count < count) {
        scratch_free(p);
        if (count > (SIZE_MAX - 128) / sizeof(float))
            return NULL;
        char *whole = malloc(count * sizeof(float) + 128);
        if (!whole)
            return NULL;
        p = (float *)(((uintptr_t)whole + sizeof(ScratchHead) + 63) & ~(uintptr_t)63);
        ((ScratchHead *)p)[-1] = (ScratchHead){count, whole, 0};
    }
    *kept = mark && ((ScratchHead *)p)[-1].mark == mark;
    ((ScratchHead *)p)[-1].mark = mark;
    return p;
}

static float *scratch_take(size_t count)
{
    int kept;
    return scratch_take_marked(count, 0, &kept);
}

static void scratch_give(float *p)
{
    if (((ScratchHead *)p)[-1].count <= SCRATCH_LARGE)
        p = SCRATCH_SWAP(scratch_place(), p);
    scratch_free(p);
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
