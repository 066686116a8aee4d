"""What every device must pass: kernels against the NumPy reference in float64, ops, layers and
training against the CPU. `pytest --device NAME` says which device; without it OpenCL is tried."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import minidl as md
from minidl_kernels import reference


@pytest.fixture(scope="session")
def device(request):
    """The name of the device under test."""
    wanted = request.config.getoption("--device")
    if wanted == "metal" and sys.platform != "darwin":
        request.getfixturevalue("metal_emulation").install()
    name = wanted or "opencl"
    if name == "cuda":
        emulate_cuda()
    (found,) = [d for d in md.devices() if d.name == name]
    if not found.available and not wanted:
        pytest.skip(found.description)
    assert found.available, found.description
    return name


def emulate_cuda():
    """Where there is no driver of CUDA, take the one that runs PTX on the CPU."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "emulation" / "cuda"))
    import emulated

    emulated.backend()


@pytest.fixture(autouse=True)
def emulation(request):
    """Emulated threads take turns in another order for each test, and a kernel that fails does not
    fail the tests after it."""
    emulated = sys.modules.get("emulated")
    if emulated:
        emulated.shuffle(request.node.name)
    yield
    if emulated:
        emulated.recover()


@pytest.fixture(scope="session")
def be(device):
    """Its backend."""
    return importlib.import_module(f"minidl_kernels.{device}")


@pytest.fixture
def check(be):
    """check(name, *args): be.name and reference.name agree; returns the device's result.

    NumPy arrays among the arguments go to the device; the reference gets float64.
    """
    def compare(got, expected, tolerance):
        if isinstance(expected, tuple):
            assert len(got) == len(expected)
            for g, e in zip(got, expected, strict=True):
                compare(g, e, tolerance)
        elif expected is None:
            assert got is None
        else:
            values = got.numpy()
            assert values.shape == np.shape(expected)
            assert values.dtype.kind == np.asarray(expected).dtype.kind
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=1) if values.size else 1
            np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance * scale)

    def run(name, *args, tolerance=3e-6, **kwargs):
        def device(a):
            return be.array(a) if isinstance(a, np.ndarray) and a.ndim else a

        def exact(a):
            return a.astype("float64") if isinstance(a, np.ndarray) and a.dtype == "float32" else a

        got = getattr(be, name)(*map(device, args), **kwargs)
        with np.errstate(all="ignore"):
            expected = getattr(reference, name)(*map(exact, args), **kwargs)
        compare(got, expected, tolerance)
        return got

    return run


@pytest.fixture
def draw():
    """draw(*shape): normal float32 numbers, the same in every run."""
    rng = np.random.default_rng(0)
    return lambda *shape, scale=1.0: (rng.standard_normal(shape) * scale).astype("float32")
