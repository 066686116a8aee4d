"""What is saved comes back: any state, any dtype, any strides, in both formats."""

import base64
import json
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minidl as md
from minidl import nn
from minidl.checkpoint import header, jsonfile, tensors

FORMATS = ["state.safetensors", "state.json"]
TENSOR_DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]
ARRAY_DTYPES = ["int16", "int8", "uint64", "uint32", "uint16", "float8_e4m3fn", "float8_e5m2",
                "float8_e8m0fnu"]


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@st.composite
def arrays(draw, names):
    """Any bits in any shape, seen through any strides."""
    dtype = numpy_dtype(draw(st.sampled_from(names)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    nbytes = int(np.prod(shape)) * dtype.itemsize
    array = np.frombuffer(draw(st.binary(min_size=nbytes, max_size=nbytes)), np.uint8)
    if dtype.kind == "b":
        array = array & 1
    array = array.view(dtype).reshape(shape) if nbytes else np.zeros(shape, dtype)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2)])
    array = array[(..., *(draw(steps) for _ in array.shape))]
    if draw(st.booleans()):
        array = np.broadcast_to(array, (2, *array.shape))
    return array


tensors_ = arrays(TENSOR_DTYPES).map(md.Tensor)
keys = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none(),
                 st.tuples(st.integers(), st.text(max_size=2)), st.sampled_from(["$dict", "$"]))
states = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10),
              tensors_, arrays(TENSOR_DTYPES + ARRAY_DTYPES)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.lists(inner, max_size=3).map(tuple),
                            st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12)


@pytest.mark.parametrize("name", FORMATS)
@given(state=states)
@settings(max_examples=100, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_state(tmp_path, same, name, state):
    md.save(state, tmp_path / name)
    same(state, md.load(tmp_path / name))
    if name.endswith("safetensors"):
        same(state, md.load(tmp_path / name, mmap=True))


@pytest.mark.parametrize("name, lists", [*((name, False) for name in FORMATS),
                                         ("state.json", True)])
@pytest.mark.parametrize("dtype", TENSOR_DTYPES + ARRAY_DTYPES)
def test_every_dtype_small_and_large(tmp_path, same, name, dtype, lists):
    rng = np.random.default_rng(0)
    state = {}
    for n in (1, jsonfile.SMALL, jsonfile.SMALL + 1, 3000):
        array = rng.integers(0, 2 if dtype == "bool" else 100, (n, 2)).astype(numpy_dtype(dtype))
        state[f"n{n}"] = md.Tensor(array) if dtype in TENSOR_DTYPES else array
    md.save(state, tmp_path / name, json_lists=lists)
    same(state, md.load(tmp_path / name))


def test_blocks_on_several_threads(tmp_path, same):
    """Many tensors in a block, many blocks in a tensor, and edges in between."""
    md.set_num_threads(2)
    rng = np.random.default_rng(0)
    sizes = [3, 1 << 18, 1, 1 << 20, *[50] * 500, (1 << 18) - 7, (1 << 19) + 1]
    state = {f"t{i}": md.Tensor(rng.random(n, np.float32)) for i, n in enumerate(sizes)}
    state["wide"] = md.Tensor(rng.random((700, 900)).T)
    state["bytes"] = md.Tensor(rng.integers(0, 255, 12345, np.uint8))
    md.save(state, tmp_path / "a.safetensors")
    same(state, md.load(tmp_path / "a.safetensors"))
    same(state, md.load(tmp_path / "a.safetensors", mmap=True))


@pytest.mark.parametrize("name", FORMATS)
def test_special_floats_keep_their_bits(tmp_path, same, name):
    bits = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000, 1],
                    np.uint32)
    state = {"t": md.Tensor(bits.view(np.float32)), "x": [float("-inf"), -0.0, 5e-324]}
    md.save(state, tmp_path / name)
    same(state, md.load(tmp_path / name))


def test_small_json_is_readable_in_any_language(tmp_path):
    path = tmp_path / "a.json"
    md.save({"w": md.tensor([[1.5, float("nan")], [float("inf"), float("-inf")]]),
             "big": md.arange(1000, dtype=md.int32)}, path)
    content = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert content["version"] == 1
    assert content["tensors"]["w"] == {"dtype": "float32", "shape": [2, 2],
                                       "values": [[1.5, "nan"], ["inf", "-inf"]]}
    big = content["tensors"]["big"]
    assert (np.frombuffer(base64.b64decode(big["base64"]), "<i4") == np.arange(1000)).all()
    path.write_text(json.dumps({"format": "minidl", "version": 1, "tensors": {
        "w": {"dtype": "float32", "shape": [2], "values": [1, 2]}}}))
    assert md.load(path)["w"].tolist() == [1.0, 2.0], "written by hand, without a checksum"


def test_modules_optimizers_and_generators_stand_for_their_state(tmp_path, same):
    model = nn.Linear(3, 2)
    optimizer = md.optim.AdamW(model.parameters())
    model(md.ones(1, 3)).sum().backward()
    optimizer.step()
    generator = md.Generator().manual_seed(2**64 - 1)
    md.rand(5, generator=generator)
    md.save({"model": model, "optimizer": optimizer, "rng": generator}, tmp_path / "a.safetensors")
    state = md.load(tmp_path / "a.safetensors")
    same(dict(model.state_dict()), state["model"])
    same(optimizer.state_dict(), state["optimizer"])
    again = md.Generator().set_state(state["rng"])
    assert (md.rand(9, generator=generator) == md.rand(9, generator=again)).all()
    md.save(model, tmp_path / "b.safetensors")
    same(dict(model.state_dict()), md.load(tmp_path / "b.safetensors"))


@pytest.mark.parametrize("name", FORMATS)
def test_tied_weights_are_stored_once_and_come_back_tied(tmp_path, name):
    model = nn.Sequential(nn.Linear(300, 300, bias=False), nn.Linear(300, 300, bias=False))
    model[1].weight = model[0].weight
    md.save(model, tmp_path / name)
    assert (tmp_path / name).stat().st_size < 1.4 * 300 * 300 * 4 + 1000
    state = md.load(tmp_path / name)
    assert list(state) == ["0.weight", "1.weight"] and state["0.weight"] is state["1.weight"]
    a = md.ones(4)
    md.save([a, a[:2], a.reshape(2, 2)], tmp_path / name)
    whole, part, _ = md.load(tmp_path / name)
    whole[0] = 5.0
    assert part[0] == 1.0, "only what is the same is tied"


@pytest.mark.parametrize("name", FORMATS)
def test_same_memory_seen_otherwise_is_not_tied(tmp_path, same, name):
    a = md.arange(9).reshape(3, 3)
    state = {"a": a, "t": a.t(), "f": md.Tensor(a.array.view(np.float64)), "row": a[0]}
    md.save(state, tmp_path / name)
    same(state, md.load(tmp_path / name))


@pytest.mark.parametrize("name", FORMATS)
def test_names_that_would_collide(tmp_path, same, name):
    state = {"a": {"b": md.ones(1), "b#2": md.ones(2)}, "a.b": md.ones(3), "": {"": md.ones(4)},
             ".": md.ones(5), "__metadata__": md.ones(6), 1: md.ones(7), "1": md.ones(8)}
    md.save(state, tmp_path / name)
    same(state, md.load(tmp_path / name))


def test_without_threads(tmp_path, same, monkeypatch):
    """While the interpreter ends no thread can be started; the calling one does it all."""
    def refuse(self):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    md.set_num_threads(2)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    state = {"w": md.randn(3_000_000)}
    md.save(state, tmp_path / "a.safetensors")
    same(state, md.load(tmp_path / "a.safetensors"))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("stored", [md.bfloat16, md.float16, md.float64])
@pytest.mark.parametrize("wanted", [md.float32, md.bfloat16])
def test_a_model_takes_weights_of_another_dtype(tmp_path, name, stored, wanted):
    layer, other = nn.Linear(4, 3), nn.Linear(4, 3).to(wanted)
    if stored is md.float64:
        layer.to(md.float64).weight.data[0, 0] = 1e300  # inf in the others, without a warning
    md.save({n: t.to(stored) for n, t in layer.state_dict().items()}, tmp_path / name)
    other.load_state_dict(md.load(tmp_path / name))
    expected = layer.weight.detach().to(stored).to(wanted).to(md.float32)
    assert other.weight.dtype is wanted
    assert (other.weight.detach().to(md.float32) == expected).all()


@pytest.mark.parametrize("bad, message", [
    (object(), "the object is a object"),
    ({"a": [1, {2}]}, r"a\.1 is a set"),
    ({"f": print}, "f is a builtin_function_or_method"),
    ({"c": 1j}, "c is a complex"),
    ({"b": b"x"}, "b is a bytes"),
    ({"o": np.array([None])}, "o is an array of object"),
    ({"o": np.zeros(2, ">f4")}, "o is an array of >f4"),
    ({"o": np.zeros(2, "M8[s]")}, "o is an array of datetime64"),
])
@pytest.mark.parametrize("name", FORMATS)
def test_what_cannot_be_saved_is_named(tmp_path, name, bad, message):
    with pytest.raises(TypeError, match=message):
        md.save(bad, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_contains_itself(tmp_path):
    state = {"x": 1}
    state["self"] = state
    with pytest.raises(ValueError, match="nested deeper than 100 levels; does it contain itself"):
        md.save(state, tmp_path / "a.json")
    with pytest.raises(ValueError, match="not Unicode text"):
        md.save({"\ud800": md.ones(1)}, tmp_path / "a.safetensors")


def test_a_header_that_no_reader_would_take_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(header, "MAX_LISTS", 500)
    with pytest.raises(ValueError, match="put long lists into tensors"):
        md.save({"lists": [[]] * 501}, tmp_path / "a.safetensors")
    monkeypatch.setattr(header, "MAX_HEADER", 3000)
    with pytest.raises(ValueError, match="put long lists into tensors"):
        md.save({"text": "x" * 3000}, tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_a_text_that_looks_like_the_checksum(tmp_path):
    path = tmp_path / "a.safetensors"
    for text in ('"minidl.checksum":"00000000"', "00000000", "minidl.checksum"):
        state = {"text": text, text: text}
        md.save(state, path, metadata={"text": text})
        assert md.load(path) == state


@pytest.mark.parametrize("path, message", [
    ("model.pt", "should end in .safetensors or .json; pickled files can execute code"),
    ("model", r"model should end in .safetensors or .json"),
])
def test_paths(path, message):
    for call in (lambda: md.load(path), lambda: md.save({}, path)):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="expected a path, got int"):
        md.load(3)
    with pytest.raises(ValueError, match="json_lists is for"):
        md.save({}, "a.safetensors", json_lists=True)
    with pytest.raises(ValueError, match=r"only .safetensors files can be mapped"):
        md.load("a.json", mmap=True)
    with pytest.raises(ValueError, match="metadata is for"):
        md.save({}, "a.json", metadata={"a": "b"})
    with pytest.raises(ValueError, match=r"names that begin with minidl\. are taken"):
        md.save({}, "a.safetensors", metadata={"minidl.tree": "b"})
    with pytest.raises(FileNotFoundError):
        md.load("nothing.safetensors")


def test_metadata_is_the_users(tmp_path):
    md.save({"a": md.ones(1)}, tmp_path / "a.safetensors", metadata={"author": "é"})
    with tensors.opened(str(tmp_path / "a.safetensors")) as file:
        assert file.metadata["author"] == "é" and file.metadata["format"] == "pt"


def test_a_save_makes_no_second_copy(tmp_path, python):
    pytest.importorskip("resource")
    python("""
import resource, sys
import minidl as md
state = {f"w{i}": md.ones(1000, 4000) for i in range(3)} | {"t": md.ones(1000, 4000).t()}
small = {"a": md.ones(1000, 300), "t": md.ones(1000, 300).t()}
md.save(small, sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
md.save(state, sys.argv[1])
extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert extra < 0.05 * 64_000, f"{extra} kB of extra memory"
""", tmp_path / "a.safetensors")
