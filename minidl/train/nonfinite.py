"""A step again, with every operation watched: where did the NaN come from?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minidl import _core
from minidl.errors import NonFiniteError
from minidl_kernels import ARRAYS

MASKING = ("masked_fill", "where")  # write -inf on purpose


def explain(model: Any, step: Callable[[], object]) -> str:
    """Run ``step`` with checks on and say which operation first made NaN or inf.

    The caller has brought the random streams back to where they stood. Nothing is checked, and
    nothing is spent, in a step that is not watched.
    """
    for name, parameter in model.named_parameters():
        if not _finite(parameter.detach().cpu().numpy()):
            return (f"the parameter {name} was not finite before this step: the step before it "
                    "was too large")
    before = _core.set_profile(_watched)
    try:
        step()
    except NonFiniteError as error:
        return str(error)
    finally:
        _core.set_profile(before)
    return "run again with every operation watched, the step was finite: it is not deterministic"


def _watched(name: str, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """fn(*args); NonFiniteError when the result is not finite. The core calls this for every op
    and every gradient; a module on the way adds its path to the message."""
    result = fn(*args)
    backward = name.endswith(" backward")
    results = list(_arrays(result if backward else result[0]))
    inputs = list(_arrays(args[0] if backward else args[1:]))
    for array in results:
        if _finite(array):
            continue
        masked = name in MASKING or any(np.isneginf(a).any() for a in inputs)
        if masked and not np.isnan(array).any() and not np.isposinf(array).any():
            continue
        what = "the gradient of " + name.removesuffix(" backward") if backward else name
        raise NonFiniteError(
            f"{what.replace(' _', ' ').lstrip('_')} made {_describe(array)} of "
            + ", ".join(_describe(a) for a in inputs)
        )
    return result


def _arrays(values: Any) -> Iterator[np.ndarray]:
    if isinstance(values, ARRAYS):
        if values.dtype.kind == "f":
            yield values if isinstance(values, np.ndarray) else values.numpy()
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _arrays(value)


def _finite(array: Any) -> bool:
    return bool(np.isfinite(array).all())


def _describe(array: np.ndarray) -> str:
    """``an array (12, 64) of values up to 3e+38``, or how many of them are NaN and inf."""
    nans, infs = int(np.isnan(array).sum()), int(np.isinf(array).sum())
    counts = [f"{n} {word}" for n, word in ((nans, "NaN"), (infs, "inf")) if n]
    if counts:
        return f"{' and '.join(counts)} in {tuple(array.shape)}"
    return f"values up to {float(np.abs(array).max(initial=0)):.3g} in {tuple(array.shape)}"
