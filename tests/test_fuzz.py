"""A few hundred random calls of every public function; tests/fuzz_kernels.py goes on for ever."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from .conftest import environment

HERE = Path(__file__).parent


def load(name):
    sys.path.insert(0, str(HERE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(HERE))


fuzz = load("fuzz_kernels")
GROUPS = sorted({name.rpartition(".")[0] for name in fuzz.targets()})


@pytest.mark.parametrize("group", GROUPS)
def test_no_crash_and_every_refusal_has_a_message(group):
    names = [name for name in fuzz.targets() if name.rpartition(".")[0] == group]
    problems = fuzz.fuzz(seed=1, calls=200 if group == "cpu" else 100, names=names)
    assert not problems, "\n".join(fuzz.describe(p[0], 1, *p[1:]) for p in problems)


def test_a_crash_is_reported_and_the_rest_goes_on(tmp_path):
    """The fuzzer itself, on functions that misbehave in each way it must notice."""
    script = tmp_path / "fuzz_broken.py"
    script.write_text(f"""
import ctypes, os, sys, time
sys.path.insert(0, {str(HERE)!r})
import fuzz_kernels as f
f.HANG = 1
def silent(*x): raise ValueError
def careless(*x): raise SystemError("internal")
def crash(*x): ctypes.string_at(0)
def hang(*x): time.sleep(60)
def honest(*x): raise TypeError("expected something else")
broken = dict(silent=silent, careless=careless, crash=crash, hang=hang, honest=honest)
f.targets = lambda: broken
f.__file__ = __file__
if __name__ == "__main__":
    if "--child" in sys.argv:
        sys.exit(f.main())
    print(f.fuzz(0, 1, list(broken)))
""")
    out = fuzz.subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                              env=environment(), timeout=60)
    assert out.returncode == 0, out.stderr
    for expected in ("('silent', 0, 'no message", "('careless', 0, 'SystemError: internal')",
                     "('crash', 0, 'died of SIGSEGV')", "('hang', 0, 'hung for"):
        assert expected in out.stdout
    assert "honest" not in out.stdout


def test_calls_can_be_repeated():
    """The same name, seed and number give the same arguments."""
    for name, function in list(fuzz.targets().items())[::10]:
        first, second = (fuzz.make_call(name, function, 5, 9) for _ in range(2))
        assert [fuzz.arguments.show(a) for a in first[0]] == [
            fuzz.arguments.show(a) for a in second[0]] or "object" in str(first)
        for a, b in zip(first[0], second[0], strict=True):
            if isinstance(a, np.ndarray) and a.dtype.kind in "fiu":
                assert a.tobytes() == b.tobytes()
