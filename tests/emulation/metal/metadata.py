"""PyObjC's own description of Metal's selectors and constants, read on any machine.

Its wheels are for macOS, but the description in them is Python that only calls functions of the
module `objc`, so it can be run with those recorded instead. Nothing is installed:

    pip download --no-deps --only-binary :all: --platform macosx_11_0_universal2 \\
        --python-version 3.13 -d FOLDER \\
        pyobjc-framework-Metal pyobjc-framework-MetalPerformanceShaders

MINIDL_PYOBJC_WHEELS names the folder.
"""

import os
import re
import types
import zipfile
from pathlib import Path

__all__ = ["Description", "wheels"]


def wheels():
    """The wheels in the folder that MINIDL_PYOBJC_WHEELS names: Metal's, then the shaders'."""
    folder = os.environ.get("MINIDL_PYOBJC_WHEELS")
    found = sorted(Path(folder).glob("pyobjc_framework_metal*.whl")) if folder else []
    return found if len(found) == 2 else []


class Description:
    """selectors {name: metadata}, names (of initialisers and class methods), constants."""

    def __init__(self, paths):
        self.selectors, self.names, self.constants = {}, set(), {}
        for path in paths:
            with zipfile.ZipFile(path) as wheel:
                name = next(n for n in wheel.namelist() if n.endswith("/_metadata.py"))
                self._read(wheel.read(name).decode(), f"{path.name}/{name}")

    def _read(self, text, name):
        recorder = types.ModuleType("objc")
        recorder.__getattr__ = lambda _: lambda *args, **kwargs: None
        recorder.registerMetaDataForSelector = self._selector
        recorder.registerNewKeywordsFromSelector = lambda _, s: self.names.add(s.decode())
        recorder.registerNewKeywords = lambda *args: self.names.add(args[-1].replace("_", ":"))
        space = {"__name__": "metadata", "__builtins__": {**vars(__import__("builtins"))}}
        plain = __import__

        def importing(wanted, *args, **kwargs):
            return recorder if wanted == "objc" else plain(wanted, *args, **kwargs)

        space["__builtins__"]["__import__"] = importing
        exec(compile(text, name, "exec"), space)
        for constant, value in re.findall(r"\$(\w+)@(-?\d+)", space["enums"]):
            self.constants[constant] = int(value)

    def _selector(self, class_, selector, data):
        self.selectors.setdefault(selector.decode(), data)

    def types(self, selector):
        """[type of the result, types of the arguments] as selectors.py writes them; None: open."""
        data = self.selectors[selector]
        spelled = [data.get("retval", {}).get("type")]
        for i in range(selector.count(":")):
            described = data.get("arguments", {}).get(i + 2, {})
            type_ = described.get("type")
            spelled.append(None if type_ is None else described.get("type_modifier", b"") + type_)
        return [None if t is None else t.decode() for t in spelled]
