/* 64-byte aligned memory from the operating system; large blocks ask Linux for huge pages. */
#ifndef MINIDL_ALIGNED_H
#define MINIDL_ALIGNED_H

#include <stddef.h>
#include <stdlib.h>
#if defined(_WIN32)
#include <malloc.h>
#elif defined(__linux__)
#include <sys/mman.h>
#endif

static void *aligned_take(size_t nbytes)
{
#if defined(_WIN32)
    return _aligned_malloc(nbytes, 64);
#else
    const size_t huge = (size_t)1 << 21;
    void *pointer = NULL;
    size_t alignment = nbytes >= huge ? huge : 64;
    if (posix_memalign(&pointer, alignment, nbytes) != 0) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (alignment == huge) madvise(pointer, nbytes, MADV_HUGEPAGE);
#endif
    return pointer;
#endif
}

static void aligned_give(void *pointer)
{
#if defined(_WIN32)
    _aligned_free(pointer);
#else
    free(pointer);
#endif
}

#endif
