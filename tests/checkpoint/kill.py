"""Kill a saving process at random points; the newest checkpoint must always load, and be no older
than the last save that returned.

    python tests/checkpoint/kill.py [kills] [seed]
"""

import os
import random
import signal
import sys
import tempfile
import time
import warnings

import minidl as md
from minidl.checkpoint import CheckpointManager

SIZES = (10, 5_000, 50_000)
STARTED = b"started "   # 8 bytes, as the numbers that follow


def state(n):
    return {"n": n, "w": [md.full((size,), float(n)) for size in SIZES], "text": "x" * (n % 999)}


def save_for_ever(folder, n, report):
    """The child: save n, n + 1, ... and say so after each; both kinds of saving in one run."""
    manager = CheckpointManager(folder, keep_last=2)
    os.write(report, STARTED)
    while True:
        manager.save(state(n), n, metric=n % 7)
        md.save(state(n), f"{folder}/single.safetensors")
        md.save({"n": n, "w": md.full((500,), float(n))}, f"{folder}/single.json")
        os.write(report, n.to_bytes(8, "little"))
        n += 1


def check(folder, acknowledged):
    """What a process that comes after the crash finds; returns the step it goes on from."""
    manager = CheckpointManager(folder, keep_last=2)
    found = manager.load()
    n = -1 if found is None else found["n"]
    assert n >= acknowledged, f"save {acknowledged} returned, and {n} is what is left"
    if found is None:
        return 0
    assert all((w == float(n)).all() for w in found["w"]), "torn"
    for name in ("single.safetensors", "single.json"):
        if acknowledged >= 0 or os.path.exists(f"{folder}/{name}"):
            single = md.load(f"{folder}/{name}")
            assert single["n"] >= acknowledged
            tensors = single["w"] if isinstance(single["w"], list) else [single["w"]]
            assert all((w == float(single["n"])).all() for w in tensors), "torn"
    names = os.listdir(folder)
    assert not [name for name in names if name.endswith("-tmp")], f"left-overs: {names}"
    return n + 1


def main(kills=200, seed=0):
    warnings.simplefilter("error")  # a damaged file that is passed over is a failure here
    rng = random.Random(seed)
    interrupted = n = 0
    acknowledged = -1
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(kills):
            reader, report = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    save_for_ever(folder, n, report)
                finally:
                    os._exit(1)
            os.close(report)
            assert os.read(reader, 8) == STARTED
            time.sleep(rng.uniform(0, rng.choice([0.01, 0.02, 0.06])))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "the child failed by itself"
            while data := os.read(reader, 8):
                acknowledged = int.from_bytes(data, "little")
            os.close(reader)
            interrupted += any(name.endswith("-tmp") for name in os.listdir(folder))
            n = check(folder, acknowledged)
        # a kill just before old files go leaves one more, up to the next save that is not killed
        CheckpointManager(folder, keep_last=2).save(state(n), n)
        assert len(os.listdir(folder)) <= 5, os.listdir(folder)
    print(f"{kills} kills, {interrupted} in the middle of a file, {n} saves")
    return interrupted


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
