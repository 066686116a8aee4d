"""Watch a model write: streaming, and what the settings of the sampler do.

What you learn here: `md.generate.stream`, which hands out text as soon as it is certain, in whole
characters; temperature, top-k, top-p and the repetition penalty, on one prompt each; stop strings
and seeds; and `md.generate.generate` for several prompts of different lengths at once. A small GPT
over bytes is trained first, for half a minute; with --model its file is kept for the next time.

    python examples/generate_stream.py
    python examples/generate_stream.py --model runs/bytes.safetensors --prompt "import "
    python examples/generate_stream.py --steps 30 --tokens 40     # a quick look
"""

import argparse
import time
from itertools import islice
from pathlib import Path

import minidl as md
from minidl.data import DataLoader, TokenDataset
from minidl.models import GPT, GPTConfig

CONTEXT = 128           # bytes that the model sees, and as many it is trained on
SETTINGS = {
    "greedy: always the likeliest, soon in circles": {"temperature": 0},
    "greedy, repetition penalty 1.3": {"temperature": 0, "repetition_penalty": 1.3},
    "temperature 0.7: mostly likely ones": {"temperature": 0.7},
    "temperature 1.5: bold, and wrong": {"temperature": 1.5},
    "temperature 1.5, but only the 5 likeliest (top-k)": {"temperature": 1.5, "top_k": 5},
    "temperature 1, the likeliest 80 % together (top-p)": {"top_p": 0.8},
}


def train(model, tokenizer, steps):
    """A short training on Python's own sources."""
    ids = tokenizer.encode(md.text.load_corpus(max_bytes=1_000_000))
    loader = DataLoader(TokenDataset(ids, CONTEXT, stride=1), batch_size=6, shuffle=True)
    optimizer = md.optim.AdamW(md.optim.decay_groups(model, 0.1), lr=2e-3, betas=(0.9, 0.99))
    schedule = md.optim.lr_scheduler.WarmupCosineLR(optimizer, steps // 10, steps, eta_min=1e-4)
    for step, (x, y) in enumerate(islice(loader, steps), 1):
        _, loss = model(x, targets=y)
        optimizer.zero_grad()
        loss.backward()
        md.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps:
            print(f"training: step {step}, loss {loss.item():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, help="a file to load from, or to save to")
    parser.add_argument("--prompt", default="def __init__(self, ")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)

    tokenizer = md.text.ByteTokenizer()
    model = GPT(GPTConfig(tokenizer.vocab_size, context=CONTEXT, layers=4, heads=4, width=128))
    if args.model and args.model.exists():
        model.load_state_dict(md.load(args.model))
    else:
        train(model, tokenizer, args.steps)
        if args.model:
            args.model.parent.mkdir(parents=True, exist_ok=True)
            md.save(model.state_dict(), args.model)

    for title, settings in SETTINGS.items():
        print(f"\n---- {title}\n{args.prompt}", end="")
        start, count = time.perf_counter(), 0
        for piece in md.generate.stream(model, args.prompt, args.tokens, tokenizer=tokenizer,
                                        seed=args.seed, **settings):
            print(piece, end="", flush=True)
            count += len(piece.encode())
        print(f"\n({count / (time.perf_counter() - start):.0f} bytes/s)")

    print("\n---- until the end of the line: stop=\"\\n\"")
    for seed in range(3):           # the same seed always writes the same, another one another
        line = "".join(md.generate.stream(model, args.prompt, args.tokens, tokenizer=tokenizer,
                                          stop="\n", temperature=0.7, seed=seed))
        print(f"seed {seed}: {args.prompt}{line}")

    print("\n---- prompts of different lengths at once")
    prompts = ["import ", "class ", "    for i in range("]
    lines = md.generate.generate(model, prompts, 40, tokenizer=tokenizer, stop="\n",
                                 temperature=0.5, seed=args.seed)
    for prompt, line in zip(prompts, lines, strict=True):
        print(prompt + line)


if __name__ == "__main__":
    main()
