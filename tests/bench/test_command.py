"""The command line, in a fresh interpreter as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_a_script_runs_alone_and_saves_its_rows(tmp_path):
    saved = tmp_path / "run.json"
    command = [sys.executable, BENCH / "cross_entropy.py", "--quick", "--threads", "1", "--peers",
               "none", "--json", saved]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "limits on 1 thread" in done.stdout and "0 bars, 0 missed" in done.stdout
    rows = json.loads(saved.read_text())["rows"]
    assert [row["shape"] for row in rows] == ["2048x5000", "768x65"]
    assert all(row["min"] <= row["median"] and row["limit"] > 0 for row in rows)


def test_the_package_lists_its_topics(python):
    listed = python(f"import sys\nsys.path.append({str(BENCH.parent)!r})\n"
                    "from bench.cli import main\nsys.exit(main(['--list']))\n")
    assert {"matmul", "train_step", "startup"} <= {line.split()[0] for line in listed.splitlines()}
