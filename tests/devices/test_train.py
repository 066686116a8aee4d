"""A model on a device trains and generates as on the CPU, and the host only hands out work."""

import numpy as np
import pytest

import minidl as md
from minidl import nn, optim
from minidl.models import GPT, Llama
from minidl.nn import functional as F

V, T = 31, 16
MODELS = {
    "gpt": lambda: GPT(md.models.GPTConfig(vocab_size=V, context=T, layers=2, heads=2, width=16,
                                           dropout=0.1)),
    "llama": lambda: Llama(md.models.LlamaConfig(vocab_size=V, context=T, layers=2, heads=4,
                                                 kv_heads=2, width=16, hidden=32)),
}


class Training:
    """A model that learns to count, one step at a time."""

    def __init__(self, kind, where):
        md.manual_seed(0)
        self.where, self.model = where, MODELS[kind]().to(where)
        self.optimizer = optim.AdamW(self.model.parameters(), lr=1e-2)
        self.rng = np.random.default_rng(0)

    def batch(self):
        counted = (self.rng.integers(0, V, (4, 1)) + np.arange(T + 1)) % V
        return [md.tensor(part, device=self.where) for part in (counted[:, :-1], counted[:, 1:])]

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x).reshape(-1, V), y.reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def losses(self, steps):
        return [loss.item() for loss in [self.step(*self.batch()) for _ in range(steps)]]


@pytest.mark.parametrize(("kind", "steps"), [("gpt", 50), ("llama", 10)])
def test_the_losses_are_the_cpus(device, kind, steps):
    on_cpu = Training(kind, "cpu")
    expected = on_cpu.losses(steps)
    on_device = Training(kind, device)
    got = on_device.losses(steps)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)
    if kind == "gpt":
        assert got[-1] < got[0] / 3
    prompts = [[1, 2, 3], [7, 8, 9, 10, 11]]
    found = [md.generate.generate(t.model, prompts, 20, temperature=0)
             for t in (on_cpu, on_device)]
    assert found[0] == found[1]
    drawn = [md.generate.generate(t.model, prompts[:1], 12, temperature=0.9, top_k=5, seed=1)
             for t in (on_cpu, on_device)]
    assert drawn[0] == drawn[1]


def test_a_step_repeats_itself_bit_for_bit(device):
    assert Training("gpt", device).losses(3) == Training("gpt", device).losses(3)


def test_a_warm_step_takes_no_memory_and_reads_nothing_back(device, be, monkeypatch):
    training = Training("gpt", device)
    batch = training.batch()
    for _ in range(3):
        loss = training.step(*batch)

    def refuse(*args):
        raise AssertionError("a warm step asked the device for memory or for values")

    with monkeypatch.context() as patch:
        for name in ("alloc", "download", "synchronize"):
            patch.setattr(be.device, name, refuse)
        patch.setattr(be.device.pool, "_alloc", refuse)
        peak = be.device.pool.stats()["peak"]
        for _ in range(3):
            loss = training.step(*batch)
    assert be.device.pool.stats()["peak"] == peak
    assert np.isfinite(loss.item())


@pytest.mark.parametrize("batch", [1, 3])
def test_a_pair_of_layers_takes_forty_launches(device, be, batch):
    """Forward and backward of what two layers more add, products included."""
    counted = []
    for layers in (1, 3):
        config = md.models.GPTConfig(vocab_size=V, context=T, layers=layers, heads=2, width=16)
        model, x = GPT(config).to(device), md.zeros(batch, T, dtype=md.int64, device=device)
        for _ in range(2):
            before = be.device.launches
            model.zero_grad()
            model(x, x)[1].backward()
        counted.append(be.device.launches - before)
    if be.device.own_products:
        assert counted[1] - counted[0] <= 40


def test_recompute(device):
    """Gradients of a block that runs again in the backward pass, dropout and all."""
    def gradients(again):
        md.manual_seed(1)
        block = nn.TransformerBlock(16, 2, dropout=0.2).to(device)
        x = md.randn(2, 4, 16, device=device, requires_grad=True)
        y = md.autograd.recompute(block, x) if again else block(x)
        y.square().sum().backward()
        return [t.grad.cpu().numpy() for t in (x, *block.parameters())]

    for a, b in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_trainer(device, tmp_path):
    tokens = np.arange(400) % V
    loader = md.data.DataLoader(md.data.TokenDataset(tokens, T), 4)
    found = []
    for where in ("cpu", device):
        md.manual_seed(0)
        model = MODELS["gpt"]().to(where)
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)
        folder = tmp_path / where
        trainer = md.train.Trainer(model, optimizer, loader, val_loader=loader, device=where,
                                   folder=str(folder), clip=1.0, eval_every=3)
        assert trainer.fit(6) == "done"
        found.append(trainer.evaluate())
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_profile(device):
    training = Training("gpt", device)
    with md.profiler.profile() as taken:
        training.step(*training.batch())
    names = {row.name for row in taken.rows()}
    assert {"linear", "linear backward", "attention", "cross_entropy"} <= names
