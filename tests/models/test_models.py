"""The models by themselves: presets, counts, initialisation, losses, names, caches."""

import re

import numpy as np
import pytest

import minidl as md
from minidl.models import BERT, GPT, GPTConfig, Llama

CLASSES = [GPT, Llama, BERT]
DECODERS = [GPT, Llama]


@pytest.fixture(autouse=True)
def _seed():
    md.manual_seed(3)


def ids(*shape):
    return md.randint(0, 256, shape)


def same(a, b, tolerance=1e-5):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), tolerance, tolerance)


def test_gpt2_has_124m_parameters():
    """Counted on its first two layers and one row of each table: the rest is more of the same."""
    one, two = (GPT.from_preset("gpt2", vocab_size=1, context=1, layers=n).num_parameters()
                for n in (1, 2))
    assert GPT.presets["gpt2"] == GPTConfig(50257, 1024, layers=12, heads=12, width=768)
    assert one + 11 * (two - one) + (50256 + 1023) * 768 == 124_439_808


def test_the_cpu_recipe():
    config = GPT.from_preset("nanogpt-cpu").config
    assert (config.layers, config.heads, config.width, config.context) == (4, 4, 128, 64)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", ["tiny", "nano", "base"])
def test_presets(cls, name):
    model = cls.from_preset(name, vocab_size=300)
    assert model(md.zeros(1, 2, dtype=md.int64)).shape[:2] == (1, 2)
    assert model.num_parameters() == sum(p.numel() for p in model.parameters())


def test_an_unknown_preset_lists_the_known():
    with pytest.raises(md.errors.ArgumentError, match="no preset 'huge'; there are tiny, nano"):
        GPT.from_preset("huge")


def test_flops_by_hand():
    C, L, V, T = 64, 2, 256, 10
    forward = 2 * (12 * L * C * C + V * C) + 4 * L * C * T
    model = GPT.from_preset("tiny")
    assert model.flops_per_token(T, training=False) == forward
    assert model.flops_per_token(T) == 3 * forward
    assert model.flops_per_step(5, T) == 5 * T * 3 * forward
    assert model.flops_per_step(5) == 5 * 64 * model.flops_per_token(64)


@pytest.mark.parametrize("cls", CLASSES)
def test_initialisation_is_gpt2s(cls):
    model = cls.from_preset("base")
    spread = {name: p.detach().numpy().std() for name, p in model.named_parameters()}
    assert spread["token.weight"] == pytest.approx(0.02, rel=0.05)
    assert spread["blocks.3.attn.qkv.weight"] == pytest.approx(0.02, rel=0.05)
    for name in ("attn.proj", "ffn.down"):
        assert spread[f"blocks.3.{name}.weight"] == pytest.approx(0.02 / 12**0.5, rel=0.05)
    assert all(value == 0 for name, value in spread.items() if name.endswith("bias"))


@pytest.mark.parametrize("cls", DECODERS)
def test_loss_and_its_gradients(cls):
    model = cls.from_preset("tiny")
    index, targets = ids(2, 8), ids(2, 8)
    targets[0, :3] = -100
    logits, loss = model(index, targets)
    same(logits, model(index))
    p = logits.detach().softmax(-1).numpy()
    picked = [-np.log(p[b, t, targets[b, t].item()]) for b in range(2) for t in range(8)
              if targets[b, t].item() != -100]
    assert loss.item() == pytest.approx(np.mean(picked), rel=1e-4)
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("cls", DECODERS)
def test_later_tokens_change_nothing_before(cls):
    model, index = cls.from_preset("tiny"), ids(1, 8)
    other = index.clone()
    other[0, 5:] = (other[0, 5:] + 1) % 256
    a, b = model(index), model(other)
    same(a[:, :5], b[:, :5])
    assert not np.allclose(a[:, 5:].detach().numpy(), b[:, 5:].detach().numpy())


@pytest.mark.parametrize("cls", DECODERS)
@pytest.mark.parametrize("pieces", [(8,), (1,) * 8, (5, 1, 2)], ids=str)
def test_a_cache_gives_the_same_logits(cls, pieces):
    model, index = cls.from_preset("tiny"), ids(2, 8)
    cache, start = model.make_cache(2, 8), 0
    with md.no_grad():
        full = model(index)
        for size in pieces:
            logits = model(index[:, start : start + size], cache=cache)
            start += size
            same(logits, full[:, start - 1 : start], 1e-4)


@pytest.mark.parametrize("cls", DECODERS)
def test_padded_rows_are_as_if_alone(cls):
    model, rows = cls.from_preset("tiny"), [ids(6), ids(3), ids(1)]
    padding = [6 - len(row) for row in rows]
    index = md.zeros(3, 7, dtype=md.int64)
    for b, row in enumerate(rows):
        index[b, padding[b] : 6] = row
    index[:, 6] = md.tensor([9, 8, 7])
    cache = model.make_cache(3, 7, padding)
    with md.no_grad():
        first, second = model(index[:, :6], cache=cache), model(index[:, 6:], cache=cache)
        for b, row in enumerate(rows):
            alone = model(md.cat([row, index[b, 6:]]).reshape(1, -1))
            same(first[b, 0], alone[0, -2], 1e-4)
            same(second[b, 0], alone[0, -1], 1e-4)


@pytest.mark.parametrize("cls", CLASSES)
def test_round_trip_through_their_names(cls):
    model = cls.from_preset("tiny")
    back = cls.from_hf(model.to_hf(), model.config).state_dict()
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(back[name].numpy(), value.numpy(), name)


def test_tied_and_untied_heads():
    tied, untied = Llama.from_preset("tiny"), Llama.from_preset("tiny", tied=False)
    assert tied.head.weight is tied.token.weight
    assert untied.num_parameters() == tied.num_parameters() + 256 * 64
    with pytest.raises(md.errors.ArgumentError, match=re.escape("lm_head.weight differs from")):
        Llama.from_hf(untied.to_hf(), tied.config)
    state = tied.to_hf()
    del state["lm_head.weight"]
    assert Llama.from_hf(state, tied.config).head.weight.shape == (256, 64)
    with pytest.raises(md.errors.ArgumentError, match=re.escape("missing lm_head.weight; left")):
        Llama.from_hf(state, untied.config)


def test_weights_that_do_not_fit_are_named():
    state = GPT.from_preset("tiny").to_hf()
    state["transformer.h.7.ln_1.bias"] = md.zeros(64)
    with pytest.raises(md.errors.ArgumentError, match=r"left over h\.7\.ln_1\.bias"):
        GPT.from_hf(state, GPT.presets["tiny"])
    with pytest.raises(TypeError, match="must be a tensor or an array, got list"):
        GPT.from_hf({**GPT.from_preset("tiny").to_hf(), "wte.weight": [1]}, GPT.presets["tiny"])


def test_numpy_arrays_and_half_precision_load():
    model = GPT.from_preset("tiny")
    state = {name: value.numpy().astype(np.float16) for name, value in model.to_hf().items()}
    loaded = GPT.from_hf(state, model.config)
    assert loaded.token.weight.dtype is md.float32
    same(loaded.token.weight, model.token.weight, 1e-3)


@pytest.mark.parametrize("cls", CLASSES)
def test_lengths_and_shapes_are_checked(cls):
    model = cls.from_preset("tiny")
    with pytest.raises(md.errors.ShapeError, match="context of 64 positions; 65 tokens came"):
        model(ids(1, 65))
    with pytest.raises(md.errors.ShapeError, match=re.escape("(batch, length), got (3,)")):
        model(ids(3))


def test_a_cache_checks_its_length_and_padding():
    model = GPT.from_preset("tiny")
    cache = model.make_cache(1, 100)
    with md.no_grad():
        model(ids(1, 60), cache=cache)
    with pytest.raises(md.errors.ShapeError, match="5 tokens came after 60 in the cache"):
        model(ids(1, 5), cache=cache)
    with pytest.raises(md.errors.ShapeError, match="padding has 2 numbers for a cache of 1"):
        cache.reset([0, 1])


def test_dropout_acts_in_training_only():
    model = GPT(GPTConfig(256, 64, 2, 2, 64, dropout=0.5))
    index = ids(1, 8)
    assert not np.allclose(model(index).detach().numpy(), model(index).detach().numpy())
    model.eval()
    same(model(index), model(index), 0)


def test_embeddings_have_length_one_and_ignore_padding():
    model, index = BERT.from_preset("tiny"), ids(2, 6)
    mask = md.tensor([[1] * 6, [1] * 4 + [0] * 2])
    vectors = model.embed(index, mask)
    assert np.linalg.norm(vectors.detach().numpy(), axis=1) == pytest.approx(1, abs=1e-5)
    same(vectors[1], model.embed(index[1:, :4])[0])
    same(vectors[0], model.embed(index[:1])[0])
