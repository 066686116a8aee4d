"""Builds what emulated CUDA needs, once: the stand-in libraries, and pycuda.

    python tests/emulation/cuda/toolchain.py            build the libraries
    python tests/emulation/cuda/toolchain.py install    and install pycuda and NVRTC here
    python tests/emulation/cuda/toolchain.py cached     the same, if pycuda was built before

All is kept in $MINIDL_EMULATION_CACHE, else in the user's cache folder, never in the tree. The
libraries take some twenty seconds. pycuda takes three minutes, as it is a large extension module;
it is linked against the stand-in driver, which has every symbol of cuda.h, so no driver is needed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
DRIVER = ("machine", "memory", "state", "driver", "hooks")
PYCUDA = "pycuda==2026.1"
# Each release has instructions of its own; ops.h has those of this one.
NVRTC = ("cuda-bindings==13.*", "nvidia-cuda-nvrtc==13.0.88")
# -ffp-contract=off: a product and a sum of PTX are two roundings; fma.rn is one.
FLAGS = ["-std=c++17", "-O2", "-ftree-vectorize", "-march=native", "-fPIC", "-fno-strict-aliasing",
         "-ffp-contract=off", "-fvisibility=hidden"]


def missing():
    """Why CUDA cannot be emulated here, '' if it can."""
    if sys.platform != "linux":
        return "the stand-in driver is a Linux library"
    if shutil.which("g++") is None:
        return "no C++ compiler (g++)"
    if toolkit() is None:
        return "no CUDA toolkit: nvcc and cuda.h are needed, a GPU is not"
    return ""


@cache
def toolkit():
    """The folder of the CUDA toolkit, None where there is none."""
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")]
    if shutil.which("nvcc"):  # which may be a script that starts another nvcc
        shown = subprocess.run(["nvcc", "--dryrun", "-ptx", "-x", "cu", "/dev/null"],
                               capture_output=True, text=True).stderr
        named += [str(Path(found).parent) for found in re.findall(r"_HERE_=(\S+)", shown)]
    for folder in [*named, "/usr/local/cuda"]:
        parts = Path(folder, "include", "cuda.h"), Path(folder, "bin", "nvcc")
        if folder and all(part.exists() for part in parts):
            return Path(folder)
    return None


def cache_folder():
    base = os.environ.get("MINIDL_EMULATION_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "minidl", "emulation")
    Path(base).mkdir(parents=True, exist_ok=True)
    return Path(base).resolve()


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def libraries():
    """The folder with libcuda.so.1 and libcublas.so.13, built when the sources have changed."""
    machine = run("g++", *FLAGS, "-dM", "-E", "-x", "c++", "/dev/null")  # compiler and processor
    digest = hashlib.sha256(f"{machine}{toolkit()}".encode())
    for path in sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h"), Path(__file__)]):
        digest.update(path.read_bytes())
    import fcntl  # not on Windows, where missing() says no before

    folder = cache_folder() / f"libraries-{digest.hexdigest()[:16]}"
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one builds, the others wait
        if not folder.exists():
            made = Path(tempfile.mkdtemp(dir=folder.parent))
            _build(made)
            made.rename(folder)  # whole or not at all
    return folder


def _build(folder):
    include = f"-I{toolkit() / 'include'}"
    jobs = [subprocess.Popen(["g++", *FLAGS, include, "-c", str(HERE / f"{name}.cpp"), "-o",
                              str(folder / f"{name}.o")]) for name in (*DRIVER, "cublas")]
    codes = [job.wait() for job in jobs]
    if any(codes):
        raise RuntimeError("the stand-in driver does not compile")
    (folder / "rest.c").write_text(_rest(include))
    run("gcc", "-O1", "-w", "-fno-builtin", "-fPIC", "-c", folder / "rest.c", "-o",
        folder / "rest.o")
    run("g++", "-shared", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1",
        *[folder / f"{name}.o" for name in (*DRIVER, "rest")])
    (folder / "libcuda.so").symlink_to("libcuda.so.1")  # the name that a linker looks for
    run("g++", "-shared", "-Wl,-soname,libcublas.so.13", "-o", folder / "libcublas.so.13",
        folder / "cublas.o", f"-L{folder}", "-lcuda", "-Wl,-rpath,$ORIGIN")


def _rest(include):
    """C text of the functions of cuda.h that driver.cpp does not have: they are not supported."""
    headers = "#include <cuda.h>\n#include <cudaProfiler.h>\n"
    expanded = run("gcc", "-E", include, "-", input=headers)
    macros = run("gcc", "-E", "-dM", include, "-", input=headers)
    names = set(re.findall(r"\b(cu[A-Z]\w+)\s*\(", expanded))
    names |= set(re.findall(r"^#define cu[A-Z]\w* (cu[A-Z]\w*)$", macros, re.M))
    made = set(re.findall(r"^API CUresult (\w+)\(", (HERE / "driver.cpp").read_text(), re.M))
    return "".join(f"int {name}(void) {{ return 801; }}\n" for name in sorted(names - made))


def built_wheels():
    """The wheel of pycuda for this Python in the cache: a list of one or none."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return list((cache_folder() / "wheels").glob(f"{PYCUDA.replace('==', '-')}-{tag}-*.whl"))


def pycuda_wheel():
    """A wheel of pycuda for this Python, built when it is not in the cache."""
    if not built_wheels():
        with tempfile.TemporaryDirectory() as home:
            Path(home, ".aksetup-defaults.py").write_text(
                f"CUDA_ROOT = {str(toolkit())!r}\n"
                f"CUDA_INC_DIR = [{str(toolkit() / 'include')!r}]\n"
                "CUDA_ENABLE_CURAND = False\n"
                f"CUDADRV_LIB_DIR = [{str(libraries())!r}]\n")
            # pycuda reads its settings from the home folder; pip is to find its own where they are
            kept = {"XDG_CONFIG_HOME": str(Path.home() / ".config"),
                    "XDG_CACHE_HOME": str(Path.home() / ".cache")}
            run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w",
                cache_folder() / "wheels", "--no-binary", "pycuda", PYCUDA,
                env={**kept, **os.environ, "HOME": home})
    return built_wheels()[0]


def main():
    why = missing()
    if not why and sys.argv[1:] == ["cached"] and not built_wheels():
        why = "pycuda is not built; `toolchain.py install` takes three minutes, once"
    if why:
        print(f"CUDA is not emulated: {why}")
        return 1
    print(libraries())
    if sys.argv[1:]:
        run(sys.executable, "-m", "pip", "install", "-q", pycuda_wheel())
        try:  # the tests compile hundreds of kernels, and nvcc takes a second for each
            run(sys.executable, "-m", "pip", "install", "-q", *NVRTC)
        except RuntimeError as error:
            print(f"without NVRTC, so nvcc compiles: {str(error).splitlines()[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
