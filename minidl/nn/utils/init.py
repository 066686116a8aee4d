"""Modules without starting values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minidl.nn.init import skipped

M = TypeVar("M")


def skip_init(module_cls: Callable[..., M], *args: Any, **kwargs: Any) -> M:
    """``module_cls(*args, **kwargs)`` with parameters that hold anything: for weights that are
    loaded right after, where filling them with random numbers would be work for nothing.

    >>> layer = nn.utils.skip_init(nn.Linear, 2, 3)
    >>> layer.load_state_dict({"weight": md.ones(3, 2), "bias": md.zeros(3)})
    <All keys matched successfully>
    """
    with skipped():
        return module_cls(*args, **kwargs)
