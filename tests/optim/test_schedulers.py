"""Schedules: 100 steps against PyTorch's, alone, in sequence and chained; saving; errors."""

import re

import pytest

import minidl as md

S = md.optim.lr_scheduler
CASES = [
    ("ConstantLR", {}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 30}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.0, "total_iters": 40}),
    ("StepLR", {"step_size": 7, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [50, 3, 3, 20], "gamma": 0.5}),
    ("ExponentialLR", {"gamma": 0.97}),
    ("CosineAnnealingLR", {"T_max": 100, "eta_min": 0.01}),
    ("CosineAnnealingLR", {"T_max": 20}),
    ("LambdaLR", {"lr_lambda": lambda t: 1 / (1 + t)}),
    ("LambdaLR", {"lr_lambda": [lambda t: 0.9**t, lambda t: t + 1.0]}),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 100}),
    ("OneCycleLR", {"max_lr": [0.3, 0.1], "epochs": 10, "steps_per_epoch": 10,
                    "anneal_strategy": "linear", "div_factor": 10.0, "pct_start": 0.4}),
    ("OneCycleLR", {"max_lr": 0.3, "total_steps": 100, "three_phase": True}),
]
OPTIMIZERS = {"SGD": {"momentum": 0.9}, "AdamW": {}}


def tensors():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    return md, torch


def optimizer(lib, name="SGD", **options):
    params = [lib.ones(2, requires_grad=True), lib.ones(3, requires_grad=True)]
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.5}]
    return getattr(lib.optim, name)(groups, lr=0.2, **{**OPTIMIZERS[name], **options})


def make(lib, opt, name, options):
    return getattr(lib.optim.lr_scheduler, name)(opt, **options)


def settings(opt):
    """Everything that a schedule may change."""
    return [v for g in opt.param_groups
            for v in (g["lr"], g.get("momentum", 0), *g.get("betas", ()))]


def walk(scheduler, steps):
    found = []
    for _ in range(steps):
        assert scheduler.get_last_lr() == [g["lr"] for g in scheduler.optimizer.param_groups]
        found.append(settings(scheduler.optimizer))
        scheduler.optimizer.step()
        scheduler.step()
    return found


def assert_same(mine, theirs):
    for t, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-14), f"step {t}"


def shown(value):
    """A test's name without addresses, which differ from process to process."""
    return re.sub(" at 0x[0-9a-f]+", "", str(value))


@pytest.mark.parametrize("opt", OPTIMIZERS)
@pytest.mark.parametrize("name, options", CASES, ids=shown)
def test_hundred_steps_as_in_pytorch(name, options, opt):
    mine, theirs = (walk(make(lib, optimizer(lib, opt), name, options), 100) for lib in tensors())
    assert_same(mine, theirs)
    assert len({tuple(row) for row in mine}) > 1


@pytest.mark.filterwarnings("ignore")
def test_sequences_and_chains_as_in_pytorch():
    runs = []
    for lib in tensors():
        opt, s = optimizer(lib), lib.optim.lr_scheduler
        parts = [s.LinearLR(opt, 0.1, total_iters=10), s.CosineAnnealingLR(opt, 40, 0.01),
                 s.StepLR(opt, 5, 0.5)]
        sequence = walk(s.SequentialLR(opt, parts, milestones=[10, 50]), 100)
        opt = optimizer(lib)
        parts = [s.ConstantLR(opt, 0.2, 7), s.ExponentialLR(opt, 0.95), s.StepLR(opt, 30, 0.5),
                 s.LinearLR(opt, 0.5, total_iters=20), s.CosineAnnealingLR(opt, 150, 0.001)]
        runs.append(sequence + walk(s.ChainedScheduler(parts), 100))
    assert_same(*runs)


@pytest.mark.parametrize("name, options", [c for c in CASES if c[0] != "ConstantLR"],
                         ids=shown)
def test_going_on_from_last_epoch_as_in_pytorch(name, options):
    runs = []
    for lib in tensors():
        opt = optimizer(lib)
        walk(make(lib, opt, name, options), 11)
        runs.append(walk(make(lib, opt, name, {**options, "last_epoch": 10}), 60))
    assert_same(*runs)


def test_warm_up_and_cosine():
    opt = md.optim.AdamW([md.ones(2, requires_grad=True)], lr=1e-3)
    rates = [row[0] for row in walk(S.WarmupCosineLR(opt, 100, 2000, eta_min=1e-4), 2100)]
    assert rates[0] == pytest.approx(1e-3 / 101) and rates[99] == pytest.approx(1e-3 * 100 / 101)
    assert rates[100] == 1e-3 and rates[1050] == pytest.approx(5.5e-4)
    assert rates[2000] == rates[2099] == pytest.approx(1e-4)
    assert rates[:101] == sorted(rates[:101]) and rates[100:] == sorted(rates[100:], reverse=True)


def combined(opt):
    warm = S.LinearLR(opt, 0.1, total_iters=10)
    chain = S.ChainedScheduler([S.ExponentialLR(opt, 0.9), S.StepLR(opt, 3, 0.5)])
    return S.SequentialLR(opt, [warm, chain, S.CosineAnnealingLR(opt, 20)], milestones=[10, 30])


MAKERS = {f"{name} {i}": lambda opt, name=name, options=options: make(md, opt, name, options)
          for i, (name, options) in enumerate(CASES)}
MAKERS["combined"] = combined
MAKERS["WarmupCosineLR"] = lambda opt: S.WarmupCosineLR(opt, 10, 90)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("at", [0, 5, 10, 13, 30, 47])
def test_a_saved_schedule_goes_on_as_if_never_stopped(tmp_path, maker, at):
    straight = walk(maker(optimizer(md)), 60)
    first = maker(optimizer(md))
    walk(first, at)
    state = {"opt": first.optimizer.state_dict(), "lr": first.state_dict()}
    md.save(state, tmp_path / "state.json")
    state = md.load(tmp_path / "state.json")
    opt = optimizer(md)
    second = maker(opt)
    opt.load_state_dict(state["opt"])
    second.load_state_dict(state["lr"])
    assert walk(second, 60 - at) == straight[at:]


def test_a_state_is_a_copy():
    scheduler = S.MultiStepLR(optimizer(md), [3])
    state = scheduler.state_dict()
    state["milestones"].append(4)
    assert scheduler.milestones == [3]


@pytest.mark.parametrize("act, kind, what", [
    (lambda o: S.StepLR(3, 1), TypeError, "StepLR: optimizer must be a minidl optimizer, got int"),
    (lambda o: S.StepLR(o, 0), ValueError, "StepLR: step_size must be above 0, got 0"),
    (lambda o: S.ConstantLR(o, 2), ValueError, "factor must be between 0 and 1, got 2"),
    (lambda o: S.LinearLR(o, 0), ValueError, "start_factor must be above 0"),
    (lambda o: S.StepLR(o, 1, last_epoch=3), KeyError, "needs an initial_lr"),
    (lambda o: S.LambdaLR(o, [abs]), ValueError, "1 functions for 2 parameter groups"),
    (lambda o: S.WarmupCosineLR(o, 9, 9), ValueError, "below total_iters, got 9 and 9"),
    (lambda o: S.OneCycleLR(o, 0.1), ValueError, "give total_steps, or epochs and"),
    (lambda o: S.OneCycleLR(o, [0.1], 9), ValueError, "max_lr has 1 values for 2"),
    (lambda o: S.OneCycleLR(o, 0.1, 9, anneal_strategy="up"), ValueError, '"cos" or "linear"'),
    (lambda o: walk(S.OneCycleLR(o, 0.1, 9), 11), ValueError, "step 10 of a schedule of 9 steps"),
    (lambda o: S.ChainedScheduler([]), ValueError, "at least one schedule"),
    (lambda o: S.ChainedScheduler([3], o), TypeError, r"schedulers\[0\] must be a schedule"),
    (lambda o: S.SequentialLR(optimizer(md), [S.StepLR(o, 1)], []), ValueError, "another optim"),
    (lambda o: S.SequentialLR(o, [S.StepLR(o, 1)], [3]), ValueError, "between each two, got 1"),
    (lambda o: S.SequentialLR(o, [S.StepLR(o, 1)] * 3, [3, 2]), ValueError, "must rise from 1 on"),
    (lambda o: S.StepLR(o, 1).load_state_dict(S.ExponentialLR(o, 1).state_dict()), ValueError,
     "StepLR: this is not the state of such a schedule; 'step_size'"),
    (lambda o: combined(o).load_state_dict({}), ValueError, "has 0 schedules, this one 3"),
    (lambda o: S.LRScheduler(o), NotImplementedError, "does not say which learning rates"),
])
def test_wrong_arguments_get_a_sentence(act, kind, what):
    with pytest.raises(kind, match=what):
        act(optimizer(md))
