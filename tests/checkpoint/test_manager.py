"""CheckpointManager: what stays, what is found again, and what happens beside training."""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import minidl as md
from minidl.checkpoint import CheckpointError, CheckpointManager, CheckpointWarning, tensors

from ..conftest import environment


def state(step):
    return {"step": step, "w": md.full((50,), float(step))}


def steps(manager):
    return [saved.step for saved in manager.checkpoints()]


def damage(path, at=-3):
    data = bytearray(Path(path).read_bytes())
    data[at] ^= 4
    Path(path).write_bytes(data)


def test_the_last_and_the_best_stay(tmp_path):
    manager = CheckpointManager(tmp_path / "a" / "b", keep_last=2, keep_best=2)
    for step, metric in enumerate([3.0, 1.0, 2.0, 5.0, 4.0, 1.0]):
        path = manager.save(state(step), step, metric)
        assert path == str(tmp_path / "a" / "b" / f"step-{step:08d}.safetensors")
    assert steps(manager) == [1, 4, 5]
    assert manager.best().endswith("00000001.safetensors"), "the earlier of two equal ones"
    assert manager.latest().endswith("00000005.safetensors")
    assert md.load(manager.latest())["step"] == manager.load()["step"] == 5
    highest = CheckpointManager(tmp_path / "a" / "b", mode="max")
    assert highest.best().endswith("00000004.safetensors")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_nan_is_never_the_best(tmp_path, bad):
    manager = CheckpointManager(tmp_path, keep_last=1)
    assert manager.best() is None and manager.latest() is None and manager.load() is None
    manager.save(state(0), 0, bad)
    assert manager.best() is None
    manager.save(state(1), 1, md.tensor(2.0))
    for step in range(2, 5):
        manager.save(state(step), step, bad)
    assert steps(manager) == [1, 4] and manager.best().endswith("00000001.safetensors")


@pytest.mark.parametrize("at", [-3, 20, 3])
def test_a_damaged_file_is_passed_over_and_said(tmp_path, at):
    manager = CheckpointManager(tmp_path, keep_last=3)
    paths = [manager.save(state(step), step, -step) for step in range(3)]
    damage(paths[2], at)
    for find in (manager.latest, manager.best, lambda: manager.load()["step"]):
        with pytest.warns(CheckpointWarning, match=r"step-00000002.*passed over for .*00000001"):
            assert find() in (paths[1], 1)
    damage(paths[1])
    damage(paths[0])
    with pytest.raises(CheckpointError, match="none of its checkpoints is whole"):
        manager.load()


def test_a_damaged_file_does_not_push_out_a_whole_one(tmp_path):
    """After falling back, a run saves steps below that of the damaged file."""
    manager = CheckpointManager(tmp_path, keep_last=1, keep_best=0)
    damage(manager.save(state(300), 300), 20)
    manager.save(state(150), 150)
    with pytest.warns(CheckpointWarning):
        assert manager.load()["step"] == 150


def test_the_latest_is_the_last_saved_whatever_its_step(tmp_path):
    manager = CheckpointManager(tmp_path)
    for step in (100, 200, 300, 120):
        manager.save(state(step), step)
    assert manager.load()["step"] == 120 and steps(manager) == [200, 300, 120]
    manager.save(state(200), 200)
    assert CheckpointManager(tmp_path).load()["step"] == 200


def test_other_files_are_left_alone(tmp_path):
    for name in ("notes.txt", "step-1.json", "best.safetensors", "step-x.safetensors"):
        (tmp_path / name).write_text("mine")
    manager = CheckpointManager(tmp_path, keep_last=1)
    for step in range(3):
        manager.save(state(step), step)
    assert len(os.listdir(tmp_path)) == 5 and manager.load()["step"] == 2


@pytest.mark.parametrize("options", [{"keep_last": 0}, {"keep_best": -1}, {"mode": "low"}])
def test_options(tmp_path, options):
    with pytest.raises(ValueError, match="CheckpointManager: "):
        CheckpointManager(tmp_path, **options)
    with pytest.raises(ValueError, match="must not be negative"):
        CheckpointManager(tmp_path).save({}, -1)


def test_saving_in_the_background_takes_a_snapshot(tmp_path, monkeypatch):
    go, write = threading.Event(), tensors.write
    monkeypatch.setattr(tensors, "write", lambda *args: (go.wait(20), write(*args)))
    with CheckpointManager(tmp_path, background=True) as manager:
        live = state(1)
        manager.save(live, 1)
        live["w"].fill_(99.0)
        assert os.listdir(tmp_path) == []
        go.set()
        assert manager.load()["w"].sum() == 50.0, "as it was when save() was called"
        manager.save(live, 2)
    assert steps(manager) == [1, 2]


def test_a_failure_in_the_background_is_reported_once(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "disk full")

    manager = CheckpointManager(tmp_path, background=True)
    for report in (manager.close, lambda: manager.save(state(2), 2), manager.load):
        monkeypatch.setattr(tensors, "write", full)
        manager.save(state(1), 1)
        manager._background._thread.join()
        monkeypatch.undo()
        with pytest.raises(OSError, match="disk full"):
            report()
        manager.check()
    manager.save(state(3), 3)
    manager.close()
    assert steps(manager) == [3]


def test_a_program_that_ends_waits_for_its_save(tmp_path, python):
    python("""
import sys
import minidl as md
manager = md.checkpoint.CheckpointManager(sys.argv[1], background=True)
manager.save({"w": md.ones(5_000_000)}, 1)
""", tmp_path / "run")
    assert CheckpointManager(tmp_path / "run").load()["w"].sum() == 5_000_000


def test_a_program_that_ends_says_that_its_last_save_failed(tmp_path):
    code = """
import shutil, sys
import minidl as md
manager = md.checkpoint.CheckpointManager(sys.argv[1], background=True)
shutil.rmtree(sys.argv[1])
manager.save({"w": md.ones(3)}, 1)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], env=environment(),
                          cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "CheckpointWarning: a save in the background failed" in done.stderr


def test_two_processes_on_one_folder(tmp_path, python):
    """One saves and removes, the other looks: it always finds a whole state."""
    python("""
import os, sys
import minidl as md
folder = sys.argv[1]
md.checkpoint.CheckpointManager(folder, keep_last=1).save({"n": 0, "w": md.zeros(30000)}, 0)
if os.fork() == 0:
    manager = md.checkpoint.CheckpointManager(folder, keep_last=1)
    for n in range(1, 80):
        manager.save({"n": n, "w": md.full((30000,), float(n))}, n, metric=-n)
    os._exit(0)
manager, last, seen = md.checkpoint.CheckpointManager(folder, keep_last=1), 0, set()
while not os.waitpid(-1, os.WNOHANG)[0]:
    state = manager.load()
    assert state["w"].sum() == 30000 * state["n"]
    assert state["n"] >= last
    last = state["n"]
    seen.add(last)
    assert manager.latest() is not None and manager.best() is not None or last == 0
assert len(seen) > 5, seen
assert manager.load()["n"] == 79
""", tmp_path)
