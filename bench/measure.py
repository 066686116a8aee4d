"""Timing peers in turn: one process each, every one measured in short blocks, the order reversed
from round to round, so that a machine that gets slower meanwhile slows all of them."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

from bench import ROOT
from bench.libraries import environment


class Failed(Exception):
    """A peer could not run a case."""


class Worker:
    """The other end of bench.worker."""

    def __init__(self, peer, threads):
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, **environment(peer, threads), "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", peer, str(threads)], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, name, *arguments):
        try:
            self.process.stdin.write(json.dumps([name, *arguments]) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise Failed(f"its process ended with code {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["value"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Workers:
    """Processes by peer and number of threads, started when first asked for."""

    def __init__(self):
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for worker in self.running.values():
            worker.close()

    def get(self, peer, threads, copy=0):
        worker = self.running.get((peer, threads, copy))
        if worker is None or worker.process.poll() is not None:
            worker = self.running[peer, threads, copy] = Worker(peer, threads)
        return worker


@dataclass
class Timing:
    """Seconds per call of one peer, by round."""

    rounds: list[list[float]]

    @property
    def samples(self):
        return [s for block in self.rounds for s in block]

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def mean(self):
        return statistics.fmean(self.samples)

    @property
    def best(self):
        return min(self.samples)

    @property
    def spread(self):
        """The distance of the quartiles, as a part of the median."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median

    def ratio(self, to):
        """How many times as long this takes as `to`: the median over the rounds."""
        return statistics.median(statistics.median(mine) / statistics.median(its)
                                 for mine, its in zip(self.rounds, to.rounds, strict=True))


def interleave(entrants, topic, index, seconds, rounds, limit=0):
    """{key: Timing} and {key: why not} of a case for entrants {key: Worker}.

    Each gets about `seconds`, in `rounds` blocks that alternate with those of the others; calls of
    more than a second get three rounds at most, `limit` if that is given.
    """
    failures, slowest = {}, 0.0
    for key, worker in entrants.items():
        try:
            slowest = max(slowest, worker.ask("build", topic, index))
        except Failed as e:
            failures[key] = str(e)
    keys = [key for key in entrants if key not in failures]
    if slowest > 1:
        rounds = min(rounds, 3)
    rounds = min(rounds, limit or rounds)
    blocks = {key: [] for key in keys}
    for turn in range(rounds):
        for key in keys[::-1] if turn % 2 else keys:
            try:
                blocks[key].append(entrants[key].ask("block", seconds / rounds))
            except Failed as e:
                failures[key] = str(e)
        keys = [key for key in keys if key not in failures]
    for key in entrants:
        if key not in failures:
            entrants[key].ask("drop")
    return {key: Timing(blocks[key]) for key in keys}, failures
