"""MultiHeadAttention, its cache, rotary positions and the transformer block."""

import numpy as np
import pytest

import minidl as md
from minidl import nn

F = nn.functional


def same(a, b, **tolerance):
    tolerance = tolerance or {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), **tolerance)


def by_hand(layer, x, context=None, mask=None):
    """The definition, one head at a time, in NumPy float64."""
    heads, kv_heads, size = layer.num_heads, layer.num_kv_heads, layer.head_dim
    weight = layer.qkv.weight.detach().numpy().astype(np.float64)
    bias = layer.qkv.bias.detach().numpy().astype(np.float64)
    source = (x if context is None else context).numpy().astype(np.float64)
    q = x.numpy().astype(np.float64) @ weight[: heads * size].T + bias[: heads * size]
    kv = source @ weight[heads * size :].T + bias[heads * size :]
    k, v = kv[..., : kv_heads * size], kv[..., kv_heads * size :]
    outputs = []
    for head in range(heads):
        group = head // (heads // kv_heads)
        qh = q[..., head * size : (head + 1) * size]
        kh = k[..., group * size : (group + 1) * size]
        vh = v[..., group * size : (group + 1) * size]
        scores = qh @ kh.swapaxes(-1, -2) / np.sqrt(size)
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        outputs.append(weights / weights.sum(-1, keepdims=True) @ vh)
    joined = np.concatenate(outputs, -1)
    return md.from_numpy(
        joined @ layer.proj.weight.detach().numpy().T + layer.proj.bias.detach().numpy()
    ).float()


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(kv_heads, causal):
    layer = nn.MultiHeadAttention(24, 4, num_kv_heads=kv_heads, causal=causal)
    x = md.randn(2, 5, 24)
    mask = np.tril(np.ones((5, 5), bool)) if causal else None
    same(layer(x), by_hand(layer, x, mask=mask))


def test_cross_attention_with_packed_and_own_projections():
    layer = nn.MultiHeadAttention(24, 4)
    x, context = md.randn(2, 5, 24), md.randn(2, 7, 24)
    same(layer(x, context), by_hand(layer, x, context))
    own = nn.MultiHeadAttention(24, 4, kv_dim=10)
    assert own(x, md.randn(2, 7, 10)).shape == (2, 5, 24)
    with pytest.raises(md.errors.ArgumentError, match="pass context"):
        own(x)


def test_masks_join_the_causal_one():
    layer = nn.MultiHeadAttention(24, 4, causal=True)
    x = md.randn(2, 5, 24)
    allowed = np.tril(np.ones((5, 5), bool))
    allowed[:, 1] = False
    allowed[1, 1] = True
    only = np.ones((5, 5), bool)
    only[:, 1] = False
    only[1, 1] = True
    expected = by_hand(layer, x, mask=allowed)
    same(layer(x, mask=md.from_numpy(only)), expected)
    added = np.where(only, 0.0, -np.inf).astype(np.float32)
    same(layer(x, mask=md.from_numpy(added)), expected)


def test_gradients_reach_every_parameter():
    layer = nn.MultiHeadAttention(24, 4, num_kv_heads=2, causal=True, rotary=True)
    layer(md.randn(2, 5, 24)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum().item() > 0 for p in layer.parameters())


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("steps", [[1] * 7, [3, 1, 1, 2], [7], [4, 3]], ids=str)
def test_cache_gives_what_the_whole_sequence_gives(rotary, steps):
    layer = nn.MultiHeadAttention(24, 4, num_kv_heads=2, causal=True, rotary=rotary)
    x = md.randn(2, 7, 24)
    cache = layer.make_cache(2, 9)
    outputs, start = [], 0
    keys = cache.keys
    with md.no_grad():
        for length in steps:
            outputs.append(layer(x[:, start : start + length], cache=cache))
            start += length
    same(md.cat(outputs, 1), layer(x))
    assert cache.length == 7 and cache.keys is keys


def test_cache_of_another_sequence():
    layer = nn.MultiHeadAttention(24, 4, num_kv_heads=2, kv_dim=10)
    x, context = md.randn(2, 3, 24), md.randn(2, 7, 10)
    cache = layer.make_cache(2, 9)
    with md.no_grad():
        layer(x, context[:, :4], cache=cache)
        same(layer(x, context[:, 4:], cache=cache), layer(x, context))
    keys, _ = cache.append(md.ones(2, 2, 1, 6), md.ones(2, 2, 1, 6))
    assert keys.shape == (2, 2, 8, 6) and keys[:, :, 7:].eq(1).all()


def test_cache_says_what_is_wrong():
    layer = nn.MultiHeadAttention(8, 2, causal=True)
    cache = layer.make_cache(1, 3)
    with pytest.raises(md.errors.GradientError, match=r"md\.no_grad\(\)"):
        layer(md.randn(1, 1, 8), cache=cache)
    with md.no_grad():
        layer(md.randn(1, 2, 8), cache=cache)
        with pytest.raises(md.errors.ArgumentError, match="holds 2 of 3 positions and 2 more"):
            layer(md.randn(1, 2, 8), cache=cache)
        cache.truncate(1)
        assert layer(md.randn(1, 2, 8), cache=cache).shape == (1, 2, 8)
    with pytest.raises(md.errors.ArgumentError, match="cannot truncate"):
        cache.truncate(4)


def test_rotary_turns_pairs_by_their_position():
    rotary = nn.RotaryEmbedding(4, base=100.0)
    x = md.ones(1, 1, 3, 4)
    y = rotary(x).numpy()[0, 0]
    for position in range(3):
        for i, speed in enumerate((1.0, 0.1)):
            angle = position * speed
            assert y[position, i] == pytest.approx(np.cos(angle) - np.sin(angle), abs=1e-6)
            assert y[position, i + 2] == pytest.approx(np.cos(angle) + np.sin(angle), abs=1e-6)
    same(rotary(x, start=5)[:, :, :1], rotary(md.ones(1, 1, 6, 4))[:, :, 5:])
    positions = md.tensor([[5, 0, 2]])
    chosen = rotary(x, positions=positions)
    whole = rotary(md.ones(1, 1, 6, 4))
    same(chosen, md.stack([whole[:, :, 5], whole[:, :, 0], whole[:, :, 2]], 2))
    assert not rotary.state_dict()
    rows = md.randn(2, 3, 2, 4)
    same(rotary(rows, positions=md.tensor([[1, 2], [4, 5]])),
         md.cat([rotary(rows[:1], start=1), rotary(rows[1:], start=4)]))
    assert rotary(rows.double()).dtype is md.float64


def test_attention_scores_with_rotary_depend_on_distance_only():
    rotary = nn.RotaryEmbedding(8)
    q, k = md.randn(1, 1, 1, 8), md.randn(1, 1, 1, 8)
    near = (rotary(q, start=3) * rotary(k, start=1)).sum()
    far = (rotary(q, start=40) * rotary(k, start=38)).sum()
    same(near, far, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "rms", "activation": "swiglu", "rotary": True, "bias": False, "num_kv_heads": 2},
        {"activation": "relu", "causal": False, "hidden_dim": 7},
        {"activation": "gelu_tanh", "dropout": 0.1},
    ],
    ids=str,
)
def test_block(options):
    block = nn.TransformerBlock(16, 4, **options).eval()
    x = md.randn(2, 5, 16)
    attended = x + block.attn(block.norm1(x))
    same(block(x), attended + block.ffn(block.norm2(attended)))
    block.train()(x).sum().backward()
    assert all(p.grad is not None for p in block.parameters())


def test_block_with_cache():
    block = nn.TransformerBlock(16, 4, norm="rms", activation="swiglu", rotary=True).eval()
    x = md.randn(2, 5, 16)
    cache = block.attn.make_cache(2, 5)
    with md.no_grad():
        steps = [block(x[:, i : i + 1], cache=cache) for i in range(5)]
    same(md.cat(steps, 1), block(x))


def test_feed_forward_formulas():
    x = md.randn(3, 8)
    plain = nn.FeedForward(8)
    same(plain(x), plain.down(F.gelu(plain.up(x))))
    assert plain.up.out_features == 32
    gated = nn.SwiGLU(8)
    same(gated(x), gated.down(F.silu(gated.gate(x)) * gated.up(x)))
    assert gated.up.out_features == 64 and gated.up.bias is None
    assert nn.SwiGLU(128).up.out_features == 384


def test_construction_errors():
    with pytest.raises(ValueError, match=r"embed_dim \(10\) must be divisible by num_heads \(4\)"):
        nn.MultiHeadAttention(10, 4)
    with pytest.raises(ValueError, match=r"must be a multiple of num_kv_heads \(3\)"):
        nn.MultiHeadAttention(16, 4, num_kv_heads=3)
    with pytest.raises(ValueError, match="head_dim must be even"):
        nn.RotaryEmbedding(3)
    with pytest.raises(ValueError, match="activation should be one of"):
        nn.FeedForward(8, activation="gelou")
    with pytest.raises(ValueError, match='norm must be "layer" or "rms"'):
        nn.TransformerBlock(8, 2, norm="batch")
