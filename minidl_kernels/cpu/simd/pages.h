/* Sums over a table of 64-bit words with 512 in a row (4 KiB), from any address, in one pass. */
#ifndef MINIDL_PAGES_H
#define MINIDL_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "isa.h"

enum { PAGE_WORDS = 512, PAGE_BYTES = 4096 };

typedef struct {
    uint64_t *columns;                  /* OUT [512], zeros to begin with */
    uint64_t *rows;                     /* OUT [all bytes / 4096] */
    ptrdiff_t done, held;               /* whole rows so far; bytes of the next one in `rest` */
    unsigned char rest[PAGE_BYTES];
} PageSums;

typedef struct {
    void (*add)(PageSums *sums, const unsigned char *data, ptrdiff_t size); /* bytes that follow */
} PagesTable;

extern const PagesTable minidl_pages_baseline, minidl_pages_avx2, minidl_pages_avx512;

#endif
