/* Sums over a table of 64-bit words with 512 in a row (4 KiB), from any address, in one pass. */
#ifndef MINIDL_PAGES_H
#define MINIDL_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "isa.h"

enum { PAGE_WORDS = 512, PAGE_BYTES = 4096 };

typedef struct {
    /* columns OUT [512] +=, rows OUT [count], data IN [count, 4096] */
    void (*sums)(uint64_t *columns, uint64_t *rows, const unsigned char *data, ptrdiff_t count);
} PagesTable;

extern const PagesTable minidl_pages_baseline, minidl_pages_avx2, minidl_pages_avx512;

#endif
