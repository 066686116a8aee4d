"""Pictures and tables of a saved run, for the README and docs/performance.md.

    python -m bench --json bench/results/latest.json
    python -m bench.report [bench/results/latest.json]

Draws docs/images/speedup.png and docs/images/roofline.png (matplotlib, the extra `plot`) and writes
what stands between the lines `<!-- bench:... begin -->` and `<!-- bench:... end -->`.
"""

import argparse
import re
from pathlib import Path

from bench import ROOT
from bench.machine import warning
from bench.table import duration, load, number


def groups(run, peer="torch"):
    """{(topic, name): {threads: [row, ...]}} of the rows with a ratio to a peer."""
    found = {}
    for row in run["rows"]:
        if peer in row["ratios"]:
            by_threads = found.setdefault((row["topic"], row["name"]), {})
            by_threads.setdefault(row["threads"], []).append(row)
    return found


def machine_line(run):
    facts, limits = run["machine"], run["limits"]
    peaks = "; ".join(f"{n} thread{'s' if n != '1' else ''}: sgemm {top['gflops']:.0f} GFLOPS ("
                      + ", ".join(f"{peer} {rate:.0f}" for peer, rate in top["sgemm"].items())
                      + f"), copy {top['gbs']:.1f} GB/s" for n, top in limits.items())
    chosen = f" (using {facts['peers use']})" if facts["peers use"] else ""
    return (f"{facts['cpu']}, {facts['usable cores'] or facts['cores']} cores, "
            f"{facts['instruction set']}, {facts['caches']}, {facts['memory']}, {facts['system']}, "
            f"Python {facts['python'].split()[0]}, {facts['peers']}{chosen}. {peaks}. "
            f"{caution(run)}").strip()


def caution(run):
    """What makes the figures worth less."""
    busy = warning(run["machine"]) is not None
    return ("**A short run: not representative.** " if run["options"]["quick"] else "") + (
        "**Measured while other programs used the processor.**" if busy else "")


def span(values):
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"


def summary(run):
    """A line for each layer: the ratio to PyTorch over all sizes, by number of threads."""
    counts = sorted({row["threads"] for row in run["rows"] if row["threads"]})
    titles = [f"{n} thread{'s' if n > 1 else ''}" for n in counts]
    lines = [f"PyTorch's time over minidl's, on {machine_line(run)}", "",
             f"| work | sizes | {' | '.join(titles)} |", "| --- " * (2 + len(counts)) + "|"]
    for (topic, name), by_threads in groups(run).items():
        shapes = list(dict.fromkeys(row["shape"] for rows in by_threads.values() for row in rows))
        sizes = shapes[0] if len(shapes) == 1 else f"{len(shapes)} sizes"
        ratios = [span([row["ratios"]["torch"] for row in by_threads[n]]) if n in by_threads else ""
                  for n in counts]
        title = name if topic in name else f"{topic}: {name}"
        lines.append(f"| {title} | {sizes} | {' | '.join(ratios)} |")
    lines += ["", "![PyTorch's time over minidl's, by layer](docs/images/speedup.png)"]
    return "\n".join(lines)


def everything(run):
    """Every row of the run."""
    lines = [machine_line(run), "", "![Roofline](images/roofline.png)", "",
             "| work | size | threads | median | rate | of the limit | ratio to | bar |",
             "| --- " * 8 + "|"]
    for row in run["rows"]:
        rate = f"{number(row['rate'])} {row['unit']}" if row.get("rate") else ""
        if not rate and "value" in row:
            rate = f"{number(row['value'])} {row.get('unit', '')}"
        ratios = ", ".join(f"{peer} {number(ratio)}" for peer, ratio in row["ratios"].items())
        bars = ", ".join(f"{bar['against']} {bar['number']:g} "
                         f"{'met' if bar['passed'] else 'missed'}" for bar in row["bars"])
        limit = f"{row['limit']:.0%}" if row.get("limit") else ""
        lines.append(f"| {row['topic']}: {row['name']} | {row['shape']} | {row['threads'] or ''} | "
                     f"{duration(row.get('median'))} | {rate} | {limit} | {ratios} | {bars} |")
    return "\n".join(lines)


def fill(path, name, text):
    """Put text between the two lines that name it; a file without them is left alone."""
    old = path.read_text()
    begin, end = f"<!-- bench:{name} begin -->", f"<!-- bench:{name} end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    new = pattern.sub(lambda match: f"{begin}\n{text}\n{end}", old)
    if new != old:
        path.write_text(new)
    return new != old


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", default=str(ROOT / "bench/results/latest.json"))
    parser.add_argument("--root", type=Path, default=ROOT, help="where README.md and docs/ are")
    options = parser.parse_args(arguments)
    run = load(options.results)
    for file, name, text in (("README.md", "summary", summary(run)),
                             ("docs/performance.md", "table", everything(run))):
        if fill(options.root / file, name, text):
            print(f"filled {file}")
    from bench.pictures import draw

    for path in draw(run, options.root / "docs/images"):
        print(f"drew {path}")


if __name__ == "__main__":
    main()
