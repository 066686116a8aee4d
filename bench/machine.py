"""The machine that the figures belong to."""

import importlib.metadata
import os
import platform
import time
from pathlib import Path

from bench.libraries import LIBRARY, installed

VARIABLES = ("MINIDL_NUM_THREADS", "MINIDL_ISA", "OMP_NUM_THREADS", "OMP_WAIT_POLICY",
             "GOMP_SPINCOUNT", "GOMP_CPU_AFFINITY", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def describe(peers):
    """Facts as a dictionary of strings and numbers."""
    from minidl.config import config

    facts = config()
    return {
        "cpu": facts["cpu"],
        "cores": os.cpu_count(),
        "usable cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "instruction set": facts["instruction set"],
        "caches": caches(),
        "memory": memory(),
        "system": platform.platform(),
        "python": facts["python"],
        "minidl": facts["minidl"],
        "numpy": facts["numpy"],
        "blas": facts["blas"],
        "peers": ", ".join(f"{name} {version(name)}" for name in dict.fromkeys(
            LIBRARY[peer] for peer in peers if installed(peer))),
        "settings": ", ".join(f"{name}={os.environ[name]}" for name in VARIABLES
                              if name in os.environ) or "all default",
        "load": f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown",
        "others use": busy(),
    }


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def caches():
    """Sizes by level, as Linux tells them."""
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text().strip()
                             for name in ("level", "type", "size"))
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return ", ".join(found) or "unknown"


def memory():
    try:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GB"
    except (AttributeError, ValueError, OSError):
        return "unknown"


def busy(seconds=0.5):
    """How many cores other programs are using now; None where nothing tells."""
    def ticks():
        values = list(map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
        return sum(values), values[3] + values[4]

    try:
        total, idle = ticks()
        time.sleep(seconds)
        total, idle = (after - before for after, before in zip(ticks(), (total, idle), strict=True))
    except OSError:
        return None
    return round((os.cpu_count() or 1) * (1 - idle / max(total, 1)), 2)


def warning(facts):
    """A sentence when something else is running, or None."""
    cores = facts["others use"]
    if cores is not None and cores > 0.1:
        return (f"warning: other programs use {cores:.1f} cores now; times will be too long, "
                "ratios uncertain")
    return None
