"""What must be reached. A row is held against every line below that fits it.

`against` is a peer (its time over minidl's; `copy` is an array copied), `best` (the faster of raw
BLAS and PyTorch), `rate` (the row's throughput) or `value` (the row's own figure, at most the
number). Two numbers are for one thread and for more. A line with `target` is a goal of the page the
project started from: shown, never a failure.
"""

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase

TABLE = """
topic          | case                    | shape     | against  | at least
matmul         | *                       | *         | best     | 0.97
batched_matmul | 32 products             | *         | best     | 0.97
average        | *                       | *         | best     | 1.0
elementwise    | relu                    | *         | torch    | 1.0
elementwise    | relu                    | 50M       | copy     | 0.85
elementwise    | exp                     | *         | torch    | 2.0
elementwise    | sigmoid                 | *         | torch    | 1.6
elementwise    | tanh                    | *         | torch    | 2.0
elementwise    | silu                    | *         | torch    | 1.0
gelu           | gelu tanh               | *         | torch    | 4.0
gelu           | gelu                    | *         | torch    | 1.2
softmax        | *softmax f+b            | *         | torch    | 1.5
layer_norm     | layer_norm f+b          | *         | torch    | 1.5
layer_norm     | rms_norm f+b            | *         | torch    | 1.5
cross_entropy  | *                       | *         | torch    | 2.0
linear         | linear f+b              | 2048x*    | torch    | 1.05
attention      | causal f+b              | *         | torch    | 1.3
op_overhead    | add*                    | 4x4       | torch    | 2.0
mlp_step       | *                       | *         | torch    | 6.0
train_step     | tiny                    | *         | torch    | 1.8
train_step     | nano                    | *         | torch    | 1.35 / 1.55
train_step     | base                    | *         | torch    | 1.12 / 1.25
train_step     | wide                    | *         | torch    | 1.08 / 1.12
train_step     | *                       | *         | compile  | 1.0
trainer        | training loop           | nano step | value    | 1.0
trainer        | next batch              | nano step | value    | 2.0
nanogpt        | * iterations            | *         | torch    | 1.54
nanogpt        | loss above PyTorch's    | *         | value    | 0.02
generate       | nano*                   | *         | torch    | 2.0
generate       | base GPT                | *         | torch    | 1.5
generate       | base Llama              | *         | torch    | 1.5
generate       | 124M GPT                | *         | torch    | 1.0
memory         | base step               | *         | torch    | 1.0
threads        | beside a busy process   | nano step | value    | 2.2
optimizer      | AdamW                   | 10M       | torch    | 1.0
serialization  | save                    | *K,*      | write    | 0.77
serialization  | load                    | *K,*      | safetensors | 0.83
serialization  | load                    | *K,*      | torch    | 0.83
serialization  | save a matrix           | *K,*      | json     | 7
serialization  | load a matrix           | *K,*      | json     | 8
serialization  | file of a matrix        | *K,*      | json     | 3.5
serialization  | open mapped             | *K,*      | value    | 10
serialization  | extra memory of a save  | *K,*      | value    | 5
matmul         | matmul                  | 512       | naive    | target 10
matmul         | matmul                  | 1024      | naive    | target 10
elementwise    | relu                    | *         | rate     | target 3
elementwise    | exp                     | *         | rate     | target 3
elementwise    | sigmoid                 | *         | rate     | target 3
layer_norm     | layer_norm              | *         | two-pass | target 2
gelu           | gelu*                   | *         | unfused  | target 2
attention      | heads                   | *         | unfused  | target 2
"""


@dataclass(frozen=True)
class Bar:
    topic: str
    case: str
    shape: str
    against: str
    numbers: tuple[float, ...]      # one thread, more threads
    target: bool

    def fits(self, row):
        return all(map(fnmatchcase, (row["topic"], row["name"], row["shape"]),
                       (self.topic, self.case, self.shape)))

    def judge(self, row):
        """The bar as it stands for a row, or None where the row has no such figure."""
        value = figure(row, self.against)
        if value is None:
            return None
        number = self.numbers[0 if row["threads"] == 1 else -1]
        passed = value <= number if self.against == "value" else value >= number
        return {"against": self.against, "number": number, "value": value, "passed": passed,
                "target": self.target}


def parse(text):
    bars = []
    for line in text.strip().splitlines()[1:]:
        topic, case, shape, against, numbers = (part.strip() for part in line.split("|"))
        target = numbers.startswith("target ")
        numbers = tuple(map(float, numbers.removeprefix("target ").split("/")))
        bars.append(Bar(topic, case, shape, against, numbers, target))
    return bars


BARS = parse(TABLE)


def figure(row, against):
    if against == "best" and "best" not in row:
        ratios = [row["ratios"][peer] for peer in ("blas", "torch") if peer in row["ratios"]]
        return min(ratios, default=None)
    if against in ("best", "rate", "value"):
        return row.get(against)
    return row["ratios"].get(against)


def judge(row):
    """All bars of a row."""
    found = (bar.judge(row) for bar in BARS if bar.fits(row))
    return [bar for bar in found if bar is not None]


def missed(row):
    """Whether a bar of a row fails the run."""
    return any(not bar["passed"] and not bar["target"] for bar in judge(row))


def averages(rows):
    """Rows with the geometric mean of all ratios to the best peer that have a bar."""
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [bar["value"] for row in rows if row["threads"] == threads
                  for bar in row["bars"] if bar["against"] == "best"]
        if len(ratios) > 1:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            row = {"topic": "average", "name": "matrix products", "shape": f"{len(ratios)} rows",
                   "threads": threads, "ratios": {}, "best": mean}
            yield {**row, "bars": judge(row)}


def failures(rows):
    """One line for each bar that was missed and each row that minidl could not compute."""
    for row in rows:
        what = f"{row['topic']}: {row['name']} {row['shape']}, {row['threads']} threads"
        error = row.get("errors", {}).get("minidl", "skipped")
        if not error.startswith("skipped"):
            yield f"{what}: {error}"
        for bar in row.get("bars", ()):
            if not bar["passed"] and not bar["target"]:
                relation = "at most" if bar["against"] == "value" else "at least"
                yield (f"{what}: {bar['value']:.2f} against {bar['against']}, must be {relation} "
                       f"{bar['number']:g}")
