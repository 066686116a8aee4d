"""Every op on a device gives what it gives on the CPU, forward and backward."""

import importlib.util
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import minidl as md
from minidl._core import Tensor

_path = Path(__file__).parents[1] / "ops" / "samples.py"
_spec = importlib.util.spec_from_file_location("samples", _path)
samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(samples)

Op = type(md.exp)
OPS = {v.__name__: v for info in pkgutil.walk_packages(md.__path__, "minidl.")
       for v in vars(importlib.import_module(info.name)).values() if type(v) is Op}
FLOAT64 = {"cast"}  # its sample converts to a dtype that devices do not have
CASES = [(name, i) for name in sorted(samples.SAMPLES) if name not in FLOAT64
         for i in range(len(samples.SAMPLES[name]))]


def single(x):
    return x.astype(np.float32) if x.dtype == np.float64 else x


def placed(args, device):
    """The arguments in float32 on a device, requiring gradients where they did."""
    out = []
    for a in args:
        if isinstance(a, Tensor):
            t = Tensor(single(a.detach().numpy()).copy()).to(device).detach()
            a = t.requires_grad_() if a.requires_grad else t
        elif isinstance(a, (tuple, list)) and a and isinstance(a[0], Tensor):
            a = type(a)(placed(a, device))
        out.append(a)
    return out


def outcome(op, args, device):
    """The results, and the gradients of the arguments for fixed gradients of the results."""
    args, rng = placed(args, device), np.random.default_rng(5)
    results = op(*args)
    results = results if isinstance(results, tuple) else (results,)
    for y in results:
        if y.requires_grad:
            g = rng.standard_normal(y.shape).astype(np.float32)
            y.backward(md.tensor(g, device=device), retain_graph=True)
    grads = [a.grad for a in args if isinstance(a, Tensor) and a.grad is not None]
    if op.__name__ != "moved":  # to the CPU
        assert {str(t.device) for t in (*results, *grads)} == {device}
    return [t.detach().cpu().numpy() for t in (*results, *grads)]


@pytest.mark.parametrize(("name", "i"), CASES)
def test_as_on_the_cpu(device, name, i):
    def args():
        md.manual_seed(i)
        return list(samples.SAMPLES[name][i](np.random.default_rng(i)))

    expected, got = (outcome(OPS[name], args(), where) for where in ("cpu", device))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
