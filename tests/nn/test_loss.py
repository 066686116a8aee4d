"""Losses against PyTorch's, as modules and as functions."""

import pytest

import minidl as md

from .compare import assert_same, check_call, check_module, inputs_like, ours, torch

REDUCTIONS = ("mean", "sum", "none")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def probabilities(*shape):
    return torch.rand(*shape) * 0.98 + 0.01


def signs(*shape):
    return torch.randint(0, 2, shape).double() * 2 - 1


ELEMENTWISE = [
    ("MSELoss", {}, lambda: [torch.randn(4, 3), torch.randn(4, 3)]),
    ("L1Loss", {}, lambda: [torch.randn(4, 3), torch.randn(4, 3)]),
    ("SmoothL1Loss", {"beta": 0.5}, lambda: [torch.randn(4, 3), torch.randn(4, 3)]),
    ("SmoothL1Loss", {"beta": 0.0}, lambda: [torch.randn(4, 3), torch.randn(4, 3)]),
    ("HuberLoss", {"delta": 0.7}, lambda: [torch.randn(4, 3), torch.randn(4, 3)]),
    ("BCELoss", {}, lambda: [probabilities(4, 3), probabilities(4, 3)]),
    ("BCEWithLogitsLoss", {}, lambda: [torch.randn(4, 3) * 5, probabilities(4, 3)]),
    ("KLDivLoss", {}, lambda: [torch.randn(4, 3), probabilities(4, 3)]),
    ("KLDivLoss", {"log_target": True}, lambda: [torch.randn(4, 3), torch.randn(4, 3)]),
    ("SoftMarginLoss", {}, lambda: [torch.randn(4, 3), signs(4, 3).long()]),
    ("MultiLabelSoftMarginLoss", {}, lambda: [torch.randn(4, 3), probabilities(4, 3)]),
    ("PoissonNLLLoss", {}, lambda: [torch.randn(4, 3), torch.rand(4, 3) * 4]),
    ("PoissonNLLLoss", {"log_input": False}, lambda: [probabilities(4, 3), torch.rand(4, 3) * 4]),
    ("PoissonNLLLoss", {"full": True}, lambda: [torch.randn(4, 3), torch.rand(4, 3) * 4]),
    ("HingeEmbeddingLoss", {"margin": 0.6}, lambda: [torch.rand(4, 3), signs(4, 3)]),
    ("MarginRankingLoss", {"margin": 0.2}, lambda: [torch.randn(5), torch.randn(5), signs(5)]),
    ("CosineEmbeddingLoss", {"margin": 0.1}, lambda: [torch.randn(5, 3), torch.randn(5, 3),
                                                      signs(5)]),
    ("CosineEmbeddingLoss", {}, lambda: [torch.randn(3), torch.randn(3), torch.tensor(1.0)]),
    ("TripletMarginLoss", {}, lambda: [torch.randn(5, 3) for _ in range(3)]),
    ("TripletMarginLoss", {"p": 1.0, "swap": True}, lambda: [torch.randn(5, 3) for _ in range(3)]),
    ("GaussianNLLLoss", {}, lambda: [torch.randn(4, 3), torch.randn(4, 3), probabilities(4, 3)]),
    ("GaussianNLLLoss", {"full": True}, lambda: [torch.randn(4, 3), torch.randn(4, 3),
                                                 probabilities(4, 1)]),
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name, options, make", ELEMENTWISE,
                         ids=lambda v: "make" if callable(v) else str(v)[:40])
@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
def test_elementwise(name, options, make, reduction):
    check_module(name, (), {**options, "reduction": reduction}, make())


@pytest.mark.parametrize("reduction", ["batchmean", "sum"])
def test_kl_div_of_zero_targets(reduction):
    target = torch.tensor([[0.0, 1.0], [0.3, 0.7]], dtype=torch.float64)
    check_call(
        lambda x: md.nn.functional.kl_div(x, ours(target), reduction=reduction),
        lambda x: torch.nn.functional.kl_div(x, target, reduction=reduction),
        inputs_like([torch.randn(2, 2)], torch.float64),
    )


CLASSES = [
    ((5,), ()),
    ((4, 5), (4,)),
    ((4, 5, 3), (4, 3)),
    ((2, 5, 3, 2), (2, 3, 2)),
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 2])
@pytest.mark.parametrize("shape, target_shape", CLASSES, ids=str)
def test_cross_entropy_of_class_ids(shape, target_shape, ignore, weighted, smoothing, reduction):
    target = torch.randint(0, 5, target_shape)
    options = {"ignore_index": ignore, "reduction": reduction, "label_smoothing": smoothing}
    if weighted:
        options["weight"] = torch.rand(5)
    if reduction == "mean" and target_shape == () and ignore == target.item():
        pytest.skip("everything is ignored: tested below")
    check_module("CrossEntropyLoss", (), options, [torch.randn(*shape), target])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (4, 5, 3)], ids=str)
def test_cross_entropy_of_probabilities(shape, weighted, smoothing, reduction):
    options = {"reduction": reduction, "label_smoothing": smoothing}
    if weighted:
        options["weight"] = torch.rand(5)
    check_module("CrossEntropyLoss", (), options, [torch.randn(*shape), torch.rand(*shape)])


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape, target_shape", CLASSES, ids=str)
def test_nll_loss(shape, target_shape, weighted, reduction):
    options = {"ignore_index": 1, "reduction": reduction}
    if weighted:
        options["weight"] = torch.rand(5)
    target = torch.randint(2, 5, target_shape)
    if target.ndim:
        target.view(-1)[0] = 1
    check_module("NLLLoss", (), options, [torch.randn(*shape), target])


def test_ignoring_everything_is_nan_as_in_pytorch():
    x, target = torch.randn(3, 5), torch.full((3,), -100)
    for reduction in REDUCTIONS:
        expected = torch.nn.functional.cross_entropy(x, target, reduction=reduction)
        actual = md.nn.functional.cross_entropy(ours(x), ours(target), reduction=reduction)
        assert_same(actual, expected, reduction)


def test_ignored_rows_with_infinite_scores_do_not_spread_nan():
    x = torch.tensor([[0.0, float("-inf")], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([-100, 0])
    mine = ours(x)
    torch.nn.functional.cross_entropy(x, target).backward()
    md.nn.functional.cross_entropy(mine, ours(target)).backward()
    assert_same(mine.grad, x.grad)


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_ignored_rows_of_weighted_losses_do_not_spread_nan(name):
    x = torch.tensor([[float("-inf"), 0.0], [-1.0, -2.0]], dtype=torch.float64)
    target, weight = torch.tensor([-100, 0]), torch.tensor([0.5, 2.0], dtype=torch.float64)
    check_call(
        lambda a: getattr(md.nn.functional, name)(a, ours(target), ours(weight)),
        lambda a: getattr(torch.nn.functional, name)(a, target, weight),
        inputs_like([x], torch.float64),
    )


def test_bce_at_zero_and_one():
    x = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.5], dtype=torch.float64)
    t = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.5], dtype=torch.float64)
    check_call(
        lambda a: md.nn.functional.binary_cross_entropy(a, ours(t), reduction="none"),
        lambda a: torch.nn.functional.binary_cross_entropy(a, t, reduction="none"),
        inputs_like([x], torch.float64),
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights_of_binary_losses(reduction):
    weight, pos_weight = torch.rand(3), torch.rand(3)
    inputs = [torch.randn(4, 3), probabilities(4, 3)]
    options = {"reduction": reduction, "weight": weight, "pos_weight": pos_weight}
    check_module("BCEWithLogitsLoss", (), options, inputs, dtypes=("float32",))
    options = {"reduction": reduction, "weight": weight}
    inputs[0] = probabilities(4, 3)
    check_module("BCELoss", (), options, inputs, dtypes=("float32",))


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weighted_regression(name, reduction):
    options = {"weight": torch.rand(4, 3, dtype=torch.float64), "reduction": reduction}
    inputs = inputs_like([torch.randn(4, 3), torch.randn(4, 3)], torch.float64)
    check_call(getattr(md.nn.functional, name), getattr(torch.nn.functional, name), inputs, options)


def test_cosine_similarity_and_distances():
    a, b = torch.randn(4, 3, 2), torch.randn(4, 3, 2)
    a[0] = 0
    for dim in (0, 1, -1):
        check_module("CosineSimilarity", (), {"dim": dim}, [a, b])
    check_module("CosineSimilarity", (), {}, [torch.randn(4, 3, 1), torch.randn(3, 2)])
    check_module("PairwiseDistance", (), {"keepdim": True}, [torch.randn(4, 3), torch.randn(4, 3)])
    check_module("PairwiseDistance", (1.0,), {}, [torch.randn(4, 3), torch.randn(4, 3)])


def test_normalize():
    x = torch.randn(4, 3)
    x[1] = 0
    for options in ({}, {"dim": 0}, {"p": 1.0}, {"p": float("inf"), "dim": -1}):
        values = inputs_like([x], torch.float64)
        check_call(
            md.nn.functional.normalize, torch.nn.functional.normalize, values, options, str(options)
        )
