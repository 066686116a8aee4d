"""What more threads bring, and what a busy neighbour costs: the nano step of train_step.

Scaling is the time on one thread over the time on n, both measured in turn. The neighbour is a
process that keeps one core busy; mean times beside it over mean times in quiet, on two threads
or more, in turns of half a second at least: one or two steps after a pause would tell how the
system places a process that wakes up, not how training goes on.
"""

import subprocess
import sys

STEADY = 0.5        # seconds of a turn beside the neighbour
SCALED = (("matmul", "matmul", "1024"), ("gelu", "gelu", "10M"), ("train_step", "nano", ""))


def place(topic, name, shape=""):
    """The place of a case in its topic's list."""
    from bench import topics

    return next(i for i, case in enumerate(topics.cases(topic))
                if case.name == name and shape in ("", case.shape))


def rows(session):
    counts = [n for n in session.threads if n > 1]
    libraries = [peer for peer in ("minidl", "torch") if peer == "minidl" or peer in session.peers]
    for n in counts:
        for case in SCALED[-1:] if session.quick else SCALED:
            yield from scaling(session, case, n, libraries)
        yield from beside_a_neighbour(session, n, libraries)
    if not counts:
        yield {"name": "scaling", "shape": "", "threads": 1, "ratios": {},
               "note": "skipped: needs --threads with more than one"}


def scaling(session, case, n, libraries):
    from bench.measure import interleave

    entrants = {(peer, count): session.workers.get(peer, count)
                for peer in libraries for count in (1, n)}
    timings, failures = interleave(entrants, case[0], place(*case), session.seconds, session.rounds)
    for peer in libraries:
        if not {(peer, 1), (peer, n)} & failures.keys():
            one, many = timings[peer, 1], timings[peer, n]
            yield {"name": f"{peer} scaling", "shape": f"{case[1]} {case[2]}".strip(), "threads": n,
                   "median": many.median, "min": many.best, "spread": many.spread,
                   "ratios": {"1 thread": one.ratio(to=many)}}


def beside_a_neighbour(session, n, libraries):
    where = "train_step", place("train_step", "nano")
    seconds = session.seconds if session.quick else max(session.seconds, STEADY * session.rounds)
    quiet = session.time(*where, n, libraries, seconds)
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        busy = session.time(*where, n, libraries, seconds)
    finally:
        neighbour.kill()
        neighbour.wait()
    for peer in libraries:
        row = {"name": "beside a busy process" if peer == "minidl" else f"{peer} beside it",
               "shape": "nano step", "threads": n, "ratios": {}, "median": busy[peer].median,
               "min": busy[peer].best, "spread": busy[peer].spread}
        row["value"] = busy[peer].mean / quiet[peer].mean
        row["unit"] = "x quiet"
        if peer == "minidl" and "torch" in libraries:
            row["ratios"]["torch"] = busy["torch"].mean / busy["minidl"].mean
        yield row


if __name__ == "__main__":
    from script import run

    run(__file__)
