"""Load SciPy's BLAS without importing all of scipy.linalg, and own its thread count.

`import scipy.linalg` costs some 190 ms, the one extension module that we cimport from it 30 ms. So
that module is loaded from its file under its own name before blas.pyx asks for it. SciPy's OpenBLAS
starts on one thread: minidl splits the work itself (docs/threads.md).
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

NAME = "scipy.linalg.cython_blas"
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def load():
    """Make `cimport scipy.linalg.cython_blas` cheap, with one BLAS thread."""
    if NAME in sys.modules or "scipy.linalg" in sys.modules:
        import scipy.linalg.cython_blas

        blas_threads(1)
        return
    path = _extension_file()
    if path is None:
        import scipy.linalg.cython_blas

        blas_threads(1)
        return
    loaded = "scipy" in sys.modules  # scipy.special, say, has brought the library along
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        import scipy  # noqa: F401  finds its DLLs on Windows

        spec = importlib.util.spec_from_file_location(NAME, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    sys.meta_path.insert(0, _TellScipyLinalg())
    if loaded:
        blas_threads(1)


def _extension_file():
    """The path of the compiled module, None where SciPy is laid out in another way."""
    spec = importlib.util.find_spec("scipy")
    for folder in spec.submodule_search_locations if spec else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder, "linalg", "cython_blas" + suffix)
            if path.exists():
                return path
    return None


class _TellScipyLinalg:
    """When scipy.linalg is imported later, gives it its attribute `cython_blas`."""

    def find_spec(self, name, path=None, target=None):
        if name != "scipy.linalg":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)  # this may have been a look only, with no import to come
        execute = spec.loader.exec_module

        def exec_module(module):
            sys.meta_path.remove(self)
            module.cython_blas = sys.modules[NAME]
            execute(module)

        spec.loader.exec_module = exec_module
        return spec


class blas_threads:
    """Set the threads of SciPy's own BLAS; as a context, give them back at the end.

    minidl keeps SciPy's BLAS at one thread and splits the work itself. A program that also calls
    scipy.linalg on large matrices can hand threads to it:

    >>> with blas_threads(4):
    ...     pass  # scipy.linalg.solve(...)

    NumPy's BLAS is another copy and is never touched.
    """

    def __init__(self, n):
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"blas_threads: expected a number of threads from 1 up, got {n!r}")
        self._libraries = _scipy_libraries()
        self._before = [lib.num_threads for lib in self._libraries]
        for lib in self._libraries:
            lib.set_num_threads(n)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for lib, n in zip(self._libraries, self._before, strict=True):
            lib.set_num_threads(n)


def _scipy_libraries():
    """threadpoolctl's controllers of every BLAS that is not NumPy's own copy."""
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [lib for lib in found if "numpy.libs" not in str(lib.filepath)
            and f"numpy{os.sep}.dylibs" not in str(lib.filepath)]


def describe():
    """One line about each BLAS that minidl may call: name, version, threads."""
    return [f"{lib.internal_api} {lib.version} ({lib.num_threads} thread"
            f"{'s' if lib.num_threads != 1 else ''}, {os.path.basename(lib.filepath)})"
            for lib in _scipy_libraries()]
