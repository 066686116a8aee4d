/* 64-byte aligned memory from the operating system. On Linux large blocks ask for huge pages, and
 * those too small to fill one are cut from slabs that do: a step that walks through some dozen
 * megabytes otherwise waits for the tables of its 4 KB pages. */
#ifndef MINIDL_ALIGNED_H
#define MINIDL_ALIGNED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(_WIN32)
#include <malloc.h>
#elif defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(_WIN32)

static void *aligned_take(size_t nbytes) { return _aligned_malloc(nbytes, 64); }
static void aligned_give(void *pointer, size_t nbytes) { (void)nbytes, _aligned_free(pointer); }

#elif defined(__linux__) && defined(MADV_HUGEPAGE)

enum { SLAB_HUGE = 1 << 21, SLAB_SIZE = 1 << 23, SLAB_LEAST = 1 << 16, SLAB_PAGE = 4096 };

typedef struct {
    size_t used, live; /* bytes from the start that were handed out, blocks not given back */
} Slab;

static Slab *slab_current;

static void *slab_pages(size_t alignment, size_t nbytes)
{
    void *pointer = NULL;
    if (posix_memalign(&pointer, alignment, nbytes) != 0) return NULL;
    if (alignment > 64) madvise(pointer, nbytes, MADV_HUGEPAGE);
    return pointer;
}

/* Callers hold the GIL. */
static void *aligned_take(size_t nbytes)
{
    Slab *slab = slab_current;
    if (nbytes < SLAB_LEAST) return slab_pages(64, nbytes);
    if (nbytes >= SLAB_HUGE) return slab_pages(SLAB_HUGE, nbytes);
    if (!slab || slab->used + nbytes > SLAB_SIZE) {
        if (!(slab = slab_pages(SLAB_SIZE, SLAB_SIZE))) return NULL;
        slab->used = 64;
        slab->live = 0;
        slab_current = slab;
    }
    void *pointer = (char *)slab + slab->used;
    slab->used += (nbytes + 63) & ~(size_t)63;
    slab->live++;
    return pointer;
}

/* A slab goes when its last block does; until then the pages of a block do. */
static void aligned_give(void *pointer, size_t nbytes)
{
    if (nbytes < SLAB_LEAST || nbytes >= SLAB_HUGE) {
        free(pointer);
        return;
    }
    Slab *slab = (Slab *)((uintptr_t)pointer & ~(uintptr_t)(SLAB_SIZE - 1));
    if (--slab->live == 0) {
        if (slab == slab_current) slab_current = NULL;
        free(slab);
        return;
    }
    uintptr_t first = ((uintptr_t)pointer + SLAB_PAGE - 1) & ~(uintptr_t)(SLAB_PAGE - 1);
    uintptr_t last = ((uintptr_t)pointer + nbytes) & ~(uintptr_t)(SLAB_PAGE - 1);
    if (last > first) madvise((void *)first, last - first, MADV_DONTNEED);
}

#else

static void *aligned_take(size_t nbytes)
{
    void *pointer = NULL;
    return posix_memalign(&pointer, 64, nbytes) == 0 ? pointer : NULL;
}
static void aligned_give(void *pointer, size_t nbytes) { (void)nbytes, free(pointer); }

#endif

#endif
