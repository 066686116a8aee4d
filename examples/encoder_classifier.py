"""Classify lines of text with an encoder: is it code, a comment, or a line of documentation?

What you learn here: an encoder, whose positions look both ways; texts of different lengths in one
batch, with a mask for the padding; one vector for a text (the mean over its tokens) and a linear
layer on it; and reading a table of confusions. The lines come from Python's standard library,
whose own parser says what each of them is. The `#` and the quotes are cut off: the model has to
tell by what is written.

    python examples/encoder_classifier.py
    python examples/encoder_classifier.py --steps 30     # a quick look
"""

import argparse
import ast
import io
import sysconfig
import time
import tokenize
from pathlib import Path

import numpy as np

import minidl as md
from minidl import nn
from minidl.models import BERT, BERTConfig

CLASSES = ["code", "comment", "docs"]
LENGTH = 64                     # bytes of a line that are looked at
PADDING = 0                     # a byte that no source file has


def lines_of(source):
    """The (text, class) of the lines of a Python file; what is both or neither is left out."""
    found, docs = [], set()
    for node in ast.walk(ast.parse(source)):
        has_docs = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        if has_docs and ast.get_docstring(node):
            docs.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
            found += [(line, 2) for line in ast.get_docstring(node).splitlines()]
    comments = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
            found.append((token.string.lstrip("#:! "), 1))
    found += [(line, 0) for number, line in enumerate(source.splitlines(), 1)
              if number not in docs and number not in comments]
    return [(text.strip(), kind) for text, kind in found if len(text.strip()) > 8]


def load_lines(files, rng):
    """As many lines of each class: bytes [N, LENGTH] with padding behind, and classes [N]."""
    lines = [line for file in files for line in lines_of(file.read_text(encoding="utf-8"))]
    groups = [sorted({text for text, kind in lines if kind == k}) for k in range(len(CLASSES))]
    count = min(map(len, groups))
    rows, kinds = np.full((len(CLASSES) * count, LENGTH), PADDING), []
    for kind, group in enumerate(groups):
        for text in rng.permutation(group)[:count]:
            data = str(text).encode()[:LENGTH]
            rows[len(kinds), : len(data)] = list(data)
            kinds.append(kind)
    order = rng.permutation(len(kinds))
    return md.from_numpy(rows[order]), md.from_numpy(np.array(kinds)[order])


class Classifier(nn.Module):
    """BERT's mean over the tokens of a text, then a linear layer."""

    def __init__(self):
        super().__init__()
        self.encoder = BERT(BERTConfig(vocab_size=256, context=LENGTH, layers=2, heads=4, width=64,
                                       hidden=256))
        self.head = nn.Linear(64, len(CLASSES))

    def forward(self, rows):
        # The mask is 1 where there is a token: padding is not attended to and not averaged.
        # An embedding has length 1; the factor lets the classes be told apart with confidence.
        return self.head(8 * self.encoder.embed(rows, mask=rows != PADDING))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--files", type=int, default=120, help="how many modules to read")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    # Whole files are kept for the test: lines of one file resemble each other.
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[: args.files]
    rows, kinds = load_lines(files[len(files) // 5:], rng)
    test_rows, test_kinds = load_lines(files[: len(files) // 5], rng)
    print(f"{len(rows):,} lines to learn, {len(test_rows):,} of other files to test")

    model = Classifier()
    optimizer = md.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = md.optim.lr_scheduler.WarmupCosineLR(optimizer, args.steps // 10, args.steps)
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        batch = md.from_numpy(rng.integers(0, len(rows), 64))
        loss = nn.functional.cross_entropy(model(rows[batch]), kinds[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == args.steps:
            print(f"step {step:4d}  loss {loss.item():.3f}  {time.perf_counter() - start:3.0f} s",
                  flush=True)

    model.eval()
    with md.no_grad():
        guesses = md.cat([model(part).argmax(1) for part in test_rows.split(256)])
    report(guesses.numpy(), test_kinds.numpy())
    for text in ("for name in sorted(names):", "make sure that the list is sorted",
                 "Return the names in sorted order."):
        line = md.tensor([list(text.encode().ljust(LENGTH, bytes([PADDING])))])
        shares = zip(CLASSES, model(line).softmax(1)[0].tolist(), strict=True)
        print(f"{text:36s}", "  ".join(f"{name} {p:.2f}" for name, p in shares))


def report(guesses, kinds):
    """The share that is right, and how often each class was taken for each other."""
    print(f"\n{(guesses == kinds).mean():.1%} of the test lines are right "
          f"(guessing: {1 / len(CLASSES):.0%})\n")
    print(f"{'is / taken for':16s}", *(f"{name:>9s}" for name in CLASSES))
    table = np.zeros((len(CLASSES), len(CLASSES)), int)
    np.add.at(table, (kinds, guesses), 1)
    for name, row in zip(CLASSES, table, strict=True):
        print(f"{name:16s}", *(f"{count:9d}" for count in row))
    print()


if __name__ == "__main__":
    main()
