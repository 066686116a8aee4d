"""Sums over the pages of a file, for its checksums."""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint64_t

import os

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #include "pages.h"
    #define PAGES_TABLE MINIDL_PICK(minidl_pages)
    """
    ctypedef struct PageSums:
        uint64_t *columns
        uint64_t *rows
        Py_ssize_t done, held
        unsigned char *rest
    ctypedef struct PagesTable:
        void (*add)(PageSums *sums, const unsigned char *data, Py_ssize_t size) noexcept nogil
    const PagesTable *PAGES_TABLE
    Py_ssize_t PAGE_WORDS, PAGE_BYTES

cdef extern from "read_from.h":
    Py_ssize_t read_from(int fd, void *buffer, size_t size, int64_t offset) noexcept nogil

cdef enum:
    CHUNK = 1 << 18             # bytes that are still in a core's own cache when they are summed

cdef const PagesTable *K = PAGES_TABLE


cdef tuple begin(PageSums *sums, Py_ssize_t size):
    """New (column sums, row sums) of `size` bytes, and `sums` to fill them."""
    cdef cnp.ndarray columns = np.zeros(PAGE_WORDS, np.uint64)
    cdef cnp.ndarray rows = np.empty(size // PAGE_BYTES, np.uint64)
    sums.columns = <uint64_t *>cnp.PyArray_DATA(columns)
    sums.rows = <uint64_t *>cnp.PyArray_DATA(rows)
    sums.done = sums.held = 0
    return columns, rows


def page_sums(const unsigned char[::1] data):
    """Bytes as a table of 64-bit words, 512 in a row (4 KiB): (column sums, row sums, rest), the
    sums modulo 2^64; the rest is the bytes behind the last whole row.

    >>> columns, rows, rest = page_sums(bytes(4095) + b"xyz")
    >>> columns.sum() == rows.sum() == ord("x") << 56, rest
    (np.True_, b'yz')
    """
    cdef PageSums sums
    cdef const unsigned char *p = NULL
    cdef Py_ssize_t size = data.shape[0]
    cdef tuple found = begin(&sums, size)
    if size:
        p = &data[0]
        with nogil:
            K.add(&sums, p, size)
    return (*found, sums.rest[:sums.held])


def read_pages(int fd, int64_t offset, list pieces not None):
    """Fill buffers, one after the other, from an offset of a file; returns `page_sums` of it all.

    Raises EOFError when the file ends before.
    """
    cdef PageSums sums
    cdef unsigned char[::1] piece
    cdef unsigned char *p
    cdef Py_ssize_t done, size, room = sum([len(data) for data in pieces])
    cdef tuple found = begin(&sums, room)
    for data in pieces:
        piece = data
        size = piece.shape[0]
        room -= size
        if room < 0:            # there is no place for its row sums
            raise ValueError("read_pages: a buffer is larger than its length says")
        if size == 0:
            continue
        p = &piece[0]
        with nogil:
            done = fill(&sums, fd, p, size, offset)
        if done < 0:
            raise OSError(-done, os.strerror(-done))
        offset += done
        if done < size:
            raise EOFError(f"the file ends at byte {offset}")
    return (*found, sums.rest[:sums.held])


cdef Py_ssize_t fill(PageSums *sums, int fd, unsigned char *p, Py_ssize_t size,
                     int64_t offset) noexcept nogil:
    cdef Py_ssize_t done = 0, n
    while done < size:
        n = read_from(fd, p + done, min(size - done, CHUNK), offset + done)
        if n < 0:
            return n
        if n == 0:
            break
        K.add(sums, p + done, n)
        done += n
    return done
