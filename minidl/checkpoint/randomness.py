"""Every random stream of a program, out and in again."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from minidl.errors import ArgumentError
from minidl.ops.generator import default_generator


def random_state() -> dict[str, Any]:
    """Where the random streams stand: minidl's default generator, Python's ``random`` and
    NumPy's global one. Generators of your own go into the state beside it, as they are.

    >>> state = random_state()
    >>> a = md.rand(3)
    >>> set_random_state(state)
    >>> bool((md.rand(3) == a).all())
    True
    """
    version, words, gauss = random.getstate()
    return {
        "minidl": default_generator.get_state(),
        "python": {"version": version, "words": np.array(words, np.uint32), "gauss": gauss},
        "numpy": np.random.get_state(legacy=False),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Continue every stream from what ``random_state`` returned."""
    try:
        python = state["python"]
        words = tuple(int(word) for word in python["words"])
        stream, numpy = state["minidl"], state["numpy"]
    except (KeyError, TypeError) as error:
        raise ArgumentError(
            f"set_random_state: expected what random_state() returned, but {error} is missing"
        ) from None
    random.setstate((python["version"], words, python["gauss"]))
    np.random.set_state(numpy)
    default_generator.set_state(stream)
