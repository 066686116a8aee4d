"""Bars of the speed-up per layer, and a roofline, with matplotlib."""

import math

from bench.report import caution, groups

COLOURS = ("#9ecae1", "#2171b5", "#08306b")
MARKERS = "osD^v<>P*X+x1"       # more than there are colours: no two topics look alike
NOT_LAYERS = ("memory", "threads", "serialization", "startup")


def draw(run, folder):
    """Both pictures as PNG files; their paths."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    return [speedup(run, folder / "speedup.png"), roofline(run, folder / "roofline.png")]


def mean(rows):
    """Geometric, of the ratios to PyTorch."""
    return math.exp(sum(math.log(row["ratios"]["torch"]) for row in rows) / len(rows))


def speedup(run, path):
    """PyTorch's time over minidl's, one bar a layer and number of threads."""
    from matplotlib import pyplot as plt

    shown = {key: rows for key, rows in groups(run).items() if key[0] not in NOT_LAYERS}
    counts = sorted({n for rows in shown.values() for n in rows})
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.3 * len(shown)), layout="constrained")
    height = 0.8 / max(len(counts), 1)
    for i, n in enumerate(counts):
        places = [(y, mean(rows[n])) for y, rows in enumerate(shown.values()) if n in rows]
        bars = axes.barh([y + (i - (len(counts) - 1) / 2) * height for y, _ in places],
                         [ratio - 1 for _, ratio in places], height, left=1,
                         color=COLOURS[i % len(COLOURS)],
                         label=f"{n} thread{'s' if n > 1 else ''}")
        axes.bar_label(bars, [f"{ratio:.2f}" for _, ratio in places], padding=2, fontsize=6)
    names = [name if topic in name else f"{topic}: {name}" for topic, name in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("PyTorch's time / minidl's time (geometric mean over the sizes)")
    axes.margins(x=0.08, y=0.01)
    axes.set_title(f"{run['machine']['cpu']}, {run['machine']['instruction set']}, "
                   f"{run['machine']['peers']}\n{caution(run)}".strip(), fontsize=9)
    if counts:
        axes.legend(loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def points(run, threads):
    """(FLOPs a byte, GFLOPS, topic) of each row; elementwise rows count one a number."""
    for row in run["rows"]:
        work = row.get("flops") or (1e9 * row["rate"] * row["median"]
                                    if row.get("unit") == "GEl/s" else 0)
        if row["threads"] == threads and row.get("bytes") and work:
            yield work / row["bytes"], work / row["median"] / 1e9, row["topic"]


def roofline(run, path):
    """What was reached on the largest number of threads under what the machine allows."""
    from matplotlib import pyplot as plt

    threads = max(run["limits"], key=int)
    top = run["limits"][threads]
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    x = [2**-5, top["gflops"] / top["gbs"], 2**9]
    axes.plot(x, [min(top["gflops"], top["gbs"] * i) for i in x], color="black", linewidth=1)
    by_topic = {}
    for intensity, gflops, topic in points(run, int(threads)):
        by_topic.setdefault(topic, []).append((intensity, gflops))
    for i, (topic, found) in enumerate(by_topic.items()):
        axes.scatter(*zip(*found, strict=True), label=topic, s=18,
                     marker=MARKERS[i % len(MARKERS)])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("operations a byte (an elementwise function counts as one)")
    axes.set_ylabel("billion operations a second")
    axes.set_title(f"sgemm {top['gflops']:.0f} GFLOPS, copy {top['gbs']:.1f} GB/s, "
                   f"{threads} threads", fontsize=9)
    if by_topic:
        axes.legend(fontsize=7, ncols=2)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
