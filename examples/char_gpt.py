"""Train a small GPT, character by character, on text that every Python installation has.

What you learn here: the whole of a language model. The text is the source code of Python's own
standard library; the model is GPT-2's design in miniature, written out below as one would write it
in PyTorch; the recipe is nanoGPT's for a CPU. After about a minute it prints code it has made up.
`md.models.GPT` and `md.generate` hold the same things ready-made and faster at writing.

    python examples/char_gpt.py                 # the whole story
    python examples/char_gpt.py --steps 100     # a quick look
    python examples/char_gpt.py --text my.txt   # your own text
"""

import argparse
import math
import time
from itertools import islice

import minidl as md
from minidl import nn
from minidl.data import DataLoader, TokenDataset
from minidl.nn import functional as F


class Attention(nn.Module):
    """Causal self-attention: every position looks at itself and at those before it."""

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
    """Attention, which moves information between positions, then a layer that works on each."""

    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))          # added to what is there, so that gradients
        return x + self.mlp(self.ln2(x))        # reach the first block undiminished


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
        self.head.weight = self.token.weight
        for name, p in self.named_parameters():
            if p.ndim == 2:                     # what is added to x starts small: 2 L branches do
                deep = name.endswith(("proj.weight", "mlp.2.weight"))
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * layers) if deep else 1))

    def forward(self, ids):
        x = self.token(ids) + self.position(md.arange(ids.shape[1]))       # [B, T, C]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))                                       # [B, T, V]

    @md.no_grad()
    def sample(self, ids, count, temperature=0.8):
        """Append `count` tokens to ids [1, T], each drawn from what the model expects next."""
        for _ in range(count):
            logits = self(ids[:, -self.context:])[:, -1] / temperature
            ids = md.cat([ids, md.multinomial(logits.softmax(-1), 1)], dim=1)
        return ids


def loss_of(model, x, y):
    """The mean surprise at the next character, for every position at once."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@md.no_grad()
def evaluate(model, loader, batches=40):
    losses = [loss_of(model, x, y).item() for x, y in islice(loader, batches)]
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", help="a text file to learn (default: Python's own sources)")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--sample", type=int, default=400, help="how many characters to write")
    parser.add_argument("--seed", type=int, default=1337)
    args = parser.parse_args()
    md.manual_seed(args.seed)

    # The text as numbers, one a character. The last tenth is kept to see what was learned, not
    # learned by heart. Windows of the text start anywhere: the target is the window one further.
    text = md.text.load_corpus(args.text, max_bytes=1_000_000)
    tokenizer = md.text.CharTokenizer(text, byte_fallback=False)
    data = md.tensor(tokenizer.encode(text))
    cut = len(data) * 9 // 10
    train, val = (DataLoader(TokenDataset(part, args.context, stride=1), args.batch, shuffle=True)
                  for part in (data[:cut], data[cut:]))
    model = GPT(tokenizer.vocab_size, args.context)
    print(f"{len(text):,} characters, {tokenizer.vocab_size} different ones; "
          f"{sum(p.numel() for p in model.parameters()):,} parameters; "
          f"{md.get_num_threads()} threads")

    optimizer = md.optim.AdamW(md.optim.decay_groups(model, 0.1), lr=1e-3, betas=(0.9, 0.99))
    schedule = md.optim.lr_scheduler.WarmupCosineLR(
        optimizer, min(100, args.steps // 10), args.steps, eta_min=1e-4)
    start = time.perf_counter()
    for step, (x, y) in enumerate(islice(train, args.steps), 1):
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == args.steps:
            rate = step / (time.perf_counter() - start)
            print(f"step {step:5d}  loss {loss.item():.3f}  {rate:.0f} steps/s", flush=True)

    guess = math.log(tokenizer.vocab_size)
    print(f"\nvalidation loss {evaluate(model, val):.3f} (guessing: {guess:.3f}); a sample:\n")
    prompt = md.tensor([tokenizer.encode("\ndef ")])
    print(tokenizer.decode(model.sample(prompt, args.sample)[0].tolist()))


if __name__ == "__main__":
    main()
