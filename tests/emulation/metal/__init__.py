"""Metal on a machine without it: stand-ins for PyObjC's modules, kernels run on the CPU.

install() makes `import Metal`, `import MetalPerformanceShaders` and `import objc` find them,
installed() only for a while.
"""

import shutil
import sys
from contextlib import contextmanager

from . import framework, objc, shaders
from .selectors import Misuse, counts
from .translate import Refused, engine, translate

__all__ = ["Misuse", "Refused", "counts", "engine", "framework", "install", "installed",
           "missing", "objc", "shaders", "translate"]


def missing():
    """Why it cannot run here, or None."""
    if not sys.platform.startswith("linux"):
        return "Metal is emulated on Linux only"
    for tool in ("clang", "nm"):
        if not shutil.which(tool):
            return f"emulating Metal needs {tool}"
    return None


def install():
    """Put the stand-ins where `import` looks first."""
    sys.modules["Metal"] = framework
    sys.modules["MetalPerformanceShaders"] = shaders
    sys.modules["objc"] = objc


@contextmanager
def installed():
    """A backend opened meanwhile is forgotten, so that later tests find no Metal."""
    before = {name: sys.modules[name] for name in sys.modules if _concerned(name)}
    install()
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _concerned(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _concerned(name):
    return name in ("Metal", "MetalPerformanceShaders", "objc") \
        or name.startswith("minidl_kernels.metal")
