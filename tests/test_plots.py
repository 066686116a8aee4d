"""Pictures: what is drawn is right, and the files are what their names say."""

import sys

import numpy as np
import pytest

import minidl as md
from minidl import plots


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [f'{{"step": {n}, "loss": {5 / n}}}\n' for n in range(1, 100)]
    path.write_text("".join(lines) + '{"step": 99, "val_loss": 0.1}\n')
    return path


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_loss_curves(log, tmp_path, name, start):
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    plots.loss_curve({"one": log, "two": log}, tmp_path / name, "a title")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_what_cannot_be_drawn(log, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    with pytest.raises(ValueError, match=r"should end in \.png"):
        plots.loss_curve(log, tmp_path / "a.txt")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match="there is nothing in"):
        plots.loss_curve(tmp_path / "empty.jsonl", tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"minidl\[plot\]"):
        plots.loss_curve(log, tmp_path / "a.png")


@pytest.mark.parametrize("kind", ["GPT", "Llama"])
def test_attention_weights_are_those_of_the_model(kind):
    """With the weights found, each layer's output can be computed again."""
    md.manual_seed(0)
    model = getattr(md.models, kind).from_preset("tiny", dropout=0.1)
    layer = model.blocks[1].attn
    seen = []
    layer.register_forward_hook(lambda module, args, output: seen.append((args[0], output)))
    found = plots.attention_weights(model, [5, 3, 8, 1])
    assert len(found) == 2 and found[1].shape == (layer.num_heads, 4, 4) and model.training
    np.testing.assert_allclose(found[1].sum(-1), 1, rtol=1e-5)
    assert not np.triu(found[1], 1).any()
    with md.no_grad():
        x, output = seen[0]
        v = md.repeat_interleave(layer._project(x, None)[2], layer.num_heads // layer.num_kv_heads,
                                 1)
        mixed = (md.from_numpy(found[1]) @ v[0]).transpose(0, 1).reshape(1, 4, -1)
        np.testing.assert_allclose(layer.proj(mixed).numpy(), output.numpy(), atol=1e-5)


def test_a_layer_that_is_not_there(tmp_path):
    model = md.models.GPT.from_preset("tiny")
    with pytest.raises(ValueError, match="layer 2 of a model of 2 layers"):
        plots.attention_map(model, md.text.ByteTokenizer(), "abc", tmp_path / "a.png", layer=2)


def test_sparklines():
    assert plots.sparkline([3, 3, 3]) == "▁▁▁"
    assert plots.sparkline(list(range(100, 0, -1)), 8) == "█▇▆▅▄▃▂▁"
