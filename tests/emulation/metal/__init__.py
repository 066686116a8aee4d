"""Metal on a machine without it: stand-ins for PyObjC's modules, kernels run on the CPU.

install() makes `import Metal`, `import MetalPerformanceShaders` and `import objc` find them.
"""

import shutil
import sys

from . import framework, objc, shaders
from .selectors import Misuse, counts
from .translate import Refused, engine, translate

__all__ = ["Misuse", "Refused", "counts", "engine", "framework", "install", "missing", "objc",
           "shaders", "translate"]


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
