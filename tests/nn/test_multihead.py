"""MultiheadAttention and the transformer layers against PyTorch's."""

import pytest

import minidl as md

from .compare import assert_same, check_module, ours, pair, torch

E, H, N, L, S = 12, 3, 2, 5, 4


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(4)


def sequence(length, batch_first, size=E):
    return torch.randn(N, length, size) if batch_first else torch.randn(length, N, size)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 7, "vdim": 6}], ids=str
)
@pytest.mark.parametrize(
    "call",
    [{}, {"need_weights": False}, {"average_attn_weights": False}],
    ids=str,
)
def test_cross_attention(batch_first, bias, options, call):
    options = {"bias": bias, "batch_first": batch_first, **options}
    inputs = [
        sequence(L, batch_first),
        sequence(S, batch_first, options.get("kdim", E)),
        sequence(S, batch_first, options.get("vdim", E)),
    ]
    check_module("MultiheadAttention", (E, H), options, inputs, call, dtypes=("float64",))


def padding():
    mask = torch.zeros(N, S, dtype=torch.bool)
    mask[1, 2:] = True
    return mask


MASKS = {
    "bool": lambda: {"attn_mask": torch.ones(L, S, dtype=torch.bool).triu(1)},
    "float": lambda: {"attn_mask": torch.randn(L, S)},
    "per head": lambda: {"attn_mask": torch.rand(N * H, L, S) > 0.9},
    "padding": lambda: {"key_padding_mask": padding()},
    "float padding": lambda: {"key_padding_mask": torch.randn(N, S)},
    "both": lambda: {"key_padding_mask": padding(), "attn_mask": torch.rand(L, S) > 0.9},
    "both float": lambda: {
        "key_padding_mask": torch.randn(N, S),
        "attn_mask": torch.randn(N * H, L, S),
    },
}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}], ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, options, need_weights):
    call = {**MASKS[mask](), "need_weights": need_weights}
    inputs = [sequence(L, True), sequence(S, True), sequence(S, True)]
    check_module(
        "MultiheadAttention", (E, H), {"batch_first": True, **options}, inputs, call,
        dtypes=("float32",),
    )


def test_self_attention_uses_one_tensor_three_times():
    mine, theirs = pair("MultiheadAttention", E, H, batch_first=True)
    x = torch.randn(N, L, E, requires_grad=True)
    my_x = ours(x)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(L)
    for call in ({"attn_mask": causal}, {"attn_mask": causal, "is_causal": True}):
        call = {**call, "need_weights": False}
        x.grad = my_x.grad = None
        expected, actual = theirs(x, x, x, **call)[0], mine(my_x, my_x, my_x, **ours(call))[0]
        assert_same(actual, expected)
        (expected * expected).sum().backward()
        (actual * actual).sum().backward()
        assert_same(my_x.grad, x.grad)


def test_key_and_value_the_same_tensor():
    mine, theirs = pair("MultiheadAttention", E, H)
    query, memory = torch.randn(L, N, E), torch.randn(S, N, E)
    my_query, my_memory = ours(query), ours(memory)
    assert_same(mine(my_query, my_memory, my_memory), theirs(query, memory, memory))


def test_unbatched():
    inputs = [torch.randn(L, E), torch.randn(S, E), torch.randn(S, E)]
    for batch_first in (True, False):
        options = {"batch_first": batch_first}
        check_module("MultiheadAttention", (E, H), options, inputs, dtypes=("float64",))
    call = {"key_padding_mask": torch.tensor([False, True, False, False])}
    check_module("MultiheadAttention", (E, H), {}, inputs, call, dtypes=("float64",))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"activation": "gelu"}], ids=str)
def test_encoder_layer(norm_first, batch_first, options):
    options = {
        "dim_feedforward": 16, "dropout": 0.0, "norm_first": norm_first,
        "batch_first": batch_first, **options,
    }
    x = sequence(S, batch_first)
    args = (E, H)
    check_module("TransformerEncoderLayer", args, options, [x], dtypes=("float64",))
    call = {"src_mask": torch.ones(S, S, dtype=torch.bool).triu(1)}
    check_module("TransformerEncoderLayer", args, options, [x], call, dtypes=("float32",))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_decoder_layer(norm_first, batch_first):
    options = {
        "dim_feedforward": 16, "dropout": 0.0, "norm_first": norm_first, "batch_first": batch_first
    }
    inputs = [sequence(L, batch_first), sequence(S, batch_first)]
    causal = torch.nn.Transformer.generate_square_subsequent_mask(L).double()
    args = (E, H)
    call = {"tgt_mask": causal, "tgt_is_causal": True}
    check_module("TransformerDecoderLayer", args, options, inputs, call, dtypes=("float64",))
    call = {"memory_key_padding_mask": padding()}
    check_module("TransformerDecoderLayer", args, options, inputs, call, dtypes=("float64",))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
def test_whole_transformer():
    options = {
        "d_model": E, "nhead": H, "num_encoder_layers": 2, "num_decoder_layers": 1,
        "dim_feedforward": 16, "dropout": 0.0, "batch_first": True,
    }
    inputs = [sequence(S, True), sequence(L, True)]
    check_module("Transformer", (), options, inputs, dtypes=("float64",))
    assert_same(
        md.nn.Transformer.generate_square_subsequent_mask(4),
        torch.nn.Transformer.generate_square_subsequent_mask(4),
    )


@pytest.mark.parametrize(
    "shapes, message",
    [
        (((N, L, E + 1), (N, S, E), (N, S, E)), "query has last axis 13, expected 12"),
        (((N, L, E), (N, S, E), (N, S + 1, E)), "differ in length or batch"),
        (((N, L, E), (N + 1, S, E), (N + 1, S, E)), "differ in their batch"),
        (((L, E), (N, S, E), (N, S, E)), "must all have 3 axes"),
    ],
)
def test_shape_errors(shapes, message):
    attention = md.nn.MultiheadAttention(E, H, batch_first=True)
    with pytest.raises(md.errors.ShapeError, match=message):
        attention(*(md.zeros(*shape) for shape in shapes))


def test_mask_errors():
    attention = md.nn.MultiheadAttention(E, H, batch_first=True)
    x = md.zeros(N, L, E)
    with pytest.raises(md.errors.ShapeError, match="attn_mask has shape"):
        attention(x, x, x, attn_mask=md.zeros(L, L + 1))
    with pytest.raises(md.errors.ShapeError, match="key_padding_mask has shape"):
        attention(x, x, x, key_padding_mask=md.zeros(L, N))
    with pytest.raises(md.errors.DTypeError, match="attn_mask must be bool or floating point"):
        attention(x, x, x, attn_mask=md.zeros(L, L, dtype=md.int64))
    with pytest.raises(md.errors.ArgumentError, match="is_causal is a hint"):
        attention(x, x, x, is_causal=True)
