"""Lion against its formula, Muon against PyTorch's, the groups of a model."""

import numpy as np
import pytest

import minidl as md
from minidl.optim.muon import orthogonalize

from .test_optimizers import run, values

MATRICES = ((3, 4), (8, 2), (5, 5))


def matrices(dtype):
    rng = np.random.default_rng(0)
    return [np.asarray(rng.normal(size=shape), dtype) for shape in MATRICES]


def parameters(arrays):
    return [md.nn.Parameter(md.from_numpy(a.copy())) for a in arrays]


def lion(arrays, steps, lr, beta1, beta2, decay, sign):
    """The formula of the paper, in float64."""
    momenta = [np.zeros_like(a) for a in arrays]
    for step in range(steps):
        for i, p in enumerate(arrays):
            if i == len(arrays) - 1 and step < 10:
                continue
            g = sign * (p * 0.5 + np.cos(step * 0.3 + i))
            p[...] -= lr * (np.sign(beta1 * momenta[i] + (1 - beta1) * g) + decay * p)
            momenta[i] = beta2 * momenta[i] + (1 - beta2) * g


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("decay", [0, 0.5])
def test_lion_is_its_formula(decay, maximize):
    params = parameters(values(np.float64))
    optimizer = md.optim.Lion(params, 0.01, (0.8, 0.95), decay, maximize=maximize)
    run(optimizer, params, 100, md.from_numpy)
    expected = [np.array(v) for v in values(np.float64)]
    lion(expected, 100, 0.01, 0.8, 0.95, decay, -1 if maximize else 1)
    for a, b in zip(params, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [
    {}, {"lr": 0.02, "nesterov": False, "weight_decay": 0.0, "momentum": 0.8},
    {"lr": 0.01, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3, "eps": 1e-3},
], ids=str)
def test_muon_as_in_pytorch(monkeypatch, options, dtype):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    # PyTorch orthogonalises in bfloat16, which has too few bits to compare
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    mine = parameters(matrices(dtype))
    theirs = [torch.nn.Parameter(torch.from_numpy(v)) for v in matrices(dtype)]
    run(md.optim.Muon(mine, **options), mine, 100, md.from_numpy)
    run(torch.optim.Muon(theirs, **options), theirs, 100, torch.from_numpy)
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-9}
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), **tolerance)


def test_muon_has_the_defaults_of_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    mine = md.optim.Muon([md.nn.Parameter(md.zeros(2, 2))]).defaults
    assert mine == torch.optim.Muon([torch.nn.Parameter(torch.zeros(2, 2))]).defaults


def test_orthogonalize_keeps_the_singular_vectors():
    a = np.random.default_rng(1).normal(size=(6, 4))
    u, _, v = np.linalg.svd(a, full_matrices=False)
    q = orthogonalize(md.from_numpy(a), (1.5, -0.5, 0.0), 40, 1e-7).numpy()
    np.testing.assert_allclose(q, u @ v, atol=1e-9)


def test_the_rest_steps_as_adamw():
    options = {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.95)}
    plain, mixed = parameters(values(np.float32)), parameters(values(np.float32))
    matrix = parameters(matrices(np.float32))
    groups = [{"params": matrix}, {"params": mixed, "adamw": True, **options}]
    run(md.optim.Muon(groups, lr=0.1), mixed, 20, md.from_numpy)
    run(md.optim.AdamW(plain, **options), plain, 20, md.from_numpy)
    for a, b in zip(mixed, plain, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    both = md.optim.Muon([{"params": plain, "adamw": True}])
    alone = md.optim.AdamW(parameters(values(np.float32)))
    for key, value in alone.defaults.items():
        assert both.param_groups[0][key] == value, key


@pytest.mark.parametrize("make", [
    lambda p: md.optim.Lion(p, lr=0.01, weight_decay=0.1),
    lambda p: md.optim.Muon([{"params": p[:-1]}, {"params": p[-1:], "adamw": True}], lr=0.01),
])
def test_a_saved_run_goes_on_as_if_never_stopped(tmp_path, make):
    straight = parameters(matrices(np.float32))
    run(make(straight), straight, 25, md.from_numpy)
    first = parameters(matrices(np.float32))
    optimizer = make(first)
    run(optimizer, first, 12, md.from_numpy)
    md.save(optimizer.state_dict(), tmp_path / "state.safetensors")
    second = parameters([p.detach().numpy() for p in first])
    other = make(second)
    other.load_state_dict(md.load(tmp_path / "state.safetensors"))
    run(other, second, 13, md.from_numpy, start=12)
    for a, b in zip(straight, second, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


class Model(md.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = md.nn.Embedding(7, 4)
        self.hidden = md.nn.Linear(4, 4)
        self.norm = md.nn.LayerNorm(4)
        self.frozen = md.nn.Linear(4, 4)
        self.frozen.weight.requires_grad = self.frozen.bias.requires_grad = False
        self.tied = md.nn.Linear(4, 7, bias=False)
        self.tied.weight = self.embedding.weight
        self.lm_head = md.nn.Linear(4, 7)


def names(groups):
    return [[name for name, _ in group["params"]] for group in groups]


def test_matrices_and_embeddings_decay():
    groups = md.optim.decay_groups(Model(), 0.3)
    assert names(groups) == [["embedding.weight", "hidden.weight", "lm_head.weight"],
                             ["hidden.bias", "norm.weight", "norm.bias", "lm_head.bias"]]
    assert [group["weight_decay"] for group in groups] == [0.3, 0.0]
    assert len(md.optim.decay_groups(md.nn.Linear(2, 2, bias=False))) == 1


def test_hidden_matrices_are_for_muon():
    groups = md.optim.muon_groups(Model(), 0.3, adamw_lr=0.5)
    assert names(groups) == [["hidden.weight"], ["embedding.weight", "lm_head.weight"],
                             ["hidden.bias", "norm.weight", "norm.bias", "lm_head.bias"]]
    optimizer = md.optim.Muon(groups, lr=0.1)
    shown = [(g["adamw"], g["lr"], g["weight_decay"]) for g in optimizer.param_groups]
    assert shown == [(False, 0.1, 0.3), (True, 0.5, 0.3), (True, 0.5, 0.0)]


@pytest.mark.parametrize("make, what", [
    (lambda p: md.optim.Lion([p], lr=-1), "Lion: lr must not be negative"),
    (lambda p: md.optim.Lion([p], betas=(1, 0)), r"Lion: betas\[0\] must be"),
    (lambda p: md.optim.Muon([p], momentum=-1), "Muon: momentum must not be negative"),
    (lambda p: md.optim.Muon([p], adjust_lr_fn="x"), '"original" or "match_rms_adamw", got \'x\''),
    (lambda p: md.optim.Muon([p], ns_coefficients=(1, 2)), "must be three"),
    (lambda p: md.optim.Muon([p]), r'the shape \(3,\); put it into a group with "adamw": True'),
])
def test_wrong_arguments_get_a_sentence(make, what):
    with pytest.raises(ValueError, match=what):
        make(md.nn.Parameter(md.zeros(3)))
