"""`minidl eval`."""

from __future__ import annotations

import argparse
import math
import sys

import minidl as md

from .build import load_trained, read_data
from .settings import UsageError


def run(options: argparse.Namespace) -> int:
    """The loss over a whole text: every token is a target once."""
    if options.batch_size < 1:
        raise UsageError(f"--batch-size must be at least 1, got {options.batch_size}")
    if options.threads is not None:
        md.set_num_threads(options.threads)
    trained = load_trained(options.checkpoint, options.device)
    settings = trained.settings
    if options.text:
        settings.text = options.text
    data = read_data(settings, trained.tokenizer)
    if not options.text and data.crc32 != trained.state["extra"]["crc32"]:
        print("note: the text has changed since this run was started", file=sys.stderr)
    tokens = data.tokens if options.text else data.split(settings.val_share)[1]
    if not options.text and not len(tokens):
        raise UsageError("the run kept no text for validation; give one with --text")
    dataset = md.data.TokenDataset(tokens, min(trained.model.config.context, len(tokens) - 1))
    loader = md.data.DataLoader(dataset, options.batch_size)
    loss = md.train.Trainer(trained.model, None, None, device=options.device).evaluate(loader)
    characters = data.characters * len(tokens) / len(data.tokens)
    bits = loss * len(tokens) / math.log(2) / characters
    print(f"checkpoint         {trained.path} (step {trained.state['step']})")
    print(f"tokens             {len(tokens):,}")
    print(f"loss               {loss:.4f}")
    print(f"perplexity         {math.exp(loss):.3f}")
    print(f"bits per character {bits:.4f}")
    return 0
