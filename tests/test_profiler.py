"""The profile counts calls, work and memory, and leaves everything as it was."""

import json
import threading

import pytest

import minidl as md
from minidl import nn
from minidl.optim import Optimizer


def named(prof):
    return {row.name: row for row in prof.rows()}


def test_calls_work_and_memory_of_ops_and_gradients():
    x, w = md.randn(32, 64), md.randn(48, 64, requires_grad=True)
    with md.profiler.profile() as prof:
        for _ in range(3):
            y = nn.functional.linear(x, w)
            y.sum().backward()
    rows = named(prof)
    assert rows["linear"].calls == rows["linear backward"].calls == 3
    flops = 3 * 2 * 32 * 48 * 64
    assert rows["linear"].flops == flops
    assert rows["linear backward"].flops == flops       # x wants no gradient: one product, not two
    assert rows["linear"].bytes == 3 * 4 * (32 * 64 + 48 * 64 + 32 * 48)
    assert rows["linear"].allocated >= 3 * 4 * 32 * 48
    assert rows["linear"].rate.endswith("GFLOPS") and rows["sum"].rate.endswith("GB/s")


def test_causal_attention_counts_half_the_scores():
    q = md.randn(2, 3, 16, 8, requires_grad=True)
    with md.profiler.profile() as prof:
        nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    rows = named(prof)
    assert rows["attention"].flops == 4 * 2 * 3 * 16 * 16 * 8 / 2
    assert rows["attention backward"].flops == 2 * rows["attention"].flops


def test_a_view_moves_nothing():
    x = md.randn(8, 8)
    with md.profiler.profile() as prof:
        x.view(64)
        x.transpose(0, 1)
    assert [row.bytes for row in prof.rows()] == [0, 0] and named(prof)["view"].rate == ""


def test_ranges_hold_what_is_inside_them_and_the_optimizer_has_a_name():
    model = nn.Linear(4, 4)
    optimizer = md.optim.AdamW(model.parameters())
    with md.profiler.profile() as prof:
        with md.profiler.record_function("forward"):
            loss = model(md.ones(2, 4)).sum()
        loss.backward()
        optimizer.step()
    rows = named(prof)
    assert rows["AdamW.step"].calls == 1
    inner = rows["linear"].time + rows["sum"].time
    assert rows["forward"].time >= inner
    assert rows["forward"].own == pytest.approx(rows["forward"].time - inner)
    assert sum(row.share for row in rows.values()) <= 1


def test_nothing_is_left_behind():
    step = Optimizer.step
    with pytest.raises(ZeroDivisionError), md.profiler.profile() as prof:
        1 / 0  # noqa: B018
    assert Optimizer.step is step
    md.ones(2) + md.ones(2)
    with md.profiler.record_function("outside"):
        pass
    assert prof.events == []
    with md.profiler.profile() as again:
        md.ones(2) + md.ones(2)
    assert named(again)["add"].calls == 1


def test_profiles_do_not_nest():
    with md.profiler.profile(), pytest.raises(RuntimeError, match="do not nest"):
        md.profiler.profile().__enter__()


def test_errors_pass_through():
    with md.profiler.profile(), pytest.raises(md.errors.ShapeError):
        md.ones(2, 3) @ md.ones(2, 3)


def test_the_results_are_the_same():
    def gradient():
        md.manual_seed(0)
        layer = nn.MultiheadAttention(16, 2, batch_first=True)
        x = md.randn(2, 5, 16, requires_grad=True)
        layer(x, x, x)[0].sum().backward()
        return x.grad.tolist()

    plain = gradient()
    with md.profiler.profile():
        assert gradient() == plain


def test_other_threads_are_recorded_under_their_own_number():
    with md.profiler.profile() as prof:
        md.ones(3) + 1
        thread = threading.Thread(target=lambda: md.ones(3) * 2)
        thread.start()
        thread.join()
    assert {"add", "mul"} <= {event.name for event in prof.events}
    assert len({event.thread for event in prof.events if event.name in ("add", "mul")}) == 2


def test_table_and_trace(tmp_path):
    with md.profiler.profile() as prof:
        md.ones(2, 3) @ md.ones(3, 4)
    table = str(prof)
    assert table.splitlines()[0].split() == ["op", "calls", "time", "own", "time", "share", "rate",
                                             "allocated"]
    assert "matmul" in table and "outside of ops" in table
    assert len(prof.table(row_limit=0).splitlines()) == 3
    with pytest.raises(ValueError, match="sort_by must be one of name"):
        prof.table(sort_by="speed")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    (event,) = [e for e in events if e["name"] == "matmul"]
    assert event["ph"] == "X" and event["dur"] > 0 and event["args"]["shapes"] == [[2, 3], [3, 4]]
