"""The table of ops in docs/devices.md: `python tests/devices/table.py` writes it anew.

Every op's first sample (tests/ops/samples.py) runs on OpenCL; counted are the launches of its
forward and its backward pass, and whether values came to the host on the way.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "devices.md"
BEGIN, END = "<!-- table of ops: begin -->\n", "<!-- table of ops: end -->\n"


def load(name, path):
    """A module of the tests, which are no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Counter:
    """Launches and fetches of a device since the last look."""

    def __init__(self, device):
        self.device, self.fetches = device, 0
        self.download, self.before = device.download, device.launches
        device.download = self._download

    def _download(self, values, x):
        self.fetches += x is not self.device._fault
        return self.download(values, x)

    def look(self):
        found = self.device.launches - self.before, self.fetches
        self.before, self.fetches = self.device.launches, 0
        return found

    def close(self):
        self.device.download = self.download


def counts(ops, name, where):
    """(launches forward, launches backward or None, values fetched) of an op's first sample."""
    import minidl as md

    args = ops.placed(ops.samples.SAMPLES[name][0](np.random.default_rng(0)), where)
    counter = Counter(importlib.import_module(f"minidl_kernels.{where}").device)
    try:
        results = ops.OPS[name](*args)
        forward, fetched = counter.look()
        results = results if isinstance(results, tuple) else (results,)
        back = None
        for y in results:
            if y.requires_grad:
                g = md.ones(*y.shape, device=y.device)
                counter.look()
                y.backward(g, retain_graph=True)
                launches, more = counter.look()
                back, fetched = (back or 0) + launches, fetched + more
        return forward, back, fetched
    finally:
        counter.close()


def table(where="opencl"):
    """The lines of the table, in Markdown."""
    ops = load("device_ops", Path(__file__).parent / "test_ops.py")
    lines = ["| op | launches | of its gradient | the host |\n", "| --- | --- | --- | --- |\n"]
    for name in sorted(ops.samples.SAMPLES, key=lambda n: n.lstrip("_")):
        if name in ops.FLOAT64 | {"moved"}:
            continue
        forward, back, fetched = counts(ops, name, where)
        shown = "" if back is None else str(back)
        lines.append(f"| `{name.lstrip('_')}` | {forward} | {shown} | "
                     f"{'waits for values' if fetched else ''} |\n")
    return "".join(lines)


def main():
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(before + BEGIN + table() + END + after)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
