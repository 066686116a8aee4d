"""How a module shows itself: the ``repr`` tree, and its place in an error message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minidl.errors import MinidlError

if TYPE_CHECKING:
    from .module import Module


def tree(module: Module) -> str:
    """The ``repr`` of a module: PyTorch's tree, with the number of parameters of each module.

    Linear(in_features=128, out_features=384, bias=True)  # 49,536 parameters
    """
    head = module._get_name() + "("
    count = sum(p.numel() for p in module.parameters())
    note = f"  # {count:,} parameter{'' if count == 1 else 's'}" if count else ""
    own = module.extra_repr()
    children = module._child_lines()
    if not children:
        if "\n" not in own:
            return f"{head}{own}){note}"
        return f"{head}{note}\n  {_indent(own)}\n)"
    lines = ([own] if own else []) + children
    return f"{head}{note}\n  " + "\n  ".join(_indent(line) for line in lines) + "\n)"


def child_lines(module: Module) -> list[str]:
    """``(name): child`` for each child module."""
    return [f"({name}): {child!r}" for name, child in module._modules.items()]


def collapsed_lines(module: Module) -> list[str]:
    """``child_lines`` of a list, with equal neighbours as one: ``(0-3): 4 x Block(...)``."""
    runs: list[list] = []  # [first, last, text]
    for index, child in enumerate(module._modules.values()):
        text = repr(child)
        if runs and runs[-1][2] == text:
            runs[-1][1] = index
        else:
            runs.append([index, index, text])
    return [
        f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
        for first, last, text in runs
    ]


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


class _Trail:
    """Where an error came from: the labels from the outermost known module to the innermost."""

    def __init__(self, error: MinidlError, innermost: Module) -> None:
        op, found, rest = str(error).partition(": ")
        # The layer's name says what its own op would: "Linear 4→3: linear: input has ..."
        same = found and op.replace("_", "") == type(innermost).__name__.lower()
        self.message = rest if same else str(error)
        self.innermost = innermost.summary()
        self.outermost = innermost
        self.seen = {id(innermost)}
        self.labels: list[str] = []

    def text(self) -> str:
        if not self.labels:
            return f"{self.innermost}: {self.message}"
        # "Linear 0 (Linear 4→3)" would say the class twice.
        name = self.innermost.split(" ")[0]
        inner = self.innermost
        if self.labels[-1].startswith(name + " "):
            inner = inner[len(name) + 1 :]
        note = f" ({inner})" if inner and inner != self.labels[-1] else ""
        return " → ".join(self.labels) + f"{note}: {self.message}"


def add_path(error: MinidlError, module: Module) -> None:
    """Put the path of ``module`` in front of the message of an error that leaves its forward.

    Called once for every module that the error passes on its way up; each call rewrites the
    message with one more step: ``Block 3 → attn → qkv (Linear 128→384): input has ...``.
    """
    trail = getattr(error, "_trail", None)
    if trail is None:
        trail = error._trail = _Trail(error, module)  # type: ignore[attr-defined]
    elif id(module) in trail.seen:
        return
    else:
        trail.labels = _labels(module, trail.outermost) + trail.labels
        trail.outermost = module
        trail.seen.add(id(module))
    error.args = (trail.text(), *error.args[1:])


def _labels(parent: Module, child: Module) -> list[str]:
    """The steps from ``parent`` down to ``child``; a member of a list reads ``Block 3``."""
    path = next((name for name, found in parent.named_modules() if found is child), "")
    labels: list[str] = []
    current: Module = parent
    before = "0"
    for name in path.split(".") if path else []:
        current = current._modules[name]  # type: ignore[assignment]
        if not name.isdigit():
            labels.append(name)
        else:
            if not before.isdigit():
                labels.pop()  # the list's own name: "Block 3" says enough
            labels.append(f"{type(current).__name__} {name}")
        before = name
    return labels
