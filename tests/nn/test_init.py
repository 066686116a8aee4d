"""nn.init: distributions, determinism, PyTorch's defaults."""

import math

import numpy as np
import pytest

import minidl as md
from minidl import nn

init = nn.init


def values(tensor):
    return tensor.detach().numpy().astype(np.float64)


@pytest.mark.parametrize(
    "fill, low, high",
    [
        (lambda t: init.uniform_(t, -1, 3), -1, 3),
        (lambda t: init.xavier_uniform_(t, gain=2.0), -2 * math.sqrt(6 / 700),
         2 * math.sqrt(6 / 700)),
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), -1 / math.sqrt(300),
         1 / math.sqrt(300)),
        (lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"),
         -math.sqrt(6 / 400), math.sqrt(6 / 400)),
    ],
)
def test_uniform(fill, low, high):
    tensor = md.zeros(400, 300)
    assert fill(tensor) is tensor
    x = values(tensor)
    assert low <= x.min() < low + 0.01 * (high - low)
    assert high - 0.01 * (high - low) < x.max() <= high
    assert x.mean() == pytest.approx((low + high) / 2, abs=0.01 * (high - low))
    assert x.std() == pytest.approx((high - low) / math.sqrt(12), rel=0.02)


@pytest.mark.parametrize(
    "fill, mean, std",
    [
        (lambda t: init.normal_(t, 1, 0.02), 1, 0.02),
        (lambda t: init.xavier_normal_(t), 0, math.sqrt(2 / 700)),
        (lambda t: init.kaiming_normal_(t, nonlinearity="relu"), 0, math.sqrt(2 / 300)),
        (lambda t: init.trunc_normal_(t, 0, 0.02), 0, 0.02),
    ],
)
def test_normal(fill, mean, std):
    x = values(fill(md.zeros(400, 300)))
    assert x.mean() == pytest.approx(mean, abs=0.02 * std)
    assert x.std() == pytest.approx(std, rel=0.02)
    kurtosis = ((x - x.mean()) ** 4).mean() / x.var() ** 2
    assert kurtosis == pytest.approx(3, abs=0.15)


def test_trunc_normal_stays_inside():
    x = values(init.trunc_normal_(md.zeros(200, 200), 0.5, 1.0, 0.0, 1.0))
    assert 0 <= x.min() < 0.01 and 0.99 < x.max() <= 1
    assert x.mean() == pytest.approx(0.5, abs=0.01)


def test_constants_and_eye():
    assert (values(init.zeros_(md.ones(3))) == 0).all()
    assert (values(init.ones_(md.zeros(3))) == 1).all()
    assert (values(init.constant_(md.zeros(3), 0.25)) == 0.25).all()
    np.testing.assert_array_equal(values(init.eye_(md.ones(3, 5))), np.eye(3, 5))
    with pytest.raises(ValueError, match="eye_ fills a matrix"):
        init.eye_(md.zeros(3))


@pytest.mark.parametrize("shape", [(5, 8), (8, 5), (4, 3, 2)])
def test_orthogonal(shape):
    x = values(init.orthogonal_(md.zeros(*shape), gain=2.0)).reshape(shape[0], -1)
    product = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_orthogonal_has_no_favourite_sign():
    corners = [values(init.orthogonal_(md.zeros(2, 2)))[0, 0] for _ in range(40)]
    assert min(corners) < 0 < max(corners)


def test_the_generator_decides():
    def draw(fill, seed):
        return values(fill(md.zeros(4, 6), generator=md.Generator().manual_seed(seed)))

    for fill in (
        init.uniform_, init.normal_, init.trunc_normal_, init.xavier_uniform_, init.xavier_normal_,
        init.kaiming_uniform_, init.kaiming_normal_, init.orthogonal_,
    ):
        np.testing.assert_array_equal(draw(fill, 1), draw(fill, 1))
        assert (draw(fill, 1) != draw(fill, 2)).any(), fill.__name__
    md.manual_seed(7)
    first = values(nn.Linear(3, 4).weight)
    md.manual_seed(7)
    np.testing.assert_array_equal(values(nn.Linear(3, 4).weight), first)


def test_works_on_parameters_without_recording():
    weight = nn.Parameter(md.zeros(3, 3))
    for fill in (init.normal_, init.ones_, init.eye_, init.orthogonal_, init.trunc_normal_):
        assert fill(weight) is weight and weight.is_leaf and weight.requires_grad


def test_gain_and_errors():
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 1) == 1
    with pytest.raises(ValueError, match="unknown nonlinearity 'elu'"):
        init.calculate_gain("elu")
    with pytest.raises(ValueError, match="not a number"):
        init.calculate_gain("leaky_relu", "x")
    with pytest.raises(ValueError, match=r"at least 2 axes; the tensor has shape \(3,\)"):
        init.xavier_uniform_(md.zeros(3))
    with pytest.raises(ValueError, match="mode 'fan' is not supported"):
        init.kaiming_normal_(md.zeros(3, 3), mode="fan")
    with pytest.raises(ValueError, match="std must not be negative"):
        init.normal_(md.zeros(3), std=-1)


@pytest.mark.parametrize(
    "name, args",
    [
        ("Linear", (300, 200)),
        ("Embedding", (300, 200)),
        ("MultiheadAttention", (240, 4)),
        ("TransformerEncoderLayer", (240, 4)),
        ("TransformerDecoderLayer", (240, 4)),
        ("LayerNorm", (300,)),
        ("PReLU", (3,)),
    ],
)
def test_defaults_are_those_of_pytorch(name, args):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    torch.manual_seed(0)
    md.manual_seed(0)
    theirs = dict(getattr(torch.nn, name)(*args).named_parameters())
    for param_name, param in getattr(nn, name)(*args).named_parameters():
        x, y = values(param), theirs[param_name].detach().double().numpy()
        error = 6 * y.std() / math.sqrt(y.size)  # six standard errors
        assert x.mean() == pytest.approx(y.mean(), abs=1.5 * error), param_name
        assert x.std() == pytest.approx(y.std(), abs=error), param_name
        assert x.max() == pytest.approx(y.max(), abs=max(error, 0.3 * abs(y.max()))), param_name
