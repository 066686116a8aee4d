"""The training loop: gradients of a step, evaluation, checkpoints, stopping, failing."""

import math
import os
import signal

import numpy as np
import pytest

import minidl as md
from minidl import nn
from minidl.errors import ArgumentError, CheckpointError, NonFiniteError

TOKENS = np.arange(3000) * 7919 % 31


def make(folder=None, model="GPT", threads=1, **options):
    """A small run with dropout, a schedule and validation, from one seed."""
    md.set_num_threads(threads)
    md.manual_seed(3)
    kind = getattr(md.models, model)
    net = kind.from_preset("tiny", vocab_size=31, context=16, width=32, layers=2, dropout=0.1)
    optimizer = md.optim.AdamW(md.optim.decay_groups(net), lr=3e-3)
    loader = md.data.DataLoader(md.data.TokenDataset(TOKENS[:2500], 16, 1), 4, shuffle=True)
    options.setdefault(
        "val_loader", md.data.DataLoader(md.data.TokenDataset(TOKENS[2500:], 16), 8))
    options.setdefault("eval_every", 10)
    scheduler = md.optim.lr_scheduler.WarmupCosineLR(optimizer, 5, 40)
    kind = options.pop("kind", md.train.Trainer)
    return kind(net, optimizer, loader, scheduler=scheduler, folder=folder, **options)


def weights(trainer):
    return {name: p.detach().numpy().copy() for name, p in trainer.model.named_parameters()}


def losses(trainer):
    """Step and losses of each line of the log, without the clock."""
    text = trainer.log.content().tobytes().decode()
    return [{k: v for k, v in eval(line, {"null": None}).items() if k != "seconds"}
            for line in text.splitlines()]


def equal(a, b):
    return losses(a) == losses(b) and all(
        np.array_equal(x, y) for x, y in zip(weights(a).values(), weights(b).values(), strict=True))


class Signal(md.train.Callback):
    """Sends this process a signal after a step."""

    def __init__(self, step, number=signal.SIGINT):
        self.at, self.number = step, number

    def on_step(self, trainer, record):
        if trainer.step == self.at:
            os.kill(os.getpid(), self.number)


# ---- a step


def batches(ignored):
    """Eight rows of tokens, those targets ignored, as one batch and as four."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 31, (2, 8, 16))
    y[ignored] = -100
    whole = [(md.from_numpy(x), md.from_numpy(y))]
    parts = [(md.from_numpy(x[i : i + 2].copy()), md.from_numpy(y[i : i + 2].copy()))
             for i in range(0, 8, 2)]
    return whole, parts


@pytest.mark.parametrize("ignored", [np.s_[:0], np.s_[0:3, 4:], np.s_[2:4]],
                         ids=["none", "some", "a whole part"])
def test_accumulated_gradients_are_those_of_the_whole_batch(ignored):
    found = []
    for stream, accumulate in zip(batches(ignored), (1, 4), strict=True):
        trainer = make(accumulate=accumulate, val_loader=None)
        trainer.loader = stream
        trainer.model.eval()  # dropout draws for each part
        trainer._stream = trainer._batches()
        group = [next(trainer._stream) for _ in range(accumulate)]
        loss, norm = trainer._gradients(group, [trainer.count(b) for b in group])
        found.append((loss, norm, [p.grad.numpy() for p in trainer.model.parameters()]))
    (loss, norm, whole), (loss2, norm2, parts) = found
    assert loss2 == pytest.approx(loss, rel=1e-6) and norm2 == pytest.approx(norm, rel=1e-5)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-7)


def test_a_mean_of_means_would_be_something_else():
    """The control of the test above: the parts have different numbers of targets."""
    _, parts = batches(np.s_[0:3, 4:])
    trainer = make()
    counts = [trainer.count(part) for part in parts]
    assert counts == [8, 20, 32, 32]
    trainer.model.eval()
    means = [trainer.loss(part).item() for part in parts]
    exact = sum(m * n for m, n in zip(means, counts, strict=True)) / sum(counts)
    assert trainer._gradients(parts, counts)[0] == pytest.approx(exact, rel=1e-6)
    assert abs(np.mean(means) - exact) > 1e-4


def test_a_step_without_targets_says_so():
    trainer = make()
    whole, _ = batches(np.s_[:])
    trainer.loader = whole
    with pytest.raises(ArgumentError, match=r"step 1 has no target: all are -100"):
        trainer.fit(1)


def test_arguments_are_checked():
    with pytest.raises(ArgumentError, match="accumulate must be at least 1, got 0"):
        make(accumulate=0)
    trainer = make()
    trainer.loader = []
    with pytest.raises(ArgumentError, match="no batches"):
        trainer.fit(1)


# ---- a run


def test_the_same_seed_gives_the_same_bits_on_any_thread_count():
    runs = []
    for threads in (1, 1, 2):
        runs.append(make(threads=threads))
        assert runs[-1].fit(20) == "done"
    assert equal(runs[0], runs[1]) and equal(runs[0], runs[2])
    assert losses(runs[0])[-2]["loss"] < losses(runs[0])[0]["loss"]


def test_the_log_the_best_and_the_last(tmp_path):
    trainer = make(tmp_path, eval_every=4)
    assert trainer.fit(10) == "done"
    records = md.train.read_log(tmp_path / "log.jsonl")
    assert [r["step"] for r in records if "loss" in r] == list(range(1, 11))
    assert [r["step"] for r in records if "val_loss" in r] == [4, 8, 10]
    assert records[0].keys() == {"step", "loss", "lr", "grad_norm", "tokens", "seconds"}
    assert records[-2]["tokens"] == 10 * 4 * 16
    kept = trainer.checkpoints.checkpoints()
    best = min((r["val_loss"], r["step"]) for r in records if "val_loss" in r)
    assert {s.step for s in kept} == {8, 10, best[1]}
    assert (trainer.best, trainer.best_step) == best


def test_callbacks_are_called_and_may_stop():
    class Watch(md.train.Callback):
        def __init__(self):
            self.calls = []

        def on_start(self, trainer):
            self.calls.append("start")

        def on_step(self, trainer, record):
            record["extra"] = 1
            if trainer.step == 3:
                trainer.stop("enough")

        def on_eval(self, trainer, record):
            self.calls.append(("eval", record["step"]))

        def on_end(self, trainer):
            self.calls.append("end")

    watch = Watch()
    trainer = make(callbacks=[watch])
    assert trainer.fit(10) == "enough" and trainer.step == 3
    assert watch.calls == ["start", ("eval", 3), "end"]
    assert losses(trainer)[0]["extra"] == 1


def test_early_stopping():
    values = iter([3.0, 2.0, 2.5, math.nan, 1.0])

    class Planned(md.train.Trainer):
        def evaluate(self, loader=None):
            return next(values)

    trainer = make(eval_every=1, patience=2, kind=Planned)
    assert trainer.fit(10) == "no improvement"
    assert (trainer.step, trainer.best, trainer.best_step) == (4, 2.0, 2)


def test_evaluation_counts_targets_and_changes_nothing():
    trainer = make()
    state = md.get_rng_state().tolist()
    _, parts = batches(np.s_[0:3, 4:])
    trainer.model.eval()
    whole, _ = batches(np.s_[0:3, 4:])
    expected = trainer.loss(whole[0]).item()
    trainer.model.train()
    assert trainer.evaluate(parts) == pytest.approx(expected, rel=1e-6)
    assert trainer.model.training and md.get_rng_state().tolist() == state
    with pytest.raises(ArgumentError, match="no targets"):
        trainer.evaluate([])


# ---- stopping and going on


@pytest.mark.parametrize("model", ["GPT", "Llama"])
def test_interrupted_and_resumed_is_as_if_never_stopped(tmp_path, model):
    straight = make(tmp_path / "a", model)
    straight.fit(24)
    for step in (7, 10):  # between evaluations, and where one is due
        folder = tmp_path / str(step)
        trainer = make(folder, model, callbacks=[Signal(step)])
        assert trainer.fit(24) == "interrupted"
        assert trainer.step == step and trainer.signal == signal.SIGINT
        md.rand(5)
        other = make(folder, model)
        assert other.resume() and other.step == step
        assert other.fit(24) == "done" and equal(other, straight)
        recorded = md.train.read_log(folder / "log.jsonl")
        assert len(recorded) == len(losses(straight))


def test_a_resumed_run_neither_repeats_nor_forgets_an_evaluation(tmp_path):
    values = {2: 3.0, 4: 2.0, 6: 2.5, 8: 2.4, 10: 1.0}

    class Planned(md.train.Trainer):
        def evaluate(self, loader=None):
            return values[self.step]

    options = {"eval_every": 2, "patience": 2, "kind": Planned}
    straight = make(**options)
    assert straight.fit(10) == "no improvement" and straight.step == 8
    make(tmp_path, **options).fit(6)
    other = make(tmp_path, **options)
    assert other.resume() and other.fit(10) == "no improvement"
    assert equal(other, straight)


def test_what_is_left_out_of_a_resumed_run_shows(tmp_path):
    straight = make()
    straight.fit(12)
    first = make(tmp_path)
    first.fit(6)
    state = first.checkpoints.load()
    for part in ("optimizer", "random", "loader", "scheduler"):
        other = make()
        before = other.state_dict()
        other.load_state_dict({**state, part: md.checkpoint.tree.unpack(
            md.checkpoint.tree.pack(before[part]))})
        other.fit(12)
        assert losses(other)[-2:] != losses(straight)[-2:], part


def test_lines_after_the_checkpoint_leave_the_log(tmp_path):
    trainer = make(tmp_path)
    trainer.fit(10)
    with open(tmp_path / "log.jsonl", "a") as file:
        file.write('{"step": 11, "loss": 1}\n{"step": 12, "lo')
    again = make(tmp_path)
    again.resume()
    assert md.train.read_log(tmp_path / "log.jsonl")[-1]["step"] == 10


def test_two_signals_in_a_moment_are_one(tmp_path, monkeypatch):
    monkeypatch.setattr(md.train.trainer, "ONE_WISH", math.inf)

    class Twice(md.train.Callback):
        def on_step(self, trainer, record):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    trainer = make(callbacks=[Twice()], folder=tmp_path)
    assert trainer.fit(5) == "interrupted" and trainer.step == 1
    assert make(folder=tmp_path).resume()


def test_a_second_signal_stops_at_once(monkeypatch):
    monkeypatch.setattr(md.train.trainer, "ONE_WISH", 0.0)

    class Twice(md.train.Callback):
        def on_step(self, trainer, record):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        make(callbacks=[Twice()]).fit(3)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_states_are_refused(tmp_path):
    assert not make(tmp_path).resume()
    with pytest.raises(CheckpointError, match="no checkpoint of a Trainer"):
        make().load_state_dict({"model": {}})


# ---- NaN


class Overflow(md.train.Callback):
    """Makes a weight so large that the next forward overflows."""

    def on_step(self, trainer, record):
        if trainer.step == 12:
            with md.no_grad():
                trainer.model.blocks[1].ffn.up.weight.fill_(1e38)


def test_the_first_op_that_overflowed_is_named(tmp_path):
    trainer = make(tmp_path, callbacks=[Overflow()])
    with pytest.raises(NonFiniteError) as failure:
        trainer.fit(20)
    text = str(failure.value)
    assert "step 13: the loss is nan" in text
    assert "TransformerBlock 1 → ffn" in text and "linear made" in text
    assert "step-00000010.safetensors" in text
    kept = md.load(trainer.checkpoints.latest())
    assert kept["step"] == 10 and np.isfinite(kept["model"]["token.weight"].numpy()).all()
    assert md.train.read_log(tmp_path / "log.jsonl")[-1]["step"] == 12


def test_a_gradient_that_is_not_finite_stops_before_the_update():
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(md.zeros(3))

        def forward(self, x, y):
            return None, (self.w * 0).sqrt().sum()

    model = Root()
    loader = [(md.zeros(1, 1), md.zeros(1, 1))]
    trainer = md.train.Trainer(model, md.optim.SGD(model.parameters(), lr=1.0), loader)
    with pytest.raises(NonFiniteError, match="step 1: the gradient is not finite; the gradient of "
                                             "sqrt made 3 inf"):
        trainer.fit(1)
    assert model.w.tolist() == [0, 0, 0]


def test_masks_of_minus_infinity_are_no_suspects():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(md.ones(4))

        def forward(self, x, y):
            seen = self.w.masked_fill(md.tensor([True, False, False, False]), float("-inf"))
            return None, (seen.softmax(-1) * 1e38 * 1e38).sum()

    model = Masked()
    trainer = md.train.Trainer(model, md.optim.SGD(model.parameters(), lr=1.0),
                               [(md.zeros(1, 1), md.zeros(1, 1))])
    with pytest.raises(NonFiniteError, match="mul made"):
        trainer.fit(1)


def test_the_step_is_replayed_with_the_same_random_numbers():
    class Unlucky(nn.Module):
        """NaN with one random number in two."""

        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(md.ones(1))

        def forward(self, x, y):
            lucky = md.rand(1).item() < 0.5
            return None, (self.w if lucky else -self.w).log().sum()

    failed = 0
    for seed in range(8):
        md.manual_seed(seed)
        model = Unlucky()
        trainer = md.train.Trainer(model, md.optim.SGD(model.parameters(), lr=1e-3),
                                   [(md.zeros(1, 1), md.zeros(1, 1))])
        try:
            trainer.fit(1)
        except NonFiniteError as error:
            failed += 1
            assert "Unlucky: log made 1 NaN in (1,) of values up to 1 in (1,)" in str(error)
    assert 2 <= failed <= 7


def test_a_weight_that_was_broken_before_is_named():
    trainer = make()
    with md.no_grad():
        trainer.model.norm.weight.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match=r"the parameter norm\.weight was not finite before"):
        trainer.fit(1)
