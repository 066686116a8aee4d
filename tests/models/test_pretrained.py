"""Folders of published models: read, written, refused; with transformers where it is there."""

import json
import os
import re
import sys
import types

import numpy as np
import pytest

import minidl as md
from minidl.checkpoint import save_gguf
from minidl.models import BERT, GPT, Llama, from_pretrained
from minidl.models.configs import read_config, write_config
from minidl.models.rope import frequencies

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
MODELS = {
    "gpt": lambda: GPT.from_preset("tiny", dropout=0.1, norm_eps=1e-6),
    "llama": lambda: Llama.from_preset("tiny"),
    "untied llama": lambda: Llama.from_preset("tiny", tied=False, rope_base=500.0, norm_eps=1e-6),
    "wide heads": lambda: Llama.from_preset("tiny", heads=4, kv_heads=2, head_dim=32),
    "qwen2": lambda: Llama.from_preset("tiny", heads=4, kv_heads=2, qkv_bias=True),
    "llama 3.1": lambda: Llama.from_preset("tiny", rope_scaling=LLAMA3),
    "bert": lambda: BERT.from_preset("tiny"),
}


@pytest.fixture(params=MODELS)
def model(request):
    md.manual_seed(0)
    model = MODELS[request.param]()
    with md.no_grad():
        for p in model.parameters():     # norms and biases too, or a swap would go unseen
            p.add_(md.randn(*p.shape) * 0.1)
    return model.eval()


def output(model, index=((3, 1, 2, 250, 7, 9), (5, 5, 0, 1, 2, 3))):
    with md.no_grad():
        return model(md.tensor(np.array(index))).numpy()


def settings(folder):
    return json.loads((folder / "config.json").read_text())


def rewrite(folder, **changes):
    content = {**settings(folder), **changes}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in content.items() if v != ""}))


def test_round_trip(tmp_path, model):
    model.save_pretrained(tmp_path / "a")
    back = from_pretrained(tmp_path / "a")
    assert type(back) is type(model) and not back.training
    assert write_config(back) == write_config(model)
    assert back.config.dropout == model.config.dropout
    assert (output(back) == output(model)).all()
    ours, theirs = model.state_dict(), back.state_dict()
    assert list(ours) == list(theirs) and all((ours[n] == theirs[n]).all() for n in ours)
    if hasattr(model, "head"):
        assert (back.head.weight is back.token.weight) == (model.head.weight is model.token.weight)


def test_one_file_and_several_take_each_others_place(tmp_path):
    model = GPT.from_preset("tiny")
    expected = output(model)
    for size in (10**9, 200_000, 100_000, 10**9):
        model.save_pretrained(tmp_path, max_shard_size=size)
        names = sorted(os.listdir(tmp_path))
        assert ("model.safetensors" in names) == (size == 10**9)
        assert ("model.safetensors.index.json" in names) == (size < 10**9)
        assert len(names) == (2 if size == 10**9 else len(names)) and "config.json" in names
        assert (output(from_pretrained(tmp_path)) == expected).all()


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16])
def test_half_precision_becomes_float32(tmp_path, dtype):
    model = Llama.from_preset("tiny")
    model.save_pretrained(tmp_path)
    half = {name: value.to(dtype) for name, value in model.to_hf().items()}
    md.save(half, tmp_path / "model.safetensors")
    back = from_pretrained(tmp_path)
    assert back.token.weight.dtype is md.float32
    expected = model.token.weight.detach().to(dtype).to(md.float32)
    assert (back.token.weight.detach() == expected).all()


def test_names_of_other_programs(tmp_path):
    """No prefix, buffers, a pooler, the norms' old names, another file name: all of it is read."""
    model = GPT.from_preset("tiny")
    model.save_pretrained(tmp_path / "gpt")
    state = {n.removeprefix("transformer."): v for n, v in model.to_hf().items()}
    del state["lm_head.weight"]
    state["h.0.attn.bias"] = md.ones(1, 1, 64, 64)
    os.remove(tmp_path / "gpt" / "model.safetensors")
    md.save(state, tmp_path / "gpt" / "weights.safetensors")
    assert (output(from_pretrained(tmp_path / "gpt")) == output(model)).all()
    model = BERT.from_preset("tiny")
    model.save_pretrained(tmp_path / "bert")
    old = {"weight": "gamma", "bias": "beta"}
    state = {re.sub(r"LayerNorm\.(\w+)", lambda m: f"LayerNorm.{old[m[1]]}", f"bert.{n}"): v
             for n, v in model.to_hf().items()}
    state |= {"bert.embeddings.position_ids": md.arange(64)[None], "cls.predictions.bias":
              md.zeros(256), "bert.pooler.dense.weight": md.zeros(64, 64)}
    md.save(state, tmp_path / "bert" / "model.safetensors")
    assert (output(from_pretrained(tmp_path / "bert")) == output(model)).all()


def test_weights_are_mapped_and_training_leaves_the_file_alone(tmp_path):
    Llama.from_preset("tiny").save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    model = from_pretrained(tmp_path).train()
    optimizer = md.optim.AdamW(model.parameters(), lr=0.1)
    model(md.tensor([[1, 2]]), md.tensor([[2, 3]]))[1].backward()
    optimizer.step()
    assert (tmp_path / "model.safetensors").read_bytes() == before
    model.save_pretrained(tmp_path)
    assert (output(from_pretrained(tmp_path)) == output(model)).all()


def test_nothing_is_drawn_for_weights_that_are_read(tmp_path):
    for name, make in MODELS.items():
        make().save_pretrained(tmp_path / name)
        md.manual_seed(0)
        expected = md.rand(3)
        md.manual_seed(0)
        from_pretrained(tmp_path / name)
        assert (md.rand(3) == expected).all(), name


@pytest.mark.parametrize("base, changes, message", [
    ("gpt", {"model_type": "gptj"}, "type 'gptj' is not among those that minidl has: gpt2, llama"),
    ("gpt", {"activation_function": "relu"}, "activation_function = 'relu', and minidl computes"),
    ("gpt", {"n_inner": 100}, "n_inner = 100, and minidl computes 0 or 256 only"),
    ("gpt", {"n_layer": ""}, "config.json does not say n_layer"),
    ("gpt", {"n_layer": 3}, "missing h.2.attn.c_attn.bias"),
    ("gpt", {"n_layer": 1}, "left over h.1.attn.c_attn.bias"),
    ("llama", {"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
    ("llama", {"attention_bias": True}, "attention_bias = True"),
    ("llama", {"rope_scaling": {"rope_type": "yarn"}}, "'yarn' is not among .*: linear, llama3"),
    ("llama", {"rope_scaling": {"type": "linear"}}, "type 'linear' does not say 'factor'"),
    ("bert", {"hidden_act": "relu"}, "hidden_act = 'relu'"),
    ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_k"),
])
def test_what_these_models_do_not_compute_is_refused(tmp_path, base, changes, message):
    MODELS[base]().save_pretrained(tmp_path)
    rewrite(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        from_pretrained(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_settings_of_relatives():
    theirs = write_config(Llama.from_preset("tiny"))
    _, mistral = read_config({**theirs, "model_type": "mistral", "sliding_window": 32})
    assert mistral.context == 32, "as far as nothing slides"
    _, qwen = read_config({**theirs, "model_type": "qwen2", "sliding_window": 32,
                           "use_sliding_window": False})
    assert qwen.context == 64 and qwen.qkv_bias
    for name in ("num_key_value_heads", "head_dim", "rope_theta", "rope_scaling"):
        del theirs[name]
    _, old = read_config({**theirs, "rope_parameters": {"rope_type": "linear", "factor": 2.0,
                                                        "rope_theta": 7.0}})
    assert (old.kv_heads, old.rope_base, old.head_dim) == (2, 7.0, None)
    assert old.rope_scaling["factor"] == 2.0


def test_stretched_frequencies():
    plain = frequencies(64, 10000.0, {"type": "linear", "factor": 1.0})
    found = frequencies(64, 10000.0, {**LLAMA3, "original_max_position_embeddings": 2048})
    turns = 2048 * plain / (2 * np.pi)
    assert (found[turns > 4] == plain[turns > 4]).all() and (turns > 4).sum() > 5
    assert np.allclose(found[turns < 1], plain[turns < 1] / 8) and (turns < 1).sum() > 5
    between = (turns > 1) & (turns < 4)
    assert (found[between] < plain[between]).all() and (found[between] > plain[between] / 8).all()


def test_folders_that_are_not_models(tmp_path):
    with pytest.raises(FileNotFoundError, match="should say which model this is"):
        from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="not a table of settings"):
        from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"neither model\.safetensors nor"):
        from_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="pickled and could execute code"):
        from_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="is not there"):
        from_pretrained(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="a GPT with bias=False cannot be written"):
        GPT.from_preset("tiny", bias=False).save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------------------------------- the hub

def fake_hub(monkeypatch, download):
    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


def test_a_name_at_the_hub(tmp_path, monkeypatch):
    model = GPT.from_preset("tiny")
    model.save_pretrained(tmp_path)
    asked = []
    fake_hub(monkeypatch, lambda name, allow_patterns: asked.append(name) or str(tmp_path))
    assert (output(from_pretrained("someone/tiny-gpt")) == output(model)).all()
    assert asked == ["someone/tiny-gpt"]


def test_without_network_or_the_package(monkeypatch):
    def unreachable(name, allow_patterns):
        raise ConnectionError("no route to host\nand more")

    fake_hub(monkeypatch, unreachable)
    with pytest.raises(OSError, match=r"hub \(is there a network\?\): no route to host$"):
        from_pretrained("someone/tiny-gpt")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'minidl[hub]'")):
        from_pretrained("someone/tiny-gpt")


def test_the_real_package_without_network(python):
    pytest.importorskip("huggingface_hub", reason="needs the extra `hub`")
    python("""
import minidl as md
try:
    md.models.from_pretrained("minidl/no-such-model")
except OSError as error:
    assert "from the Hugging Face hub (is there a network?)" in str(error), error
else:
    raise SystemExit("no error")
""", env={"HF_HUB_OFFLINE": "1"})


# ---------------------------------------------------------------------------------------- GGUF

@pytest.mark.parametrize("name", ["llama", "untied llama", "qwen2"])
def test_a_gguf_file_is_a_model(tmp_path, name):
    md.manual_seed(0)
    model = MODELS[name]()
    save_gguf(model.to_hf(), write_config(model), tmp_path / "a.gguf")
    back = from_pretrained(tmp_path / "a.gguf")
    assert back.config == read_config(write_config(model))[1]
    np.testing.assert_allclose(output(back), output(model), rtol=0.02, atol=2e-3)


# ---------------------------------------------------------------------------------- tokenizers

def trained():
    pytest.importorskip("tokenizers", reason="needs the extra `text`")
    return md.text.BPETokenizer.train(["to be or not to be 2024"] * 9, vocab_size=270)


def test_a_tokenizer_travels_with_its_model(tmp_path):
    tokenizer = trained()
    GPT.from_preset("tiny", vocab_size=270).save_pretrained(tmp_path, tokenizer=tokenizer)
    back = md.text.PretrainedTokenizer.load(tmp_path)
    assert back.encode("not to be") == tokenizer.encode("not to be")
    back.tokenizer.enable_padding(length=50)
    back.tokenizer.enable_truncation(3)
    back.save(tmp_path / "tokenizer.json")
    back = md.text.PretrainedTokenizer.load(tmp_path)
    assert back.encode("not to be") == tokenizer.encode("not to be"), "neither filled nor cut"
    index, mask = back.batch(["to be or not to be", "be"], max_length=4)
    assert index.shape == mask.shape == (2, 4) and mask.sum(1).tolist() == [4, 1]
    assert index[0].tolist() == tokenizer.encode("to be or not to be")[:4]
    with pytest.raises(ValueError, match="'<nothing>' is not a token"):
        back.token_id("<nothing>")


def gguf_tokenizer(tmp_path, **changes):
    trained_on = trained().tokenizer
    vocab = sorted(trained_on.get_vocab().items(), key=lambda item: item[1])
    merges = json.loads(trained_on.to_str())["model"]["merges"]
    values = {"model": "gpt2", "pre": "smollm", "tokens": ["<|end|>", *(t for t, _ in vocab)],
              "merges": [" ".join(pair) for pair in merges],
              "token_type": [3] + [1] * len(vocab)} | changes
    model = Llama.from_preset("tiny", vocab_size=len(values["tokens"]))
    named = {f"tokenizer.ggml.{name}": value for name, value in values.items() if value}
    save_gguf(model.to_hf(), write_config(model), tmp_path / "a.gguf", values=named)
    return tmp_path / "a.gguf"


def test_the_tokenizer_of_a_gguf_file(tmp_path):
    found = md.text.PretrainedTokenizer.load(gguf_tokenizer(tmp_path))
    plain = trained()
    text = "to be, or not: é"
    assert found.encode(text) == [i + 1 for i in plain.encode(text)]
    assert found.decode(found.encode(text)) == text
    assert found.encode("be<|end|>") == [*found.encode("be"), 0] and found.token_id("<|end|>") == 0
    assert len(found.encode("2024")) == 4, "each digit by itself"
    assert len(plain.encode("2024")) < 4
    whole = md.text.PretrainedTokenizer.load(gguf_tokenizer(tmp_path, pre="gpt-2"))
    assert whole.encode("2024") == [i + 1 for i in plain.encode("2024")]


@pytest.mark.parametrize("changes, message", [
    ({"model": "llama"}, "of the kind 'llama', 'smollm'; minidl reads gpt2 with gpt-2 or smollm"),
    ({"pre": "mystery"}, "'mystery'; minidl reads gpt2"),
    ({"model": ""}, r"of the kind \[\]"),
    ({"merges": ["nothing here"]}, "its tokenizer is damaged"),
    ({"merges": [1, 2]}, "its tokenizer is damaged"),
])
def test_tokenizers_that_are_not_read(tmp_path, changes, message):
    path = gguf_tokenizer(tmp_path, **changes)
    with pytest.raises(md.errors.CheckpointError, match=message):
        md.text.PretrainedTokenizer.load(path)


# -------------------------------------------------------------------------------- transformers

@pytest.mark.filterwarnings("ignore")
def test_transformers_opens_ours(tmp_path, model):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    transformers = pytest.importorskip("transformers", reason="compares with transformers")
    model.save_pretrained(tmp_path, max_shard_size=300_000)
    kind = transformers.AutoModel if isinstance(model, BERT) else transformers.AutoModelForCausalLM
    theirs, info = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert type(theirs).__name__ == settings(tmp_path)["architectures"][0]
    assert not info["unexpected_keys"] and not info["mismatched_keys"]
    assert all("pooler" in name for name in info["missing_keys"])
    index = np.random.default_rng(0).integers(0, 256, (3, 64))
    with torch.no_grad():
        expected = theirs.eval()(torch.tensor(index))[0].numpy()
    np.testing.assert_allclose(output(model, index), expected, rtol=2e-4, atol=2e-4)


def theirs_of(name, transformers):
    sizes = {"vocab_size": 50, "max_position_embeddings": 64, "hidden_size": 32,
             "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
             "bos_token_id": 0, "eos_token_id": 0}
    grouped = {**sizes, "num_key_value_heads": 2}
    new = {"rope_theta": 500.0}
    return {
        "gpt2": lambda t: t.GPT2LMHeadModel(t.GPT2Config(
            vocab_size=50, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0,
            eos_token_id=0)),
        "llama": lambda t: t.LlamaForCausalLM(t.LlamaConfig(
            **grouped, rope_parameters={**new, "rope_type": "default"}, rms_norm_eps=1e-5)),
        "llama tied, wide heads": lambda t: t.LlamaForCausalLM(t.LlamaConfig(
            **grouped, tie_word_embeddings=True, head_dim=16)),
        "llama 3.1": lambda t: t.LlamaForCausalLM(t.LlamaConfig(
            **grouped, rope_parameters={**new, **LLAMA3})),
        "mistral": lambda t: t.MistralForCausalLM(t.MistralConfig(**grouped, sliding_window=None)),
        "qwen2": lambda t: t.Qwen2ForCausalLM(t.Qwen2Config(**grouped)),
        "bert": lambda t: t.BertModel(t.BertConfig(**sizes)),
    }[name](transformers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "llama tied, wide heads", "llama 3.1", "mistral",
                                  "qwen2", "bert"])
def test_we_open_theirs(tmp_path, name, dtype):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    transformers = pytest.importorskip("transformers", reason="compares with transformers")
    torch.manual_seed(0)
    theirs = theirs_of(name, transformers)
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.2 * torch.randn_like(p))
    theirs.to(getattr(torch, dtype)).save_pretrained(
        tmp_path, max_shard_size=10**9 if dtype == "float32" else 20_000)
    theirs = type(theirs).from_pretrained(tmp_path, dtype=torch.float32).eval()
    model = from_pretrained(tmp_path)
    index = np.random.default_rng(0).integers(0, 50, (3, 64))
    with torch.no_grad():
        expected = theirs(torch.tensor(index))[0].numpy()
    np.testing.assert_allclose(output(model, index), expected, rtol=3e-4, atol=3e-4)
