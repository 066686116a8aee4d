"""Why minidl writes and reads the safetensors layout itself.

Each promise of docs/checkpoints.md is tried on minidl and on the safetensors library: minidl has
to keep it; version 0.8.0 of the library is known not to, and a later one may.
"""

import json
import os
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import minidl as md

from ..conftest import environment


class Ours:
    save = staticmethod(md.save)
    code = "import minidl as md, numpy; md.save({'a': numpy.ones(9)}, 'a.safetensors')"

    @staticmethod
    def load(path):
        return {name: np.asarray(getattr(value, "array", value))
                for name, value in md.load(path).items()}

    @staticmethod
    def open(path):
        return md.load(path, mmap=True)["w"].array


class Library:
    save = staticmethod(safetensors.numpy.save_file)
    load = staticmethod(safetensors.numpy.load_file)
    code = ("import safetensors.numpy as s, numpy; "
            "s.save_file({'a': numpy.ones(9)}, 'a.safetensors')")

    @staticmethod
    def open(path):
        with safetensors.safe_open(path, "np") as file:
            return file.get_tensor("w")


@pytest.fixture(params=[Ours, pytest.param(Library, marks=pytest.mark.xfail(
    reason="the safetensors library does not promise it",
    strict=safetensors.__version__ == "0.8.0"))])
def writer(request):
    return request.param


def test_strides_do_not_change_what_is_saved(tmp_path, writer):
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    writer.save({"a": array}, tmp_path / "a.safetensors")
    assert (writer.load(tmp_path / "a.safetensors")["a"] == array).all()


def test_a_changed_bit_is_noticed(tmp_path, writer):
    path = tmp_path / "a.safetensors"
    writer.save({"a": np.ones(1000, np.float32)}, path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match=r"damaged|checksum"):
        writer.load(path)


def test_a_name_is_there_once(tmp_path, writer):
    entry = json.dumps({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]})
    header = f'{{"a":{entry},"a":{entry}}}'.encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ValueError, match="twice"):
        writer.load(path)


def test_the_order_of_a_state_is_kept(tmp_path, writer):
    state = {name: np.ones(2, np.float32) for name in ("z", "a", "m")}
    writer.save(state, tmp_path / "a.safetensors")
    assert list(writer.load(tmp_path / "a.safetensors")) == ["z", "a", "m"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX files")
def test_a_symbolic_link_stays_one(tmp_path, writer):
    (tmp_path / "a.safetensors").symlink_to(tmp_path / "real.safetensors")
    writer.save({"a": np.ones(2, np.float32)}, tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").is_symlink() and (tmp_path / "real.safetensors").exists()


@pytest.mark.skipif(os.name != "posix", reason="POSIX files")
def test_the_umask_decides_who_may_read(tmp_path, writer):
    before = os.umask(0o022)
    try:
        writer.save({"a": np.ones(2, np.float32)}, tmp_path / "a.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == 0o644


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_not_used_is_not_read(tmp_path, writer):
    """A mapped tensor of 64 MB takes no memory before it is looked at."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [16, 1 << 20], "data_offsets":
                               [0, 1 << 26]}}).encode().ljust(120)
    with open(tmp_path / "a.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(128 + (1 << 26))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    tensor = writer.open(tmp_path / "a.safetensors")
    assert resident() - before < 1 << 23 and tensor.shape == (16, 1 << 20)


def test_a_save_is_on_the_disk_when_it_returns(tmp_path, writer):
    """The file is synced before it gets its name, and the folder after."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    command = ["strace", "-f", "-o", tmp_path / "trace", "-e",
               "trace=fsync,fdatasync,rename,renameat,renameat2", sys.executable, "-c", writer.code]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "trace").read_text().splitlines()
    calls = [line.split()[1].split("(")[0] for line in lines if "sync(" in line or "rename" in line]
    assert len(calls) == 3 and "sync" in calls[0] and "rename" in calls[1] and "sync" in calls[2]
