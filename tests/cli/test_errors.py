"""Wrong options and bad input: a sentence and the right exit code, never a traceback."""

import errno
import os
import sys

import pytest

import minidl as md
from minidl.cli import main

TEXT = "abcdefgh\n" * 300
SMALL = ["--preset", "tiny", "--layers", "1", "--width", "16", "--context", "16", "--steps", "4",
         "--quiet", "--no-plot"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("short")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    return tmp_path


def refused(capsys, code, *arguments):
    """What a command that fails with this code says on standard error."""
    try:
        found = main(list(arguments))
    except SystemExit as end:  # argparse's own
        found = end.code
    said = capsys.readouterr().err
    assert found == code, said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(("options", "code", "sentence"), [
    (["--text", "missing.txt"], 1, "missing.txt is not there"),
    (["--text", "empty.txt"], 1, "there is no text in empty.txt"),
    (["--text", "short.txt"], 1, "the text is too short: 5 tokens to train on and 0 to validate"),
    (["--text", "binary.txt"], 1, "binary.txt is not UTF-8"),
    (["--text", "text.txt", "--preset", "huge"], 2, "invalid choice: 'huge'"),
    (["--text", "text.txt", "--preste", "tiny"], 2, "unrecognized arguments: --preste"),
    (["--text", "text.txt", "--steps", "0"], 2, "--steps must be at least 1, got 0"),
    (["--text", "text.txt", "--steps", "many"], 2, "invalid int value: 'many'"),
    (["--text", "text.txt", "--lr", "0"], 2, "--lr must be above 0"),
    (["--text", "text.txt", "--dropout", "1"], 2, "--dropout must be at least 0 and below 1"),
    (["--text", "text.txt", "--heads", "3"], 2, "must be divisible by num_heads"),
    (["--text", "text.txt", "--tokenizer", "words"], 2, "--tokenizer must be char, byte"),
    (["--text", "text.txt", "--tokenizer", "bpe:many"], 2, "needs a number of tokens"),
    (["--text", "text.txt", "--device", "cuda:7"], 1, "'cuda:7' is not available"),
    (["--model", "llama", "--preset", "nanogpt-cpu"], 2, "Llama has no preset nanogpt-cpu"),
    (["--config", "missing.toml"], 1, "missing.toml: No such file"),
    (["--resume", "nowhere"], 1, "there is no run to resume in nowhere"),
    (["--resume"], 1, "there is no run in runs/"),
], ids=lambda x: " ".join(x) if isinstance(x, list) else None)
def test_train_says_what_is_wrong(here, capsys, options, code, sentence):
    small = [] if "--resume" in options else SMALL
    if "--preset" in options:
        small = SMALL[2:]
    assert sentence in refused(capsys, code, "train", *small, *options)
    assert not os.path.exists("runs") or not os.listdir("runs"), "an empty run is left behind"


@pytest.mark.parametrize(("content", "sentence"), [
    ("learning_rate = 1", "there is no setting 'learning_rate'"),
    ("batchsize = 1", "did you mean batch_size?"),
    ("steps = 'many'", "steps must be a int, got 'many'"),
    ("steps = true", "steps must be a int, got True"),
    ("model = 'rnn'", "model must be one of gpt, llama, got 'rnn'"),
    ("text = [1]", "text must be a str, got [1]"),
    ("steps = ", "config.toml is not TOML"),
])
def test_a_config_file_says_what_is_wrong(here, capsys, content, sentence):
    (here / "config.toml").write_text(content)
    assert sentence in refused(capsys, 2, "train", "--config", "config.toml")


def test_without_a_toml_reader_a_config_file_says_so(here, capsys, monkeypatch):
    (here / "config.toml").write_text("steps = 3")
    for name in ("tomllib", "tomli"):  # as on Python 3.10
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install tomli" in refused(capsys, 1, "train", "--config", "config.toml")


def test_a_folder_with_a_run_is_not_written_to(here, capsys):
    train = ["train", "--text", "text.txt", "--out", "run", *SMALL]
    assert main(train) == 0
    before = (here / "run" / "log.jsonl").read_bytes()
    assert "run already holds a run; --resume run" in refused(capsys, 2, *train)
    assert (here / "run" / "log.jsonl").read_bytes() == before
    said = refused(capsys, 2, "train", "--resume", "run", "--width", "32", "--lr", "1")
    assert "a resumed run keeps its --width, --lr" in said
    assert "no --config" in refused(capsys, 2, "train", "--resume", "run", "--out", "x")
    (here / "text.txt").write_text(TEXT + "more")
    assert "the text has changed" in refused(capsys, 1, "train", "--resume", "run")


@pytest.mark.parametrize("command", ["generate", "eval", "info"])
def test_wrong_checkpoints(here, capsys, command):
    md.save({"w": md.ones(3)}, "other.safetensors")
    (here / "torn.safetensors").write_bytes(b"\x10" * 30)
    (here / "empty").mkdir()
    other = {"settings": {"colour": 1}, "model": {}, "tokenizer": {}}
    progress = {"tokens": 0, "seconds": 0.0, "val_loss": 0.0, "best": 0.0, "best_step": 0}
    md.save({"extra": other, "step": 1, "progress": progress, "format": ""}, "newer.safetensors")
    assert "nowhere is not there" in refused(capsys, 1, command, "nowhere")
    assert "no checkpoint in empty" in refused(capsys, 1, command, "empty")
    assert "torn.safetensors" in refused(capsys, 1, command, "torn.safetensors")
    if command != "info":
        assert "another version" in refused(capsys, 1, command, "newer.safetensors")
        assert "not written by `minidl train`" in refused(capsys, 1, command, "other.safetensors")
    assert "should end in" in refused(capsys, 1, command, "text.txt") or command == "info"


def test_a_prompt_the_vocabulary_does_not_have(here, capsys):
    assert main(["train", "--text", "text.txt", "--out", "run", "--no-byte-fallback", *SMALL]) == 0
    assert "'é' is not in its vocabulary" in refused(capsys, 1, "generate", "run", "--prompt", "é")
    assert "temperature" in refused(capsys, 1, "generate", "run", "--temperature", "-1")
    assert "--stream" in refused(capsys, 2, "generate", "run", "--stream", "--samples", "2")
    assert "a prompt needs at least one token" in refused(capsys, 1, "generate", "run", "--prompt",
                                                          "")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_no_permission(here, capsys):
    (here / "closed").mkdir(mode=0o500)
    said = refused(capsys, 1, "train", "--text", "text.txt", "--out", "closed/run", *SMALL)
    assert "closed/run: Permission denied" in said


def test_a_full_disk_keeps_the_last_checkpoint(here, capsys, monkeypatch):
    assert main(["train", "--text", "text.txt", "--out", "run", *SMALL]) == 0

    def full(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("minidl.checkpoint.atomic._sync", full)
    resume = ["train", "--resume", "run", "--quiet", "--no-plot", "--steps", "6"]
    assert "disk is full" in refused(capsys, 1, *resume)
    monkeypatch.undo()
    os.chdir(here)
    assert md.checkpoint.CheckpointManager("run/checkpoints").load()["step"] == 4
    assert main(resume) == 0


def test_an_unknown_command(capsys):
    assert "invalid choice: 'trian'" in refused(capsys, 2, "trian")
    assert "COMMAND" in refused(capsys, 2)
