"""Crashes, full disks and damaged files: an old state or the new one, never something else."""

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minidl as md
from minidl.checkpoint import CheckpointError, CheckpointManager, CheckpointWarning, atomic, blocks

from ..conftest import environment

FORMATS = ["a.safetensors", "a.json", "a.safetensors.index.json"]
posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")


def state(n, size=3000):
    return {"w": md.full((size,), float(n)), "b": md.tensor([n])}


def content(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


# ------------------------------------------------------------------------- every call can fail

CALLS = {"pwrite": (blocks, "_pwrite"), "fsync": (os, "fsync"), "replace": (os, "replace"),
         "open": (os, "open"), "close": (os, "close")}


def inject(monkeypatch, call, n, error):
    """Make the n-th call of a kind fail (a close still closes); returns the list of calls."""
    owner, name = CALLS[call]
    real, calls = getattr(owner, name), []

    def failing(*args, **kwargs):
        calls.append(args)
        if len(calls) != n:
            return real(*args, **kwargs)
        if call == "close":
            real(*args)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(owner, name, failing)
    return calls


@posix
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failure_at_every_call(tmp_path, same, monkeypatch, name, call, error):
    md.save(state(1), tmp_path / name)
    md.set_num_threads(1)
    for n in range(1, 100):
        with monkeypatch.context() as patch:
            calls = inject(patch, call, n, error)
            try:
                md.save(state(2), tmp_path / name)
                failed = False
            except OSError as caught:
                failed = True
                assert caught.errno == error and str(tmp_path) in str(caught)
                assert "could not save" in str(caught) or "power cut may undo" in str(caught)
                assert ("the disk is full" in str(caught)) == (error == errno.ENOSPC) or (
                    "power cut" in str(caught))
        found = md.load(tmp_path / name)
        assert found["b"].item() in (1, 2) and (found["w"] == float(found["b"].item())).all()
        assert not [file for file in content(tmp_path) if file.endswith(atomic.SUFFIX)]
        if len(calls) < n:
            assert not failed and n > 1
            same(state(2), found)
            return
    pytest.fail("it never stopped failing")


@posix
def test_a_folder_that_cannot_be_synced_is_no_silent_success(tmp_path, monkeypatch):
    calls = inject(monkeypatch, "fsync", 2, errno.EIO)
    with pytest.raises(OSError, match="a power cut may undo this save"):
        md.save(state(1), tmp_path / "a.json")
    monkeypatch.undo()
    assert len(calls) == 2
    inject(monkeypatch, "fsync", 2, errno.EINVAL)
    md.save(state(1), tmp_path / "a.json")


@posix
def test_an_interrupt_leaves_the_old_file(tmp_path, monkeypatch):
    md.save(state(1), tmp_path / "a.safetensors")
    before = content(tmp_path)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(blocks, "_pwrite", interrupt)
    with pytest.raises(KeyboardInterrupt):
        md.save(state(2), tmp_path / "a.safetensors")
    assert content(tmp_path) == before


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"could not save .*nowhere"):
        md.save(state(1), tmp_path / "nowhere" / "a.safetensors")


# --------------------------------------------------------------------------- a disk that is full

@posix
def test_a_full_disk(tmp_path):
    """A tmpfs of one megabyte, in a mount namespace of our own where that is allowed."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare")
    script = """
import os, sys
import minidl as md
md.save({"w": md.ones(50_000)}, "a.safetensors")
before = open("a.safetensors", "rb").read()
try:
    md.save({"w": md.ones(1_000_000)}, "a.safetensors")
except OSError as error:
    assert error.errno == 28 and "the disk is full" in str(error), error
else:
    sys.exit("no error")
assert open("a.safetensors", "rb").read() == before
assert os.listdir() == ["a.safetensors"], os.listdir()
md.save({"w": md.zeros(50_000)}, "a.safetensors")
assert md.load("a.safetensors")["w"].sum() == 0
print("checked")
"""
    mount = 'mount -t tmpfs -o size=1m none "$0" && cd "$0" && exec "$1" -c "$2"'
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mount, tmp_path, sys.executable, script],
                          env=environment(), capture_output=True, text=True, timeout=120)
    if "checked" not in done.stdout and ("unshare:" in done.stderr or "mount:" in done.stderr):
        pytest.skip("no mount namespace: " + done.stderr.strip())
    assert done.stdout == "checked\n", done.stdout + done.stderr


# ------------------------------------------------------------------------------- system calls

def traced(tmp_path, calls):
    """The system calls of saves, in their order, as (call, arguments, result)."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    code = ("import minidl as md; md.set_num_threads(1)\n"
            "for name in ('a.safetensors', 'a.json') * 2: md.save({'w': md.ones(600_000)}, name)")
    log = tmp_path / "trace"
    done = subprocess.run(["strace", "-f", "-e", f"trace={calls}", "-o", log, sys.executable, "-c",
                           code], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    pattern = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
    return [m.groups() for m in map(pattern.match, log.read_text().splitlines()) if m]


def test_the_order_of_the_system_calls(tmp_path):
    """Written, synced, renamed, and the folder synced: what a power cut cannot undo."""
    calls = traced(tmp_path, "openat,open,pwrite64,fsync,rename,renameat,renameat2,close")
    opened = [i for i, c in enumerate(calls) if c[0].startswith("open") and atomic.SUFFIX in c[1]
              and "O_CREAT" in c[1]]
    assert len(opened) == 4, "two saves of two files"
    for first, name in zip(opened, ["a.safetensors", "a.json"] * 2, strict=True):
        fd = calls[first][2]
        after = calls[first + 1:]
        ours = [(c, args) for c, args, _ in after]
        written = [i for i, (c, a) in enumerate(ours) if c == "pwrite64" and a.split(",")[0] == fd]
        synced = ours.index(("fsync", fd))
        renamed = next(i for i, (c, _) in enumerate(ours) if c.startswith("rename"))
        assert f'"{tmp_path}/{name}"' in ours[renamed][1]
        assert len(written) >= 2 if name == "a.safetensors" else written
        last = [i for i in written if i < renamed][-1]
        assert last < synced < renamed
        folder, (_, path, number) = next((i, c) for i, c in enumerate(after) if i > renamed
                                         and c[0].startswith("open"))
        assert f'"{tmp_path}"' in path and ours[folder + 1] == ("fsync", number)


# ------------------------------------------------------------------------------------ kills

@posix
def test_kills_at_random_points(python):
    script = Path(__file__).with_name("kill.py").read_text()
    found = re.match(r"200 kills, (\d+) in the middle of a file, (\d+) saves", python(script, 200))
    assert int(found[1]) > 20, "the kills come in the middle of something"


@posix
def test_left_overs_of_killed_runs_go_and_those_of_living_ones_stay(tmp_path):
    import fcntl

    dead, alive = (tmp_path / f".{name}{atomic.SUFFIX}" for name in ("dead", "alive"))
    dead.write_bytes(b"x" * 1000)
    with open(alive, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        md.save(state(1), tmp_path / "a.json")
        assert not dead.exists() and alive.exists()
    CheckpointManager(tmp_path)
    assert sorted(content(tmp_path)) == ["a.json"]


@posix
def test_a_file_that_is_being_written_is_not_stale(tmp_path):
    """Another process that saves to the same folder cleans up while this one writes."""
    def write(fd):
        atomic.remove_stale(str(tmp_path))
        blocks.write_at(fd, b"whole", 0)

    atomic.replace(str(tmp_path / "a"), write)
    assert content(tmp_path) == {"a": b"whole"}


@posix
def test_a_file_that_was_taken_for_stale_before_its_lock_is_made_anew(tmp_path, monkeypatch):
    import fcntl

    real, names = fcntl.flock, []

    def flock(fd, how):
        if not names:
            names.extend(content(tmp_path))
            (tmp_path / names[0]).unlink()
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    md.save(state(1), tmp_path / "a.json")
    assert len(names) == 1 and list(content(tmp_path)) == ["a.json"]


# -------------------------------------------------------------------- links and permissions

@posix
def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "a.safetensors"
    link.symlink_to(tmp_path / "real" / "b.safetensors")
    for n in (1, 2):
        md.save(state(n), link)
        assert link.is_symlink() and md.load(tmp_path / "real" / "b.safetensors")["b"] == n
    assert os.listdir(tmp_path / "real") == ["b.safetensors"]


@posix
def test_the_umask_is_respected_and_a_private_file_stays_private(tmp_path):
    path = tmp_path / "a.json"
    before = os.umask(0o027)
    try:
        md.save(state(1), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        md.save(state(2), path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


# -------------------------------------------------------------------------------- damaged files

def damage(rng, data):
    """One block flipped, zeroed, exchanged or cut off, somewhere."""
    data = bytearray(data)
    size = int(rng.choice([1, 4, 64, 512, 4096]))
    at = int(rng.integers(0, max(len(data) - size, 0) + 1))
    if rng.random() < 0.3:
        at = int(rng.integers(0, min(1200, len(data))))
    kind = rng.integers(4)
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at:at + size] = bytes(len(data[at:at + size]))
    elif kind == 2:
        data[at:at + size] = rng.bytes(len(data[at:at + size]))
    else:
        del data[at:]
    return bytes(data)


@pytest.mark.parametrize("name", ["a.safetensors", "a.json"])
def test_a_damaged_file_is_never_loaded(tmp_path, same, name):
    rng = np.random.default_rng(0)
    path = tmp_path / name
    saved = {"w": md.Tensor(rng.random(9000, np.float32)), "n": [1, 2.5, "text", None],
             "m": md.Tensor(rng.random((30, 30), np.float32).T)}
    md.save(saved, path)
    whole, refused = path.read_bytes(), 0
    for _ in range(1000):
        damaged = damage(rng, whole)
        path.write_bytes(damaged)
        try:
            same(saved, md.load(path))
            assert damaged == whole
        except CheckpointError:
            refused += 1
    assert refused > 950


def test_the_one_before_a_damaged_file_is_loaded(tmp_path):
    rng = np.random.default_rng(1)
    manager = CheckpointManager(tmp_path)
    paths = [manager.save(state(n), n) for n in (1, 2)]
    whole = Path(paths[1]).read_bytes()
    for _ in range(1000):
        damaged = damage(rng, whole)
        Path(paths[1]).write_bytes(damaged)
        if damaged == whole:
            continue
        with pytest.warns(CheckpointWarning, match="passed over"):
            found = manager.load()
        assert found["b"].item() == 1 and (found["w"] == 1.0).all()


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 60_000, 1 << 20])
def test_the_checksum_is_what_the_documentation_says(size):
    """From any address, too: tensors of odd sizes leave the next one unaligned."""
    from ..fuzz_checkpoint import block_sum

    data = np.random.default_rng(0).bytes(size)
    for shift in (0, 1, 4):
        assert blocks.checksum(memoryview(bytes(shift) + data)[shift:]) == block_sum(data)


def test_the_checksum_sees_pages_that_changed_places():
    pages = np.random.default_rng(0).integers(0, 255, (256, 4096), np.uint8)
    whole = blocks.checksum(pages.tobytes())
    for shift in (1, 17):
        assert blocks.checksum(np.roll(pages, shift, axis=0).tobytes()) != whole
    pages[[3, 200]] = pages[[200, 3]]
    assert blocks.checksum(pages.tobytes()) != whole
