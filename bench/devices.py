"""What a device does with a training step: launches, and on real hardware its speed.

    python bench/devices.py [opencl|cuda|metal] [--seconds 2]

Counts the launches of a step of the nano GPT (4 layers), what each layer adds, and what the step
asks of the device's memory. Then times products (GFLOPS), an elementwise pass (GB/s) and the step,
beside PyTorch on the same kind of device where that is installed; where the device is a CPU (PoCL)
the times say nothing about GPUs.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import minidl as md

BATCH = 12
TORCH = {"cuda": "cuda", "metal": "mps", "opencl": None}  # PyTorch has no OpenCL


class Step:
    """A training step of a GPT, in any library with PyTorch's names."""

    def __init__(self, where, layers, batch=BATCH):
        md.manual_seed(0)
        self.model = md.models.GPT.from_preset("nano", layers=layers).to(where)
        self.optimizer = md.optim.AdamW(self.model.parameters(), lr=1e-3)
        shape = (batch, self.model.config.context)
        self.index = md.randint(0, 256, shape, device=where)

    def __call__(self):
        loss = self.model(self.index, self.index)[1]
        self.optimizer.zero_grad()
        loss.backward()
        md.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss


def launches(be, where, layers):
    """Of one warm step, and the bytes its memory takes."""
    step = Step(where, layers, batch=1)  # the number does not depend on it
    step()
    step()
    before = be.device.launches
    step()
    be.device.synchronize()
    return be.device.launches - before, be.device.pool.stats()["peak"]


def timed(call, wait, seconds):
    """The least time of a call, in seconds."""
    call()
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        wait()
        best = min(best, time.perf_counter() - start)
    return best


def calls(lib, where, n):
    """What is timed, by name: (call, FLOPs, bytes)."""
    a, b = lib.randn(n, n, device=where), lib.randn(n, n, device=where)
    x = lib.randn(1 << 22, device=where)
    return {f"matmul {n}": (lambda: a @ b, 2 * n**3, 0),
            "exp 4M": (lambda: lib.exp(x), 0, 2 * 4 * (1 << 22))}


def speeds(be, where, seconds, n):
    """Rows of name, seconds, rate, ratio to PyTorch."""
    wait, torch = be.device.synchronize, None
    if TORCH[where] is not None:
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            print("PyTorch is not installed: no ratios")
    theirs = {} if torch is None else calls(torch, TORCH[where], n)
    with md.no_grad():
        for name, (call, flops, moved) in calls(md, where, n).items():
            took = timed(call, wait, seconds)
            rate = f"{flops / took / 1e9:.1f} GFLOPS" if flops else f"{moved / took / 1e9:.1f} GB/s"
            ratio = ""
            if name in theirs:
                other = timed(theirs[name][0], getattr(torch, TORCH[where]).synchronize, seconds)
                ratio = f"PyTorch takes {other / took:.2f} of it"
            print(f"{name:>14}: {took * 1e3:9.3f} ms  {rate:>16}  {ratio}")
    step = Step(where, 4)
    took = timed(step, wait, seconds)
    flops = step.model.flops_per_step(BATCH)
    print(f"{'training step':>14}: {took * 1e3:9.3f} ms  {flops / took / 1e9:9.1f} GFLOPS")


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("device", nargs="?", default="opencl", choices=sorted(TORCH))
    p.add_argument("--seconds", type=float, default=2.0, help="for each time, default 2")
    p.add_argument("--size", type=int, default=1024, help="of the matrices, default 1024")
    options = p.parse_args()
    for found in md.devices():
        print(f"{found.name:>8}: {found.description}")
    md.zeros(1, device=options.device)  # says what is missing, and opens it
    be = importlib.import_module(f"minidl_kernels.{options.device}")
    counted = {layers: launches(be, options.device, layers) for layers in (2, 4)}
    pair = counted[4][0] - counted[2][0]
    print(f"{counted[4][0]} launches in a step of 4 layers, {pair} for each pair of layers, "
          f"{counted[4][1] / 1e6:.1f} MB at most")
    if options.seconds:
        speeds(be, options.device, options.seconds, options.size)


if __name__ == "__main__":
    main()
