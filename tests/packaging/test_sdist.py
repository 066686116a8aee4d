"""The sdist is complete: build it, forget the tree, install it somewhere empty, use it."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
LEFT_OUT = shutil.ignore_patterns(".git", "build", "dist", "*.egg-info", ".venv*", "*.so", "*.pyd",
                                  "__pycache__", ".*_cache", ".hypothesis", "runs")
# What neither an sdist nor a wheel is judged by here: the machine's own settings of Python.
ENV = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*command, cwd, timeout=900):
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=ENV, capture_output=True,
                          text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Skips where the build requirements cannot be had."""
    folder = tmp_path_factory.mktemp("index")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder),
               "cython"]
    try:
        done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        pytest.skip("offline: the package index does not answer")
    if done.returncode:
        pytest.skip(f"offline: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def sdist(index, tmp_path_factory):
    """Built from a copy of the tree, so that nothing left over in the tree helps."""
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("not in a source tree")
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    run(sys.executable, "-m", "build", "--sdist", "-o", folder, folder / "tree", cwd=folder)
    shutil.rmtree(folder / "tree")
    (path,) = folder.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, sdist, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment that has the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(python, "-m", "pip", "install", "-q", wheel, cwd=folder)
    return python


def files(folder, *suffixes):
    """Paths below a folder of the tree that end so, as archives spell them."""
    return {p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*")
            if "".join(p.suffixes[-1:]) in suffixes or p.name in suffixes}


def sources(*suffixes):
    return files("minidl", *suffixes) | files("minidl_kernels", *suffixes)


def test_the_sdist_has_every_file(sdist):
    with tarfile.open(sdist) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    expected = sources(".py", ".pyx", ".pxd", ".pxi", ".pyi", ".h", ".c", "py.typed")
    expected |= {"pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md",
                 "CONTRIBUTING.md", "docs/install.md", "docs/threads.md", "bench/startup.py",
                 ".ci/run", ".pre-commit-config.yaml"}
    expected |= files("tests", ".py", ".sh")
    assert expected - names == set()
    assert not [name for name in names if name.endswith((".so", ".pyd", ".pyc"))]


def test_the_wheel_is_small_and_has_what_runs(wheel):
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
    assert wheel.stat().st_size <= 5_000_000
    assert sources(".py", ".pyi", "py.typed") - set(names) == set()
    compiled = {re.sub(r"\.[^/]*$", "", name) for name in names if name.endswith((".so", ".pyd"))}
    assert compiled == {name.removesuffix(".pyx") for name in sources(".pyx")}
    kernels = {name for name in names if name.endswith((".h", ".c"))}
    assert kernels == files("minidl_kernels/device", ".h", ".c") | {
        "minidl_kernels/scalar.h", "minidl_kernels/scalar_math.h"}  # compiled on a user's device
    assert not [name for name in names if name.endswith((".pyx", ".pxd", ".pxi"))]
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"minidl", "minidl_kernels"}


def test_an_empty_environment_can_train(python, tmp_path):
    shutil.copy(SMOKE, tmp_path)
    out = run(python, "smoke.py", cwd=tmp_path)
    assert "trained" in out
    assert "site-packages" in out.split("from ", 1)[1]


def test_the_command_is_there_and_trains(python, tmp_path):
    minidl = python.with_name("minidl.exe" if os.name == "nt" else "minidl")
    out = run(minidl, "train", "--steps", "3", "--samples", "1", cwd=tmp_path)
    assert "done after 3 steps" in out
    assert (tmp_path / "runs" / "gpt-tiny-1" / "log.jsonl").exists()
    refused = subprocess.run([str(minidl), "bench"], cwd=tmp_path, env=ENV, capture_output=True,
                             text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert refused.returncode == 1 and "source checkout" in refused.stderr


def test_the_requirements_are_enough(python, tmp_path):
    assert "No broken requirements" in run(python, "-m", "pip", "check", cwd=tmp_path)
