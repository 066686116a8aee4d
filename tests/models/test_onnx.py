"""ONNX files: what onnxruntime computes from them is what the model computes."""

import re

import numpy as np
import pytest

import minidl as md
from minidl.models import BERT, GPT, Llama

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
MODELS = {
    "gpt": lambda: GPT.from_preset("tiny"),
    "gpt without biases": lambda: GPT.from_preset("tiny", bias=False),
    "llama": lambda: Llama.from_preset("tiny"),
    "llama with all its options": lambda: Llama.from_preset(
        "tiny", tied=False, heads=4, kv_heads=2, head_dim=24, qkv_bias=True, rope_scaling=LLAMA3),
    "bert": lambda: BERT.from_preset("tiny"),
}


def random_model(name):
    md.manual_seed(0)
    model = MODELS[name]()
    with md.no_grad():
        for p in model.parameters():     # norms and biases too, or a swap would go unseen
            p.add_(md.randn(*p.shape) * 0.1)
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_computes_the_same(tmp_path, name):
    onnx = pytest.importorskip("onnx", reason="needs the extra `onnx`")
    runtime = pytest.importorskip("onnxruntime", reason="compares with onnxruntime")
    model, path = random_model(name), tmp_path / "a.onnx"
    model.save_onnx(path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.ir_version == 10 and [(o.domain, o.version) for o in proto.opset_import] == [
        ("", 20)]
    kept = {tensor.name for tensor in proto.graph.initializer}
    assert kept >= {n for n, _ in model.named_parameters()}, "every weight once, under its name"
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (3, 17), (2, 64)):
        index = rng.integers(0, 256, shape)
        given, more = {"input_ids": index}, ()
        if name == "bert":
            mask = (np.arange(shape[1]) < rng.integers(1, shape[1] + 1, (shape[0], 1)))
            given |= {"attention_mask": mask.astype(np.int64),
                      "token_type_ids": rng.integers(0, 2, shape)}
            more = [md.tensor(given[n]) for n in ("attention_mask", "token_type_ids")]
        with md.no_grad():
            expected = model(md.tensor(index), *more).numpy()
        found, = session.run(None, given)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def test_a_path_that_is_none_and_a_model_that_is_too_large(tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="needs the extra `onnx`")
    model = GPT.from_preset("tiny")
    with pytest.raises(ValueError, match=re.escape("save_onnx: expected a .onnx file")):
        model.save_onnx(tmp_path / "model.json")
    monkeypatch.setattr("minidl.models.onnx.LIMIT", 1000)
    with pytest.raises(ValueError, match="and a file holds 1,000"):
        model.save_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'minidl[onnx]'")):
        GPT.from_preset("tiny").save_onnx(tmp_path / "model.onnx")
