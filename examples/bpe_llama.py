"""Train a small Llama on subwords instead of characters.

What you learn here: byte pair encoding, trained on the text itself; a ready-made model from a
config; a token file that is mapped into memory, so that the text may be larger than it; saving
model and tokenizer; and comparing models that cut text differently, by bits per byte. Subwords
make the same text almost three times shorter: the model sees that much further for the same work.

    pip install "minidl[text]"                  # Hugging Face's tokenizers
    python examples/bpe_llama.py
    python examples/bpe_llama.py --steps 50     # a quick look
    python examples/bpe_llama.py --text my.txt --save runs/llama
"""

import argparse
import math
import tempfile
import time
from itertools import islice
from pathlib import Path

import minidl as md
from minidl.data import DataLoader, TokenDataset
from minidl.models import Llama, LlamaConfig


def bits_per_byte(model, loader, bytes_per_token, batches=30):
    """The mean loss in bits, per byte of text: comparable whatever the tokenizer."""
    model.eval()
    with md.no_grad():
        losses = [model(x, targets=y)[1].item() for x, y in islice(loader, batches)]
    model.train()
    return sum(losses) / len(losses) / math.log(2) / bytes_per_token


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", help="a file or folder to learn (default: Python's own sources)")
    parser.add_argument("--vocab", type=int, default=1024, help="how many tokens")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--save", help="a folder for the model and its tokenizer")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    md.manual_seed(args.seed)

    # 1. The tokenizer: bytes first, then the most frequent pair becomes a token, again and again.
    text = md.text.load_corpus(args.text, max_bytes=1_500_000)
    tokenizer = md.text.BPETokenizer.train([text], args.vocab)
    ids = tokenizer.encode(text)
    bytes_per_token = len(text.encode()) / len(ids)
    print(f"{tokenizer.vocab_size} tokens, {bytes_per_token:.2f} bytes each on average:",
          [tokenizer.decode([i]) for i in tokenizer.encode("    def __init__(self, value):")])

    # 2. The data: two files of tokens, read where they lie. The last tenth is for validation.
    context, cut = 128, len(ids) * 9 // 10
    with tempfile.TemporaryDirectory() as folder:
        loaders = []
        for name, part in (("train", ids[:cut]), ("val", ids[cut:])):
            path = Path(folder, f"{name}.tokens")
            TokenDataset.write(path, part, args.vocab)
            dataset = TokenDataset(path, context, stride=context // 4)
            loaders.append(DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True))
        model = train(*loaders, args, bytes_per_token)

    # 3. Use it. The files have the names and formats that Hugging Face's libraries read.
    if args.save:
        folder = Path(args.save)
        folder.mkdir(parents=True, exist_ok=True)
        md.save(model.to_hf(), folder / "model.safetensors")
        tokenizer.save(folder / "tokenizer.json")
        print(f"saved to {folder}")
    prompt = "def read_text(path):\n"
    print("\na sample:\n\n" + prompt, end="")
    for piece in md.generate.stream(model, prompt, 120, tokenizer=tokenizer, temperature=0.8,
                                    top_p=0.95, seed=args.seed):
        print(piece, end="", flush=True)
    print()


def train(loader, val, args, bytes_per_token):
    """A Llama of four layers, whose queries share keys and values two by two."""
    model = Llama(LlamaConfig(args.vocab, context=128, layers=4, heads=4, kv_heads=2, width=128))
    optimizer = md.optim.AdamW(md.optim.decay_groups(model, 0.1), lr=2e-3, betas=(0.9, 0.95))
    schedule = md.optim.lr_scheduler.WarmupCosineLR(
        optimizer, args.steps // 20, args.steps, eta_min=2e-4)
    print(f"{model.num_parameters():,} parameters")
    start, step = time.perf_counter(), 0
    while step < args.steps:
        for x, y in islice(loader, args.steps - step):      # an epoch, or what is left of the steps
            step += 1
            _, loss = model(x, targets=y)
            optimizer.zero_grad()
            loss.backward()
            md.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if step % 100 == 0 or step == args.steps:
                print(f"step {step:4d}  loss {loss.item():.3f}  validation "
                      f"{bits_per_byte(model, val, bytes_per_token):.3f} bits per byte  "
                      f"{time.perf_counter() - start:3.0f} s", flush=True)
    return model


if __name__ == "__main__":
    main()
