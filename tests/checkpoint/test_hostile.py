"""Files that lie: one clear exception each, at once, and nothing allocated on their word."""

import json
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

import minidl as md
from minidl.errors import CheckpointError

FUZZER = Path(__file__).parents[1] / "fuzz_checkpoint.py"


def file(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


HEADERS = {
    "empty": (b"", "0 bytes, too few"),
    "short": (b"\1\0\0", "3 bytes, too few"),
    "cut header": (file({"a": entry()}, length=5000), "claims 5,000 bytes.*cut off"),
    "header too large": (file({}, length=2**63), "claims 9,223,372,036,854,775,808 bytes"),
    "not JSON": (file(b"{not json}"), "header is not JSON"),
    "not an object": (file([1]), "not the header of a safetensors file"),
    "bad UTF-8": (file(b'{"\xff": 1}'), "header is not UTF-8"),
    "nested": (file(b'{"a":' + b"[" * 100_000), "nested too deeply"),
    "many lists": (file(b'{"a":[' + b"[]," * 2_000_000 + b"[]]}"), "not the header"),
    "duplicate name": (file(b'{"a":%b,"a":%b}' % ((json.dumps(entry()).encode(),) * 2), bytes(8)),
                       "the name 'a' twice"),
    "duplicate field": (file(b'{"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}}',
                             bytes(4)), "the name 'dtype' twice"),
    "NaN": (file(b'{"a":NaN}'), "NaN, which is not JSON"),
    "huge number": (file(b'{"a":' + b"9" * 10_000 + b"}"), "tensor 'a'|not JSON"),
    "metadata of numbers": (file({"__metadata__": {"a": 1}}), "not a table of strings"),
    "metadata a list": (file({"__metadata__": []}), "not a table of strings"),
    "missing field": (file({"a": {"dtype": "F32", "shape": []}}), "a dtype, a shape and data_off"),
    "extra field": (file({"a": entry(code="import os")}, bytes(8)), "a dtype, a shape and d"),
    "unknown dtype": (file({"a": entry("F128")}, bytes(8)), "dtype 'F128', which minidl does not"),
    "dtype a list": (file({"a": entry(["F32"])}, bytes(8)), "which minidl does not read"),
    "negative size": (file({"a": entry(shape=[-2])}, bytes(8)), "not a list of sizes"),
    "float size": (file({"a": entry(shape=[2.0])}, bytes(8)), "not a list of sizes"),
    "bool size": (file({"a": entry(shape=[True, 2])}, bytes(8)), "not a list of sizes"),
    "too many dims": (file({"a": entry(shape=[1] * 65, offsets=(0, 4))}, bytes(4)), "65 dim"),
    "shape overflow": (file({"a": entry(shape=[2**32, 2**32, 2**10])}, bytes(8)), "any memory"),
    "overflow and zero": (file({"a": entry(shape=[0, 2**62, 2**62], offsets=(0, 0))}), "any mem"),
    "larger than the file": (file({"a": entry(shape=[2**40], offsets=(0, 2**42))}, bytes(8)),
                             "describes 4,398,046,511,104 bytes of data, and the file has 8"),
    "wrong size": (file({"a": entry(shape=[3])}, bytes(8)), "needs 12 bytes.*give it 8"),
    "backwards": (file({"a": entry(offsets=(8, 0))}, bytes(8)), "not a range"),
    "negative offset": (file({"a": entry(offsets=(-8, 0))}, bytes(8)), "not a range"),
    "three offsets": (file({"a": entry(offsets=(0, 4, 8))}, bytes(8)), "not a range"),
    "overlap": (file({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)), "overlap or leave"),
    "same place": (file({"a": entry(), "b": entry()}, bytes(8)), "overlap or leave a hole"),
    "hole": (file({"a": entry(), "b": entry(offsets=(16, 24))}, bytes(24)), "overlap or leave a h"),
    "more data": (file({"a": entry()}, bytes(9)), "describes 8 bytes of data, and the file has 9"),
    "cut data": (file({"a": entry()}, bytes(7)), "describes 8 bytes of data, and the file has 7"),
    "bools": (file({"a": entry("BOOL", [2], (0, 2))}, b"\1\2"), "bools other than 0 and 1"),
    "no checksum": (file({"__metadata__": {"minidl.version": "1"}}), "checksum is missing"),
    "newer": (file({"__metadata__": {"minidl.version": "2"}}), "version '2' of minidl's format"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_safetensors(tmp_path, name):
    content, message = HEADERS[name]
    refused(tmp_path / "a.safetensors", content, message)


def tensor(**fields):
    node = {"dtype": "float32", "shape": [2], "values": [1, 2], **fields}
    node = {key: value for key, value in node.items() if value is not None}
    return json.dumps({"format": "minidl", "version": 1, "tensors": {"a": node}}).encode()


def tree(node):
    return json.dumps({"format": "minidl", "version": 1, "tree": node, "tensors": {}}).encode()


FILES = {
    "empty": (b"", "not JSON"),
    "not ours": (b'{"a": 1}', 'no "format": "minidl"'),
    "a list": (b"[1, 2]", 'no "format": "minidl"'),
    "newer": (b'{"format": "minidl", "version": 2}', "version 2 of minidl's format"),
    "no tensors": (b'{"format": "minidl", "version": 1}', "and nothing else"),
    "more": (b'{"format": "minidl", "version": 1, "tensors": {}, "x": 1}', "and nothing else"),
    "checksum": (b'{"format": "minidl", "version": 1, "tensors": {}, "checksum": 3}', "is not one"),
    "tensors a list": (b'{"format": "minidl", "version": 1, "tensors": []}', "not a table"),
    "bad UTF-8": (b'{"\xff": 1}', "not UTF-8"),
    "nested": (b"[" * 10_000_000, "nested too deeply"),
    "duplicate": (b'{"format": "minidl", "format": "minidl"}', "the name 'format' twice"),
    "huge integer": (tensor(values=[10**4000, 1]), "too large|not of"),
    "endless integer": (b'{"format": ' + b"9" * 5_000_000 + b"}", "not JSON"),
    "claims much": (tensor(shape=[2**40], values=None, base64="AAAA"), "base64 has 3"),
    "claims more": (tensor(shape=[2**62, 2**62], values=None, base64=""), "any memory"),
    "not base64": (tensor(values=None, base64="!!!!"), "not base64"),
    "base64 a number": (tensor(values=None, base64=3), "not base64"),
    "both": (tensor(base64="AAAA"), "values or base64"),
    "ragged": (tensor(shape=[2, 2], values=[[1, 2], [3]]), "other lengths"),
    "wrong lengths": (tensor(values=[1, 2, 3]), "other lengths"),
    "a string": (tensor(values=["1", 2]), "not of float32"),
    "fractions": (tensor(dtype="int32", values=[1.5, 2]), "not of int32"),
    "too large": (tensor(dtype="uint8", values=[256, 2]), "not of uint8"),
    "not bools": (tensor(dtype="bool", values=[1, 0]), "not of bool"),
    "bool bytes": (tensor(dtype="bool", values=None, base64="AgA="), "bools other than 0 and 1"),
    "unknown dtype": (tensor(dtype="object"), "dtype 'object', which minidl does not read"),
    "unknown node": (tree({"$eval": "1"}), r"unknown kind '\$eval'"),
    "two kinds": (tree({"$tuple": [], "$float": "nan"}), "unknown kind"),
    "a missing tensor": (tree({"$tensor": "b"}), "array 'b' that is not in the file"),
    "an unhashable key": (tree({"$dict": [[[], 1]]}), "a list for the key"),
    "a key twice": (tree({"$dict": [[1, 1], [1, 2]]}), "the key 1 twice"),
    "not pairs": (tree({"$dict": [1]}), "not made of pairs"),
}


@pytest.mark.parametrize("name", FILES)
def test_json(tmp_path, name):
    content, message = FILES[name]
    refused(tmp_path / "a.json", content, message)


def refused(path, content, message):
    """One sentence that names the file, quickly, in memory of the order of the file."""
    path.write_bytes(content)
    for mmap in (False, True) if path.suffix == ".safetensors" else (False,):
        tracemalloc.start()
        start = time.process_time()
        try:
            with pytest.raises(CheckpointError, match=message) as caught:
                md.load(path, mmap=mmap)
            assert time.process_time() - start < 5
            assert tracemalloc.get_traced_memory()[1] < 1 << 20 | 8 * len(content)
        finally:
            tracemalloc.stop()
        assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
        assert len(str(caught.value)) < 600


def test_a_tree_that_is_not_what_it_says(tmp_path):
    """Signed, so that the tree is looked at: an array of int8 that calls itself a tensor."""
    sys.path.insert(0, str(FUZZER.parent))
    try:
        from fuzz_checkpoint import sign
    finally:
        sys.path.remove(str(FUZZER.parent))
    metadata = {"minidl.version": "1", "minidl.tree": '{"$tensor": "a"}'}
    header = {"__metadata__": metadata, "a": entry("I8", [2], (0, 2))}
    refused(tmp_path / "a.safetensors", sign(header, b"\1\2"), "an array for a tensor")
    metadata["minidl.tree"] = '{"$array": "a"}'
    (tmp_path / "a.safetensors").write_bytes(sign(header, b"\1\2"))
    assert md.load(tmp_path / "a.safetensors").tolist() == [1, 2]


def test_folders_and_pipes_are_not_read(tmp_path):
    import os

    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises((CheckpointError, OSError)):
        md.load(tmp_path / "folder.safetensors")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.json")
        with pytest.raises(CheckpointError, match="this is not a file"):
            md.load(tmp_path / "pipe.json")


def test_thousands_of_mutated_files(python):
    assert "0 problems" in python(FUZZER.read_text(), 3000, 17)
