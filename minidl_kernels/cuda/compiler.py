"""CUDA C to PTX: by NVRTC where cuda.bindings can be imported, which is quick, else by nvcc.

PTX for an old architecture runs on every later GPU: the driver translates it for the one that is
there and keeps the result. So does this file with the PTX, as starting nvcc takes a second.
"""

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["compile_ptx"]


def compile_ptx(text, architecture):
    """The PTX of a CUDA C text for an architecture such as compute_75, as bytes."""
    name, run = _compiler()
    key = hashlib.sha256(f"{name}\0{architecture}\0{text}".encode()).hexdigest()
    kept = _folder() / f"{key}.ptx"
    try:
        return kept.read_bytes()
    except OSError:
        pass
    made = run(text, architecture)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as file:
            file.write(made)
        os.replace(file.name, kept)  # whole or not at all, also beside another process
    except OSError:
        pass  # a home that cannot be written to costs time only
    return made


def _folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(base or Path.home() / ".cache", "minidl", "ptx")


@cache
def _compiler():
    """(name and version, function of text and architecture) of the compiler that is there."""
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()  # this is when its library is looked for
        return f"NVRTC {major}.{minor}", _by_nvrtc
    except (ImportError, RuntimeError, OSError):
        pass
    from pycuda.compiler import get_nvcc_version

    try:
        return f"nvcc {get_nvcc_version('nvcc')}", _by_nvcc
    except Exception as error:  # whatever pycuda makes of an nvcc that is not there
        raise RuntimeError(
            "the device 'cuda' compiles its kernels when they are first used, which needs NVRTC "
            "(pip install cuda-bindings nvidia-cuda-nvrtc) or nvcc of the CUDA toolkit on the PATH "
            f"({error})") from None


def _by_nvrtc(text, architecture):
    from cuda.bindings import nvrtc

    def value(result):
        error, *rest = result
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC: {error.name}")
        return rest[0] if rest else None

    program = value(nvrtc.nvrtcCreateProgram(text.encode(), b"minidl.cu", 0, [], []))
    options = [f"--gpu-architecture={architecture}".encode(), b"--disable-warnings"]
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = bytearray(value(nvrtc.nvrtcGetProgramLogSize(program)))
            value(nvrtc.nvrtcGetProgramLog(program, log))
            raise RuntimeError(f"NVRTC refuses a kernel for {architecture} ({error.name}):\n"
                               f"{log.decode(errors='replace').strip(chr(0))}")
        made = bytearray(value(nvrtc.nvrtcGetPTXSize(program)))
        value(nvrtc.nvrtcGetPTX(program, made))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(made).rstrip(b"\0")


def _by_nvcc(text, architecture):
    from pycuda.compiler import compile
    from pycuda.driver import CompileError

    try:
        return compile(text, target="ptx", arch=architecture, no_extern_c=True, options=["-w"],
                       cache_dir=False)
    except CompileError as error:
        raise RuntimeError(f"nvcc refuses a kernel for {architecture}:\n{error}") from None
