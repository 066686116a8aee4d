"""Every example runs, in a shortened form, and prints what it promises."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SHORT = {
    "xor_mlp": ([], "a  b   p(a xor b)\n 0  0   0.0"),
    "digits_mlp": (["--epochs", "5"], "test accuracy"),
    "custom_op": (["--steps", "20"], "gradcheck of SquaredReLU: True"),
    "char_gpt": (["--steps", "4", "--context", "16", "--sample", "20"], "a sample:"),
    "bpe_llama": (["--steps", "2", "--vocab", "300", "--text", str(EXAMPLES)], "a sample:"),
    "addition_transformer": (["--steps", "4", "--test", "50"], "pairs it never saw"),
    "encoder_classifier": (["--steps", "3", "--files", "8"], "of the test lines are right"),
    "finetune_lora": (["--steps", "3"], "adapters merged:"),
    "generate_stream": (["--steps", "3", "--tokens", "12"], "prompts of different lengths"),
    "attention_map": (["--steps", "3", "--ascii"], "layer 2, head 2:"),
}
PUBLISHED = {"chat_smollm2", "sentence_embeddings"}     # run by tests/models/real_weights.py


def run(monkeypatch, capsys, name, *arguments):
    """What an example prints."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_all_are_here():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SHORT, *PUBLISHED}


@pytest.mark.parametrize("name", SHORT)
def test_example(monkeypatch, capsys, tmp_path, name):
    if name == "bpe_llama":
        pytest.importorskip("tokenizers", reason="needs the extra `text`")
    monkeypatch.chdir(tmp_path)
    arguments, promised = SHORT[name]
    assert promised in run(monkeypatch, capsys, name, *arguments)
    assert not list(tmp_path.iterdir())             # files only where they were asked for


def test_the_readme_lists_them_all():
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"({name}.py)" in text for name in (*SHORT, *PUBLISHED))


def test_char_gpt_is_short():
    assert len((EXAMPLES / "char_gpt.py").read_text().splitlines()) < 150


def test_attention_map_draws(monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    path = tmp_path / "map.svg"
    run(monkeypatch, capsys, "attention_map", "--steps", "1", "--output", str(path))
    assert path.read_text().count("layer") >= 4


def test_attention_weights_are_the_models(monkeypatch):
    """What the example computes beside the kernel gives the kernel's own output."""
    import numpy as np

    import minidl as md

    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = runpy.run_path(str(EXAMPLES / "attention_map.py"))
    model = md.models.GPT.from_preset("tiny")
    seen = []
    block = model.blocks[0].attn
    hook = block.register_forward_hook(lambda module, args, output: seen.append((*args, output)))
    weights = example["attention_weights"](model, np.arange(12)[None])[0]
    hook.remove()
    (x, output), = seen
    v = block.qkv(x).chunk(3, -1)[2].reshape(12, 2, 32).transpose(0, 1)
    joined = (md.from_numpy(weights) @ v).transpose(0, 1).reshape(1, 12, 64)
    np.testing.assert_allclose(block.proj(joined).detach().numpy(), output.detach().numpy(),
                               rtol=1e-4, atol=1e-6)
