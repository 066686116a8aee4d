"""Look into a transformer: train it to copy, and draw where its heads look.

What you learn here: what attention does, seen in the smallest model that shows it. The data are
rows of random letters that repeat after a while. From there on they can be predicted: find
where the last letter stood before, and take the one that came after it. Transformers with two
layers learn to do just that: a head of the first layer looks one position back, so that every
position knows its neighbour, and a head of the second finds the one whose neighbour is the last
letter. That pair is called an induction head, and is the beginning of what large models do with
the text they are given.

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

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LENGTH = 32


def rows_of(rng, count, period=None):
    """Rows [count, LENGTH] of different letters that repeat, and their periods [count].

    The periods differ: with a single one, looking back that many places would do.
    """
    periods = rng.integers(8, 21, count) if period is None else np.full(count, period)
    letters = rng.permuted(np.tile(np.arange(len(LETTERS)), (count, 1)), axis=1)
    return np.take_along_axis(letters, np.arange(LENGTH) % periods[:, None], 1), periods


def loss_of(model, rows, periods):
    """Only what repeats can be known, so only that counts."""
    targets = np.where(np.arange(1, LENGTH) > periods[:, None], rows[:, 1:], -100)
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


def name_of(weights, period):
    """What a head [T, T] does where letters repeat: its weight on three places, on average."""
    late = np.arange(period + 1, LENGTH)
    shares = {"looks one back": weights[late, late - 1].mean(),
              "looks at the same letter": weights[late, late - period].mean(),
              "looks at the letter after it (induction)": weights[late, late - period + 1].mean()}
    best = max(shares, key=shares.get)
    return f"{best} {shares[best]:.0%}" if shares[best] > 0.3 else "no clear pattern"


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
    parser.add_argument("--steps", type=int, default=800)
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
        loss = loss_of(model, *rows_of(rng, 32))
        optimizer.zero_grad()
        loss.backward()
        md.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == args.steps:
            print(f"step {step:4d}  loss {loss.item():.3f} (guessing: {math.log(26):.3f})  "
                  f"{time.perf_counter() - start:3.0f} s", flush=True)

    row, _ = rows_of(rng, 1, period=LENGTH // 2)
    text = "".join(LETTERS[i] for i in row[0])
    maps = attention_weights(model, row)
    heads = list(np.ndindex(*maps.shape[:2]))
    names = {head: name_of(maps[head], LENGTH // 2) for head in heads}
    print()
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
