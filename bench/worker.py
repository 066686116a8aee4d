"""A process that times one peer on one number of threads, told what to do over a pipe.

    python -m bench.worker PEER THREADS

While another peer is measured this process is blocked in a read. It answers only when its own
threads have gone to sleep: a pool that still spins would take a core from the next one.
"""

import contextlib
import gc
import json
import os
import sys
import time
from itertools import repeat

from bench import topics
from bench.libraries import Library

SAMPLE = 200e-6         # seconds that a sample lasts at least: shorter calls are timed in groups
SLOW = 0.5              # a call of so many seconds needs no warm-up in every block


def settle(limit=0.5):
    """Return when no thread of this process uses the processor any more."""
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(0.003)
        if time.process_time() - before < 0.0005:
            return


def timed(call, n):
    """Seconds of one call, from n of them."""
    start = time.perf_counter()
    for _ in repeat(None, n):
        call()
    return (time.perf_counter() - start) / n


class Bench:
    """The case that is being measured."""

    def __init__(self, peer, threads):
        self.lib = Library(peer, threads)
        self.call = None

    def build(self, topic, index):
        """Make the inputs, warm up, and say about how long a call takes."""
        case = topics.cases(topic)[index]
        self.lib.restart()
        self.grad = case.grad or self.lib.torch is None
        with self.mode():
            self.call = case.builders[self.lib.peer](self.lib)
            self.seconds = SLOW
            if case.rounds != 1:        # the first call may have compiled something
                timed(self.call, 1)
                self.seconds = timed(self.call, 1)
            if self.seconds < SLOW:
                self.seconds = min(timed(self.call, 1) for _ in range(3))
        self.group = max(1, round(SAMPLE / max(self.seconds, 1e-8)))
        gc.collect()
        gc.freeze()     # what the libraries themselves allocated is not looked at again
        return self.seconds

    def instruction_set(self):
        return self.lib.instruction_set()

    def mode(self):
        return contextlib.nullcontext() if self.grad else self.lib.torch.no_grad()

    def block(self, seconds):
        """Samples, each in seconds per call, of calls for about that long."""
        with self.mode():
            if self.seconds < SLOW:
                end = time.perf_counter() + seconds / 4
                while time.perf_counter() < end:
                    timed(self.call, self.group)
            samples = []
            end = time.perf_counter() + seconds
            while not samples or time.perf_counter() < end:
                samples.append(timed(self.call, self.group))
        return samples

    def drop(self):
        """Forget the case and give its memory back."""
        self.call = None
        self.lib.restart()
        gc.unfreeze()
        gc.collect()
        if hasattr(self.lib.torch, "empty_cache"):
            self.lib.torch.empty_cache()


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                       # what a library prints does not mix with the answers
    bench = None
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            bench = bench or Bench(sys.argv[1], int(sys.argv[2]))
            answer = {"value": getattr(bench, name)(*arguments)}
        except NotImplementedError as e:
            answer = {"error": f"skipped: {e}"}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}".splitlines()[0][:300]}
        settle()
        try:
            print(json.dumps(answer), file=answers, flush=True)
        except BrokenPipeError:
            os._exit(1)                 # nobody waits for the answer any more


if __name__ == "__main__":
    main()
