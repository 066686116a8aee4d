"""A process that trains nanoGPT's recipe for a CPU, a stretch at a time, told when over a pipe.

    python -m bench.recipe PEER THREADS STEPS

minidl trains it as `minidl train --preset nanogpt-cpu` does: loader, log, evaluations, checkpoints.
PyTorch trains bench/scripts/nanogpt.py from the same weights on the same batches. For every line
that it reads it trains STRETCH steps and answers with the seconds they took, at the end with the
loss over all of the validation text.
"""

import json
import sys
import tempfile
import time

import numpy as np

import minidl as md
from bench.libraries import Library
from bench.worker import settle
from minidl.cli.build import Data, make_trainer
from minidl.cli.settings import merge

STRETCH = 50
CHARACTERS = 1_115_394      # as many as nanoGPT's text has


def recipe(steps):
    settings = merge({"preset": "nanogpt-cpu", "steps": steps, "tokenizer": "char"})
    text = md.text.load_corpus(max_bytes=CHARACTERS)
    tokenizer = md.text.CharTokenizer(text, byte_fallback=False)
    return settings, Data(tokenizer, np.array(tokenizer.encode(text), np.uint16), len(text), 0)


class Turns(md.train.Callback):
    """Waits for a line before each stretch, and answers after it."""

    def on_start(self, trainer=None):
        self.wait()

    def on_step(self, trainer, record=None):
        if trainer.step % STRETCH == 0:
            self.answer()
            if trainer.step < trainer.steps:
                self.wait()

    def wait(self):
        sys.stdin.readline()
        self.start = time.perf_counter()

    def answer(self):
        seconds = time.perf_counter() - self.start
        settle()
        print(json.dumps(seconds), flush=True)


def whole(data, settings, context):
    """A loader of all the validation text."""
    val = data.split(settings.val_share)[1]
    return md.data.DataLoader(md.data.TokenDataset(val, context), settings.batch_size)


def with_minidl(settings, data):
    with tempfile.TemporaryDirectory(prefix="minidl-bench-") as folder:
        trainer = make_trainer(settings, data, folder, [Turns()])
        trainer.fit(settings.steps)
        return trainer.evaluate(whole(data, settings, trainer.model.config.context))


def with_torch(settings, data, lib):
    script = lib.script("nanogpt")
    with tempfile.TemporaryDirectory(prefix="minidl-bench-") as folder:
        trainer = make_trainer(settings, data, folder)      # the same weights, the same batches
    config = trainer.model.config
    model = script["GPT"](config.vocab_size, config.context, config.layers, config.heads,
                          config.width)
    model.load_state_dict({name: lib.torch.from_numpy(w.detach().numpy().copy())
                           for name, w in trainer.model.state_dict().items()})

    def converted(loader):
        for batch in loader:
            yield tuple(lib.torch.from_numpy(part.numpy()) for part in batch)

    turns = Turns()
    turns.on_start()
    trainer.steps = settings.steps
    steps = script["train"](model, converted(trainer.loader),
                            lambda: converted(trainer.val_loader), settings)
    for trainer.step, _ in enumerate(steps, 1):
        turns.on_step(trainer)
    return script["evaluate"](model, converted(whole(data, settings, config.context)))


def main(peer, threads, steps):
    lib = Library(peer, int(threads))
    md.set_num_threads(int(threads))
    settings, data = recipe(int(steps))
    loss = with_minidl(settings, data) if peer == "minidl" else with_torch(settings, data, lib)
    print(json.dumps(loss), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
