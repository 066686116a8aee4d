"""A file is there whole, and on the disk, or it is not there at all.

Write a temporary file beside it, fsync, rename, fsync the directory. Without the first fsync a
power cut can leave the new name on an empty file, without the second the old file after a save
that returned.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

try:
    import fcntl
except ImportError:  # Windows: a file that is open cannot be removed, which does as well
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".minidl-tmp"


def replace(path: str, write: Callable[[int], None]) -> None:
    """Put what ``write(fd)`` writes in the place of ``path``, which may be a symbolic link."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    try:
        remove_stale(folder)
        temporary, fd = _create(folder)
        try:
            try:
                _keep_mode(path, fd)
                write(fd)
                _sync(fd)
            finally:
                os.close(fd)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        raise OSError(
            error.errno,
            f"could not save ({reason}); a file that was there before is as it was",
            path,
        ) from error
    sync_folder(folder)


def remove_stale(folder: str) -> None:
    """Remove the temporary files of processes that were killed: those that nobody has locked."""
    with os.scandir(folder) as entries:
        names = [entry.path for entry in entries if entry.name.endswith(SUFFIX)]
    for name in names:
        with contextlib.suppress(OSError):
            fd = os.open(name, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if fcntl is not None:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name)
            finally:
                os.close(fd)
            if fcntl is None:
                os.unlink(name)


def _create(folder: str) -> tuple[str, int]:
    """A new, locked temporary file; its permissions are those the umask leaves."""
    while True:
        name = os.path.join(folder, f".{os.urandom(8).hex()}{SUFFIX}")
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return name, fd
        os.close(fd)  # another process took it for a stale one before it was locked


def _keep_mode(path: str, fd: int) -> None:
    """A file that is replaced keeps its permissions."""
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(fd, stat.S_IMODE(os.stat(path).st_mode))


def _sync(fd: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync alone leaves data in the drive's cache
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def sync_folder(folder: str) -> None:
    """Make the names in a folder survive a power cut."""
    if os.name == "nt":
        return
    try:
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system can
            raise OSError(
                error.errno,
                f"saved, but the folder could not be written to the disk ({error.strerror}): a "
                "power cut may undo this save",
                folder,
            ) from error


def make_folder(folder: str) -> None:
    """Create a folder, and those above it, so that they survive a power cut."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folder(parent)
    with contextlib.suppress(FileExistsError):  # another process was faster
        os.mkdir(folder)
    sync_folder(parent)
