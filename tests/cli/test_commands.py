"""The commands as a user types them: what they print, what they leave, their exit codes."""

import json
import subprocess
import sys

import pytest

import minidl as md
from minidl.cli import main
from minidl.cli.settings import merge, read_config, write_config

from ..conftest import environment

TEXT = "".join(f"The number {n} comes before {n + 1}.\n" for n in range(400))
SMALL = ["--preset", "tiny", "--layers", "1", "--width", "16", "--context", "16", "--steps", "6",
         "--eval-every", "3", "--eval-batches", "2"]


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    return "text.txt"


@pytest.fixture
def trained(text):
    assert main(["train", "--text", text, "--out", "run", "--quiet", "--no-plot", *SMALL]) == 0
    return "run"


def test_train_with_a_text(text, capsys):
    assert main(["train", "--text", text, "--no-plot", "--prompt", "The ", *SMALL]) == 0
    out, err = capsys.readouterr()
    assert "text.txt: 12,982 characters, 12,982 tokens of 281" in out
    assert "1 layers, 2 heads, width 16, context 16" in out
    assert "done after 6 steps" in out and "best validation loss" in out
    assert out.count("\nThe ") == 3 and "minidl generate runs/gpt-tiny-1" in out
    assert "step 1/6: loss" in err and "step 3: validation loss" in err
    records = md.train.read_log("runs/gpt-tiny-1/log.jsonl")
    assert [r["step"] for r in records] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert read_config("runs/gpt-tiny-1")["width"] == 16
    assert main(["train", "--text", text, "--quiet", "--no-plot", *SMALL]) == 0
    assert "done after 6 steps" in capsys.readouterr().out
    again = md.train.read_log("runs/gpt-tiny-2/log.jsonl")
    assert [r.get("loss") for r in again] == [r.get("loss") for r in records]


def test_the_plot_is_drawn_where_it_can_be(text, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    assert main(["train", "--text", text, "--out", "run", "--quiet", "--plot", *SMALL]) == 0
    assert "loss curve: run/loss.png" in capsys.readouterr().out
    with open("run/loss.png", "rb") as file:
        assert file.read(4) == b"\x89PNG"


def test_without_matplotlib_only_asking_for_a_plot_fails(text, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["train", "--text", text, "--out", "a", "--quiet", *SMALL]) == 0
    assert "loss curve" not in capsys.readouterr().out
    assert main(["train", "--text", text, "--out", "b", "--plot", *SMALL]) == 1
    assert "minidl[plot]" in capsys.readouterr().err


def test_resume_goes_on_and_may_be_extended(trained, capsys):
    assert main(["train", "--resume", trained, "--quiet"]) == 0
    assert "all 6 steps of this run are done; --steps N" in capsys.readouterr().out
    assert main(["train", "--resume", trained, "--steps", "9", "--no-plot"]) == 0
    out = capsys.readouterr().out
    assert "run      run, going on after step 6" in out and "done after 9 steps" in out
    records = md.train.read_log("run/log.jsonl")
    rates = [r["lr"] for r in records if "lr" in r]
    assert records[-1]["step"] == 9 and rates[5] < rates[6]  # the schedule is stretched


def test_a_run_resumes_from_another_folder(trained, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["train", "--resume", "../run", "--steps", "7", "--quiet", "--no-plot"]) == 0


def test_generate(trained, capsys):
    capsys.readouterr()
    assert main(["generate", trained, "--prompt", "The ", "--seed", "1"]) == 0
    whole = capsys.readouterr().out
    assert whole.startswith("The ") and len(whole) > 200
    assert main(["generate", trained, "--prompt", "The ", "--seed", "1", "--stream"]) == 0
    assert capsys.readouterr().out == whole
    assert main(["generate", trained, "--samples", "2", "--max-new-tokens", "5"]) == 0
    assert "-" * 72 in capsys.readouterr().out
    file = md.checkpoint.CheckpointManager("run/checkpoints").latest()
    assert main(["generate", file, "--temperature", "0", "--max-new-tokens", "3"]) == 0


def test_an_attention_map_of_the_prompt(trained, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    for name, start in (("map.png", b"\x89PNG"), ("map.svg", b"<?xml")):
        assert main(["generate", trained, "--prompt", "The n", "--attention", name,
                     "--max-new-tokens", "1"]) == 0
        with open(name, "rb") as file:
            assert file.read(len(start)) == start


def test_eval(trained, text, capsys):
    capsys.readouterr()
    assert main(["eval", trained]) == 0
    own = capsys.readouterr().out
    assert "perplexity" in own and "tokens             1,298" in own
    with open("other.txt", "w") as file:
        file.write("Ünknown characters are bytes. " * 9)
    assert main(["eval", trained, "--text", "other.txt"]) == 0
    assert capsys.readouterr().out != own


def test_info(trained, capsys):
    capsys.readouterr()
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert "instruction set" in out and "device cpu: the host's cores" in out
    assert "is not available" in out
    assert main(["info", trained]) == 0
    out = capsys.readouterr().out
    assert "validation loss" in out and "token.weight" in out and '"width": 16' in out
    md.save({"w": md.ones(2)}, "other.safetensors")
    assert main(["info", "other.safetensors"]) == 0
    assert "2 numbers in 1 tensors" in capsys.readouterr().out


@pytest.fixture
def only_the_cpu(monkeypatch):
    """Other devices have tests of their own; compiling their kernels takes a while."""
    monkeypatch.setattr(md, "devices", lambda: md.ops.devices()[:1])


def test_doctor(capsys, only_the_cpu):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "blas" in out and "all tests passed" in out


def test_doctor_finds_what_is_wrong(capsys, monkeypatch, only_the_cpu):
    from minidl.cli import doctor

    loaded = [{"user_api": "openmp", "internal_api": "openmp", "num_threads": 2,
               "filepath": f"/{name}.so", "version": None} for name in ("libgomp", "libiomp5")]
    monkeypatch.setattr(doctor, "_libraries", lambda: loaded)
    monkeypatch.setitem(doctor.TESTS, "softmax", lambda device: doctor._close(md.ones(2), 0.0))
    md.set_num_threads(64)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "2 OpenMP runtimes are loaded" in out and "64 threads on" in out
    assert "softmax: FAILED, ArithmeticError: off by 1" in out and "1 tests failed" in out


def test_the_bench_is_for_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("minidl.cli.bench.__file__", str(tmp_path / "a" / "b" / "c" / "bench.py"))
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "--list"]) == 1
    assert "not of the installation" in capsys.readouterr().err


def test_help_needs_little(python):
    loaded = python("""
import sys
from minidl.cli import main
try:
    main(["train", "--help"])
except SystemExit as end:
    assert end.code == 0
print(*sys.modules, file=sys.stderr)
heavy = {"minidl.train", "minidl.models", "minidl.data", "minidl.text", "matplotlib", "tqdm",
         "minidl.cli.train", "tokenizers", "json.tool", "threadpoolctl"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
""")
    assert "--byte-fallback" in loaded


def test_every_option_has_help(capsys):
    from minidl.cli.main import parser

    for command in parser()._subparsers._group_actions[0].choices.values():
        for action in command._actions:
            assert action.help, action


def test_settings_rank_flags_over_file_over_preset(tmp_path):
    settings = merge({"preset": "nano", "lr": 0.5, "steps": 900}, {"lr": 0.25})
    assert (settings.lr, settings.steps, settings.eval_every) == (0.25, 900, 300)
    place = tmp_path / "config.toml"
    settings.text = ['a "quoted" näme\\', "b"]
    place.write_text(write_config(settings), encoding="utf-8")
    assert merge(read_config(str(place))) == settings


def test_nanogpts_recipe(text, capsys):
    assert main(["train", "--preset", "nanogpt-cpu", "--text", text, "--steps", "1", "--out", "run",
                 "--quiet", "--no-plot", "--eval-batches", "1"]) == 0
    extra = md.load(md.checkpoint.CheckpointManager("run/checkpoints").latest())["extra"]
    s, m = extra["settings"], extra["model"]
    assert (m["layers"], m["heads"], m["width"], m["context"], m["dropout"]) == (4, 4, 128, 64, 0)
    assert m["vocab_size"] == len(set(TEXT)) and s["tokenizer"] == "char"
    assert (s["batch_size"], s["lr"], s["min_lr"], s["beta2"]) == (12, 1e-3, 1e-4, 0.99)
    assert (s["weight_decay"], s["clip"]) == (0.1, 1.0)
    recipe = merge({"preset": "nanogpt-cpu"})
    assert (recipe.steps, recipe.warmup) == (2000, 100)


@pytest.mark.parametrize("options", [
    ["--model", "llama"], ["--optimizer", "muon"], ["--optimizer", "sgd", "--clip", "0"],
    ["--optimizer", "lion", "--accumulate", "2"], ["--tokenizer", "byte", "--val-share", "0"],
    ["--optimizer", "adam", "--dropout", "0.1", "--threads", "1", "--patience", "1"],
], ids=" ".join)
def test_other_settings_train(text, options):
    assert main(["train", "--text", text, "--out", "run", "--quiet", "--no-plot", *SMALL,
                 *options]) == 0
    losses = [r["loss"] for r in md.train.read_log("run/log.jsonl") if "loss" in r]
    assert losses[-1] < losses[0]


def test_bpe_trains_and_comes_back_from_the_checkpoint(text, capsys):
    pytest.importorskip("tokenizers", reason="needs the extra `text`")
    assert main(["train", "--text", text, "--out", "run", "--tokenizer", "bpe:300", "--quiet",
                 "--no-plot", *SMALL]) == 0
    assert main(["generate", "run", "--prompt", "The number", "--max-new-tokens", "4"]) == 0
    assert "The number" in capsys.readouterr().out


def test_ctrl_c_saves_and_exits_with_130(text, tmp_path):
    """In a process of its own, interrupted once its first steps are in the log."""
    command = [sys.executable, "-m", "minidl", "train", "--text", text, "--out", "run", *SMALL,
               "--steps", "1000000", "--eval-every", "1000000"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    while "step" not in (line := process.stderr.readline()):
        assert line, process.stdout.read()
    process.send_signal(2)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    assert "stopping after this step" in err and "go on with: minidl train --resume run" in out
    step = md.train.read_log("run/log.jsonl")[-1]["step"]
    assert f"interrupted after step {step}" in out
    (saved,) = md.checkpoint.CheckpointManager("run/checkpoints").checkpoints()
    assert saved.step == step


def test_what_verify_resume_reads_is_json_lines(trained):
    state = md.checkpoint.CheckpointManager("run/checkpoints").load()
    lines = state["log"].tobytes().decode().splitlines()
    with open("run/log.jsonl") as file:
        assert [json.loads(line) for line in lines] == [json.loads(line) for line in file]
