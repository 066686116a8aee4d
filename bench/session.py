"""One run of the bench: its options, its worker processes, the machine's limits."""

import subprocess
from itertools import chain

from bench import bars, limits, topics
from bench.libraries import OPTIONAL, installed
from bench.measure import Failed, Workers, interleave

QUICK = {"seconds": 0.06, "rounds": 2}
FULL = {"seconds": 1.0, "rounds": 7}


class Session:
    """Measure topics: `for row in session.rows("softmax")`."""

    def __init__(self, threads=(1,), peers=OPTIONAL, quick=False, seconds=None, rounds=None):
        self.threads, self.quick = tuple(threads), quick
        self.peers = [peer for peer in peers if installed(peer)]
        if quick and "compile" in self.peers:
            self.peers.remove("compile")
        defaults = QUICK if quick else FULL
        self.seconds = seconds or defaults["seconds"]
        self.rounds = rounds or defaults["rounds"]
        self.workers = Workers()
        self.limits = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.workers.__exit__(*exc)

    def instruction_sets(self):
        """What the libraries among the peers chose for this processor, where they tell."""
        found = {}
        for peer in ("torch", "blas"):
            if peer in self.peers:
                found[peer] = self.workers.get(peer, self.threads[0]).ask("instruction_set")
        return ", ".join(f"{peer} {name}" for peer, name in found.items() if name)

    def measure_limits(self):
        for threads in self.threads:
            self.limits[threads] = limits.measure(self, threads)

    def chosen(self, case):
        """The peers that run a case, minidl first; its own variants always take part."""
        return [peer for peer in case.builders if peer in self.peers or peer not in OPTIONAL]

    def time(self, topic, index, threads, peers, seconds=None):
        """{peer: Timing} of one case; raises Failed when one of them could not run it."""
        entrants = {peer: self.workers.get(peer, threads) for peer in peers}
        timings, failures = interleave(entrants, topic, index, seconds or self.seconds,
                                       self.rounds)
        if failures:
            raise Failed(str(failures))
        return timings

    def rows(self, topic):
        """The rows of a topic, with their bars."""
        module = topics.load(topic)
        timed = self.cases(topic) if hasattr(module, "cases") else ()
        try:
            for row in chain(timed, module.rows(self) if hasattr(module, "rows") else ()):
                row["topic"] = topic
                row["bars"] = bars.judge(row)
                yield row
        except (Failed, subprocess.CalledProcessError) as e:
            yield {"topic": topic, "name": "the rest", "shape": "", "threads": 0, "ratios": {},
                   "errors": {"minidl": str(e)}, "bars": []}

    def cases(self, topic):
        for index, case in enumerate(topics.cases(topic)):
            if self.quick and not case.quick:
                continue
            for threads in self.threads:
                if case.threads in (0, threads):
                    yield self.case_row(topic, index, case, threads)

    def case_row(self, topic, index, case, threads):
        """The row of a case; one that misses a bar is measured again, and all rounds count."""
        entrants = {peer: self.workers.get(peer, threads) for peer in self.chosen(case)}
        how = topic, index, self.seconds, self.rounds, case.rounds
        timings, failures = interleave(entrants, *how)
        row = self.row(topic, case, threads, timings, failures)
        if self.quick or not bars.missed(row):
            return row
        more, failures = interleave({peer: entrants[peer] for peer in timings}, *how)
        for peer, timing in more.items():
            timing.rounds += timings[peer].rounds
        return self.row(topic, case, threads, more, failures)

    def row(self, topic, case, threads, timings, failures):
        row = {"topic": topic, "name": case.name, "shape": case.shape, "threads": threads,
               "ratios": {}, "ratios of minima": {}, "errors": failures}
        if "minidl" not in timings:
            return row
        mine = timings["minidl"]
        row.update(median=mine.median, min=mine.best, spread=mine.spread,
                   samples=len(mine.samples), **self.throughput(case, mine.median, threads))
        for peer, timing in timings.items():
            if peer != "minidl":
                row["ratios"][peer] = timing.ratio(to=mine)
                row["ratios of minima"][peer] = timing.best / mine.best
        row["peers"] = {peer: {"median": t.median, "min": t.best, "spread": t.spread}
                        for peer, t in timings.items() if peer != "minidl"}
        return row

    def throughput(self, case, seconds, threads):
        """The rate of a row, and what part it is of what the machine's limits allow."""
        found = {"flops": case.flops, "bytes": case.bytes}
        if case.items:
            scale = 1e9 if case.unit.startswith("G") else 1
            found.update(rate=case.items / seconds / scale, unit=case.unit)
        elif case.flops:
            found.update(rate=case.flops / seconds / 1e9, unit="GFLOPS")
        elif case.bytes:
            found.update(rate=case.bytes / seconds / 1e9, unit="GB/s")
        top = self.limits.get(threads)
        if top and (case.flops or case.bytes):
            least = max(case.flops / top["gflops"], case.bytes / top["gbs"]) / 1e9
            found["limit"] = least / seconds
        return found
