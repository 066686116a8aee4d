"""`minidl doctor`: what may be slow or wrong on this machine."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import minidl as md
from minidl.nn import functional as F
from minidl_kernels.cpu import scipy_blas

LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "MINIDL_NUM_THREADS")


def run(options: argparse.Namespace) -> int:
    """1 when the self-test fails; what is only slow is said, and costs no exit code."""
    md.ones(64, 64) @ md.ones(64, 64)
    scipy_blas.load()  # what a product may call on a CPU without AVX2
    libraries = _libraries()
    cores = _usable_cores()
    print(f"cores    {os.cpu_count()} in the machine, {cores} usable here")
    print(f"threads  minidl computes with {md.get_num_threads()}")
    for lib in libraries:
        print(f"{lib['user_api']:8} {lib['internal_api']} {lib.get('version') or ''}, "
              f"{lib['num_threads']} threads, {lib['filepath']}")
    found = list(_findings(libraries, cores))
    for finding in found:
        print(f"note     {finding}")
    if not found:
        print("note     nothing is in the way")
    failed = 0
    for name, test in TESTS.items():
        problem = _tried(test)
        failed += problem is not None
        print(f"test     {name}: {problem or 'ok'}")
    print("all tests passed" if not failed else f"{failed} tests failed")
    return 1 if failed else 0


def _libraries() -> list[dict[str, Any]]:
    """Every OpenMP and BLAS in this process, NumPy's and SciPy's own copies too."""
    from threadpoolctl import threadpool_info

    return list(threadpool_info())


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _findings(libraries: list[dict[str, Any]], cores: int) -> Iterator[str]:
    """Sentences about what costs time."""
    openmp = {os.path.realpath(lib["filepath"]) for lib in libraries if lib["user_api"] == "openmp"}
    if len(openmp) > 1:
        yield (f"{len(openmp)} OpenMP runtimes are loaded; each has threads of its own, and two at "
               "work at once get in each other's way")
    if md.get_num_threads() > cores:
        yield (f"minidl computes with {md.get_num_threads()} threads on {cores} cores: slower than "
               f"{cores}; unset MINIDL_NUM_THREADS and OMP_NUM_THREADS, or set them to {cores}")
    if md.get_num_threads() < cores:
        named = [f"{name}={os.environ[name]}" for name in LIMITS if name in os.environ]
        why = ", ".join(named) or "the cgroup's quota or the CPU affinity"
        yield f"minidl uses {md.get_num_threads()} of {cores} cores, because of {why}"
    for lib in libraries:
        outside = "numpy" in lib["filepath"]
        if lib["user_api"] == "blas" and lib["num_threads"] > 1 and not outside:
            yield (f"{os.path.basename(lib['filepath'])} has {lib['num_threads']} threads; minidl "
                   "splits products itself and wants 1: md.blas_threads(1)")
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5 * cores:
        yield (f"other programs are busy (load {os.getloadavg()[0]:.1f} on {cores} cores): times "
               "will be longer than they have to be")
    if md.config.config()["instruction set"] == "baseline":
        yield "the CPU has no AVX2, or MINIDL_ISA turned it off: kernels run at a part of the speed"


def _tried(test: Callable[[], None]) -> str | None:
    try:
        test()
    except Exception as error:
        return f"FAILED, {type(error).__name__}: {error}"
    return None


def _close(got: Any, expected: np.ndarray) -> None:
    far = float(np.abs(got.detach().numpy() - expected).max())
    if not far < 1e-3:
        raise ArithmeticError(f"off by {far:.3g}")


def _random(*shape: int) -> Any:
    return md.randn(*shape, generator=md.Generator().manual_seed(1))


def _product() -> None:
    for n in (3, 64, 257):
        a, b = _random(n, n + 1), _random(n + 1, n)
        _close(a @ b, a.numpy().astype(float) @ b.numpy().astype(float))


def _softmax() -> None:
    x = _random(33, 65)
    e = np.exp(x.numpy().astype(float))
    _close(x.softmax(-1), e / e.sum(1, keepdims=True))


def _attention() -> None:
    q = _random(2, 3, 17, 8)
    x = q.numpy().astype(float)
    scores = x @ x.swapaxes(2, 3) / np.sqrt(8)
    e = np.where(np.tri(17, dtype=bool), np.exp(scores), 0)
    _close(F.scaled_dot_product_attention(q, q, q, is_causal=True),
           e / e.sum(3, keepdims=True) @ x)


def _steps(threads: int) -> list[float]:
    """The losses of a few steps of training."""
    md.set_num_threads(threads)
    model = md.models.GPT.from_preset("tiny", dropout=0.1)
    optimizer = md.optim.AdamW(model.parameters(), lr=1e-3)
    index = md.arange(4 * 64).reshape(4, 64)
    losses = []
    for _ in range(5):
        loss = model(index, index)[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _training() -> None:
    state, threads = md.checkpoint.random_state(), md.get_num_threads()
    found = []
    for n in (1, max(2, threads)):
        md.checkpoint.set_random_state(state)
        found.append(_steps(n))
    md.set_num_threads(threads)
    if found[0] != found[1]:
        raise ArithmeticError(f"one thread and several differ: {found[0]} and {found[1]}")
    if not found[0][-1] < found[0][0]:
        raise ArithmeticError(f"the loss does not fall: {found[0]}")


def _gradients() -> None:
    x = _random(3, 4).double().requires_grad_()
    md.autograd.gradcheck(lambda x: F.gelu(x).softmax(-1).square().sum(), (x,))


TESTS: dict[str, Callable[[], None]] = {
    "matrix products": _product,
    "softmax": _softmax,
    "attention": _attention,
    "gradients": _gradients,
    "training, the same bits on one thread and several": _training,
}
