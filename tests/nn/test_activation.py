"""Activation modules and functions against PyTorch's."""

import pytest

import minidl as md

from .compare import assert_same, check_call, check_module, inputs_like, ours, torch

PLAIN = [
    "ReLU",
    "ReLU6",
    "SiLU",
    "Mish",
    "Hardsigmoid",
    "Hardswish",
    "SELU",
    "Sigmoid",
    "Tanh",
    "LogSigmoid",
    "Softsign",
    "Tanhshrink",
    "GELU",
    "ELU",
    "CELU",
    "LeakyReLU",
    "Hardtanh",
    "Softplus",
    "Hardshrink",
    "Softshrink",
]
WITH_ARGUMENTS = [
    ("GELU", ("tanh",)),
    ("ELU", (0.3,)),
    ("CELU", (2.5,)),
    ("LeakyReLU", (0.2,)),
    ("Hardtanh", (-0.4, 0.7)),
    ("Threshold", (0.1, 20.0)),
    ("Softplus", (2.0, 1.5)),
    ("Hardshrink", (0.2,)),
    ("Softshrink", (0.2,)),
    ("GLU", (1,)),
    ("GLU", ()),
    ("Softmax", (1,)),
    ("LogSoftmax", (-1,)),
    ("Softmin", (0,)),
]
EDGES = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, -0.5, 25.0, -25.0, 90.0, -90.0]
INFINITE = [float("inf"), float("-inf"), float("nan")]


BOTH = ("float32", "float64")
# PyTorch's float64 hardsigmoid multiplies by 1/6 in float32.
ROUGH = {"Hardsigmoid": ("float32",)}


@pytest.mark.parametrize("name", PLAIN)
def test_plain(name):
    torch.manual_seed(1)
    for x in (torch.randn(5, 6) * 3, torch.randn(()), torch.randn(0, 3), torch.randn(6, 4).t()):
        check_module(name, (), {}, [x], dtypes=ROUGH.get(name, BOTH))


@pytest.mark.parametrize("name, args", WITH_ARGUMENTS, ids=str)
def test_with_arguments(name, args):
    torch.manual_seed(2)
    check_module(name, args, {}, [torch.randn(4, 6)])


@pytest.mark.parametrize("name", PLAIN)
def test_values_and_gradients_at_the_edges(name):
    check_module(name, (), {}, [torch.tensor(EDGES)], dtypes=ROUGH.get(name, BOTH))


@pytest.mark.parametrize("name", PLAIN)
def test_infinite_values(name):
    x = torch.tensor(INFINITE)
    assert_same(getattr(md.nn, name)()(ours(x)), getattr(torch.nn, name)()(x), name)


@pytest.mark.parametrize(
    "name", ["ReLU", "ReLU6", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "SELU", "ELU", "CELU"]
)
def test_in_place_writes_the_input_and_differentiates(name):
    x = torch.randn(4, 3, requires_grad=True)
    mine_x = ours(x)
    theirs, mine = x * 1, mine_x * 1
    expected = getattr(torch.nn, name)(inplace=True)(theirs)
    actual = getattr(md.nn, name)(inplace=True)(mine)
    assert actual is mine
    assert_same(mine, theirs)
    (expected * theirs).sum().backward()
    (actual * mine).sum().backward()
    assert_same(mine_x.grad, x.grad)


def test_in_place_threshold_leaky_relu_hardtanh():
    for name, args in (("threshold", (0.1, 2.0)), ("leaky_relu", (0.2,)), ("hardtanh", (-1, 0.5))):
        x = torch.randn(7)
        mine = ours(x)
        getattr(torch.nn.functional, name)(x, *args, inplace=True)
        getattr(md.nn.functional, name)(mine, *args, inplace=True)
        assert_same(mine, x, name)


def test_softmax_in_another_dtype():
    x = torch.randn(3, 4)
    for name in ("softmax", "log_softmax", "softmin"):
        mine = getattr(md.nn.functional, name)
        theirs = getattr(torch.nn.functional, name)
        assert_same(mine(ours(x), -1, dtype=md.float64), theirs(x, -1, dtype=torch.float64), name)


def test_prelu_function_of_every_rank():
    for shape, weight in (((), (1,)), ((), ()), ((3,), (1,)), ((2, 3), (3,)), ((2, 3, 4), (3,))):
        values = inputs_like([torch.randn(shape), torch.rand(weight)], torch.float64)
        check_call(md.nn.functional.prelu, torch.nn.functional.prelu, values)


@pytest.mark.parametrize("name", ["elu", "selu", "celu", "hardtanh", "relu6", "hardsigmoid",
                                  "hardswish", "leaky_relu", "mish", "silu", "gelu", "softsign"])
def test_values_at_the_ends_of_the_numbers(name):
    """Values and gradients at NaN, infinity and the largest numbers, enough of them for SIMD."""
    largest = torch.finfo(torch.float32).max
    ends = [torch.nan, torch.inf, -torch.inf, largest, -largest, 0.0, -0.0, 1.0, -1.0, 6.0]
    x = torch.tensor(ends * 8, requires_grad=True)
    check_call(getattr(md.nn.functional, name), getattr(torch.nn.functional, name), [x])


@pytest.mark.parametrize("name", ["elu", "selu", "celu", "hardsigmoid", "hardswish", "leaky_relu",
                                  "mish", "silu", "gelu", "softplus", "logsigmoid"])
def test_integers_are_refused_as_by_pytorch(name):
    for dtype in (md.int64, md.uint8, md.bool):
        with pytest.raises(TypeError, match=f"{name}: expected a floating-point tensor"):
            getattr(md.nn.functional, name)(md.ones(3, dtype=dtype))
    with pytest.raises(TypeError, match="hardtanh: uint8 does not hold the limit -1"):
        md.nn.functional.hardtanh(md.ones(3, dtype=md.uint8))
