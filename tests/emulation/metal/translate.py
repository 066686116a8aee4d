"""From the text of Metal kernels to a library that the engine runs, by clang.

C++ for OpenCL has Metal's address spaces and refuses what Metal refuses there; the stand-in of
<metal_stdlib> in tests/devices/metal declares the rest. Libraries are kept in a cache outside the
tree (MINIDL_EMULATION_CACHE, else the user's cache folder), under a hash of all that they are made
from.
"""

import ctypes
import hashlib
import json
import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Kernel", "Parameter", "Refused", "engine", "translate"]

_HERE = Path(__file__).parent
_STDLIB = _HERE.parents[1] / "devices" / "metal"
_WITHOUT = "generic_address_space", "pipes", "device_enqueue"
_LANGUAGE = ["-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-Xclang",
             "-cl-ext=" + ",".join(f"-__opencl_c_{name}" for name in _WITHOUT), "-Wno-everything"]
_CODE = ["-O1", "-fPIC", "-fsanitize=thread,bounds,integer-divide-by-zero"]
_ENGINE = ["-x", "c++", "-std=c++14", "-O2", "-fPIC", "-shared", "-Wl,-z,defs",
           "-U_FORTIFY_SOURCE"]
_KERNEL = re.compile(r"\b__kernel\s+void\s+(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*\{")
_PARAMETER = re.compile(r"(?P<type>.*?)(?P<mark>[*&]?)\s*(?P<name>\w+)\s*"
                        r"\[\[(?P<attribute>\w+)(?:\((?P<index>\d+)\))?\]\]$", re.S)
# where each attribute's three numbers lie in what the engine passes
_PLACES = {"thread_position_in_threadgroup": 0, "threadgroup_position_in_grid": 3,
           "threadgroups_per_grid": 6}


class Refused(Exception):
    """What the compiler says about a text."""


class Parameter(NamedTuple):
    """[[buffer(index)]] of a kernel: an array (pointer), or a value of so many bytes."""

    index: int
    name: str
    pointer: bool
    size: int


class Kernel(NamedTuple):
    """An entry of the library, its parameters, its threadgroup arrays as (name, address, size)."""

    name: str
    parameters: list[Parameter]
    arrays: list[tuple[str, int, int]]
    entry: int


def translate(text):
    """{name: Kernel} of a text in the Metal Shading Language, ready to run."""
    engine()
    library = _cache() / f"{_hash(text, *_LANGUAGE, *_CODE)}.so"
    if not library.exists():
        _build(text, library)
    return _load(library)


@cache
def engine():
    """The engine's library, built where it is not in the cache; what launches kernels."""
    source = (_HERE / "engine.cpp").read_text()
    path = _cache() / f"engine-{_hash(source, *_ENGINE)}.so"
    if not path.exists():
        _clang([*_ENGINE, f"-I{_HERE}", "-", "-lstdc++", "-lm"], source, path)
    library = ctypes.PyDLL(str(path))
    library.words.restype, library.words.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.forget.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.error.restype = ctypes.c_char_p
    return library


@cache
def _cache():
    chosen = os.environ.get("MINIDL_EMULATION_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = (Path(chosen) if chosen else base / "minidl-emulation") / "metal"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


@cache
def _made_by():
    """What every result depends on: the compiler, the stand-in library, the engine, this file."""
    version = subprocess.run(["clang", "--version"], capture_output=True, text=True).stdout
    files = [_STDLIB / "metal_stdlib", _HERE / "engine.cpp", _HERE / "accesses.h", Path(__file__)]
    return version + "".join(f.read_text() for f in files)


def _hash(*parts):
    return hashlib.sha256("\0".join([_made_by(), *parts]).encode()).hexdigest()[:24]


def _clang(arguments, text, output=None):
    """Run clang on a text; its output goes to a file that appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=_cache()) as folder:
        made = Path(folder, "made")
        target = [] if output is None else ["-o", made]
        done = subprocess.run(["clang", f"-I{_STDLIB}", *arguments, *target], input=text,
                              capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr.strip())
        if output is not None:
            made.replace(output)
        return done.stdout


def _parameters(listed):
    """(declared type, mark, name, attribute, index) of each parameter."""
    for declared in re.split(r",(?![^\[]*\]\])", listed):
        found = _PARAMETER.fullmatch(declared.strip())
        if found is None or (found["attribute"] != "buffer" and found["attribute"] not in _PLACES):
            raise Refused(f"the stand-in does not know the parameter '{declared.strip()}'")
        yield found


def _wrapper(name, listed):
    """A function that calls a kernel with arguments from arrays, and a table of its buffers."""
    values, table = [], []
    for p in _parameters(listed):
        if p["attribute"] == "buffer":
            cast = f"({p['type'].strip()} *)arguments[{p['index']}]"
            values.append(cast if p["mark"] == "*" else f"*{cast}")
            plain = re.sub(r"\b(__global|__constant|const)\b", "", p["type"]).strip()
            table.append((int(p["index"]), p["name"], p["mark"] == "*", plain))
        else:
            at = _PLACES[p["attribute"]]
            values.append(f"(uint3)(ids[{at}], ids[{at + 1}], ids[{at + 2}])")
    sizes = ", ".join(f"sizeof({plain})" for *_, plain in table)
    text = (f"__constant unsigned sizes_{name}[] = {{{sizes}}};\n"
            f'extern "C" __attribute__((no_sanitize("thread")))\nvoid run_{name}'
            "(__global const unsigned long *arguments, __global const unsigned *ids)\n"
            f"{{ {name}({', '.join(values)}); }}\n")
    return text, [row[:3] for row in table]


def _build(text, library):
    expanded = _clang([*_LANGUAGE, "-E", "-"], text)
    kernels, wrappers = {}, ""
    for name, listed in _KERNEL.findall(expanded):
        wrapper, kernels[name] = _wrapper(name, listed)
        wrappers += wrapper
    unlinked, linked, found = (library.with_suffix(f".{os.getpid()}{end}")
                               for end in (".o", ".so", ".json"))
    try:
        _clang([*_LANGUAGE, *_CODE, "-c", "-"], expanded + wrappers, unlinked)
        _clang(["-shared", "-Wl,-z,defs", unlinked, engine()._name, "-lm"], "", linked)
        symbols = subprocess.run(["nm", "-S", linked], capture_output=True, text=True, check=True)
        found.write_text(json.dumps({"kernels": kernels, "symbols": _symbols(symbols.stdout)}))
        found.replace(library.with_suffix(".json"))
        linked.replace(library)  # last: whoever sees it finds the other
    finally:
        for path in (unlinked, linked, found):
            path.unlink(missing_ok=True)


def _symbols(symbols):
    """Address of each run_ function, and {kernel: [(array, address, size)]}, from nm's list."""
    entries, arrays = {}, {}
    for line in symbols.splitlines():
        *numbers, _, symbol = line.split()
        local = re.fullmatch(r"_ZZ(\d+)([\w.]+)", symbol)
        if symbol.startswith("run_"):
            entries[symbol[4:]] = int(numbers[0], 16)
        elif local:
            kernel, rest = local[2][:int(local[1])], local[2][int(local[1]):]
            name = re.fullmatch(r"E\d+([\w.]+)", rest)[1]
            arrays.setdefault(kernel, []).append((name, *[int(n, 16) for n in numbers]))
    return {"entries": entries, "arrays": arrays}


def _load(library):
    described = json.loads(library.with_suffix(".json").read_text())
    loaded, symbols = ctypes.PyDLL(str(library)), described["symbols"]
    kernels = {}
    for name, table in described["kernels"].items():
        entry = ctypes.cast(loaded[f"run_{name}"], ctypes.c_void_p).value
        base = entry - symbols["entries"][name]
        sizes = (ctypes.c_uint32 * len(table)).in_dll(loaded, f"sizes_{name}")
        parameters = [Parameter(*row, size) for row, size in zip(table, sizes, strict=True)]
        arrays = [(array, base + at, size) for array, at, size in symbols["arrays"].get(name, [])]
        kernels[name] = Kernel(name, parameters, arrays, entry)
    return kernels
