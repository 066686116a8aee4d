"""Imports go down only; one file knows BLAS, one threads; devices are imported when asked for."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# From the ground up; a module may import what stands before it, and its own line. A new module at
# the top of minidl/ needs a place here.
LAYERS = [
    ["minidl_kernels"],
    ["errors", "_methods", "_strided"],
    ["dtypes"],
    ["_core", "_op", "_inplace", "_shortcut", "_backward"],
    ["grad_mode"],
    ["ops", "config"],
    ["autograd"],
    ["optim"],
    ["nn"],
    ["data", "text", "checkpoint", "backends", "profiler"],
    ["models"],
    ["train", "generate"],
    ["plots"],
    ["__init__"],
    ["cli", "__main__"],    # uses the public API, as any program does
]
HEIGHT = {name: i for i, layer in enumerate(LAYERS) for name in layer}
SOURCES = sorted(p.relative_to(ROOT) for folder in ("minidl", "minidl_kernels")
                 for p in (ROOT / folder).rglob("*")
                 if p.suffix in (".py", ".pyi", ".pyx", ".pxd", ".pxi"))
C_SOURCES = sorted(p.relative_to(ROOT) for p in (ROOT / "minidl_kernels").rglob("*.[ch]"))
IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+\(?([\w ,]+)"
                    r"|c?import[ \t]+([\w., ]+))", re.M)


def imported(path):
    """Dotted names that a file imports, `from a import b` as a.b."""
    text = re.sub(r'""".*?"""', "", (ROOT / path).read_text(), flags=re.S)
    for origin, names, plain in IMPORT.findall(text):
        if origin.startswith("."):
            up = len(origin) - len(origin.lstrip("."))
            origin = ".".join([*Path(path).parts[:-up], origin[up:]]).rstrip(".")
        for name in re.split(r"[ ,]+", (names or plain).strip(" ,")):
            yield f"{origin}.{name}" if origin else name


def layer(dotted):
    """The name in LAYERS of minidl.nn.linear (nn), of minidl_kernels.cpu, of minidl (the top)."""
    first, *rest = dotted.split(".")
    if first == "minidl":
        return rest[0] if rest and rest[0] in HEIGHT else "__init__"
    return first


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_go_down_only(path):
    own = layer(".".join(path.with_suffix("").parts))
    if path.parts[0] == "minidl" and own == "__init__" and path.stem != "__init__":
        pytest.fail(f"{path}: a new module needs a place in LAYERS")
    for name in imported(path):
        if name.split(".")[0] in ("minidl", "minidl_kernels"):
            assert HEIGHT[layer(name)] <= HEIGHT[own], f"{path} imports {name}, which is above it"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_one_file_knows_blas_and_devices_wait(path):
    text = (ROOT / path).read_text()
    if path != Path("minidl_kernels/cpu/blas.pyx"):
        assert not re.search(r"^\s*(?:from|cimport)\s+scipy.*cython_(?:blas|lapack)", text, re.M)
    assert not re.search(r"\bprange\b|cython\.parallel|openmp cimport", text), "use threads.run"
    at_import = re.findall(r"^(?:from|import)\s+(\w+)", text, re.M)
    late = {"pycuda", "Metal", "objc", "pyopencl", "torch", "matplotlib", "ml_dtypes", "tqdm"}
    assert late.isdisjoint(at_import), f"{path} imports {late & set(at_import)} at module level"


@pytest.mark.parametrize("path", C_SOURCES, ids=str)
def test_only_the_pool_knows_threads(path):
    threads = r"#\s*pragma\s+omp\s+(?!simd|declare simd)\w+|<(?:omp|pthread|threads|pythread)\.h>"
    found = re.findall(threads, (ROOT / path).read_text())
    assert path.name == "pool.h" or not found, found


def test_there_is_something_to_check():
    assert len(SOURCES) > 30 and len(C_SOURCES) > 5
    assert {"numpy", "minidl_kernels.HOST"} <= set(imported("minidl/_core.pyx"))
