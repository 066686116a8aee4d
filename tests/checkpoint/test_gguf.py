"""GGUF files: the gguf package reads ours, and we read its own."""

import random
import struct

import numpy as np
import pytest

import minidl as md
from minidl.checkpoint import load_gguf, quants, save_gguf
from minidl.errors import CheckpointError

CONFIG = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64, "vocab_size": 50,
          "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
          "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "max_position_embeddings": 128}


def state(bias=False):
    md.manual_seed(0)
    layer, found = "model.layers.0.", {"model.embed_tokens.weight": md.randn(50, 64)}
    for name, rows, columns in [("self_attn.q_proj", 64, 64), ("self_attn.k_proj", 32, 64),
                                ("self_attn.v_proj", 32, 64), ("self_attn.o_proj", 64, 64),
                                ("mlp.gate_proj", 96, 64), ("mlp.up_proj", 96, 64),
                                ("mlp.down_proj", 64, 96)]:
        found[f"{layer}{name}.weight"] = md.randn(rows, columns)
        if bias and name.startswith("self_attn") and "o_proj" not in name:
            found[f"{layer}{name}.bias"] = md.randn(rows)
    for name in ("input_layernorm", "post_attention_layernorm"):
        found[f"{layer}{name}.weight"] = md.randn(64)
    return found | {"model.norm.weight": md.randn(64)}


@pytest.mark.parametrize("dtype, close", [("F16", 1e-3), ("Q8_0", 2e-2)])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_round_trip(tmp_path, dtype, close, kind):
    given, config = state(bias=kind == "qwen2"), CONFIG | {"model_type": kind}
    tokens = {"tokenizer.ggml.tokens": ["a", "é"], "tokenizer.ggml.scores": [0.5, 1.0],
              "general.name": "test", "flag": True, "n": -3}
    save_gguf(given, config, tmp_path / "a.gguf", dtype=dtype, values=tokens)
    found = load_gguf(tmp_path / "a.gguf")
    assert found.config == config | {"tie_word_embeddings": True}
    assert found.values.items() >= tokens.items()
    assert set(found.state) == set(given)
    for name, tensor in given.items():
        assert found.state[name].dtype is md.float32 and found.state[name].shape == tensor.shape
        assert (found.state[name] - tensor).abs().max() < close * tensor.abs().max()
        assert tensor.ndim > 1 or (found.state[name] == tensor).all(), "vectors stay float32"


@pytest.mark.parametrize("name", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_the_numbers_of_the_gguf_package(name):
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[name]
    assert quants.NUMBERS[name] == kind.value
    values = np.random.default_rng(0).standard_normal((40, 64), np.float32)
    values[0] = 0
    values[1, :32] = np.linspace(-1, 1, 32)
    values[2, :8] = [127, 0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 126.5]
    values[2, 8:32] = 0
    data = gguf.quants.quantize(values, kind)
    ours = quants.decode(np.ascontiguousarray(data).reshape(-1).view(np.uint8), name)
    assert (ours.reshape(40, 64) == gguf.quants.dequantize(data, kind)).all()
    if name in ("F32", "F16", "Q8_0"):
        assert quants.encode(values, name).tobytes() == data.tobytes()


def rotate(weights, heads):
    """How llama.cpp's converter reorders q and k (permute in convert_hf_to_gguf.py)."""
    return (weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
            .swapaxes(1, 2).reshape(weights.shape))


@pytest.mark.parametrize("quantization", ["F32", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_a_file_of_the_gguf_package(tmp_path, quantization):
    gguf = pytest.importorskip("gguf")
    given = {name: tensor.numpy() for name, tensor in state().items()}
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_block_count(1)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["x", "y"])
    kind, expected = gguf.GGMLQuantizationType[quantization], {}
    prefix = "model.layers.0."
    names = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight":
             "output_norm.weight", prefix + "self_attn.q_proj.weight": "blk.0.attn_q.weight",
             prefix + "self_attn.k_proj.weight": "blk.0.attn_k.weight",
             prefix + "mlp.down_proj.weight": "blk.0.ffn_down.weight"}
    for ours, theirs in names.items():
        array = given[ours]
        heads = {"q": 4, "k": 2}.get(ours[-13:-12] if "_proj" in ours else "", 0)
        array = rotate(array, heads) if heads else array
        if array.ndim == 1:
            writer.add_tensor(theirs, array)
            expected[ours] = array
            continue
        data = gguf.quants.quantize(array, kind)
        writer.add_tensor(theirs, data, raw_dtype=kind)
        exact = gguf.quants.dequantize(data, kind)
        if heads:
            half = exact.shape[0] // heads // 2
            exact = exact.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(exact.shape)
        expected[ours] = exact
    writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = load_gguf(tmp_path / "a.gguf")
    assert set(found.state) == set(expected)
    for name, array in expected.items():
        assert (found.state[name].array == array).all(), name
    assert found.config["rms_norm_eps"] == 1e-5 and found.config["num_attention_heads"] == 4
    assert found.values["tokenizer.ggml.tokens"] == ["x", "y"]


@pytest.mark.parametrize("dtype", ["F16", "Q8_0"])
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_gguf_package_reads_ours(tmp_path, dtype, kind):
    gguf = pytest.importorskip("gguf")
    given = state()
    save_gguf(given, CONFIG | {"model_type": kind}, tmp_path / "a.gguf", dtype=dtype,
              values={"tokenizer.ggml.tokens": ["a", "b"]})
    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    assert reader.get_field("general.architecture").contents() == kind
    assert reader.get_field(f"{kind}.attention.head_count_kv").contents() == 2
    assert reader.get_field("tokenizer.ggml.tokens").contents() == ["a", "b"]
    arrays = {t.name: t for t in reader.tensors}
    assert len(arrays) == len(given)
    q = arrays["blk.0.attn_q.weight"]
    expected = given["model.layers.0.self_attn.q_proj.weight"].numpy()
    expected = rotate(expected, 4) if kind == "llama" else expected
    assert q.tensor_type == gguf.GGMLQuantizationType[dtype]
    assert np.abs(gguf.quants.dequantize(q.data, q.tensor_type) - expected).max() < 0.05
    assert arrays["output_norm.weight"].tensor_type == gguf.GGMLQuantizationType.F32


def string(text):
    return struct.pack("<Q", len(text)) + text


def file(values=b"", value_count=0, arrays=b"", array_count=0, data=b"", version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, array_count, value_count) + values + arrays
    return head.ljust(-(-len(head) // 32) * 32, b"\0") + data


def array(name=b"a", shape=(32,), kind=0, offset=0):
    return string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


TWICE = string(b"a") + struct.pack("<IB", 0, 1)
ARCHITECTURE = string(b"general.architecture") + struct.pack("<I", 8) + string(b"llama")
FILES = {
    "short": (b"GGUF", "4 bytes, too few"),
    "not one": (b"x" * 100, "not a GGUF file"),
    "old": (file(version=1), "version 1 of the GGUF format"),
    "many values": (file(value_count=2**60), "ends in the middle"),
    "many tensors": (file(array_count=2**60), "ends in the middle"),
    "long name": (file(struct.pack("<Q", 2**63), 1), "ends in the middle"),
    "bad text": (file(string(b"\xff") + bytes(64), 1), "not UTF-8"),
    "unknown type": (file(string(b"a") + struct.pack("<I", 77), 1), "unknown type 77"),
    "endless list": (file(string(b"a") + struct.pack("<IIQ", 9, 0, 2**62), 1), "ends in the"),
    "endless strings": (file(string(b"a") + struct.pack("<IIQ", 9, 8, 2**50), 1), "claims"),
    "list of lists": (file(string(b"a") + struct.pack("<IIQ", 9, 9, 3), 1), "unknown type 9"),
    "value twice": (file(TWICE * 2, 2), "value 'a' twice"),
    "alignment": (file(string(b"general.alignment") + struct.pack("<II", 4, 3), 1), "power of two"),
    "beyond the end": (file(arrays=array(shape=(2**40,)), array_count=1), "leaves the file"),
    "overflow": (file(arrays=array(shape=(2**62, 2**62)), array_count=1), "more than any memory"),
    "offset": (file(arrays=array(offset=2**63), array_count=1, data=bytes(128)), "leaves the file"),
    "overlap": (file(arrays=array() + array(b"b"), array_count=2, data=bytes(128)), "overlaps"),
    "tensor twice": (file(arrays=array() + array(offset=128), array_count=2, data=bytes(256)),
                     "same name"),
    "dimensions": (file(arrays=array(shape=(1,) * 5), array_count=1), "5 dimensions"),
    "kind": (file(arrays=array(kind=12), array_count=1), "ggml's type 12; minidl reads F32"),
    "rows": (file(arrays=array(shape=(31,), kind=8), array_count=1), "rows of no multiple of 32"),
    "heads": (file(ARCHITECTURE, 1), "how many attention heads"),
    "architecture": (file(), "architecture is None; minidl reads llama and qwen2"),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files(tmp_path, name):
    content, message = FILES[name]
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_gguf(tmp_path / "a.gguf")
    assert str(caught.value).startswith(str(tmp_path / "a.gguf"))


def test_mutated_files(tmp_path):
    path, rng = tmp_path / "a.gguf", random.Random(0)
    save_gguf(state(), CONFIG, path, dtype="Q8_0", values={"tokens": ["a", "b"], "n": [1, 2]})
    whole, refused = path.read_bytes(), 0
    head = whole.index(b"blk.0.ffn_down") + 200
    for _ in range(600):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 2, 8])):
            at = rng.randrange(head)
            data[at:at + 1] = rng.choice([bytes([rng.randrange(256)]), b"\xff", b"\0"])
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)):]
        path.write_bytes(data)
        try:
            load_gguf(path)
        except CheckpointError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize("call, message", [
    (lambda p: load_gguf(p / "a.bin"), "load_gguf: expected a .gguf file"),
    (lambda p: save_gguf({}, CONFIG, p / "a.gguf", dtype="Q4_0"), '"F16" or "Q8_0"'),
    (lambda p: save_gguf({}, {"model_type": "bert"}, p / "a.gguf"), "not of the Llama family"),
    (lambda p: save_gguf({}, {}, p / "a.gguf"), "how many attention heads"),
    (lambda p: save_gguf({"x": md.ones(1)}, CONFIG, p / "a.gguf"), "x is not a weight of"),
    (lambda p: save_gguf({}, CONFIG, p / "a.gguf", values={"x": None}), "no number, string"),
    (lambda p: md.load(p / "a.gguf"), "load_gguf and save_gguf are for .gguf files"),
])
def test_messages(tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)
