"""From the kernel text to the text of a target: CUDA C, OpenCL C or the Metal Shading Language.

A kernel is written once, in the C files of this folder, with a declaration that every target spells
in its own way:

    KERNEL(name, threads of a block, IN(float, x), OUT(float, y), VAL(int, n))
    { ... }

IN and OUT are arrays on the device, VAL a number or a struct by value. The compiled function is
called k_name, as many a name is taken. The rest of the dialect are
macros of dialect_TARGET.h and common.h. A file is compiled when one of its kernels is first used,
specialised by macros (the element type, the formula, the head size).

>>> text, kernels = render("cuda", "rotary", {})
>>> kernels["rotary"].threads
256
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["SPELLINGS", "TARGETS", "Signature", "render"]

TARGETS = ("cuda", "metal", "opencl")
_HERE = Path(__file__).parent
_KERNEL = re.compile(r"KERNEL\((\w+),\s*(\w+),\s*((?:IN|OUT|VAL)\(.*?\))\)\s*\{", re.S)
_ARGUMENT = re.compile(r"(IN|OUT|VAL)\(\s*(\w+),\s*(\w+)\s*\)")
_INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', re.M)


class Signature(NamedTuple):
    """How a kernel is launched: threads of a block, and (kind, type, name) of each argument."""

    threads: int
    arguments: tuple[tuple[str, str, str], ...]


def _cuda(name, threads, arguments):
    spelled = {"IN": "const {0} *__restrict__ {1}", "OUT": "{0} *__restrict__ {1}",
               "VAL": "const {0} {1}"}
    listed = ", ".join(spelled[kind].format(type_, arg) for kind, type_, arg in arguments)
    # 512 threads on a multiprocessor leave 128 registers to each; without a number the compiler
    # spills a few to have more threads
    bounds = f"__launch_bounds__({threads}, {max(1, 512 // threads)})"
    return f'extern "C" __global__ void {bounds} k_{name}({listed})\n{{\n'


def _metal(name, threads, arguments):
    spelled = {"IN": "device const {0} *{1}", "OUT": "device {0} *{1}",
               "VAL": "constant {0} &{1}"}
    listed = [f"{spelled[kind].format(type_, arg)} [[buffer({i})]]"
              for i, (kind, type_, arg) in enumerate(arguments)]
    places = ["uint3 thread_ [[thread_position_in_threadgroup]]",
              "uint3 block_ [[threadgroup_position_in_grid]]",
              "uint3 blocks_ [[threadgroups_per_grid]]"]
    return f"kernel void k_{name}({', '.join(listed + places)})\n{{\n"


def _opencl(name, threads, arguments):
    """OpenCL passes buffers, not pointers: where an array starts in its buffer comes beside it."""
    spelled = {"IN": "__global const {0} *restrict {1}_, const long {1}_at",
               "OUT": "__global {0} *restrict {1}_, const long {1}_at", "VAL": "const {0} {1}"}
    listed = ", ".join(spelled[kind].format(type_, arg) for kind, type_, arg in arguments)
    starts = "".join(f"    __global {'const ' if kind == 'IN' else ''}{type_} *restrict {arg} = "
                     f"{arg}_ + {arg}_at;\n"
                     for kind, type_, arg in arguments if kind != "VAL")
    return (f"__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))\n"
            f"void k_{name}({listed})\n{{\n{starts}")


# The declaration of a kernel in each target: (name, threads, arguments) -> text up to its body.
SPELLINGS = {"cuda": _cuda, "metal": _metal, "opencl": _opencl}


@cache
def _read(name):
    path = _HERE / name
    return (path if path.exists() else _HERE.parent / name).read_text()


def _inline(text):
    """The text with its own headers put in: targets compile a string, not a file."""
    return _INCLUDE.sub(lambda found: _inline(_read(found[1])), text)


def render(target, file, macros):
    """The text of device/FILE.c for a target, and the Signature of each kernel in it.

    `macros` are put before it as #define lines. Kernels in a branch that the macros leave out are
    in the result all the same; they just do not exist in the compiled program.
    """
    kernels = {}

    def declaration(found):
        name, threads, listed = found.groups()
        arguments = tuple((kind, str(macros.get(type_, type_)), arg)
                          for kind, type_, arg in _ARGUMENT.findall(listed))
        kernels[name] = Signature(int(macros.get(threads, threads)), arguments)
        return (f"#undef THREADS\n#define THREADS {kernels[name].threads}\n"
                + SPELLINGS[target](name, kernels[name].threads, arguments))

    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    head = _read(f"dialect_{target}.h") + _inline('#include "scalar_math.h"\n') + _read("common.h")
    return head + defines + _KERNEL.sub(declaration, _inline(_read(f"{file}.c"))), kernels
