"""nanoGPT's recipe for a CPU, trained to its end: 2000 iterations, evaluations and all.

minidl and PyTorch train in turn, 50 steps at a time, from the same weights on the same batches of
a megabyte of Python's standard library (bench/recipe.py). The ratio is that of the whole times; the
validation loss is that over all of the text kept for it.
"""

import json
import os
import statistics
import subprocess
import sys

SHAPE = "4,4,128,64,12"
STEPS = 2000


class Run:
    """One library at work: the other end of bench.recipe."""

    def __init__(self, peer, threads, steps):
        from bench import ROOT

        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "bench.recipe", peer, str(threads), str(steps)]
        self.process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.seconds = []

    def read(self):
        from bench.measure import Failed

        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"its process ended with code {self.process.wait()}")
        return json.loads(line)

    def stretch(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.seconds.append(self.read())

    def loss(self):
        found = self.read()
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        return found


def rows(session):
    from bench.recipe import STRETCH

    threads, steps = max(session.threads), 2 * STRETCH if session.quick else STEPS
    peers = ["minidl", "torch"] if "torch" in session.peers else ["minidl"]
    runs = {peer: Run(peer, threads, steps) for peer in peers}
    for turn in range(steps // STRETCH):
        for peer in peers[::-1] if turn % 2 else peers:
            runs[peer].stretch()
    losses = {peer: run.loss() for peer, run in runs.items()}
    mine = runs["minidl"].seconds
    row = {"name": f"{steps} iterations", "shape": SHAPE, "threads": threads, "ratios": {},
           "median": sum(mine), "min": min(mine) * len(mine),
           "note": ", ".join(f"{peer} loss {loss:.4f}" for peer, loss in losses.items())}
    if "torch" in runs:
        row["ratios"]["torch"] = sum(runs["torch"].seconds) / sum(mine)
        pairs = zip(runs["torch"].seconds, mine, strict=True)
        row["note"] += f", {statistics.median(t / m for t, m in pairs):.2f} in the median stretch"
    yield row
    if "torch" in losses:
        yield {"name": "loss above PyTorch's", "shape": SHAPE, "threads": threads, "ratios": {},
               "value": losses["minidl"] - losses["torch"], "unit": "nats"}


if __name__ == "__main__":
    from script import run

    run(__file__)
