"""What starting costs: import time, first matmul, installed size, memory.

Each figure is the median of fresh processes, minidl and bare NumPy in turn, so that a machine that
gets slower meanwhile slows both. The bars, in milliseconds over importing NumPy, are shown and fail
nothing: importing minidl at most 100, with the first matmul included at most 200.
"""

import importlib.util
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
import json, runpy
print(json.dumps([seconds, busy, runpy.run_path({memory!r})["peak"]() / 1e6]))
"""
PROGRAMS = {
    "import numpy": "import numpy",
    "import minidl": "import minidl",
    "import minidl, first matmul": "import minidl as md\nmd.ones(64, 64) @ md.ones(64, 64)",
}
BARS = {"import minidl": 100, "import minidl, first matmul": 200}


def measure(code, folder):
    """(milliseconds, those of them on a CPU, MB at the peak) of a program in a fresh process."""
    program = MEASURE.format(code=code, memory=str(Path(__file__).with_name("memory.py")))
    where = str(Path(importlib.util.find_spec("minidl").origin).parents[1])
    env = {**os.environ, "PYTHONPATH": where}
    env.pop("PYTHONDONTWRITEBYTECODE", None)        # an installation is not compiled at each start
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=env,
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


def rows(session):
    programs = dict(PROGRAMS)
    if "torch" in session.peers and not session.quick:
        programs["import torch"] = "import torch"
    runs_of = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        for code in programs.values():
            measure(code, folder)                       # once for the file cache
        for _ in range(3 if session.quick else 15):
            for name, code in programs.items():
                runs_of[name].append(measure(code, folder))
    base = statistics.median(run[0] for run in runs_of["import numpy"])
    for name, results in runs_of.items():
        milliseconds, busy, megabytes = zip(*results, strict=True)
        median = statistics.median(milliseconds)
        note = f"{min(busy):.0f} ms of CPU, {statistics.median(megabytes):.1f} MB at the peak"
        if name in BARS:
            verdict = "ok" if median - base <= BARS[name] else "missed"
            note += f", {median - base:+.1f} ms over numpy [<= {BARS[name]} {verdict}]"
        yield {"name": name, "shape": "", "threads": 0, "median": median / 1e3,
               "min": min(milliseconds) / 1e3, "ratios": {}, "note": note}
    yield {"name": "installed size", "shape": "", "threads": 0, "ratios": {},
           "value": installed_bytes() / 1e6, "unit": "MB"}


if __name__ == "__main__":
    from script import run

    run(__file__)
