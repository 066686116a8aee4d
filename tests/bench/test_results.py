"""Ratios, bars, tables, pictures: what is made of measured times. No test looks at a clock."""

import pytest

from bench import bars, compare, report, table
from bench.measure import Timing


def row(**changes):
    found = {"topic": "train_step", "name": "nano", "shape": "65,64", "threads": 1, "median": 0.05,
             "min": 0.049, "spread": 0.02, "rate": 70.0, "unit": "GFLOPS", "limit": 0.7,
             "flops": 3.5e9, "bytes": 1e8, "ratios": {"torch": 1.4, "compile": 0.9}, "errors": {}}
    found.update(changes)
    found["bars"] = bars.judge(found)
    return found


@pytest.fixture
def saved(tmp_path):
    facts = {"cpu": "a processor", "cores": 2, "usable cores": 2, "instruction set": "avx2",
             "caches": "L1 32K", "memory": "8 GB", "system": "Linux", "python": "3.12 on linux",
             "peers": "torch 2.13",
             "peers use": "torch AVX2", "blas": "openblas", "others use": 0.0}
    rows = [row(), row(threads=2), row(topic="gelu", name="gelu", unit="GEl/s", rate=1.0, flops=0),
            row(topic="startup", name="import", shape="", threads=0, ratios={})]
    path = tmp_path / "run.json"
    limits = {1: {"gflops": 90.0, "sgemm": {"blas": 90.0}, "gbs": 10.0}}
    table.save(path, facts, limits, rows, {"quick": False})
    return path, rows


def test_times_are_compared_round_by_round():
    mine, other = Timing([[1.0, 1.0], [2.0]]), Timing([[3.0], [4.0]])
    assert other.ratio(to=mine) == pytest.approx(2.5)
    assert mine.best == 1.0 and mine.median == 1.0 and mine.mean == pytest.approx(4 / 3)
    assert Timing([[1.0]]).spread == 0.0


def test_bars_differ_by_threads_and_list_what_is_missed():
    one, two = row(), row(threads=2)
    assert [(b["against"], b["number"], b["passed"]) for b in one["bars"]] == [
        ("torch", 1.35, True), ("compile", 1.0, False)]
    assert two["bars"][0]["number"] == 1.55 and not two["bars"][0]["passed"]
    missed = list(bars.failures([one, two]))
    assert len(missed) == 3
    assert "1.40 against torch, must be at least 1.55" in missed[1]


def test_a_value_is_at_most_and_a_target_never_fails():
    beside = row(topic="threads", name="beside a busy process", shape="nano step", value=2.5)
    assert not beside["bars"][0]["passed"]
    assert "must be at most 2.2" in next(bars.failures([beside]))
    naive = row(topic="matmul", name="matmul", shape="512", ratios={"naive": 3.0})
    assert not naive["bars"][0]["passed"] and not list(bars.failures([naive]))


def test_the_best_peer_counts_and_products_are_averaged():
    rows = [row(topic="matmul", name="matmul", shape="128", ratios={"torch": 2.0, "blas": 0.5}),
            row(topic="matmul", name="matmul", shape="256", ratios={"torch": 2.0, "blas": 4.0})]
    assert [r["bars"][0]["value"] for r in rows] == [0.5, 2.0]
    (average,) = bars.averages(rows)
    assert average["best"] == pytest.approx(1.0) and average["bars"][0]["number"] == 1.0


def test_what_minidl_cannot_compute_fails_unless_skipped():
    broken = row(ratios={}, errors={"minidl": "ValueError: no"})
    assert "ValueError" in next(bars.failures([broken]))
    assert not list(bars.failures([row(ratios={}, errors={"minidl": "skipped: not here"})]))


def test_json_round_trip_and_comparison(saved, capsys):
    path, rows = saved
    assert table.load(path)["rows"] == rows
    compare.compare(path, path)
    printed = capsys.readouterr().out
    assert "train_step: nano 65,64" in printed and "1.00" in printed and "SLOWER" not in printed


def test_a_line_shows_time_rate_limit_ratios_and_bars():
    line = table.line(row())
    for part in ("nano", "50 ms", "70 GFLOPS", "70%", "torch 1.40", "[compile >= 1 FAIL]"):
        assert part in line


def test_durations():
    assert [table.duration(s) for s in (2.5, 0.00125, 3e-6, 4e-8, None)] == [
        "2.5 s", "1.25 ms", "3 us", "40 ns", ""]


def test_the_report_fills_between_its_marks(saved, tmp_path):
    run = table.load(saved[0])
    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- bench:summary begin -->\nold\n<!-- bench:summary end -->\nb\n")
    assert report.fill(readme, "summary", report.summary(run))
    text = readme.read_text()
    assert text.startswith("a\n<!-- bench:summary begin -->\n") and text.endswith("end -->\nb\n")
    assert "old" not in text and "a processor" in text and "| train_step: nano |" in text
    assert not report.fill(readme, "table", "nothing to fill")
    assert "| train_step: nano | 65,64 | 2 | 50 ms |" in report.everything(run)


def test_pictures(saved, tmp_path):
    pytest.importorskip("matplotlib")
    from bench.pictures import draw

    paths = draw(table.load(saved[0]), tmp_path / "images")
    assert [path.name for path in paths] == ["speedup.png", "roofline.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
