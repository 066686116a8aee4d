"""Hugging Face's weight names and layouts, in both directions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minidl import ops
from minidl._core import Tensor
from minidl.errors import ArgumentError
from minidl.nn import Module


@dataclass(frozen=True)
class Layout:
    """How a model's modules are called at Hugging Face.

    ``names``: our module to theirs, {} for the number of a block; where they have several (query,
    key, value), ours has their rows one below the other. ``prefix`` stands before their names,
    those in ``bare`` excepted; files come without it too, or with that of a ``wrapper``.
    ``transposed``: modules whose weight they keep as (in, out). ``ignored`` is a pattern of names
    that hold nothing we need.
    """

    names: dict[str, str | tuple[str, ...]]
    prefix: str = ""
    bare: tuple[str, ...] = ()
    wrapper: str = ""
    transposed: tuple[str, ...] = ()
    ignored: str = ""


def _theirs(name: str, layout: Layout) -> tuple[list[str], bool]:
    """Their names (without prefix) for our parameter, and whether it is transposed."""
    module, _, leaf = name.rpartition(".")
    template = re.sub(r"\.\d+\.", ".{}.", module)
    number = re.search(r"\.(\d+)\.", module)
    found = layout.names[template]
    modules = (found,) if isinstance(found, str) else found
    names = [f"{m.format(number[1]) if number else m}.{leaf}" for m in modules]
    return names, template in layout.transposed and leaf == "weight"


def write_hf(model: Module, layout: Layout) -> dict[str, Tensor]:
    """The parameters of ``model`` as Hugging Face saves them."""
    result = {}
    for name, tensor in model.state_dict().items():
        names, transposed = _theirs(name, layout)
        if len(names) > 1:
            attn = model.get_submodule(name.rpartition(".")[0].rpartition(".")[0])
            kv = attn.num_kv_heads * attn.head_dim
            parts = ops.split(tensor, [attn.num_heads * attn.head_dim, kv, kv], 0)
        else:
            parts = (tensor.t().contiguous() if transposed else tensor,)
        for their, part in zip(names, parts, strict=True):
            bare = their.rpartition(".")[0] in layout.bare
            result[their if bare else layout.prefix + their] = part
    return result


def read_hf(model: Module, state: Mapping[str, Any], layout: Layout) -> dict[str, Tensor]:
    """``state`` under our names; raise a sentence when something is missing or left over."""
    state = {_modern(n.removeprefix(layout.prefix).removeprefix(layout.wrapper)): value
             for n, value in state.items()}
    left = {n for n in state if not re.fullmatch(layout.ignored, n)}
    result: dict[str, Tensor] = {}
    missing: list[str] = []
    seen: dict[int, str] = {}
    for name, own in model.state_dict().items():
        names, transposed = _theirs(name, layout)
        first = seen.setdefault(id(own), name)
        absent = [n for n in names if n not in state]
        left.difference_update(names)
        if absent:
            missing += absent if first == name else []      # a tied weight has one name or two
            continue
        parts = [_tensor(n, state[n]).to(own.dtype) for n in names]
        value = ops.cat(parts, 0) if len(parts) > 1 else parts[0]
        value = value.t().contiguous() if transposed else value
        if first != name and not bool((value == result[first]).all()):
            raise ArgumentError(
                f"{names[0]} differs from {first}, to which this model ties it"
            )
        result[name] = value
    if missing or left:
        raise ArgumentError(
            f"the weights do not fit {type(model).__name__}: missing "
            f"{', '.join(sorted(missing)) or 'nothing'}; left over "
            f"{', '.join(sorted(left)) or 'nothing'}"
        )
    return result


def _modern(name: str) -> str:
    """The names that norms had when BERT was published, as they are now."""
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))


def _tensor(name: str, value: Any) -> Tensor:
    """A tensor as it is; NumPy arrays and PyTorch's tensors converted."""
    if isinstance(value, Tensor):
        return value
    if not hasattr(value, "__array__"):
        raise TypeError(f"{name} must be a tensor or an array, got {type(value).__name__}")
    return ops.as_tensor(value.detach() if hasattr(value, "detach") else value)
