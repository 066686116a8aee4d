"""Rows as lines of a terminal and as a JSON file."""

import json
from pathlib import Path

ORDER = ("torch", "compile", "jax", "numpy", "blas", "safetensors", "naive", "unfused", "two-pass",
         "json", "write", "copy", "1 thread")
HEADER = (f"  {'case':28} {'shape':20} {'thr':>3} {'median':>10} {'min':>10} {'±':>4} "
          f"{'rate':>14} {'limit':>6}  peer's time / minidl's (of the minima) [bars]")


def duration(seconds):
    """With four figures: 1.234 ms."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2f}"


def judged(bar):
    sign = "<=" if bar["against"] == "value" else ">="
    verdict = ("" if bar["passed"] else "not ") + "reached" if bar["target"] else (
        "ok" if bar["passed"] else "FAIL")
    kind = "target " if bar["target"] else ""
    value = "" if bar["against"] in ORDER else f" ({number(bar['value'])})"
    return f"[{kind}{bar['against']}{value} {sign} {bar['number']:g} {verdict}]"


def line(row):
    """One row of the table."""
    rate = f"{number(row['rate'])} {row['unit']}" if row.get("rate") else ""
    if "value" in row and not rate:
        rate = f"{number(row['value'])} {row.get('unit', '')}"
    limit = f"{100 * row['limit']:.0f}%" if row.get("limit") else ""
    spread = f"{100 * row['spread']:.0f}%" if "spread" in row else ""
    minima = row.get("ratios of minima", {})
    ratios = "  ".join(f"{peer} {number(row['ratios'][peer])}"
                       + (f" ({number(minima[peer])})" if peer in minima else "")
                       for peer in ORDER if peer in row["ratios"])
    notes = [judged(bar) for bar in row.get("bars", ())]
    notes += [f"{peer}: {why}" for peer, why in row.get("errors", {}).items()]
    notes += [row["note"]] if row.get("note") else []
    return (f"  {row['name']:28} {row['shape']:20} {row['threads'] or '':>3} "
            f"{duration(row.get('median')):>10} {duration(row.get('min')):>10} {spread:>4} "
            f"{rate:>14} {limit:>6}  {ratios}  {' '.join(notes)}").rstrip()


def show_machine(facts):
    for name, value in facts.items():
        print(f"{name:>16}: {value}")


def save(path, machine, limits, rows, options):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as f:
        json.dump({"machine": machine, "limits": limits, "options": options, "rows": rows}, f,
                  indent=1)
        f.write("\n")


def load(path):
    with open(path) as f:
        return json.load(f)
