"""Parameter: a tensor that a module trains."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl._core import Tensor


class Parameter(Tensor):
    """A tensor that becomes one of ``module.parameters()`` when it is set as an attribute.

    The data is shared, not copied. Ops on a parameter give plain tensors.

    Shapes: any.

    >>> weight = Parameter(md.zeros(3, 4))
    >>> weight.requires_grad
    True
    """

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        super().__init__(np.empty(0, np.float32) if data is None else data, requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


