"""Look into a transformer: teach it to sort letters, and draw where its heads look.

What you learn here: what attention does, seen in a model small enough to be understood. The data
are rows like "qfbhzcjm>bcfhjmqz": letters in any order, then the same letters sorted. To write the
next letter, the model has to find the smallest of those that come after the last one written.
That is a question to the whole row at once, and attention asks it: in the picture, the rows below
">" look at the letter that they write next, wherever it stands. Nobody told the model to; the
gradient found it.

The fused kernel never writes the attention weights out, so they are computed here, from the
inputs of each attention layer, which a forward hook catches.

    python examples/attention_map.py                        # draws attention_map.png (extra `plot`)
    python examples/attention_map.py --output map.svg
    python examples/attention_map.py --steps 50 --ascii     # a quick look, in characters
"""

import argparse
import math
import time

import numpy as np

import minidl as md
from minidl.models import GPT, GPTConfig

LETTERS = "abcdefghijklmnopqrstuvwxyz>"
COUNT = 8                           # letters to sort
LENGTH = 2 * COUNT + 1              # "qfbhzcjm>bcfhjmqz"


def rows_of(rng, count):
    """Rows [count, LENGTH] of different letters, ">", and the letters sorted."""
    letters = rng.permuted(np.tile(np.arange(26), (count, 1)), axis=1)[:, :COUNT]
    signs = np.full((count, 1), LETTERS.index(">"))
    return np.concatenate([letters, signs, np.sort(letters, 1)], 1)


def loss_of(model, rows):
    """Only what comes after the ">" can be known, so only that counts."""
    targets = rows[:, 1:].copy()
    targets[:, :COUNT] = -100
    return model(md.from_numpy(rows[:, :-1].copy()), targets=md.from_numpy(targets))[1]


@md.no_grad()
def attention_weights(model, rows):
    """softmax(Q K^T / sqrt(D)) of every layer and head for one row: [layers, heads, T, T]."""
    inputs = []
    hooks = [block.attn.register_forward_hook(lambda module, args, output: inputs.append(args[0]))
             for block in model.blocks]
    model(md.from_numpy(rows))
    for hook in hooks:
        hook.remove()
    maps = []
    for block, x in zip(model.blocks, inputs, strict=True):
        B, T, _ = x.shape
        H, D = block.attn.num_heads, block.attn.head_dim
        q, k, _ = block.attn.qkv(x).view(B, T, 3, H, D).permute(2, 0, 3, 1, 4)      # [B, H, T, D]
        scores = q @ k.transpose(-2, -1) / math.sqrt(D)                             # [B, H, T, T]
        future = md.ones(T, T, dtype=md.bool).triu(1)
        maps.append(scores.masked_fill(future, float("-inf")).softmax(-1)[0])
    return md.stack(maps).numpy()


def name_of(weights, row):
    """What a head [T, T] does behind the ">": the part of its weight on three places."""
    now = np.arange(COUNT, LENGTH - 1)
    place = {letter: i for i, letter in enumerate(row[:COUNT])}
    following = [place[letter] for letter in row[COUNT + 1 :]]
    shares = {"looks at the letter to write next": weights[now, following].mean(),
              "looks at the letter before": weights[now, now - 1].mean(),
              "looks at itself": weights[now, now].mean()}
    best = max(shares, key=shares.get)
    return f"{best}, {shares[best]:.0%}" if shares[best] > 0.3 else "no simple pattern"


def draw(maps, names, text, path):
    """A picture with a square for each head."""
    import matplotlib

    matplotlib.use("Agg")           # to a file: no window needed
    from matplotlib import pyplot

    layers, heads = maps.shape[:2]
    figure, axes = pyplot.subplots(layers, heads, figsize=(4 * heads, 4.2 * layers), squeeze=False)
    for i, j in np.ndindex(layers, heads):
        axes[i, j].imshow(maps[i, j], cmap="Blues", vmin=0, vmax=1)
        axes[i, j].set_title(f"layer {i + 1}, head {j + 1}\n{names[i, j]}", fontsize=9)
        axes[i, j].set_xticks(range(len(text)), text, fontsize=6)
        axes[i, j].set_yticks(range(len(text)), text, fontsize=6)
    axes[0, 0].set_ylabel("from here ...")
    axes[0, 0].set_xlabel("... it looks there")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def draw_ascii(weights, text):
    """One head in characters: a row for each position, the more weight the denser."""
    print("   " + text)
    for letter, row in zip(text, weights, strict=True):
        print(f" {letter} " + "".join(" .:-=+*#%@"[min(9, int(w * 10))] for w in row).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--output", default="attention_map.png", help="a .png, .svg or .pdf file")
    parser.add_argument("--ascii", action="store_true", help="draw with characters")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    model = GPT(GPTConfig(len(LETTERS), context=LENGTH, layers=2, heads=2, width=64))
    optimizer = md.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = md.optim.lr_scheduler.WarmupCosineLR(optimizer, args.steps // 10, args.steps)
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        loss = loss_of(model, rows_of(rng, 64))
        optimizer.zero_grad()
        loss.backward()
        md.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == args.steps:
            print(f"step {step:4d}  loss {loss.item():.3f}  "
                  f"{time.perf_counter() - start:3.0f} s", flush=True)

    row = rows_of(rng, 1)
    text = "".join(LETTERS[i] for i in row[0])
    maps = attention_weights(model, row)
    heads = list(np.ndindex(*maps.shape[:2]))
    names = {head: name_of(maps[head], row[0]) for head in heads}
    question = row[:, : COUNT + 1].tolist()
    answer = md.generate.generate(model, question, COUNT, temperature=0)[0]
    print(f"\n{text[: COUNT + 1]} is continued with {''.join(LETTERS[i] for i in answer)}\n")
    for i, j in heads:
        print(f"layer {i + 1}, head {j + 1}: {names[i, j]}")
    if not args.ascii:
        try:
            draw(maps, names, text, args.output)
            print(f"\nthe picture is in {args.output}")
            return
        except ImportError:
            print("\nno matplotlib here (pip install 'minidl[plot]'), so in characters:")
    for i, j in heads:
        print(f"\nlayer {i + 1}, head {j + 1}: {names[i, j]}")
        draw_ascii(maps[i, j], text)


if __name__ == "__main__":
    main()
