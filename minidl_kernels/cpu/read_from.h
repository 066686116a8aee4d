/* Read from a place in a file, whatever other threads do with it. */
#ifndef MINIDL_READ_FROM_H
#define MINIDL_READ_FROM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <io.h>
#include <windows.h>
#else
#include <unistd.h>
#endif

/* The number of bytes read, 0 at the end of the file, -errno when it fails. */
static ptrdiff_t read_from(int fd, void *buffer, size_t size, int64_t offset)
{
#if defined(_WIN32)
    OVERLAPPED place = {0};
    DWORD n = 0;
    place.Offset = (DWORD)offset;
    place.OffsetHigh = (DWORD)(offset >> 32);
    if (ReadFile((HANDLE)_get_osfhandle(fd), buffer, (DWORD)size, &n, &place)) return (ptrdiff_t)n;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : -EIO;
#else
    ssize_t n;
    do n = pread(fd, buffer, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
#endif
}

#endif
