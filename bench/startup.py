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
start = time.perf_counter()
{code}
seconds = time.perf_counter() - start
try:
    import resource
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
except ImportError:
    kilobytes = 0
import json, sys
print(json.dumps([seconds, kilobytes / (1 << 20 if sys.platform == "darwin" else 1 << 10)]))
"""
PROGRAMS = {
    "import numpy": "import numpy",
    "import minidl": "import minidl",
    "import minidl, first matmul": "import minidl as md\nmd.ones(64, 64) @ md.ones(64, 64)",
}
BARS = {"import minidl": 100, "import minidl, first matmul": 200}


def measure(code, folder):
    """(milliseconds, MB of resident memory at the peak) of a program in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", MEASURE.format(code=code)], cwd=folder, check=True,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds, megabytes = json.loads(done.stdout)
    return 1000 * seconds, megabytes


def installed_bytes():
    """Size on disk of both packages, without what Python caches."""
    import minidl
    import minidl_kernels

    return sum(path.stat().st_size for package in (minidl, minidl_kernels)
               for path in Path(package.__file__).parent.rglob("*")
               if path.is_file() and "__pycache__" not in path.parts)


def main(runs=15):
    times = {name: [] for name in PROGRAMS}
    memory = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as folder:
        for code in PROGRAMS.values():
            measure(code, folder)                       # once for the file cache
        for _ in range(runs):
            for name, code in PROGRAMS.items():
                milliseconds, megabytes = measure(code, folder)
                times[name].append(milliseconds)
                memory[name].append(megabytes)
    base = statistics.median(times["import numpy"])
    print(f"{'':30}{'median ms':>10}{'best ms':>10}{'over numpy':>12}{'bar':>6}{'peak MB':>9}")
    for name, values in times.items():
        median = statistics.median(values)
        bar = BARS.get(name, "")
        print(f"{name:30}{median:10.1f}{min(values):10.1f}{median - base:12.1f}{bar:>6}"
              f"{statistics.median(memory[name]):9.1f}")
    print(f"installed size: {installed_bytes() / 1e6:.1f} MB")
    print(f"{runs} runs each, Python {sys.version.split()[0]}, {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
