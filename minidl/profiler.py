"""Where the time goes: every op and every gradient of a piece of code, counted and timed.

>>> import minidl as md
>>> x = md.randn(64, 128, requires_grad=True)
>>> with md.profiler.profile() as prof:
...     (x @ x.T).sum().backward()
>>> [row.name for row in prof.rows(sort_by="name") if "matmul" in row.name]
['matmul', 'matmul backward']

`print(prof)` shows a table, `prof.export_chrome_trace("trace.json")` writes a file for
chrome://tracing or ui.perfetto.dev. Nothing is spent on this while no profile is taken.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minidl import _core
from minidl.optim import Optimizer
from minidl_kernels import ARRAYS, DeviceArray
from minidl_kernels.cpu.memory import memory_stats

__all__ = ["profile", "record_function"]

_active: profile | None = None


def _attention_flops(args: tuple[Any, ...], out: Any) -> float:
    query, key, value, is_causal = args[1], args[2], args[3], args[6]
    scores = out.size // value.shape[-1] * key.shape[-2]
    return 2 * scores * (query.shape[-1] + value.shape[-1]) * (0.5 if is_causal else 1)


# Of the ops that are matrix products: floating-point operations from (backend, *arrays) and result.
_FLOPS: dict[str, Callable[[tuple[Any, ...], Any], float]] = {
    "matmul": lambda args, out: 2 * out.size * args[1].shape[-1],
    "linear": lambda args, out: 2 * out.size * args[1].shape[-1],
    "attention": _attention_flops,
}


def _arrays(values: tuple[Any, ...]) -> Iterator[Any]:
    """The arrays among arguments or results, those in tuples and lists too."""
    for value in values:
        if isinstance(value, ARRAYS):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _arrays(tuple(value))


def _share_memory(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    return isinstance(a, DeviceArray) and isinstance(b, DeviceArray) and a.block is b.block


class Event:
    """One call. Times in nanoseconds; `own` is without the calls made inside it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = self.time = self.own = 0
        self.thread = threading.get_ident()
        self.flops = 0.0
        self.bytes = self.allocated = 0
        self.shapes: list[tuple[int, ...]] = []


class Row:
    """All calls of one name, times in seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.time = self.own = self.share = self.flops = 0.0
        self.bytes = self.allocated = 0

    @property
    def rate(self) -> str:
        """GFLOPS of a matrix product, otherwise GB/s of arguments and results together; a view
        moves nothing."""
        if not self.time or not (self.flops or self.bytes):
            return ""
        if self.flops:
            return f"{self.flops / self.time / 1e9:.1f} GFLOPS"
        return f"{self.bytes / self.time / 1e9:.1f} GB/s"


class profile:
    """Record every op inside a `with` block; one profile at a time.

    Times are those of the wall clock on the calling thread. `allocated` is by how much the memory
    in use has grown when the call returns: results, and what they keep for their gradients.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.seconds = 0.0
        self._inside = threading.local()        # .times: of the calls inside each running one
        self._products: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()

    def __enter__(self) -> profile:
        global _active
        if _active is not None:
            raise RuntimeError("profile: another profile is being taken; they do not nest")
        _active = self
        self._step = Optimizer.step
        Optimizer.step = _named_step(self, Optimizer.step)  # type: ignore[method-assign]
        _core.set_profile(self._call)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        global _active
        self.seconds += time.perf_counter() - self._start
        _core.set_profile(None)
        Optimizer.step = self._step  # type: ignore[method-assign]
        _active = None

    def _call(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """fn(*args), recorded. The core calls this instead of the function of an op or its vjp."""
        name = name.lstrip("_")
        with self._timed(name) as event:
            result = fn(*args)
            given = list(_arrays((result,)))
            for array in given[:1]:
                if isinstance(array, DeviceArray):  # or only handing out the work would be timed
                    array.device.synchronize()
        taken = list(_arrays(args))
        event.shapes = [a.shape for a in taken]
        if not any(_share_memory(a, b) for a in taken for b in given):           # not just a view
            event.bytes = sum(a.nbytes for a in taken + given)
        if name in _FLOPS:
            out, vjp = result
            event.flops = _FLOPS[name](args, out)
            if vjp is not None:
                self._products[vjp] = event.flops
        elif fn in self._products:      # as many again for each operand that wants its gradient
            event.flops = self._products[fn] * min(2, sum(map(bool, args[1][:2])))
        return result

    @contextmanager
    def _timed(self, name: str) -> Iterator[Event]:
        inside = self._inside.__dict__.setdefault("times", [])
        event = Event(name)
        inside.append(0)
        before = memory_stats()["in_use_bytes"]
        event.start = time.perf_counter_ns()
        try:
            yield event
        finally:
            event.time = time.perf_counter_ns() - event.start
            event.allocated = memory_stats()["in_use_bytes"] - before
            event.own = event.time - inside.pop()
            if inside:
                inside[-1] += event.time
            self.events.append(event)

    def rows(self, sort_by: str = "own") -> list[Row]:
        """One row a name, the largest first; `sort_by` is a field of Row."""
        fields = vars(Row(""))
        if sort_by not in fields:
            raise ValueError(f"rows: sort_by must be one of {', '.join(fields)}, got {sort_by!r}")
        found: dict[str, Row] = {}
        for event in self.events:
            row = found.setdefault(event.name, Row(event.name))
            row.calls += 1
            row.time += event.time / 1e9
            row.own += event.own / 1e9
            row.flops += event.flops
            row.bytes += event.bytes
            row.allocated += event.allocated
        for row in found.values():
            row.share = row.own / self.seconds if self.seconds else 0.0
        return sorted(found.values(), key=lambda row: getattr(row, sort_by),
                      reverse=sort_by != "name")

    def table(self, sort_by: str = "own", row_limit: int = 30) -> str:
        """Calls, time, time without inner calls and its share, rate and memory, by name."""
        rows = self.rows(sort_by)
        lines = [f"{'op':28}{'calls':>8}{'time':>12}{'own time':>12}{'share':>8}{'rate':>15}"
                 f"{'allocated':>13}"]
        for row in rows[:row_limit]:
            lines.append(f"{row.name:28}{row.calls:8}{row.time * 1e3:9.3f} ms"
                         f"{row.own * 1e3:9.3f} ms{row.share:8.1%}{row.rate:>15}"
                         f"{row.allocated / 1e6:10.2f} MB")
        rest = max(0.0, self.seconds - sum(row.own for row in rows))
        share = rest / self.seconds if self.seconds else 0.0
        lines.append(f"{'outside of ops':28}{'':20}{rest * 1e3:9.3f} ms{share:8.1%}")
        lines.append(f"{'all':28}{len(self.events):8}{self.seconds * 1e3:9.3f} ms")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as JSON for chrome://tracing or ui.perfetto.dev."""
        import json  # 5 ms that importing minidl does not have to take

        first = min((event.start for event in self.events), default=0)
        events = [{"name": event.name, "ph": "X", "ts": (event.start - first) / 1e3,
                   "dur": event.time / 1e3, "pid": os.getpid(), "tid": event.thread,
                   "args": {"shapes": event.shapes, "flops": event.flops, "bytes": event.bytes,
                            "allocated": event.allocated}} for event in self.events]
        with open(path, "w") as f:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, f)


@contextmanager
def record_function(name: str) -> Iterator[None]:
    """Name a piece of code in the profile that is being taken, if one is.

    >>> with record_function("data"):
    ...     pass
    """
    if _active is None:
        yield
        return
    with _active._timed(name):
        yield


def _named_step(prof: profile, step: Callable[..., Any]) -> Callable[..., Any]:
    def recorded(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with prof._timed(f"{type(self).__name__}.step"):
            return step(self, *args, **kwargs)

    return recorded
