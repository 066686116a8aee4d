"""What the optimizers share: the gradients of a list of parameters, ready for a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl._core import Tensor
from minidl_kernels import EXACT


def gradients(params: list[Tensor]) -> list[Any]:
    """The raw gradients of ``params``, contiguous."""
    grads = [param.grad.array for param in params]
    return [(EXACT if isinstance(g, np.ndarray) else g.backend).contiguous(g) for g in grads]
