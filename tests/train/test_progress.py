"""What a user sees while training, and what TensorBoard gets."""

import io
import sys

import numpy as np
import pytest

import minidl as md


class Terminal(io.StringIO):
    def isatty(self):
        return True


def trainer(callbacks, folder=None):
    md.manual_seed(0)
    model = md.models.GPT.from_preset("tiny", vocab_size=8, context=16, width=16, layers=1)
    dataset = md.data.TokenDataset(np.arange(600) % 8, 16, 1)
    loader = md.data.DataLoader(dataset, 2, shuffle=True)
    optimizer = md.optim.AdamW(model.parameters(), lr=1e-3)
    return md.train.Trainer(model, optimizer, loader, val_loader=[dataset.batch(np.arange(4))],
                            eval_every=3, callbacks=callbacks, folder=folder)


def test_plain_lines(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    trainer([md.train.Progress(every=0)]).fit(6)
    lines = sys.stderr.getvalue().splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("step 1/6: loss 2.") and lines[0].endswith("left")
    assert "tokens/s" in lines[0] and lines[3].startswith("step 3: validation loss 2.")


def test_lines_come_seldom_but_the_first_at_once(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    trainer([md.train.Progress(every=1000)]).fit(5)
    lines = sys.stderr.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 1/5", "step 3", "step 5"]


def test_a_bar_on_a_terminal(monkeypatch):
    pytest.importorskip("tqdm", reason="needs the extra `progress`")
    monkeypatch.setattr(sys, "stderr", Terminal())
    trainer([md.train.Progress()]).fit(6)
    shown = sys.stderr.getvalue()
    assert "100%|" in shown and "6/6" in shown and "loss 2." in shown
    assert "step 3: validation loss" in shown


def test_without_tqdm_a_terminal_gets_lines(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", None)
    trainer([md.train.Progress()]).fit(2)
    assert "step 1/2: loss" in sys.stderr.getvalue()


def test_the_part_of_the_machines_peak(monkeypatch):
    monkeypatch.setattr("minidl.train.progress.WARM", 0.0)
    monkeypatch.setattr("minidl.train.progress.peak_flops", lambda: 1e12)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    made = trainer([md.train.Progress(every=0)])
    before = md.get_rng_state().tolist()
    md.train.peak.peak_flops(32, 0.001)
    assert md.get_rng_state().tolist() == before
    made.fit(2)
    assert "MFU 0%" in sys.stderr.getvalue()


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer([md.train.TensorBoard()], tmp_path).fit(4)
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [event.step for event in found.Scalars("loss")] == [1, 2, 3, 4]
    assert [event.step for event in found.Scalars("val_loss")] == [3, 4]


def test_tensorboard_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.raises(ImportError, match=r"minidl\[tensorboard\]"):
        md.train.TensorBoard()


def test_a_log_that_is_none(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("loss 3\n")
    with pytest.raises(ValueError, match="is not a log of a run"):
        md.train.read_log(path)
