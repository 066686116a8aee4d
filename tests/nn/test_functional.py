"""What nn.functional has beside activations and losses; its errors and unsupported options."""

import numpy as np
import pytest

import minidl as md
from minidl import nn

F = nn.functional


def test_every_name_is_documented_and_in_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for name in F.__all__:
        assert getattr(F, name).__doc__, name
        assert hasattr(torch.nn.functional, name), name


def test_every_module_is_documented():
    for name in nn.__all__:
        assert getattr(nn, name).__doc__, name
        if isinstance(getattr(nn, name), type):
            assert ">>>" in getattr(nn, name).__doc__, name


@pytest.mark.parametrize(
    "shape, pad, value",
    [
        ((3,), (1, 2), None),
        ((2, 3), (1, 0), 4.0),
        ((2, 3), (0, 1, 2, 0), -1.0),
        ((2, 3), (-1, 1), 0.0),
        ((2, 3, 4), (1, -2, 0, 0, 1, 1), 2.0),
        ((2, 3), (0, 0), 0.0),
        ((0, 3), (1, 1, 2, 0), 5.0),
    ],
)
def test_pad(shape, pad, value):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x = np.random.default_rng(0).normal(size=shape)
    theirs = torch.tensor(x, requires_grad=True)
    mine = md.tensor(x, requires_grad=True)
    expected, actual = torch.nn.functional.pad(theirs, pad, value=value), F.pad(mine, pad,
                                                                              value=value)
    np.testing.assert_array_equal(actual.detach().numpy(), expected.detach().numpy())
    (expected * expected).sum().backward()
    (actual * actual).sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy())


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape, pad", [((2, 4), (2, 3)), ((1, 2, 4, 5), (1, 0, -1, 2))])
def test_pad_with_the_input_itself(shape, pad, mode):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x = np.random.default_rng(0).normal(size=shape)
    theirs = torch.tensor(x, requires_grad=True)
    mine = md.tensor(x, requires_grad=True)
    expected, actual = torch.nn.functional.pad(theirs, pad, mode), F.pad(mine, pad, mode)
    np.testing.assert_array_equal(actual.detach().numpy(), expected.detach().numpy())
    (expected * expected).sum().backward()
    (actual * actual).sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy())


def test_pad_errors():
    with pytest.raises(NotImplementedError, match="mode 'mirror' is not supported"):
        F.pad(md.zeros(3), (1, 1), mode="mirror")
    with pytest.raises(NotImplementedError, match="mode 'reflect' pads the last 1, 2 or 3 axes"):
        F.pad(md.zeros(3), (1, 1), mode="reflect")
    with pytest.raises(ValueError, match="takes no value"):
        F.pad(md.zeros(1, 3), (1, 1), mode="reflect", value=1.0)
    with pytest.raises(md.errors.ShapeError, match=r"\(3, 0\) does not fit axis 1 of size 3"):
        F.pad(md.zeros(1, 3), (3, 0), mode="reflect")
    with pytest.raises(md.errors.ShapeError, match="two numbers for each padded axis, at most 2"):
        F.pad(md.zeros(3), (1, 1, 1, 1))
    with pytest.raises(md.errors.ShapeError, match="leaves -1 elements"):
        F.pad(md.zeros(3), (-2, -2))
    ints = F.pad(md.tensor([1, 2]), (1, 0))
    assert ints.tolist() == [0, 1, 2] and ints.dtype == md.int64


def test_dropout():
    md.manual_seed(0)
    x = md.ones(200, 100)
    y = F.dropout(x, 0.25)
    kept = y.numpy() != 0
    assert kept.mean() == pytest.approx(0.75, abs=0.01)
    np.testing.assert_allclose(y.numpy()[kept], 1 / 0.75, rtol=1e-6)
    assert F.dropout(x, 0.25, training=False) is x
    assert (F.dropout(x, 1.0) == 0).all()
    layer = nn.Dropout(0.25)
    assert (layer(x) == 0).any() and layer.eval()(x) is x
    z = md.ones(100)
    assert F.dropout(z, 0.5, inplace=True) is z and (z == 0).any()
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match="probability"):
            F.dropout(x, wrong)
        with pytest.raises(ValueError, match="probability"):
            nn.Dropout(wrong)


def test_dropout_has_the_gradient_of_its_mask():
    x = md.ones(50, requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda: nn.Embedding(3, 2, max_norm=1.0), "max_norm is not supported"),
        (lambda: nn.Embedding(3, 2, scale_grad_by_freq=True), "scale_grad_by_freq"),
        (lambda: nn.Embedding(3, 2, sparse=True), "sparse gradients are not supported"),
        (lambda: F.embedding(md.tensor([0]), md.zeros(3, 2), max_norm=1.0), "max_norm"),
        (lambda: nn.MSELoss(size_average=True), "use reduction='mean'"),
        (lambda: F.cross_entropy(md.zeros(1, 2), md.tensor([0]), reduce=False), "use reduction="),
        (lambda: F.normalize(md.zeros(2, 2), out=md.zeros(2, 2)), "out= is not supported"),
        (lambda: F.cross_entropy(md.zeros(1, 2), md.zeros(1, 2), ignore_index=0), "probabilities"),
    ],
)
def test_what_is_not_supported_says_so(call, what):
    with pytest.raises(NotImplementedError, match=what):
        call()


@pytest.mark.parametrize(
    "call, kind, what",
    [
        (lambda: F.softmax(md.zeros(2)), TypeError, "say over which axis"),
        (lambda: F.glu(md.zeros(3)), ValueError, "axis -1 has size 3"),
        (lambda: F.glu(md.zeros(())), ValueError, "0-d"),
        (lambda: F.prelu(md.zeros(2, 3), md.zeros(2)), ValueError, "weight has 2 elements"),
        (lambda: F.hardtanh(md.zeros(2), 1, -1), ValueError, "must not exceed"),
        (lambda: nn.Hardtanh(1, -1), ValueError, "must exceed"),
        (lambda: nn.Hardtanh(min_value=1), TypeError, "min_val"),
        (lambda: F.softshrink(md.zeros(2), -1), ValueError, "lambd must not be negative"),
        (lambda: F.celu(md.zeros(2), 0), ValueError, "alpha must not be 0"),
        (lambda: F.mse_loss(md.zeros(2), md.zeros(2), reduction="avg"), ValueError, "'avg'"),
        (lambda: F.huber_loss(md.zeros(2), md.zeros(2), delta=0), ValueError, "delta"),
        (lambda: F.smooth_l1_loss(md.zeros(2), md.zeros(2), beta=-1), ValueError, "beta"),
        (lambda: F.nll_loss(md.zeros(2, 3), md.tensor([0, 3])), IndexError, r"\[0, 3\).* 3"),
        (lambda: F.nll_loss(md.zeros(2, 3), md.tensor([0])), ValueError, r"expected \(2,\)"),
        (lambda: F.nll_loss(md.zeros(2, 3), md.zeros(2)), TypeError, "must be integers"),
        (lambda: F.nll_loss(md.zeros(2, 3), md.tensor([0, 1]), md.ones(2)), ValueError,
         "each of the 3 classes"),
        (lambda: F.cross_entropy(md.zeros(2, 3), md.tensor([0, 3])), IndexError, "3"),
        (lambda: F.cross_entropy(md.zeros(2, 3), md.tensor([0])), ValueError, r"expected \(2,\)"),
        (lambda: F.cross_entropy(md.zeros(()), md.tensor(0)), ValueError, "0-d"),
        (lambda: F.cross_entropy(md.zeros(2, 3), md.tensor([0, 1]), label_smoothing=2.0),
         ValueError, "label_smoothing"),
        (lambda: F.binary_cross_entropy(md.ones(2) * 2, md.ones(2)), ValueError, "between 0 and 1"),
        (lambda: F.binary_cross_entropy(md.ones(2), md.ones(3)), ValueError, "must be the same"),
        (lambda: F.binary_cross_entropy_with_logits(md.ones(2), md.ones(2, 1)), ValueError,
         "must be the same"),
        (lambda: F.gaussian_nll_loss(md.ones(2), md.ones(2), -md.ones(2)), ValueError, "negative"),
        (lambda: F.gaussian_nll_loss(md.ones(2, 3), md.ones(2, 3), md.ones(3, 2)), ValueError,
         "var has shape"),
        (lambda: F.cosine_embedding_loss(md.ones(2, 3), md.ones(2, 3), md.ones(2, 1)), ValueError,
         r"\(N, D\)"),
        (lambda: F.margin_ranking_loss(md.ones(2), md.ones(2), md.ones(1, 2)), ValueError,
         "same number of axes"),
        (lambda: F.triplet_margin_loss(md.ones(2), md.ones(2), md.ones(2), margin=0), ValueError,
         "margin"),
        (lambda: F.group_norm(md.zeros(2, 5), 3), ValueError, "divisible by 3 groups"),
        (lambda: nn.GroupNorm(3, 5), ValueError, "divisible"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, "padding_idx 3 is outside"),
        (lambda: nn.Unflatten("a", (2,)), TypeError, "named axes"),
    ],
)
def test_wrong_arguments_get_a_sentence(call, kind, what):
    with pytest.raises(kind, match=what):
        call()


def test_mismatched_targets_warn():
    with pytest.warns(UserWarning, match=r"target has shape \(3, 1\), the input \(3,\)"):
        F.mse_loss(md.zeros(3), md.zeros(3, 1))


def test_embedding_from_pretrained():
    table = md.randn(4, 3)
    layer = nn.Embedding.from_pretrained(table, padding_idx=1)
    assert not layer.weight.requires_grad and (layer(md.tensor([1, 2])) == table[1:3]).all()
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    assert (nn.Embedding(4, 3, padding_idx=-2).weight[2] == 0).all()
