"""Peak memory of the base training step: how far the resident size grows, in a fresh process.

Counted from after the import to the peak of three steps, so weights, gradients, the moments of
AdamW and activations are in it, the library's own code is not.
"""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from bench.libraries import Library
from bench.memory import peak, resident
from bench.train_step import SIZES, build_for
lib = Library(sys.argv[2], int(sys.argv[4]))
before = resident()
step = build_for(*SIZES[sys.argv[3]])(lib)
for _ in range(3):
    step()
print(json.dumps(peak() - before))
"""


def peak(field="VmHWM:"):
    """Bytes of this process in memory at most so far; 0 where nothing tells.

    Not ru_maxrss on Linux: that starts from the size of the process that started this one.
    """
    try:
        with open("/proc/self/status") as f:
            return next(1024 * int(line.split()[1]) for line in f if line.startswith(field))
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss       # macOS counts in bytes


def resident():
    """Bytes in memory now, on Linux; the peak so far elsewhere."""
    return peak("VmRSS:")


def growth(library, size, threads):
    root = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-c", PROGRAM, root, library, size, str(threads)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                                     stdin=subprocess.DEVNULL).stdout)


def rows(session):
    from bench.train_step import SIZES

    for size in ("nano",) if session.quick else ("nano", "base", "wide"):
        for threads in session.threads:
            mine = growth("minidl", size, threads)
            row = {"name": f"{size} step", "shape": ",".join(map(str, SIZES[size])),
                   "threads": threads, "value": mine / 1e6, "unit": "MB", "ratios": {}}
            if "torch" in session.peers:
                row["ratios"]["torch"] = growth("torch", size, threads) / mine
            yield row


if __name__ == "__main__":
    from script import run

    run(__file__)
