"""The pool: same bits on any number of threads, fork, spawn, Python threads, Ctrl-C, settings."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from minidl_kernels import cpu
from minidl_kernels.cpu import threads

from ..conftest import environment

COUNTS = (1, 2, 3, 4, 8)


def rand(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# ------------------------------------------------------------------------------------- same bits

SHAPES = [(1, 7, 1), (7, 33, 5), (33, 1000, 7), (1, 1000, 2000), (1000, 64, 1), (130, 257, 191),
          (191, 511, 385), (1000, 33, 1000), (513, 512, 129), (2050, 65, 66), (31, 4099, 601)]


@pytest.mark.parametrize("m, k, n", SHAPES)
def test_matmul_has_the_same_bits_on_any_number_of_threads(m, k, n):
    a, b = rand(m, k), rand(k, n, seed=1)
    cases = [(a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b)),
             (np.asfortranarray(a), np.asfortranarray(b))]
    for x, y in cases:
        threads.set_num_threads(1)
        expected = cpu.matmul(x, y)
        for count in COUNTS[1:]:
            threads.set_num_threads(count)
            assert cpu.matmul(x, y).tobytes() == expected.tobytes(), count


@pytest.mark.parametrize("batch, m, k, n", [((3, 5), 17, 65, 33), ((64,), 33, 32, 31),
                                            ((2, 3), 200, 129, 210)])
def test_batches_have_the_same_bits_on_any_number_of_threads(batch, m, k, n):
    a, b = rand(*batch, m, k), rand(*batch, k, n, seed=1)
    results = set()
    for count in COUNTS:
        threads.set_num_threads(count)
        results.add(cpu.matmul(a, b).tobytes())
    assert len(results) == 1


def test_linear_has_the_same_bits_on_any_number_of_threads():
    x, w, b, g = rand(7, 91, 257), rand(385, 257, seed=1), rand(385, seed=2), rand(7, 91, 385)
    results = set()
    for count in COUNTS:
        threads.set_num_threads(count)
        results.add(cpu.linear(x, w, b).tobytes() + cpu.linear_grad_weight(g, x).tobytes())
    assert len(results) == 1


# --------------------------------------------------------------------------- processes and threads

COMPUTE = """
import multiprocessing, sys
import numpy as np
from minidl_kernels import cpu
from minidl_kernels.cpu import threads

A = np.random.default_rng(0).standard_normal((400, 300), np.float32)

def product(count):
    if count:
        threads.set_num_threads(count)
    return cpu.matmul(A, A.T).tobytes()
"""

FORK = COMPUTE + """
def child(count, expected, queue):
    started_with = threads.get_num_threads()
    queue.put((started_with, product(count) == expected))

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    expected = product(2)
    for i in range(20):
        assert product(4) == expected          # the pool is in use again before every fork
        queue = context.Queue()
        process = context.Process(target=child, args=((0, 1, 2, 3)[i % 4], expected, queue))
        process.start()
        started_with, same = queue.get(timeout=30)
        process.join(30)
        assert process.exitcode == 0, process.exitcode
        assert started_with == 1, started_with  # workers do not multiply the load
        assert same
    assert threads.get_num_threads() == 4
    print("20 forks")
"""

SPAWN = COMPUTE + """
if __name__ == "__main__":
    expected = product(2)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(product, [0, 1, 2]) == [expected] * 3
    print("spawned")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_computes_after_a_fork(python):
    assert python(FORK, env={"PYTHONWARNINGS": "ignore"}) == "20 forks\n"


def test_a_spawned_process_computes(python):
    assert python(SPAWN) == "spawned\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_grandchild_of_a_busy_pool_computes(python):
    """A data loader's worker that starts a process of its own."""
    python(COMPUTE + """
import os
expected = product(2)
for generation in range(3):
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os._exit(0)
    if product(2) != expected:
        os._exit(1)
""", env={"PYTHONWARNINGS": "ignore"})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_in_a_signal_handler_in_the_middle_of_a_kernel(python):
    """The handler runs between two pieces of a job that is still open; both sides finish it."""
    python(COMPUTE + """
import os, signal
a = np.broadcast_to(A, (600, 400, 300))
threads.set_num_threads(2)
expected = cpu.matmul(a[:1], a[:1].mT)
children = []

def handler(*_):
    signal.setitimer(signal.ITIMER_REAL, 0)
    children.append(os.fork())

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.03)
found = cpu.matmul(a, a.mT)
assert (found == expected).all()
assert (cpu.matmul(a[:9], a[:9].mT) == expected).all()
assert len(children) == 1, "the product was over before the handler ran"
if children[0]:
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
else:
    os._exit(0)
""", env={"PYTHONWARNINGS": "ignore"})


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_no_more_threads_than_asked_for(python):
    assert python(COMPUTE + """
import os, time
before = len(os.listdir("/proc/self/task"))
for count, wanted in ((1, 0), (3, 2), (2, 2), (5, 4), (2, 4)):
    for _ in range(100):            # on a busy machine the pool lets a caller compute alone
        product(count)
        found = len(os.listdir("/proc/self/task")) - before
        if found >= wanted:
            break
        time.sleep(0.1)
    print(found)
""") == "0\n2\n2\n4\n4\n"


def test_python_threads_compute_at_the_same_time():
    threads.set_num_threads(2)
    pairs = [(rand(m, k), rand(k, n, seed=1)) for m, k, n in SHAPES]
    expected = [cpu.matmul(a, b) for a, b in pairs]
    wrong = []

    def work(start):
        for i in range(2 * len(pairs)):
            j = (start + i) % len(pairs)
            if cpu.matmul(*pairs[j]).tobytes() != expected[j].tobytes():
                wrong.append(j)

    workers = [threading.Thread(target=work, args=(3 * i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
    assert wrong == []


def test_another_python_thread_runs_during_a_kernel():
    """The GIL is released: a thread that only counts makes progress while a product runs."""
    a = np.broadcast_to(rand(256, 4096), (20, 256, 4096))
    b = np.broadcast_to(rand(4096, 256), (20, 4096, 256))
    inside, ticks = threading.Event(), []

    def tick():
        inside.wait()
        while inside.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    inside.set()
    start = time.perf_counter()
    cpu.matmul(a, b)
    end = time.perf_counter()
    inside.clear()
    ticker.join()
    assert sum(start < t < end for t in ticks) >= 5


# ----------------------------------------------------------------------------------------- Ctrl-C

INTERRUPT = """
import signal, sys, time
import numpy as np
from minidl_kernels import cpu
from minidl_kernels.cpu import threads

signal.signal(signal.SIGINT, signal.default_int_handler)   # a parent in the background ignores it
threads.set_num_threads(int(sys.argv[1]))
a = np.broadcast_to(np.ones((256, 16384), np.float32), (400, 256, 16384))
b = np.broadcast_to(np.ones((16384, 256), np.float32), (400, 16384, 256))
cpu.matmul(a[0], b[0])
start = time.process_time()
cpu.matmul(a[:4], b[:4])
one = (time.process_time() - start) / 4
print("ready", flush=True)
start = time.process_time()
try:
    cpu.matmul(a, b)
    print("finished")
except KeyboardInterrupt:
    print((time.process_time() - start) / one)
for _ in range(3):
    assert (cpu.matmul(a[0], b[0]) == 16384).all()
    assert (cpu.matmul(a[:3], b[:3]) == 16384).all()
print("computes")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent another way on Windows")
@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_in_a_long_kernel(count, tmp_path):
    """A product of many seconds stops early in its work, and the process goes on computing.

    Counted in processor time, as products of the 400 in the batch, whatever else the machine does;
    `python bench/threads.py` prints how soon it answers on a quiet one.
    """
    script = tmp_path / "script.py"
    script.write_text(INTERRUPT)
    with subprocess.Popen([sys.executable, str(script), str(count)], env=environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    done, last = out.split()
    assert last == "computes"
    assert float(done) < 200


# --------------------------------------------------------------------------------------- settings

@pytest.mark.parametrize("n, error, message", [
    (0, ValueError, "set_num_threads: expected 1 to 4096 threads, got 0"),
    (-1, ValueError, "set_num_threads: expected 1 to 4096 threads, got -1"),
    (4097, ValueError, "set_num_threads: expected 1 to 4096 threads, got 4097"),
    (2**70, ValueError, f"set_num_threads: expected 1 to 4096 threads, got {2**70}"),
    (2.0, TypeError, "set_num_threads: expected an int, got float"),
    ("2", TypeError, "set_num_threads: expected an int, got str"),
    (True, TypeError, "set_num_threads: expected an int, got bool"),
    (None, TypeError, "set_num_threads: expected an int, got NoneType"),
])
def test_set_num_threads_says_what_it_expects(n, error, message):
    before = threads.get_num_threads()
    with pytest.raises(error) as caught:
        threads.set_num_threads(n)
    assert str(caught.value) == message
    assert threads.get_num_threads() == before


def test_set_num_threads():
    threads.set_num_threads(3)
    assert threads.get_num_threads() == 3


@pytest.mark.parametrize("minidl, omp, expected", [
    ("3", None, 3), ("3", "5", 3), (None, "5", 5), (None, "7,2", 7), (" 4 ", None, 4),
    ("99999", None, 4096), ("zero", "6", 6), ("0", "6", 6), ("-2", "6", 6), ("\u00b2", "6", 6),
])
def test_threads_from_the_environment(monkeypatch, minidl, omp, expected):
    for name, value in (("MINIDL_NUM_THREADS", minidl), ("OMP_NUM_THREADS", omp)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert threads.default_num_threads() == expected


def test_the_environment_is_read_at_import(python):
    code = "from minidl_kernels.cpu import threads; print(threads.get_num_threads())"
    assert python(code, env={"MINIDL_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}) == "3\n"
    assert python(code, env={"MINIDL_NUM_THREADS": None, "OMP_NUM_THREADS": "5"}) == "5\n"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this system")
def test_the_affinity_mask_is_respected(python):
    assert python("""
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from minidl_kernels.cpu import threads
print(threads.get_num_threads())
""", env={"MINIDL_NUM_THREADS": None, "OMP_NUM_THREADS": None}) == "1\n"


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


NO_LIMIT = sys.maxsize
V1 = "sys/fs/cgroup/cpu/cpu.cfs_"


@pytest.mark.parametrize("files, cores", [
    ({}, NO_LIMIT),
    ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, NO_LIMIT),
    ({"sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
    ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
    ({"sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
    ({"sys/fs/cgroup/cpu.max": "nonsense\n"}, NO_LIMIT),
    ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "300000 100000\n"}, 3),
    ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
      "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 2),
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
    ({"proc/self/cgroup": "1:cpu:/a\nnonsense\n"}, NO_LIMIT),
    ({V1 + "quota_us": "250000\n", V1 + "period_us": "100000\n"}, 3),
    ({V1 + "quota_us": "-1\n", V1 + "period_us": "100000\n"}, NO_LIMIT),
])
def test_the_quota_of_a_container(tmp_path, files, cores):
    write(tmp_path, files)
    assert threads._cgroup_cores(str(tmp_path)) == cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU affinity on this system")
def test_hyper_threads_of_one_core_count_once(tmp_path):
    cpus = os.sched_getaffinity(0)
    assert threads._physical_cores(str(tmp_path)) == len(cpus)      # unknown: every CPU is a core
    name = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    write(tmp_path, {name.format(i): f"{i}\n" for i in cpus})
    assert threads._physical_cores(str(tmp_path)) == len(cpus)
    write(tmp_path, {name.format(i): "all\n" for i in cpus})
    assert threads._physical_cores(str(tmp_path)) == 1
