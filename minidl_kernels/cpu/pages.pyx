"""Sums over the pages of a file, for its checksums."""

cimport numpy as cnp
from libc.stdint cimport uint64_t

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #include "pages.h"
    #define PAGES_TABLE MINIDL_PICK(minidl_pages)
    """
    ctypedef struct PagesTable:
        void (*sums)(uint64_t *columns, uint64_t *rows, const unsigned char *data,
                     Py_ssize_t count) noexcept nogil
    const PagesTable *PAGES_TABLE
    Py_ssize_t PAGE_WORDS, PAGE_BYTES

cdef const PagesTable *K = PAGES_TABLE


def page_sums(const unsigned char[::1] data):
    """Bytes as a table of 64-bit words, 512 in a row: (column sums, row sums), modulo 2^64.

    Bytes behind the last whole row (4 KiB) are left out.

    >>> [sums.sum() for sums in page_sums(bytes(4095) + b"x")]
    [np.uint64(8646911284551352320), np.uint64(8646911284551352320)]
    """
    cdef Py_ssize_t count = data.shape[0] // PAGE_BYTES
    cdef cnp.ndarray columns = np.zeros(PAGE_WORDS, np.uint64)
    cdef cnp.ndarray rows = np.zeros(count, np.uint64)
    cdef uint64_t *c = <uint64_t *>cnp.PyArray_DATA(columns)
    cdef uint64_t *r = <uint64_t *>cnp.PyArray_DATA(rows)
    cdef const unsigned char *p
    if count:
        p = &data[0]
        with nogil:
            K.sums(c, r, p, count)
    return columns, rows
