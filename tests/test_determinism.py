"""The same seed gives the same bits, on any number of threads, and large tensors count right."""

import hashlib

import pytest

import minidl as md
from minidl import nn
from minidl.nn import functional as F


class Model(nn.Module):
    """Everything a transformer trains with: embedding, attention, norms, GELU, dropout."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(97, 96)
        self.block = nn.TransformerEncoderLayer(96, 4, 384, dropout=0.1, activation="gelu",
                                                batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(96)
        self.head = nn.Linear(96, 97)

    def forward(self, ids):
        return self.head(self.norm(self.block(self.embed(ids))))


def train(threads, steps=4):
    """Losses and a digest of all weights after a few steps."""
    before = md.get_num_threads()
    md.set_num_threads(threads)
    try:
        md.manual_seed(7)
        model = Model()
        optimizer = md.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(steps):
            ids = md.randint(0, 97, (12, 80))
            loss = F.cross_entropy(model(ids).view(-1, 97), ids.view(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        digest = hashlib.sha256()
        for p in model.parameters():
            digest.update(p.detach().numpy().tobytes())
        return losses, digest.hexdigest()
    finally:
        md.set_num_threads(before)


def test_training_gives_the_same_bits_on_any_number_of_threads():
    one = train(1)
    assert one[0][-1] < one[0][0]
    assert train(1) == train(2) == train(4) == one


def test_random_numbers_do_not_depend_on_threads():
    def draw():
        md.manual_seed(3)
        return md.randn(100_003).tolist(), md.rand(100_003).tolist(), md.randperm(10_001).tolist()

    before = md.get_num_threads()
    results = []
    for n in (1, 2, 4):
        md.set_num_threads(n)
        results.append(draw())
    md.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_more_than_two_to_the_31_elements():
    n = 2**31 + 5
    huge = md.ones(1).expand(n)
    assert huge.numel() == n
    assert huge.sum().item() == pytest.approx(n, rel=1e-7)
    assert huge[n - 1].item() == 1


def test_a_steady_step_asks_the_system_for_nothing():
    md.manual_seed(0)
    model = Model()
    optimizer = md.optim.AdamW(model.parameters(), lr=1e-3)
    ids = md.randint(0, 97, (4, 32))

    def step():
        loss = F.cross_entropy(model(ids).view(-1, 97), ids.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    before = md.memory_stats()["os_allocations"]
    for _ in range(3):
        step()
    assert md.memory_stats()["os_allocations"] == before
