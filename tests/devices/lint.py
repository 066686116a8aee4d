"""Compile the device kernels with compilers that are there without their hardware.

    python tests/devices/lint.py            every specialisation, all GPUs below, Metal
    python tests/devices/lint.py --quick    the heavy kernels, two GPUs

CUDA by nvcc and ptxas: no spills, no stack, and registers and shared memory within what leaves
several blocks on a multiprocessor. Metal by clang's C++ for OpenCL over a stand-in of its standard
library (metal/): the same rules for address spaces, though not Apple's compiler.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from minidl_kernels.device.source import render

HERE = Path(__file__).parent
GPUS = ("sm_75", "sm_80", "sm_90", "sm_120")
REGISTERS = 128  # 512 threads of 128 registers fill a multiprocessor's 65536
SHARED = 32768  # what Metal has, and three blocks of what CUDA has


def attention(head, mask, dropout):
    return "attention", {"HD": head, "MASK": mask, "DROPOUT": dropout}


HEAVY = [attention(64, 2, 1), attention(128, 0, 0), ("norm", {"ROW_THREADS": 256}), ("matmul", {}),
         ("matmul", {"EPILOGUE": 2, "ACT": "f_gelu"}), ("loss", {}), ("optim", {}),
         ("typed", {"T": "float"})]
LIGHT = [
    attention(64, 0, 0), attention(32, 0, 0), attention(16, 1, 1), attention(128, 1, 1),
    ("norm", {"ROW_THREADS": 32}), ("norm", {"ROW_THREADS": 128}), ("matmul", {"EPILOGUE": 1}),
    ("rotary", {}), ("random", {}), ("elementwise", {}),
    ("typed", {"T": "int64_t"}), ("typed", {"T": "uint8_t"}),
    ("typed", {"T": "float", "U": "uint8_t", "OP": "F_lt"}),
    ("typed", {"T": "int64_t", "U": "int64_t", "OP": "F_floor_divide"}),
    ("typed", {"T": "float", "U": "uint8_t", "OP1": "F1_isfinite"}),
    ("reduce", {"T": "float", "A": "float", "FLOATING": 1}),
    ("reduce", {"T": "int64_t", "A": "int64_t"}),
    *[("elementwise", {"OP": f"f_{name}", "OP_UNARY": 1})
      for name in ("exp", "log1p", "gelu", "gelu_tanh", "erf", "sin", "silu")],
    *[("elementwise", {"OP": f"f_{name}", "OP_BINARY": 1}) for name in ("mul", "pow", "remainder")],
    *[("cast", {"T": "float", "U": "uint16_t", "FROM": "_float32", "TO": f"_{to}"})
      for to in ("float16", "bfloat16")],
    *[("reduce", {"T": "float", "A": "float", "OP": op}) for op in ("_sum", "_amax")],
    ("reduce", {"T": "uint8_t", "A": "int64_t", "OP": "_sum"}),
]


def cuda(file, macros, gpus=GPUS, text=None):
    """What is wrong with a specialisation on any of the GPUs, one line each."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        source, ptx = Path(folder, "kernels.cu"), Path(folder, "kernels.ptx")
        source.write_text(text or render("cuda", file, macros)[0])
        made = subprocess.run(
            ["nvcc", "-ptx", "-arch=compute_75", "-diag-suppress=177,550", "-o", ptx, source],
            capture_output=True, text=True)
        if made.returncode or "warning" in made.stderr:
            return [f"{file} {macros}: {made.stderr.strip()}"]
        for gpu in gpus:
            built = subprocess.run([ptxas(), f"-arch={gpu}", "-v", "-o", Path(folder, "out"), ptx],
                                   capture_output=True, text=True)
            if built.returncode:
                problems.append(f"{file} {macros} {gpu}: {built.stderr.strip()}")
            problems += [f"{file} {macros} {gpu}: {p}" for p in over_budget(built.stderr)]
    return problems


def ptxas():
    """ptxas stands beside the nvcc that a wrapper on the PATH may hide."""
    found = shutil.which("ptxas")
    if found is None:
        shown = subprocess.run(["nvcc", "--dryrun", "-ptx", "-x", "cu", "/dev/null"],
                               capture_output=True, text=True).stderr
        found = re.search(r"_HERE_=(\S+)", shown)[1] + "/ptxas"
    return found


def over_budget(report):
    """Kernels in a report of ptxas -v that spill or take too much."""
    for name, rest in re.findall(r"Function properties for (\w+)\n(.*?Used [^\n]*)", report, re.S):
        numbers = {what: int(n) for n, what in re.findall(
            r"(\d+) (bytes stack|bytes spill stores|registers|bytes smem)", rest)}
        if numbers["bytes stack"] or numbers["bytes spill stores"]:
            yield f"{name} spills: {numbers}"
        if numbers["registers"] > REGISTERS or numbers.get("bytes smem", 0) > SHARED:
            yield f"{name} is over its budget: {numbers}"


def metal(file, macros, text=None):
    """What clang finds wrong with the Metal text of a specialisation."""
    without = "generic_address_space", "pipes", "device_enqueue"
    done = subprocess.run(
        ["clang", "-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-fsyntax-only", "-Xclang",
         "-cl-ext=" + ",".join(f"-__opencl_c_{name}" for name in without), "-Wno-everything",
         f"-I{HERE / 'metal'}", "-"],
        input=text or render("metal", file, macros)[0], capture_output=True, text=True)
    return [f"{file} {macros} metal: {done.stderr.strip()}"] if done.returncode else []


def main():
    quick = "--quick" in sys.argv
    problems = []
    for file, macros in HEAVY if quick else HEAVY + LIGHT:
        if shutil.which("nvcc"):
            problems += cuda(file, macros, ("sm_75", "sm_120") if quick else GPUS)
        if shutil.which("clang"):
            problems += metal(file, macros)
    print("\n".join(problems) or "all kernels compile within their budgets")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
