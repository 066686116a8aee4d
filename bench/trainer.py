"""What the training loop and the next batch cost, beside a step of nanoGPT's recipe.

The loop's own cost is that of a Trainer over the bare loop for a model of one number, where nothing
else takes time: log, weighting by targets, checks for NaN, progress. A batch is 12 windows of 64
tokens at random places of a million.
"""

import statistics
import time

import numpy as np

STEPS = 2000
ROUNDS = 9


def parts():
    """A model of one number, an optimizer, a schedule and a loader of nanoGPT's batches."""
    import minidl as md
    from minidl import nn

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(md.ones(1))

        def forward(self, x, y):
            return None, self.w.sum()

    md.manual_seed(0)
    model = One()
    optimizer = md.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = md.optim.lr_scheduler.WarmupCosineLR(optimizer, 10, 100 * STEPS)
    tokens = np.arange(1_000_000) % 65
    loader = md.data.DataLoader(md.data.TokenDataset(tokens, 64, 1), 12, shuffle=True)
    return model, optimizer, scheduler, loader


def bare():
    """Seconds of a step as one writes it by hand."""
    from minidl import nn

    model, optimizer, scheduler, loader = parts()
    batches = iter(loader)
    start = time.perf_counter()
    for _ in range(STEPS):
        loss = model(*next(batches))[1]
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        loss.item()
    return (time.perf_counter() - start) / STEPS


def trained():
    """Seconds of a step of a Trainer."""
    import minidl as md

    model, optimizer, scheduler, loader = parts()
    trainer = md.train.Trainer(model, optimizer, loader, scheduler=scheduler)
    start = time.perf_counter()
    trainer.fit(STEPS)
    return (time.perf_counter() - start) / STEPS


def batch():
    """Seconds of the next batch."""
    batches = iter(parts()[3])
    start = time.perf_counter()
    for _ in range(STEPS):
        next(batches)
    return (time.perf_counter() - start) / STEPS


def rows(session):
    from bench.threads import place

    threads = max(session.threads)
    step = session.time("train_step", place("train_step", "nano"), threads, ["minidl"])
    step = step["minidl"].median
    rounds = [(bare(), trained(), batch()) for _ in range(2 if session.quick else ROUNDS)]
    loop = statistics.median(trainer - hand for hand, trainer, _ in rounds)
    fetch = statistics.median(seconds for _, _, seconds in rounds)
    for name, seconds in (("training loop", loop), ("next batch", fetch)):
        yield {"name": name, "shape": "nano step", "threads": threads, "median": seconds,
               "ratios": {}, "value": 100 * seconds / step, "unit": "% of a step"}


if __name__ == "__main__":
    from script import run

    run(__file__)
