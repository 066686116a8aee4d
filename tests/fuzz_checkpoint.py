"""Load mutated files: each must load, or raise one CheckpointError, quickly and in little memory.

    python tests/fuzz_checkpoint.py [files] [seed]

A million files unless told otherwise (about ten minutes). A finding is printed with its seed, and
`python tests/fuzz_checkpoint.py 1 SEED` repeats it. What minidl reads of a safetensors file is
compared with what the safetensors library reads.
"""

import itertools
import json
import random
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

import minidl as md
from minidl.checkpoint.blocks import BLOCK
from minidl.errors import CheckpointError

SECONDS = 2.0
NASTY = [
    None, True, False, 0, 1, -1, 7, 8, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 10**400,
    1.0, 1.5, -0.0, 1e400, "", "F32", "F64", "F8_E4M3", "BOOL", "I4", "float32", "nan", "bool",
    "base64", "é", "\0", "a" * 3000, "minidl", "crc32:00000000", "AAAA", "$tensor", "../a", [], [0],
    [1], [-1], [2**40, 2**40], [0, 2**62, 2**62], [0, 8], [8, 0], [4, 12], [1] * 70, [[]], {},
    {"": 0}, {"$tensor": "a"}, {"$array": "w"}, {"$tuple": 1}, {"$tuple": []},
    {"$dict": [[[], 1]]}, {"$dict": [[1, 2], [1, 2]]}, {"$dict": [3]}, {"$float": "nan"},
    {"$float": 1}, {"$what": 1}, "../../etc/passwd.safetensors", "a.safetensors",
]


def sign(header, data):
    """A safetensors file with minidl's checksums, as docs/checkpoints.md describes it."""
    sums = [block_sum(data[i:i + BLOCK]) for i in range(0, len(data), BLOCK)]
    zeros = "0" * 8 * (1 + len(sums))
    header["__metadata__"]["minidl.checksum"] = zeros
    text = json.dumps(header, separators=(",", ":")).encode()
    start = len(text).to_bytes(8, "little") + text
    value = "".join(f"{n:08x}" for n in [zlib.crc32(start), *sums])
    return start.replace(zeros.encode(), value.encode(), 1) + data


def block_sum(data):
    """CRC-32 of the column sums, the row sums and the rest of a table with 512 words in a row."""
    whole = len(data) // 4096 * 4096
    words = [int.from_bytes(data[i:i + 8], "little") for i in range(0, whole, 8)]
    columns = [sum(words[i::512]) for i in range(512)]
    rows = [sum(words[i:i + 512]) for i in range(0, len(words), 512)]
    sums = b"".join((n % 2**64).to_bytes(8, "little") for n in columns + rows)
    return zlib.crc32(sums + data[whole:])


def split(file):
    end = 8 + int.from_bytes(file[:8], "little")
    return json.loads(file[8:end]), file[end:]


def corpus(folder):
    """Valid files of every kind by extension."""
    rng = np.random.default_rng(0)
    plain = {"w": rng.random((2, 3), np.float32), "b": np.arange(5), "m": np.array([True, False]),
             "e": np.zeros((0, 4), np.float32), "s": np.array(3.5), "h": rng.random(9).astype("f2")}
    state = {"model": {"a": md.ones(2, 2), "b": md.arange(3)}, "step": 7, "lr": [0.1, float("nan")],
             "pair": (1, None), "state": {0: {"m": md.ones(3)}}, "x": np.arange(4, dtype=np.int8)}
    safetensors.numpy.save_file(plain, folder / "a.safetensors", metadata={"who": "library"})
    files = {"safetensors": [(folder / "a.safetensors").read_bytes()], "json": []}
    for obj, lists in itertools.product(({k: md.Tensor(v) for k, v in plain.items()}, state),
                                        (False, True)):
        for ext in files:
            md.save(obj, folder / f"a.{ext}", **({"json_lists": lists} if ext == "json" else {}))
            files[ext].append((folder / f"a.{ext}").read_bytes())
    big = {"w": md.Tensor(rng.random(500, np.float32))}
    md.save(big, folder / "a.json")
    files["json"].append((folder / "a.json").read_bytes())
    index = folder / "a.safetensors.index.json"
    md.save({"w": md.ones(3), "v": md.arange(4)}, index, max_shard_size=12)
    files["safetensors.index.json"] = [index.read_bytes()]
    return files


def mutate_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1) if rng.random() < 0.5 else rng.randrange(
            min(len(data), 600) + 1)
        size = rng.choice([1, 1, 2, 8, 50, 512])
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at + size] = rng.randbytes(min(size, len(data) - at))
        elif kind == 2:
            data[at:at + size] = bytes(min(size, len(data) - at))
        elif kind == 3:
            del data[at:at + size]
        elif kind == 4:
            data[at:at] = data[at:at + size]
        else:
            del data[at:]
        if not data:
            break
    return bytes(data)


def mutate_json(rng, node):
    """Replace, remove or double something at a random place below ``node``."""
    places = []

    def walk(x):
        for key in list(x) if isinstance(x, dict) else range(len(x)):
            places.append((x, key))
            if isinstance(x[key], (dict, list)):
                walk(x[key])

    walk(node)
    if not places:
        return
    x, key = rng.choice(places)
    kind = rng.randrange(5)
    if kind == 0:
        del x[key]
    elif kind == 1 and isinstance(x, dict):
        x[rng.choice(["w", "__metadata__", "$tuple", "shape", "tree", "extra"])] = x.pop(key)
    elif kind == 2 and isinstance(x[key], int):
        x[key] += rng.choice([-8, -4, -1, 1, 4, 8, 2**32, 2**63])
    else:
        x[key] = json.loads(json.dumps(rng.choice(NASTY)))


def mutant(rng, ext, file):
    """A file that differs from a valid one; those with checksums are signed again or not."""
    if rng.random() < 0.4:
        return mutate_bytes(rng, file)
    if ext != "safetensors":
        content = json.loads(file)
        if rng.random() < 0.9:
            content.pop("checksum", None)
            content.get("metadata", {}).pop("minidl.checksum", None)
        for _ in range(rng.choice([1, 1, 2])):
            mutate_json(rng, content)
        return twice(rng, json.dumps(content)).encode()
    header, data = split(file)
    tree = header.get("__metadata__", {}).get("minidl.tree")
    if tree is not None and rng.random() < 0.6:
        nodes = [json.loads(tree)]
        mutate_json(rng, nodes)
        header["__metadata__"]["minidl.tree"] = twice(rng, json.dumps(nodes[0] if nodes else 0))
        return sign(header, data)
    for _ in range(rng.choice([1, 1, 2])):
        mutate_json(rng, header)
    metadata = header.get("__metadata__")
    if isinstance(metadata, dict) and metadata.get("minidl.version") == "1":
        return sign(header, data)
    text = twice(rng, json.dumps(header)).encode()
    length = rng.choice(NASTY) if rng.random() < 0.05 else len(text)
    length = length if type(length) is int and 0 <= length < 2**64 else len(text)
    return length.to_bytes(8, "little") + text + data


def twice(rng, text):
    """Sometimes with a name doubled, or nested without end."""
    if rng.random() < 0.05 and '": ' in text:
        at = text.rindex('"', 0, text.index('": '))
        end = text.index('": ') + 3
        return text[:at] + text[at:end] + "1, " + text[at:]
    if rng.random() < 0.02:
        return text[:-1] + "[" * 100_000 if rng.random() < 0.5 else "[" * 50_000 + "]" * 50_000
    return text


def walk(x):
    """Touch every byte of a loaded state."""
    if isinstance(x, dict):
        return [walk(v) for v in x.values()]
    if isinstance(x, (list, tuple)):
        return [walk(v) for v in x]
    array = x.array if isinstance(x, md.Tensor) else x
    return array.tobytes() if isinstance(array, np.ndarray) else repr(x)


def problem_of(path, ext, loaded):
    """What is wrong with how minidl takes a file, or None; what it loads goes to ``loaded``."""
    start = time.process_time()
    for mmap in (False, True) if ext == "safetensors" else (False,):
        try:
            loaded.append(walk(md.load(path, mmap=mmap)))
        except FileNotFoundError:
            if ext != "safetensors.index.json":
                return "no such file"
        except CheckpointError as error:
            if len(str(error)) > 1000 or "\n" in str(error):
                return f"a message of {len(str(error))} characters: {error!s:.200}"
        except Exception as error:
            return f"{type(error).__name__}: {error!s:.300}"
    if time.process_time() - start > SECONDS:
        return f"{time.process_time() - start:.1f} seconds of processor time"
    return disagreement(path) if ext == "safetensors" and loaded else None


def disagreement(path):
    """What the safetensors library reads otherwise in a file that minidl accepts."""
    from minidl.checkpoint import tensors

    arrays = tensors.read(str(path), True).arrays
    try:
        with safetensors.safe_open(path, "np") as file:
            theirs = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except AttributeError:
        return None  # NumPy alone has no float8
    except Exception as error:
        return f"the library refuses it: {type(error).__name__}: {error!s:.200}"
    if set(theirs) != set(arrays):
        return f"the library reads the names {sorted(theirs)}, minidl {sorted(arrays)}"
    for name, array in arrays.items():
        other = theirs[name]
        if other.shape != array.shape or other.tobytes() != array.tobytes():
            return f"the library reads {name} otherwise"
    return None


def limit_memory(extra):
    try:
        import resource
    except ImportError:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        limit = pages * resource.getpagesize() + extra
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(files=1_000_000, seed=0):
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        folder = Path(name)
        valid = corpus(folder)
        limit_memory(512 << 20)
        refused = problems = 0
        for n in range(seed, seed + files):
            rng = random.Random(n)
            ext = rng.choice(["safetensors"] * 6 + ["json"] * 5 + ["safetensors.index.json"])
            path = folder / f"m.{ext}"
            path.write_bytes(mutant(rng, ext, rng.choice(valid[ext])))
            loaded = []
            found = problem_of(path, ext, loaded)
            refused += not loaded
            if found:
                problems += 1
                print(f"seed {n}: {ext}: {found}", flush=True)
                if problems == 20:
                    break
    print(f"{files} files, {refused} refused, {problems} problems")
    return problems


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:3])) else 0)
