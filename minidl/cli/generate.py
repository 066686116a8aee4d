"""`minidl generate`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import minidl as md

from .build import load_trained
from .settings import UsageError


def run(options: argparse.Namespace) -> int:
    """Write what the model makes of the prompt."""
    if options.samples < 1 or options.max_new_tokens < 1:
        raise UsageError("--samples and --max-new-tokens must be at least 1")
    if options.stream and (options.samples > 1 or options.stop):
        raise UsageError("--stream writes one text, without --samples and --stop")
    if options.threads is not None:
        md.set_num_threads(options.threads)
    trained = load_trained(options.checkpoint, options.device)
    sampling = {name: getattr(options, name) for name in (
        "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")}
    if options.attention:
        md.plots.attention_map(trained.model, trained.tokenizer, options.prompt, options.attention)
        print(f"attention map: {options.attention}", file=sys.stderr)
    if options.stream:
        _stream(trained, options, sampling)
        return 0
    texts = md.generate.generate(
        trained.model, [options.prompt] * options.samples, options.max_new_tokens,
        tokenizer=trained.tokenizer, stop=options.stop, **sampling)
    for number, text in enumerate(texts):
        if number:
            print("-" * 72)
        print(options.prompt + text)
    return 0


def _stream(trained: Any, options: argparse.Namespace, sampling: dict[str, Any]) -> None:
    """Write characters as they become whole: a token may be a part of one."""
    sys.stdout.write(options.prompt)
    ids: list[int] = []
    shown = ""
    prompt = trained.tokenizer.encode(options.prompt)
    for token in md.generate.stream(trained.model, prompt, options.max_new_tokens, **sampling):
        ids.append(token)
        text = trained.tokenizer.decode(ids)
        if not text.endswith("\ufffd"):
            sys.stdout.write(text[len(shown):])
            sys.stdout.flush()
            shown = text
    sys.stdout.write(trained.tokenizer.decode(ids)[len(shown):] + "\n")
