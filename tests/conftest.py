"""Which minidl is tested, and how a test starts a fresh interpreter with it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]

if not [f for f in ROOT.glob("minidl/_core.*") if f.suffix in (".so", ".pyd")]:
    # `python -m pytest` puts the checkout first on sys.path, where sources that were not built in
    # place would hide the installed, compiled package.
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != ROOT]

if "PYTEST_XDIST_WORKER" in os.environ:
    # There is a worker for each core already: PyTorch's threads would spin on each other's.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MINIDL_NUM_THREADS", "2")

import minidl_kernels  # noqa: E402
from minidl_kernels.cpu import threads, use_blas  # noqa: E402

if np._core._multiarray_umath.__cpu_features__.get("AVX512F"):
    # PyTorch's AVX-512 makes NaN of infinities that its AVX2 and the formulas keep.
    os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")


def pytest_addoption(parser):
    parser.addoption("--device", choices=("cuda", "metal", "opencl"),
                     help="run what every device must pass (tests/devices) on this one, and "
                     "nothing else; without it, on OpenCL where that is installed")


def pytest_collection_modifyitems(config, items):
    """Begin with the files that take longest: no worker is left alone with one at the end."""
    if config.getoption("--device"):
        items[:] = [item for item in items if item.path.parent.name == "devices"]
    longest = {"test_sdist.py": 0, "test_torch_samples.py": 1, "test_ops.py": 2}
    items.sort(key=lambda item: longest.get(item.path.name, len(longest)))


@pytest.fixture(autouse=True)
def same_settings_after():
    """Whatever a test sets, the next one starts from the defaults."""
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)
    use_blas(True)


@pytest.fixture(scope="session")
def metal_emulation():
    """tests/emulation/metal as a module; skips where it cannot run."""
    folder = ROOT / "tests" / "emulation" / "metal"
    spec = importlib.util.spec_from_file_location("metal_emulation", folder / "__init__.py",
                                                  submodule_search_locations=[str(folder)])
    sys.modules["metal_emulation"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.missing():
        pytest.skip(module.missing())
    return module


@pytest.fixture
def python(tmp_path):
    """Run a script in a fresh interpreter, away from the tree: python(code, *args) -> stdout.

    `env` changes the environment (None removes a name); a hang or a failure fails the test with
    what the script printed.
    """

    def run(code, *args, env=None, timeout=120):
        script = tmp_path / "script.py"
        script.write_text(code)
        command = [sys.executable, str(script), *map(str, args)]
        done = subprocess.run(command, cwd=tmp_path, env=environment(env), capture_output=True,
                              text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


def environment(changes=None):
    """os.environ with the tested minidl on PYTHONPATH, and `changes`."""
    tested = str(Path(minidl_kernels.__file__).parents[1])
    others = os.environ.get("PYTHONPATH")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [tested, others]))}
    env.update(changes or {})
    return {name: value for name, value in env.items() if value is not None}
