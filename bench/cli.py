"""The command line of the bench."""

import argparse
import os

from bench import bars, compare, machine, table, topics
from bench.libraries import OPTIONAL
from bench.session import Session


def main(arguments=None):
    """Measure; 1 when a bar is missed."""
    options = parser().parse_args(arguments)
    if options.list:
        for topic in topics.TOPICS:
            print(f"{topic:22}{topics.load(topic).__doc__.splitlines()[0]}")
        return 0
    if options.compare:
        compare.compare(*options.compare)
        return 0
    return measure(options)


def parser():
    p = argparse.ArgumentParser(prog="python -m bench", description="How fast minidl is, beside "
                                "other libraries and the limits of this machine.")
    p.add_argument("topics", nargs="*", choices=[[], *topics.TOPICS], metavar="topic",
                   help="what to measure (see --list); everything by default")
    p.add_argument("--list", action="store_true", help="name the topics")
    p.add_argument("--threads", type=numbers, default=default_threads(), metavar="1,2",
                   help="numbers of threads, default 1 and as many as minidl takes")
    p.add_argument("--quick", action="store_true", help="a few cases, shortly")
    p.add_argument("--peers", type=names, default=list(OPTIONAL), metavar="torch,numpy",
                   help=f"of {', '.join(OPTIONAL)}; those installed by default")
    p.add_argument("--seconds", type=float, help="for each peer of a row, default 1")
    p.add_argument("--rounds", type=int, help="in how many turns, default 7")
    p.add_argument("--json", metavar="FILE", help="save the results")
    p.add_argument("--compare", nargs=2, metavar=("OLD.json", "NEW.json"),
                   help="print two saved runs side by side")
    return p


def numbers(text):
    found = [int(part) for part in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError("numbers of threads start at 1")
    return found


def names(text):
    found = [name for name in text.split(",") if name and name != "none"]
    unknown = sorted(set(found) - set(OPTIONAL))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(unknown)}")
    return found


def default_threads():
    """One thread, and as many as minidl itself would take."""
    from minidl import get_num_threads

    return sorted({1, get_num_threads()})


def measure(options):
    facts = machine.describe(options.peers)
    rows = []
    with Session(options.threads, options.peers, options.quick, options.seconds,
                 options.rounds) as session:
        facts["peers use"] = session.instruction_sets()
        table.show_machine(facts)
        print(machine.warning(facts) or "the machine is quiet")
        session.measure_limits()
        for threads, top in session.limits.items():
            each = ", ".join(f"{peer} {rate:.0f}" for peer, rate in top["sgemm"].items())
            print(f"limits on {threads} threads: sgemm {top['gflops']:.1f} GFLOPS ({each}), "
                  f"copy {top['gbs']:.1f} GB/s; sgemm against itself {top['itself']:.3f}")
        settings = {"quick": options.quick, "seconds": session.seconds, "rounds": session.rounds}
        for topic in options.topics or topics.TOPICS:
            print(f"\n{topic}\n{table.HEADER}")
            for row in session.rows(topic):
                rows.append(row)
                print(table.line(row), flush=True)
            if options.json:
                table.save(options.json, facts, session.limits, rows, settings)
    for row in bars.averages(rows):
        rows.append(row)
        print(table.line(row))
    facts["load after"] = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    if options.json:
        table.save(options.json, facts, session.limits, rows, settings)
    missed = list(bars.failures(rows))
    held = sum(not bar["target"] for row in rows for bar in row["bars"])
    print(f"\n{held} bars, {len(missed)} missed" + (":" if missed else ""))
    for text in missed:
        print(f"  {text}")
    return 1 if missed else 0
