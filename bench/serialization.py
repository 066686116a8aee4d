"""Saving and loading a model: against a plain write, safetensors, PyTorch and numbers as JSON text.

The models are those of the page the project started from. `write` is write() and fsync() of the
bytes of minidl's file: what a save that is on the disk costs at least; PyTorch and safetensors do
not wait for the disk when they save. All load the file that minidl wrote. PyTorch's tensors are
cloned: load_file maps the file, and has not read it when it returns. JSON with nested lists takes
minutes for such a model, so it is held against minidl on one matrix of it: smaller files are the
harder case for minidl, which waits for the disk.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = {"5K,768,6": (5000, 128, 6, 768), "10K,1024,12": (10000, 128, 12, 1024)}
QUICK = {"65,128,4": (65, 64, 4, 128)}

MEMORY = """
import json, sys
sys.path.insert(0, sys.argv[1])
import minidl as md
from bench.memory import peak
from bench.serialization import QUICK, SIZES, shapes
state = {name: md.ones(*shape) for name, shape in shapes((QUICK | SIZES)[sys.argv[2]]).items()}
md.save({"small": md.ones(9)}, sys.argv[3])
before = peak()
md.save(state, sys.argv[3])
print(json.dumps(peak() - before))
"""


def shapes(size):
    """Names and shapes of the matrices of a GPT."""
    vocab, context, layers, width = size
    found = {"tokens": (vocab, width), "positions": (context, width), "head": (vocab, width)}
    for i in range(layers):
        found |= {f"{i}.qkv": (3 * width, width), f"{i}.proj": (width, width),
                  f"{i}.up": (4 * width, width), f"{i}.down": (width, 4 * width)}
    return found


def matrix(width):
    """One of them."""
    return {"proj": (width, width)}


def saving(matrices):
    """call(): save a dict of matrices in the peer's own way."""
    def build(lib):
        arrays = {name: lib.array(*shape) for name, shape in matrices.items()}
        file = lib.path("model.safetensors")
        if lib.peer == "safetensors":
            from safetensors.numpy import save_file

            return lambda: save_file(arrays, file)
        state = {name: lib.torch.from_numpy(array) for name, array in arrays.items()}
        if lib.peer == "torch":
            from safetensors.torch import save_file

            return lambda: save_file(state, file)
        if lib.peer == "json":
            return lambda: lib.torch.save(state, lib.path("model.json"), json_lists=True)
        if lib.peer == "write":
            lib.torch.save(state, file)
            return writing(file)
        return lambda: lib.torch.save(state, file)

    return build


def writing(file):
    """call(): write the bytes of a file again, until they are on the disk."""
    data = memoryview(Path(file).read_bytes())

    def call():
        with open(file, "wb", buffering=0) as f:
            done = 0
            while done < len(data):
                done += f.write(data[done:])
            os.fsync(f.fileno())

    return call


def loading(matrices):
    """call(): load a file that minidl wrote, each peer the same one."""
    def build(lib):
        import minidl as md

        file = lib.path("model.safetensors")
        md.save({name: md.Tensor(lib.array(*shape)) for name, shape in matrices.items()},
                lib.path("model.json") if lib.peer == "json" else file,
                json_lists=lib.peer == "json")
        if lib.peer == "safetensors":
            from safetensors.numpy import load_file

            return lambda: load_file(file)
        if lib.peer == "torch":
            from safetensors.torch import load_file

            return lambda: {name: tensor.clone() for name, tensor in load_file(file).items()}
        return lambda: lib.torch.load(lib.path("model.json") if lib.peer == "json" else file)

    return build


def cases(case):
    for label, size in (QUICK | SIZES).items():
        quick, one, whole = label in QUICK, matrix(size[-1]), shapes(size)
        for name, matrices, builder, peers in (
            ("save", whole, saving, ("write", "torch", "safetensors")),
            ("load", whole, loading, ("torch", "safetensors")),
            ("save a matrix", one, saving, ("json",)),
            ("load a matrix", one, loading, ("json",)),
        ):
            items = 4 * sum(rows * columns for rows, columns in matrices.values())
            slow = "json" in peers and not quick
            case(name, label, dict.fromkeys(["minidl", *peers], builder(matrices)), items=items,
                 unit="GB/s", quick=quick, threads=1, rounds=1 if slow else 0)


def rows(session):
    """What is not the time of a call: the memory of a save, opening a mapped file, file sizes."""
    import minidl as md

    for label, size in (QUICK if session.quick else SIZES).items():
        about = {"shape": label, "threads": 1, "ratios": {}}
        with tempfile.TemporaryDirectory(prefix="minidl-bench-") as folder:
            file = os.path.join(folder, "model.safetensors")
            root = str(Path(__file__).resolve().parents[1])
            done = subprocess.run([sys.executable, "-c", MEMORY, root, label, file], check=True,
                                  stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
            part = 100 * json.loads(done.stdout) / os.path.getsize(file)
            yield {**about, "name": "extra memory of a save", "value": part, "unit": "% of it"}
            times = []
            for _ in range(20):
                start = time.perf_counter()
                md.load(file, mmap=True)
                times.append(1000 * (time.perf_counter() - start))
            middle = statistics.median(times)
            yield {**about, "name": "open mapped", "value": middle, "unit": "ms"}
            md.manual_seed(0)
            state = {name: md.randn(*shape) for name, shape in matrix(size[-1]).items()}
            lists = os.path.join(folder, "model.json")
            md.save(state, lists, json_lists=True)
            md.save(state, file)
            small = os.path.getsize(file)
            yield {**about, "name": "file of a matrix", "value": small / 1e6, "unit": "MB",
                   "ratios": {"json": os.path.getsize(lists) / small}}


if __name__ == "__main__":
    from script import run

    run(__file__)
