"""Layers with parameters against PyTorch's."""

import pytest

from .compare import check_module, torch


def randn(*shape):
    return torch.randn(*shape)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 5, 4), (0, 4), (2, 1, 3, 4)])
def test_linear(shape, bias):
    check_module("Linear", (4, 3), {"bias": bias}, [randn(*shape)])


@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_embedding(padding_idx):
    ids = torch.tensor([[1, 2, 2], [9, 0, 1]])
    check_module("Embedding", (10, 4), {"padding_idx": padding_idx}, [ids])
    check_module("Embedding", (10, 4), {"padding_idx": padding_idx}, [ids.int()])


@pytest.mark.parametrize(
    "options",
    [{}, {"elementwise_affine": False}, {"bias": False}, {"eps": 0.1}],
    ids=str,
)
@pytest.mark.parametrize("shape", [8, (8,), (3, 8)], ids=str)
def test_layer_norm(shape, options):
    check_module("LayerNorm", (shape,), options, [randn(2, 3, 8)])


@pytest.mark.parametrize("options", [{}, {"elementwise_affine": False}, {"eps": 0.1}], ids=str)
@pytest.mark.parametrize("shape", [8, (3, 8)], ids=str)
def test_rms_norm(shape, options):
    check_module("RMSNorm", (shape,), options, [randn(2, 3, 8)])


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"bias": False}], ids=str)
@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 4, 3)], ids=str)
def test_group_norm(shape, options):
    check_module("GroupNorm", (3, 6), options, [randn(*shape)])


def test_prelu():
    check_module("PReLU", (), {}, [randn(3, 4)])
    check_module("PReLU", (4,), {"init": 0.1}, [randn(3, 4, 2)])


def test_dropout_of_zero_and_shape_layers():
    check_module("Dropout", (0.0,), {}, [randn(3, 4)])
    check_module("Flatten", (), {}, [randn(2, 3, 4)])
    check_module("Flatten", (0, 1), {}, [randn(2, 3, 4)])
    check_module("Unflatten", (1, (3, 4)), {}, [randn(2, 12, 2)])
    check_module("Unflatten", (-1, (2, 2)), {}, [randn(2, 4)])
    check_module("Identity", (), {}, [randn(2, 4)])


def test_sequential_keeps_names_and_results():
    from .compare import check_call, inputs_like, md

    theirs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    mine = md.nn.Sequential(md.nn.Linear(4, 8), md.nn.GELU(), md.nn.Linear(8, 2))
    mine.load_state_dict(theirs.state_dict())
    check_call(mine, theirs, inputs_like([randn(3, 4)], torch.float32))
