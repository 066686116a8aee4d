"""Train a small GPT, character by character, on text that every Python installation has.

The text is the source code of Python's own standard library. The model is GPT-2's design in
miniature, written out below as one would write it in PyTorch. After about a minute it prints code
it has made up.

    python examples/char_gpt.py                 # the whole story
    python examples/char_gpt.py --steps 100     # a quick look
    python examples/char_gpt.py --text my.txt   # your own text
"""

import argparse
import math
import os
import time
from pathlib import Path

import numpy as np

import minidl as md
from minidl import nn
from minidl.nn import functional as F


class Attention(nn.Module):
    """Causal self-attention over H heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)                              # each [B, T, C]
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)        # [B, H, T, D]
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    """Attention, then a feed-forward layer, each around a residual connection."""

    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """Token and position embeddings, blocks, and a head that shares the token embedding."""

    def __init__(self, vocab, context, layers=4, heads=4, width=128):
        super().__init__()
        self.context = context
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                deep = name.endswith(("proj.weight", "mlp.2.weight"))
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * layers) if deep else 1))
        self.head.weight = self.token.weight

    def forward(self, ids):
        x = self.token(ids) + self.position(md.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))                                       # [B, T, V]

    @md.no_grad()
    def sample(self, ids, count, temperature=0.8):
        for _ in range(count):
            logits = self(ids[:, -self.context:])[:, -1] / temperature
            ids = md.cat([ids, md.multinomial(logits.softmax(-1), 1)], dim=1)
        return ids


def read_text(path):
    """A file of the user's, or a megabyte of the standard library's sources."""
    if path:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    library = sorted(Path(os.__file__).parent.glob("*.py"))
    text = "\n".join(f.read_text(encoding="utf-8", errors="replace") for f in library)
    return "".join(c for c in text[:1_000_000] if c.isascii())


def batch_of(data, size, context, rng):
    starts = rng.integers(0, len(data) - context - 1, size)
    rows = np.stack([data[s:s + context + 1] for s in starts])
    return md.from_numpy(rows[:, :-1].copy()), md.from_numpy(rows[:, 1:].copy())


def loss_of(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


def progress(steps):
    """tqdm's bar where it is installed, plain lines otherwise."""
    try:
        from tqdm import tqdm
    except ImportError:
        return range(steps), lambda bar, step, text: print(f"{step}/{steps} {text}")
    return tqdm(range(steps), unit="step"), lambda bar, step, text: bar.set_postfix_str(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", help="a text file to learn (default: Python's own sources)")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1337)
    args = parser.parse_args()

    md.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    text = read_text(args.text)
    letters = sorted(set(text))
    data = np.array([letters.index(c) for c in text], np.int64)
    train, val = data[:-len(data) // 10], data[-len(data) // 10:]
    model = GPT(len(letters), args.context)
    count = sum(p.numel() for p in model.parameters())
    print(f"{len(text):,} characters, {len(letters)} different ones; {count:,} parameters; "
          f"{md.get_num_threads()} threads")

    optimizer = md.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    bar, show = progress(args.steps)
    start = time.perf_counter()
    for step in bar:
        warm, done = min(1, (step + 1) / 100), step / args.steps
        optimizer.param_groups[0]["lr"] = warm * (1e-4 + 9e-4 * (1 + math.cos(math.pi * done)) / 2)
        loss = loss_of(model, *batch_of(train, args.batch, args.context, rng))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == args.steps - 1:
            show(bar, step, f"loss {loss.item():.3f}")
    seconds = time.perf_counter() - start

    with md.no_grad():
        losses = [loss_of(model, *batch_of(val, args.batch, args.context, rng)).item()
                  for _ in range(20)]
    print(f"{args.steps / seconds:.1f} steps/s, validation loss {sum(losses) / 20:.3f} "
          f"(guessing: {math.log(len(letters)):.3f})\n")
    prompt = md.tensor([[letters.index(c) for c in "\n"]])
    print("".join(letters[i] for i in model.sample(prompt, 400)[0].tolist()))


if __name__ == "__main__":
    main()
