"""Modules, losses and optimizers on a device do what they do on the CPU."""

import numpy as np
import pytest

import minidl as md
from minidl import nn, optim
from minidl.nn import functional as F


def ids(*shape, high=9):
    return md.tensor(np.random.default_rng(1).integers(0, high, shape))


def real(*shape):
    return md.tensor(np.random.default_rng(2).standard_normal(shape).astype("float32"))


LAYERS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 8, bias=False)),
            real(3, 8)),
    "embedding": (lambda: nn.Embedding(9, 8, padding_idx=0), ids(2, 5)),
    "norms": (lambda: nn.Sequential(nn.LayerNorm(8), nn.RMSNorm(8)), real(2, 3, 8)),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.4)), real(2, 3, 8)),
    "gpt block": (lambda: nn.TransformerBlock(16, 2, dropout=0.1), real(2, 5, 16)),
    "llama block": (lambda: nn.TransformerBlock(16, 4, num_kv_heads=2, norm="rms", rotary=True,
                                                activation="swiglu", bias=False), real(2, 5, 16)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0),
                      real(2, 5, 16)),
}


def passed(make, x, where):
    """Output, gradient of the input and gradients of the parameters."""
    md.manual_seed(3)
    module = make().to(where)
    x = x.to(where).detach()
    if x.is_floating_point():
        x.requires_grad_()
    y = module(x)
    md.manual_seed(4)
    (y * md.randn(*y.shape).to(where)).sum().backward()
    grads = {name: p.grad for name, p in module.named_parameters()}
    assert {str(g.device) for g in grads.values()} | {str(y.device)} == {where}
    return {"y": y, "x": x.grad, **grads}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(device, name):
    expected, got = (passed(*LAYERS[name], where) for where in ("cpu", device))
    for key, value in expected.items():
        if value is not None:
            np.testing.assert_allclose(got[key].detach().cpu().numpy(), value.detach().numpy(),
                                       rtol=1e-4, atol=1e-5, err_msg=key)


def test_made_on_the_device(device):
    made = []
    for where in ("cpu", device):
        md.manual_seed(0)
        made.append(nn.TransformerBlock(8, 2, device=where).state_dict())
    for name, value in made[0].items():
        assert made[1][name].device == device
        np.testing.assert_allclose(made[1][name].cpu().numpy(), value.numpy(), rtol=1e-5, atol=1e-6)


LOSSES = {
    "cross_entropy": lambda x, t: F.cross_entropy(x, t.long().sum(1) % 5, label_smoothing=0.1),
    "cross_entropy sum": lambda x, t: F.cross_entropy(x, t.long().sum(1) % 5, reduction="sum",
                                                      ignore_index=2),
    "nll": lambda x, t: F.nll_loss(x.log_softmax(-1), t.long().sum(1) % 5),
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "bce": lambda x, t: F.binary_cross_entropy_with_logits(x, t.sigmoid()),
    "huber": F.huber_loss,
    "kl": lambda x, t: F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="batchmean"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(device, name):
    found = []
    for where in ("cpu", device):
        x, t = real(4, 5).to(where).detach().requires_grad_(), (real(4, 5) * 3).to(where)
        loss = LOSSES[name](x, t)
        loss.backward()
        found.append([loss.detach().cpu().numpy(), x.grad.cpu().numpy()])
    for got, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "lion": lambda p: optim.Lion(p, lr=0.01),
    "muon": lambda p: optim.Muon([q for q in p if q.ndim == 2], lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(device, name):
    found = []
    for where in ("cpu", device):
        md.manual_seed(0)
        model = nn.Linear(6, 5).to(where)
        optimizer = OPTIMIZERS[name](list(model.parameters()))
        for _ in range(3):
            optimizer.zero_grad()
            model(real(4, 6).to(where)).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        found.append(model.weight.detach().cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_an_optimizer_whose_parameters_moved_says_so(device):
    model = nn.Linear(2, 2)
    optimizer = optim.AdamW(model.parameters())
    model(md.ones(1, 2)).sum().backward()
    optimizer.step()
    model.to(device)
    with pytest.raises(ValueError, match="one is on the CPU; make the optimizer"):
        optimizer.step()
