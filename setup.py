"""Build the compiled core: one extension per .pyx, one object per instruction set for simd/*.c.

A family `cpu/<family>.pyx` with a `cpu/simd/<family>.c` beside it links that C file compiled once
per instruction set; the fastest table the CPU can run is picked at import (simd/isa.h).
Set MINIDL_NATIVE=1 to add -march=native to the rest of a build that never leaves this machine.
"""

import os
import platform
import re
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

HERE = Path(__file__).parent
CPU = Path("minidl_kernels/cpu")
X86 = platform.machine().lower() in ("x86_64", "amd64")
DIRECTIVES = {
    "language_level": "3",
    # Kernels index pointers, which these two do not concern: they guard lists and tuples only.
    "boundscheck": True,
    "wraparound": True,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "freethreading_compatible": False,
}

# What each compiler family wants; -ffast-math is never among it: NaN and inf must propagate.
FLAGS = {
    "unix": ["-O3", "-std=c11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
             "-fopenmp-simd", "-fvisibility=hidden", "-g0", "-Wno-unused-function",
             "-Wno-unknown-pragmas"],
    "msvc": ["/O2", "/std:c11", "/openmp:experimental"],
}
ISAS = {
    "unix": {
        "baseline": [],
        "avx2": ["-mavx2", "-mfma", "-mf16c"],
        "avx512": ["-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mfma",
                   "-mprefer-vector-width=512"],
    },
    "msvc": {"baseline": [], "avx2": ["/arch:AVX2"], "avx512": ["/arch:AVX512"]},
}


class BuildExt(build_ext):
    """build_ext that compiles simd sources once per instruction set."""

    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def build_extensions(self):
        self.kind = "msvc" if self.compiler.compiler_type == "msvc" else "unix"
        native = os.environ.get("MINIDL_NATIVE") == "1" and self.kind == "unix"
        for ext in self.extensions:
            ext.extra_compile_args = FLAGS[self.kind] + ["-march=native"] * native
        super().build_extensions()

    def build_extension(self, ext):
        source = CPU / "simd" / (ext.name.rpartition(".")[2] + ".c")
        if ext.name.startswith("minidl_kernels.cpu.") and source.exists():
            ext.depends = [*ext.depends, str(source), *included(source)]
            if not self.force and not newer_group([*ext.sources, *ext.depends],
                                                  self.get_ext_fullpath(ext.name), "newer"):
                return
            ext.extra_objects = [
                self.compile_simd(source, isa, flags)
                for isa, flags in ISAS[self.kind].items()
                if X86 or isa == "baseline"
            ]
        super().build_extension(ext)

    def compile_simd(self, source, isa, flags):
        """One object of `source` for one instruction set; returns its path."""
        macros = [("ISA_SUFFIX", f"_{isa}")] + ([] if X86 else [("MINIDL_ONE_ISA", "1")])
        return self.compiler.compile(
            [str(source)],
            output_dir=str(Path(self.build_temp, isa)),
            macros=macros,
            extra_postargs=FLAGS[self.kind] + flags,
            depends=included(source),
        )[0]


def included(source):
    """The headers of this project that a source includes, and those that they include."""
    found, todo = {}, [source]
    while todo:
        for name in re.findall(r'(?:#include|extern from|^include) "([\w./]+)"',
                               todo.pop().read_text(), re.M):
            for folder in INCLUDES:
                path = Path(folder, Path(name).name)
                if path.exists() and str(path) not in found:
                    found[str(path)] = True
                    todo.append(path)
    return list(found)


INCLUDES = [str(CPU), str(CPU / "simd"), "minidl_kernels", "minidl"]
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        include_dirs=[numpy.get_include(), *INCLUDES],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
                       ("CYTHON_PEP489_MULTI_PHASE_INIT", "1")]
        + ([] if X86 else [("MINIDL_ONE_ISA", "1")]),
        depends=included(path),
    )
    for path in sorted(p.relative_to(HERE) for folder in ("minidl", CPU)
                       for p in HERE.glob(f"{folder}/*.pyx"))
]

setup(
    ext_modules=cythonize(extensions, compiler_directives=DIRECTIVES, build_dir="build/cython"),
    cmdclass={"build_ext": BuildExt},
)
