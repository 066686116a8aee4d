"""Random numbers: one stream per seed, independent of threads, with the right distributions."""

import pickle

import numpy as np
import pytest

import minidl as md
from minidl_kernels.cpu import threads

DRAWS = {
    "rand": lambda g: md.rand(1001, generator=g), "randn": lambda g: md.randn(1001, generator=g),
    "rand64": lambda g: md.rand(1001, generator=g, dtype=md.float64),
    "randn64": lambda g: md.randn(1001, generator=g, dtype=md.float64),
    "randint": lambda g: md.randint(-5, 9, (1001,), generator=g),
    "randperm": lambda g: md.randperm(1001, generator=g),
    "bernoulli": lambda g: md.bernoulli(md.full((1001,), 0.3), generator=g),
    "multinomial": lambda g: md.multinomial(md.ones(3, 50), 20, generator=g),
    "multinomial+": lambda g: md.multinomial(md.ones(3, 50), 200, True, generator=g),
    "normal": lambda g: md.normal(1.0, 2.0, (1001,), generator=g),
    "uniform_": lambda g: md.zeros(1001).uniform_(-1, 1, generator=g),
    "normal_": lambda g: md.zeros(1001).normal_(generator=g),
    "exponential_": lambda g: md.zeros(1001).exponential_(generator=g),
    "random_": lambda g: md.zeros(1001).random_(10, generator=g),
    "bernoulli_": lambda g: md.zeros(1001).bernoulli_(0.3, generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_names_a_stream(name):
    draw = DRAWS[name]
    g = md.Generator().manual_seed(3)
    first, second = draw(g), draw(g)
    assert (first == draw(md.Generator().manual_seed(3))).all()
    assert not (first == second).all(), "a draw repeats the one before"
    assert not (first == draw(md.Generator().manual_seed(4))).all()


@pytest.mark.parametrize("name", ["rand", "randn", "randint"])
def test_consecutive_draws_do_not_overlap(name):
    g = md.Generator().manual_seed(0)
    a, b = DRAWS[name](g).numpy(), DRAWS[name](g).numpy()
    for shift in range(1, 9):
        assert not (a[-shift:] == b[:shift]).all()


def test_thread_count_does_not_matter():
    before = threads.get_num_threads()
    try:
        results = []
        for n in (1, 2):
            threads.set_num_threads(n)
            g = md.Generator().manual_seed(5)
            results.append([md.randn(200_000, generator=g), md.rand(77, generator=g)])
        assert all((a == b).all() for a, b in zip(*results, strict=True))
    finally:
        threads.set_num_threads(before)


def test_state_continues_and_pickles():
    g = md.Generator().manual_seed(11)
    md.rand(7, generator=g)
    state, copy = g.get_state(), pickle.loads(pickle.dumps(g))
    a = md.rand(5, generator=g)
    assert (a == md.rand(5, generator=md.Generator().set_state(state))).all()
    assert (a == md.rand(5, generator=copy)).all()
    assert g.initial_seed() == 11
    md.manual_seed(2)
    saved = md.get_rng_state()
    b = md.randn(3)
    md.set_rng_state(saved)
    assert (b == md.randn(3)).all()


@pytest.mark.parametrize("dtype", [md.float32, md.float64])
def test_moments(dtype):
    g = md.Generator().manual_seed(0)
    u = md.rand(200_000, generator=g, dtype=dtype).numpy()
    z = md.randn(200_000, generator=g, dtype=dtype).numpy()
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.004 and abs(u.var() - 1 / 12) < 0.002
    assert abs(z.mean()) < 0.01 and abs(z.var() - 1) < 0.02 and abs((z**4).mean() - 3) < 0.15


def test_distributions():
    g = md.Generator().manual_seed(0)
    counts = np.bincount(md.randint(0, 7, (70_000,), generator=g).numpy(), minlength=7)
    assert counts.min() > 9_500 and counts.max() < 10_500
    weights = md.tensor([1.0, 0.0, 3.0])
    drawn = md.multinomial(weights, 40_000, replacement=True, generator=g).numpy()
    assert (drawn != 1).all() and abs((drawn == 2).mean() - 0.75) < 0.01
    once = [md.multinomial(weights, 2, generator=g).tolist() for _ in range(300)]
    assert all(sorted(o) == [0, 2] for o in once)
    assert 0.68 < np.mean([o[0] == 2 for o in once]) < 0.82
    assert sorted(md.randperm(100, generator=g).tolist()) == list(range(100))
    e = md.zeros(50_000).exponential_(2.0, generator=g)
    assert abs(e.mean().item() - 0.5) < 0.01


def test_filling_in_place_cuts_the_graph():
    a = md.ones(3, requires_grad=True)
    with pytest.raises(md.errors.GradientError, match="leaf"):
        a.uniform_()
    x = a * 2
    x.normal_()
    x.sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), [0, 0, 0])


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: md.randint(5, 5, (2,)), ValueError, "expected low < high, got 5 and 5"),
    (lambda: md.randint(5), TypeError, "misses the size"),
    (lambda: md.rand(2, dtype=md.int64), TypeError, "expected a floating-point dtype, got int64"),
    (lambda: md.rand(2, generator=3), TypeError, "expected md.Generator, got int"),
    (lambda: md.multinomial(md.ones(3), 4), ValueError,
     "cannot draw 4 samples from 3 categories without replacement"),
    (lambda: md.multinomial(md.zeros(3), 1), ValueError, "a row of weights sums to 0"),
    (lambda: md.bernoulli(md.tensor([1.5])), ValueError, "probabilities must be between 0 and 1"),
    (lambda: md.zeros(2).normal_(0, -1), ValueError, "std must not be negative"),
    (lambda: md.normal(0.0, 1.0), TypeError, "misses the size"),
    (lambda: md.manual_seed("a"), TypeError, "seed must be an integer"),
])
def test_messages(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
