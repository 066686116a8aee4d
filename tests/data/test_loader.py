"""DataLoader: every sample once, exact resuming, workers; the shuffle; collating."""

import numpy as np
import pytest

import minidl as md
from minidl.data import DataLoader, Dataset, TensorDataset, default_collate, permuted


class Squares(Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, index):
        return {"x": index, "y": np.full(2, index**2)}


class Failing(Squares):
    def __getitem__(self, index):
        raise KeyError("no such sample")


def loader(n=23, **options):
    options = {"batch_size": 4, "generator": md.Generator().manual_seed(3), **options}
    return DataLoader(TensorDataset(md.arange(n), md.arange(n) * 2), **options)


def values(batches):
    return [x.tolist() for x, _ in batches]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 17, 64, 1000, 4097])
def test_the_shuffle_is_a_permutation(n):
    first, second = (permuted(np.arange(n), n, 7, epoch) for epoch in (0, 1))
    assert sorted(first) == sorted(second) == list(range(n))
    if n > 10:
        assert list(first) != list(second) and list(first) != list(range(n))
    some = np.array([n - 1, 0, n // 2])
    assert list(permuted(some, n, 7)) == list(first[some])


def test_the_shuffle_is_even():
    """Where index 0 goes, over many seeds: each of 10 places as often as another."""
    places = [int(permuted(np.array([0]), 10, seed)[0]) for seed in range(3000)]
    assert np.bincount(places, minlength=10) == pytest.approx(300, abs=100)
    order = permuted(np.arange(10_000), 10_000, 1)
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.05


def test_any_position_of_a_huge_shuffle_is_at_hand():
    n = 10**15
    got = permuted(np.arange(n - 5, n), n, 1)
    assert len(set(got)) == 5 and got.min() >= 0 and got.max() < n


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_sample_once_in_an_epoch(shuffle, drop_last):
    it = loader(shuffle=shuffle, drop_last=drop_last)
    epochs = [values(it) for _ in range(3)]
    for batches in epochs:
        assert len(batches) == len(it) == (5 if drop_last else 6)
        flat = [i for batch in batches for i in batch]
        assert len(set(flat)) == len(flat) == (20 if drop_last else 23)
    assert (epochs[0] != epochs[1]) == shuffle
    assert epochs[0] == values(loader(shuffle=shuffle, drop_last=drop_last))


@pytest.mark.parametrize("at", [0, 1, 4, 5, 6, 7, 13])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loaded_loader_goes_on_with_the_next_batch(tmp_path, at, workers):
    def stream(it, count):
        found = []
        while True:
            for batch in it:
                if len(found) == count:
                    return found
                found.append(batch[0].tolist())
                state = it.state_dict()
                if len(found) == count:
                    md.save(state, tmp_path / "loader.json")

    straight = stream(loader(shuffle=True), 20)
    first = loader(shuffle=True, num_workers=workers)
    md.save(first.state_dict(), tmp_path / "loader.json")
    stream(first, at)
    second = loader(shuffle=True, generator=md.Generator().manual_seed(99))
    second.load_state_dict(md.load(tmp_path / "loader.json"))
    assert stream(second, 20 - at) == straight[at:]


@pytest.mark.parametrize("at", [1, 63, 64, 65, 150])
def test_a_long_epoch_is_the_same_from_anywhere(at):
    it = loader(501, shuffle=True, batch_size=3)
    straight = [batch.tolist() for batch in it.indices(epoch=2)]
    assert len(straight) == len(it)
    assert sorted(i for batch in straight for i in batch) == list(range(501))
    assert [batch.tolist() for batch in it.indices(2, at)] == straight[at:]


def test_an_epoch_that_was_left_is_not_taken_up_again():
    it = loader(shuffle=True)
    first = next(iter(it))[0].tolist()
    straight = loader(shuffle=True)
    epochs = [values(straight), values(straight)]
    assert first == epochs[0][0] and values(it) == epochs[1]


def test_after_the_last_batch_comes_the_next_epoch():
    it = loader()
    states = [it.state_dict() for _ in it]
    assert [(s["epoch"], s["position"]) for s in states[-2:]] == [(0, 5), (1, 0)]
    assert it.state_dict() == states[-1]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_make_the_same_batches(context):
    if context == "fork" and not hasattr(__import__("os"), "fork"):
        pytest.skip("no fork on this system")
    with_workers = loader(shuffle=True, num_workers=2, multiprocessing_context=context)
    assert values(with_workers) == values(loader(shuffle=True))


def test_an_error_in_a_worker_arrives():
    with pytest.raises(KeyError, match="no such sample"):
        list(DataLoader(Failing(), num_workers=1))


def test_samples_are_collated():
    batch = next(iter(DataLoader(Squares(), batch_size=3)))
    assert batch["x"].tolist() == [0, 1, 2] and batch["y"].tolist() == [[0, 0], [1, 1], [4, 4]]
    assert next(iter(DataLoader(Squares(), batch_size=2, collate_fn=len))) == 2
    floats, names = default_collate([(1.5, "a"), (2.5, "b")])
    assert floats.tolist() == [1.5, 2.5] and names == ["a", "b"]


@pytest.mark.parametrize("act, kind, what", [
    (lambda: loader(batch_size=0), ValueError, "must be at least 1 and num_workers"),
    (lambda: loader().load_state_dict({}), ValueError, "not the state of a loader"),
    (lambda: loader().load_state_dict(loader(9).state_dict()), ValueError, "of 9 samples, this"),
    (lambda: default_collate([(1, 2), (1,)]), ValueError, "samples of 1 and of 2 parts"),
    (lambda: TensorDataset(md.ones(2), md.ones(3)), ValueError, r"got \(2,\), \(3,\)"),
    (lambda: permuted(np.array([3]), 3, 0), ValueError, "below n, which is 3"),
    (lambda: len(Dataset()), NotImplementedError, "how long it is"),
])
def test_wrong_arguments_get_a_sentence(act, kind, what):
    with pytest.raises(kind, match=what):
        act()
