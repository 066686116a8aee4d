"""What every checkpoint test needs: comparing states bit by bit."""

import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import minidl as md


@pytest.fixture
def tmp_path(tmp_path):
    """A folder in memory where there is one: what the calls do is the same, and nobody waits for
    the disk a few thousand times."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def same():
    return assert_same


def assert_same(a, b):
    """Equal in kind, structure, order and bits; NaN equals NaN."""
    assert type(a) is type(b), f"{type(a)} became {type(b)}"
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, md.Tensor):
        assert_same(a.array, b.array)
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()
    elif isinstance(a, float) and math.isnan(a):
        assert math.isnan(b)
    else:
        assert a == b and repr(a) == repr(b)
