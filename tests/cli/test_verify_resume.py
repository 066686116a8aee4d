"""`minidl verify-resume`: a run killed with SIGKILL and resumed has the bits of a straight one."""

import numpy as np
import pytest

import minidl as md
from minidl.cli import main, verify_resume
from minidl.cli.verify_resume import compare

CONFIG = """
text = ["{text}"]
model = "{model}"
preset = "tiny"
layers = 1
width = 16
context = 16
batch-size = 4
dropout = 0.1
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("".join(f"{n} and {n * n}\n" for n in range(500)))

    def write(model):
        (tmp_path / "config.toml").write_text(CONFIG.format(text="text.txt", model=model))
        return "config.toml"

    return write


@pytest.mark.parametrize("model", ["gpt", "llama"])
def test_a_killed_run_resumes_bit_for_bit(config, model, tmp_path, capsys):
    assert main(["verify-resume", config(model), "--keep", "runs"]) == 0
    assert "equal: 40 steps in one go, and 25 steps killed" in capsys.readouterr().out
    straight, resumed = (md.train.read_log(f"runs/{name}/log.jsonl")
                         for name in ("straight", "resumed"))
    for log in (straight, resumed):
        assert [r["step"] for r in log if "loss" in r] == list(range(1, 41))
        assert [r["step"] for r in log if "val_loss" in r] == [10, 20, 30, 40]
        for record in log:
            del record["seconds"]
    assert straight == resumed


def test_a_difference_is_found_and_named(config, capsys, monkeypatch):
    """Without the optimizer's state, a resumed run is another run."""
    real = verify_resume._train

    def forgetful(arguments, kill=None):
        real(arguments, kill)
        if kill is not None:
            manager = md.checkpoint.CheckpointManager(f"{arguments[-1]}/checkpoints")
            state = manager.load()
            state["optimizer"]["state"] = {}
            manager.save(state, state["step"])

    monkeypatch.setattr(verify_resume, "_train", forgetful)
    assert main(["verify-resume", config("gpt"), "--steps", "8"]) == 1
    out = capsys.readouterr().out
    assert "different: at step 6 the loss was" in out


def test_states_are_compared_bit_by_bit():
    def state(**changes):
        return {"log": np.frombuffer(b'{"step": 1, "loss": 2.0, "seconds": 1.0}\n', np.uint8),
                "model": {"w": md.tensor([1.0, 0.0])}, "progress": {"seconds": 1.0, "best": 2.0},
                **changes}

    assert compare(state(), state(progress={"seconds": 9.0, "best": 2.0})) is None
    assert compare(state(), state(model={"w": md.tensor([1.0, -0.0])})).startswith(
        "model.w differs")
    assert "1 of 2 numbers, by up to 0.5" in compare(state(),
                                                     state(model={"w": md.tensor([1.5, 0.0])}))
    assert compare(state(), state(extra=1)) == "extra is in one of them only"
    later = np.frombuffer(b'{"step": 1, "loss": 2.5, "seconds": 1.0}\n', np.uint8)
    assert compare(state(), state(log=later)) == (
        "at step 1 the loss was 2.0 in the one and 2.5 in the other")
    assert "1 and 2 lines" in compare(state(), state(log=np.tile(state()["log"], 2)))


def test_what_cannot_be_verified(config, capsys, tmp_path):
    assert main(["verify-resume", "missing.toml"]) == 1
    assert main(["verify-resume", config("gpt"), "--steps", "2"]) == 2
    (tmp_path / "text.txt").write_text("short")
    assert main(["verify-resume", "config.toml"]) == 1
    said = capsys.readouterr().err
    assert "did not end as it should: minidl train: the text is too short" in said
