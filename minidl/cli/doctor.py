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
    for device in [d.name for d in md.devices() if d.available]:
        for name, test in TESTS.items():
            problem = _tried(test, device)
            failed += problem is not None
            print(f"test     {device}: {name}: {problem or 'ok'}")
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


def _tried(test: Callable[[str], None], device: str) -> str | None:
    try:
        test(device)
    except Exception as error:
        return f"FAILED, {type(error).__name__}: {error}"
    return None


def _close(got: Any, expected: np.ndarray) -> None:
    far = float(np.abs(got.detach().cpu().numpy() - expected).max())
    if not far < 1e-3:
        raise ArithmeticError(f"off by {far:.3g}")


def _random(device: str, *shape: int) -> tuple[Any, np.ndarray]:
    """A tensor on the device, and its numbers in float64."""
    x = md.randn(*shape, generator=md.Generator().manual_seed(1))
    return x.to(device), x.numpy().astype(float)


def _product(device: str) -> None:
    for n in (3, 64, 257):
        (a, x), (b, y) = _random(device, n, n + 1), _random(device, n + 1, n)
        _close(a @ b, x @ y)


def _softmax(device: str) -> None:
    a, x = _random(device, 33, 65)
    e = np.exp(x)
    _close(a.softmax(-1), e / e.sum(1, keepdims=True))


def _attention(device: str) -> None:
    q, x = _random(device, 2, 3, 17, 8)
    scores = x @ x.swapaxes(2, 3) / np.sqrt(8)
    e = np.where(np.tri(17, dtype=bool), np.exp(scores), 0)
    _close(F.scaled_dot_product_attention(q, q, q, is_causal=True),
           e / e.sum(3, keepdims=True) @ x)


def _gradients(device: str) -> None:
    a, x = _random(device, 9, 33)
    a.requires_grad_()
    a.softmax(-1).square().sum().backward()
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    _close(a.grad, 2 * p * (p - (p * p).sum(1, keepdims=True)))


def _steps(device: str, threads: int) -> list[float]:
    """The losses of a few steps of training."""
    md.set_num_threads(threads)
    model = md.models.GPT.from_preset("tiny", dropout=0.1).to(device)
    optimizer = md.optim.AdamW(model.parameters(), lr=1e-3)
    index = md.arange(4 * 64).reshape(4, 64).to(device)
    losses = []
    for _ in range(5):
        loss = model(index, index)[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _training(device: str) -> None:
    state, threads = md.checkpoint.random_state(), md.get_num_threads()
    found = []
    for n in (1, max(2, threads)):
        md.checkpoint.set_random_state(state)
        found.append(_steps(device, n))
    md.set_num_threads(threads)
    if found[0] != found[1]:
        raise ArithmeticError(f"one thread and several differ: {found[0]} and {found[1]}")
    if not found[0][-1] < found[0][0]:
        raise ArithmeticError(f"the loss does not fall: {found[0]}")


TESTS: dict[str, Callable[[str], None]] = {
    "matrix products": _product,
    "softmax": _softmax,
    "attention": _attention,
    "gradients": _gradients,
    "training, the same bits on one thread and several": _training,
}
