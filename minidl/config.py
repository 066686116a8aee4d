"""What this installation computes with."""

import platform
import sys

import numpy as np

from minidl_kernels.cpu import memory, scipy_blas, threads

__version__ = "0.1.0"


def config():
    """The facts that show_config prints, as a dictionary.

    >>> sorted(config())[:3]
    ['blas', 'cpu', 'instruction set']
    """
    return {
        "minidl": __version__,
        "python": f"{platform.python_version()} on {sys.platform} {platform.machine()}",
        "numpy": np.__version__,
        "cpu": _cpu_name(),
        "instruction set": threads.instruction_set(),
        "threads": threads.get_num_threads(),
        "blas": ", ".join(scipy_blas.describe()) or "not loaded: products are minidl's own",
        "memory in use": f"{memory.memory_stats()['in_use_bytes']:,} bytes",
    }


def show_config():
    """Print versions, CPU, instruction set, threads and BLAS: what a bug report should contain."""
    for name, value in config().items():
        print(f"{name:>16}: {value}")


def _cpu_name():
    """The first processor's name, with family and model: a virtual machine may say "AMD EPYC"."""
    facts = {}
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                name, colon, value = line.partition(":")
                if not colon:
                    break
                facts[name.strip()] = value.strip()
    except OSError:
        pass
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    if "cpu family" not in facts:
        return facts["model name"]
    return f"{facts['model name']} (family {facts['cpu family']}, model {facts['model']})"
