"""The one thread pool: how many threads run, and how a range is cut into pieces for them.

A task is called for one or more whole pieces, by whichever thread comes first. So a kernel that
keeps a partial result keeps one for each item of its range, and gives the same bits on any number
of threads.
"""

import os
import sys

cdef extern from "pool.h":
    int pool_run(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain, int threads,
                 int light) nogil
    void pool_hold() nogil
    void pool_let_go()
    void pool_forget()

cdef extern from "isa.h":
    int minidl_isa()

cdef int _threads = 1


cdef int run(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain) except -1:
    """Call task(ctx, begin, end) for every piece of `grain` items of [0, n).

    One piece runs on the caller without releasing the GIL; more go to the pool. Pieces are taken to
    be light, some ten microseconds each: a few of them do not wake a pool that sleeps.
    """
    return pieces(task, ctx, n, grain, True)


cdef int run_heavy(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain) except -1:
    """The same for pieces that are worth waking the pool for, however few."""
    return pieces(task, ctx, n, grain, False)


cdef int pieces(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain, bint light) except -1:
    cdef int interrupted
    if n <= grain:
        if n > 0:
            task(ctx, 0, n)
        return 0
    with nogil:
        interrupted = pool_run(task, ctx, n, grain, _threads, light)
    if interrupted:
        return -1
    return 0


def get_num_threads():
    """The number of threads a kernel may use.

    >>> get_num_threads() >= 1
    True
    """
    return _threads


def set_num_threads(n):
    """Use `n` threads from now on; results do not depend on it."""
    global _threads
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_num_threads: expected an int, got {type(n).__name__}")
    if not 1 <= n <= 4096:
        raise ValueError(f"set_num_threads: expected 1 to 4096 threads, got {n}")
    _threads = n


def instruction_set():
    """The instruction set the kernels of this process use: "baseline", "avx2" or "avx512"."""
    return ("baseline", "avx2", "avx512")[minidl_isa()]


def default_num_threads():
    """MINIDL_NUM_THREADS, else OMP_NUM_THREADS, else the cores this process may use."""
    for name in ("MINIDL_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdecimal() and int(text) >= 1:
            return min(int(text), 4096)
    return max(1, min(_physical_cores(), _cgroup_cores()))


def _physical_cores(root=""):
    """Cores in this process's affinity mask, hyper-threads of one core counted once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cpus = os.sched_getaffinity(0)
    cores = set()
    for cpu in cpus:
        try:
            with open(f"{root}/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                cores.add(f.read())
        except OSError:
            return len(cpus)
    return len(cores)


def _cgroup_cores(root=""):
    """The CPU quota of the control group (containers), rounded up; no limit when none is set."""
    limit = sys.maxsize
    for folder in _cgroup_folders(root):
        try:
            with open(folder + "/cpu.max") as f:
                quota, period = f.read().split()
            limit = min(limit, max(1, -(-int(quota) // int(period))))
        except (OSError, ValueError):            # no such file, or "max": no quota here
            pass
    try:                                         # version 1 of control groups
        with open(root + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as f:
            quota = int(f.read())
        with open(root + "/sys/fs/cgroup/cpu/cpu.cfs_period_us") as f:
            period = int(f.read())
        if quota > 0:
            limit = min(limit, max(1, -(-quota // period)))
    except (OSError, ValueError):
        pass
    return limit


def _cgroup_folders(root):
    """The control group of this process and all groups above it: each may hold a quota."""
    folder = root + "/sys/fs/cgroup"
    folders = [folder]
    try:
        with open(root + "/proc/self/cgroup") as f:
            for line in f:
                if line.startswith("0::"):
                    for part in line[3:].strip().strip("/").split("/"):
                        folder += "/" + part
                        folders.append(folder)
    except OSError:
        pass
    return folders


def _before_fork():
    with nogil:                 # a kernel of another thread may need the GIL to end
        pool_hold()


def _after_in_parent():
    pool_let_go()


def _after_in_child():
    """Worker processes compute on one thread, as PyTorch's do, unless told otherwise."""
    global _threads
    pool_forget()
    _threads = 1


_threads = default_num_threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent,
                        after_in_child=_after_in_child)
