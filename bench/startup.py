"""What starting costs: import time, first matmul, installed size, memory.

    python bench/startup.py [runs]

Each figure is the median of fresh processes (15 unless told otherwise), minidl and bare NumPy in
turn, so that a machine that gets slower meanwhile slows both. The bars: importing minidl adds at
most 100 ms to importing NumPy, and at most 200 ms with the first matmul included.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURE = """
import time
start, busy = time.perf_counter(), time.process_time()
{code}
seconds, busy = time.perf_counter() - start, time.process_time() - busy
try:
    import resource
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
except ImportError:
    kilobytes = 0
import json, sys
print(json.dumps([seconds, busy, kilobytes / (1 << 20 if sys.platform == "darwin" else 1 << 10)]))
"""
PROGRAMS = {
    "import numpy": "import numpy",
    "import minidl": "import minidl",
    "import minidl, first matmul": "import minidl as md\nmd.ones(64, 64) @ md.ones(64, 64)",
}
BARS = {"import minidl": 100, "import minidl, first matmul": 200}


def measure(code, folder):
    """(milliseconds, those of them on a CPU, MB at the peak) of a program in a fresh process."""
    env = dict(os.environ)
    env.pop("PYTHONDONTWRITEBYTECODE", None)        # an installation is not compiled at each start
    done = subprocess.run([sys.executable, "-c", MEASURE.format(code=code)], cwd=folder, env=env,
                          check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds, busy, megabytes = json.loads(done.stdout)
    return 1000 * seconds, 1000 * busy, megabytes


def installed_bytes():
    """Size on disk of both packages, without what Python caches."""
    import minidl
    import minidl_kernels

    return sum(path.stat().st_size for package in (minidl, minidl_kernels)
               for path in Path(package.__file__).parent.rglob("*")
               if path.is_file() and "__pycache__" not in path.parts)


def main(runs=15):
    runs_of = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as folder:
        for code in PROGRAMS.values():
            measure(code, folder)                       # once for the file cache
        for _ in range(runs):
            for name, code in PROGRAMS.items():
                runs_of[name].append(measure(code, folder))
    base = statistics.median(run[0] for run in runs_of["import numpy"])
    print(f"{'':30}{'median ms':>10}{'over numpy':>12}{'bar':>6}{'best ms':>9}{'CPU ms':>8}"
          f"{'peak MB':>9}")
    for name, results in runs_of.items():
        milliseconds, busy, megabytes = zip(*results, strict=True)
        median = statistics.median(milliseconds)
        print(f"{name:30}{median:10.1f}{median - base:12.1f}{BARS.get(name, ''):>6}"
              f"{min(milliseconds):9.1f}{min(busy):8.1f}{statistics.median(megabytes):9.1f}")
    print(f"installed size: {installed_bytes() / 1e6:.1f} MB")
    print(f"{runs} runs each, Python {sys.version.split()[0]}, {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
