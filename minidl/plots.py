"""Pictures of a run: loss curves from logs, attention maps of a prompt (the extra `plot`).

The extension of the file decides the format: .png, .svg, .pdf.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minidl import nn, ops
from minidl.errors import ArgumentError
from minidl.grad_mode import no_grad
from minidl.train.log import read_log

__all__ = ["attention_map", "attention_weights", "loss_curve", "sparkline"]

Path = str | os.PathLike[str]
BLOCKS = "▁▂▃▄▅▆▇█"


def loss_curve(logs: Path | Mapping[str, Path], path: Path, title: str = "") -> None:
    """Draw the training and validation loss over the steps of a run's log.jsonl, or of several
    (a dict of names to logs) in one picture.

    >>> md.plots.loss_curve("runs/a/log.jsonl", "loss.png")  # doctest: +SKIP
    """
    runs = logs if isinstance(logs, Mapping) else {"": logs}
    records = {name: read_log(log) for name, log in runs.items()}
    if not any(records.values()):
        raise ArgumentError(f"loss_curve: there is nothing in {', '.join(map(str, runs.values()))}")
    with _figure(path, (7, 4.2)) as figure:
        axes = figure.subplots()
        for number, (name, found) in enumerate(records.items()):
            color = f"C{number}"
            x, y = _series(found, "loss")
            prefix = f"{name}: " if name else ""
            axes.plot(x, y, color=color, alpha=0.25, linewidth=0.7)
            axes.plot(x, _smooth(y), color=color, linewidth=1.6, label=f"{prefix}training")
            x, y = _series(found, "val_loss")
            if len(x):
                style = {"marker": "o", "markersize": 4, "linestyle": "--"}
                axes.plot(x, y, color=f"C{number + len(runs)}", label=f"{prefix}validation",
                          **style)
        axes.set(xlabel="step", ylabel="loss", title=title)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)


def attention_map(
    model: Any, tokenizer: Any, prompt: str, path: Path, *, layer: int = -1
) -> None:
    """Draw how much each token of the prompt looks at each before it, one picture for each head
    of a layer.

    >>> md.plots.attention_map(model, tokenizer, "def f(x):", "map.svg")  # doctest: +SKIP
    """
    ids = tokenizer.encode(prompt)
    weights = attention_weights(model, ids)
    if not -len(weights) <= layer < len(weights):
        raise ArgumentError(f"attention_map: layer {layer} of a model of {len(weights)} layers")
    chosen = weights[layer]                                                    # [H, T, T]
    columns = min(4, len(chosen))
    rows = -(-len(chosen) // columns)
    labels = [_label(tokenizer.decode([i])) for i in ids]
    size = 1.2 + 0.16 * len(ids)
    with _figure(path, (columns * size, rows * (size + 0.3))) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for head, axes in enumerate(grid.flat):
            if head >= len(chosen):
                axes.axis("off")
                continue
            axes.imshow(chosen[head], cmap="viridis", vmin=0)
            axes.set_title(f"head {head}", fontsize=9)
            axes.set_xticks(range(len(ids)), labels, fontsize=7, rotation=90, family="monospace")
            axes.set_yticks(range(len(ids)), labels, fontsize=7, family="monospace")


@no_grad()
def attention_weights(model: Any, ids: Sequence[int]) -> list[Any]:
    """softmax(Q K^T / sqrt(D)) of every layer for one row of tokens: arrays (H, T, T).

    >>> model = md.models.GPT.from_preset("tiny")
    >>> [w.shape for w in md.plots.attention_weights(model, [1, 2, 3])]
    [(2, 3, 3), (2, 3, 3)]
    """
    found: list[Any] = []

    def watch(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        q, k, _ = layer._project(args[0], None)
        if layer.rotary is not None:
            q, k = layer.rotary(q), layer.rotary(k)
        k = ops.repeat_interleave(k, layer.num_heads // layer.num_kv_heads, 1)
        scores = (q @ k.transpose(-2, -1))[0] / layer.head_dim**0.5            # [H, T, T]
        if layer.causal:
            seen = np.tri(scores.shape[-1], dtype=bool)
            scores = scores.masked_fill(ops.from_numpy(~seen).to(scores.device), float("-inf"))
        found.append(scores.softmax(-1).cpu().numpy())

    layers = [m for m in model.modules() if isinstance(m, nn.MultiHeadAttention)]
    handles = [m.register_forward_pre_hook(watch, with_kwargs=True) for m in layers]
    training = model.training
    model.eval()
    try:
        model(ops.tensor([list(ids)]))
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    return found


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """A curve in one line of text, from the means of ``width`` stretches of the values.

    >>> sparkline([4, 3, 2, 1], 4)
    '█▆▃▁'
    """
    parts = np.array_split(np.asarray(values, float), min(width, len(values)))
    means = np.array([part.mean() for part in parts])
    low, high = means.min(), means.max()
    height = (means - low) / (high - low) if high > low else np.zeros_like(means)
    return "".join(BLOCKS[round(h * (len(BLOCKS) - 1))] for h in height)


def _series(records: list[dict[str, Any]], name: str) -> tuple[Any, Any]:
    pairs = [(r["step"], r[name]) for r in records if r.get(name) is not None]
    return np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])


def _smooth(values: Any) -> Any:
    """The mean of a window of a 30th of the curve, narrower at its ends."""
    reach = len(values) // 60
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    first, last = np.maximum(places - reach, 0), np.minimum(places + reach + 1, len(values))
    return (sums[last] - sums[first]) / (last - first)


def _label(text: str) -> str:
    return text.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")


@contextmanager
def _figure(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """A figure that is written to ``path`` at the end; no window, whatever matplotlib is set to."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "drawing needs the package `matplotlib`: pip install 'minidl[plot]'"
        ) from error
    figure = Figure(figsize=size, layout="constrained")
    yield figure
    if not os.fspath(path).endswith((".png", ".svg", ".pdf")):
        raise ArgumentError(f"{os.fspath(path)}: a picture should end in .png, .svg or .pdf")
    figure.savefig(os.fspath(path), dpi=144)
