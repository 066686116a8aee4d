"""A device's backend is called as the others are."""

import inspect

import numpy as np
import pytest

from minidl_kernels import cpu, reference

NAMES = sorted(n for n in vars(reference) if n in dir(cpu) and not n.startswith("_")
               and callable(getattr(reference, n)) and not inspect.ismodule(getattr(reference, n))
               and n != "comparison")  # makes others


@pytest.mark.parametrize("name", NAMES)
def test_every_function_is_there(be, name):
    ours, theirs = getattr(be, name), getattr(reference, name)
    if isinstance(theirs, np.ufunc):
        assert len(inspect.signature(ours).parameters) >= theirs.nin
        return
    try:
        expected = inspect.signature(theirs)
    except ValueError:  # a compiled function
        return
    wrapped = [p.kind for p in inspect.signature(ours).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in wrapped:
        return
    names, more = list(expected.parameters), list(inspect.signature(ours).parameters.values())
    assert [p.name for p in more[:len(names)]] == names
    assert all(p.default is not p.empty for p in more[len(names):])


def test_there_is_something_to_compare():
    assert len(NAMES) > 100 and {"attention", "adam_", "exp_grad", "sum_to", "eq"} <= set(NAMES)
