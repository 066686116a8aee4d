"""The safetensors library reads what minidl writes, and the other way round."""

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import minidl as md
from minidl import nn

STRIDED = {
    "transposed": lambda a: a.T,
    "strided": lambda a: a[::2, 1::3],
    "reversed": lambda a: a[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "fortran": np.asfortranarray,
    "view": lambda a: a.reshape(4, 3, 9).transpose(1, 2, 0),
}


@pytest.mark.parametrize("view", STRIDED.values(), ids=STRIDED)
@pytest.mark.parametrize("ext", ["safetensors", "json"])
def test_strides_never_change_what_is_saved(tmp_path, view, ext):
    """safetensors 0.8.0 writes the memory of such arrays in its order, and says nothing."""
    array = view(np.arange(108, dtype=np.float32).reshape(12, 9))
    md.save({"a": md.Tensor(array), "b": array}, tmp_path / f"a.{ext}")
    state = md.load(tmp_path / f"a.{ext}")
    assert (state["a"].array == array).all() and (state["b"] == array).all()
    if ext == "safetensors":
        library = safetensors.numpy.load_file(tmp_path / "a.safetensors")
        assert (library["a"] == array).all()


def test_large_strided_tensors(tmp_path):
    """Parts of several blocks are taken from memory that is not in order."""
    array = np.random.default_rng(0).random((1500, 700), np.float32).T
    md.save({"a": md.Tensor(array), "small": md.ones(5)}, tmp_path / "a.safetensors")
    library = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert (library["a"] == array).all() and library["small"].tolist() == [1.0] * 5


def test_the_library_reads_ours(tmp_path):
    model = nn.Sequential(nn.Linear(30, 20), nn.LayerNorm(20), nn.Embedding(5, 7))
    md.save(model, tmp_path / "a.safetensors")
    library = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    state = model.state_dict()
    assert set(library) == set(state)
    assert all((library[name] == state[name].array).all() for name in state)
    with safetensors.safe_open(tmp_path / "a.safetensors", "np") as file:
        assert file.metadata()["format"] == "pt", "what transformers asks for"


def test_we_read_the_librarys(tmp_path):
    rng = np.random.default_rng(0)
    names = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16",
             "uint32", "uint64", "bool"]
    arrays = {f"x.{n}": rng.integers(0, 2, (3, i)).astype(n) for i, n in enumerate(names)}
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors", metadata={"a": "b"})
    for mmap in (False, True):
        state = md.load(tmp_path / "a.safetensors", mmap=mmap)
        assert set(state) == set(arrays)
        for name, value in state.items():
            array = value.array if isinstance(value, md.Tensor) else value
            assert array.dtype == arrays[name].dtype and (array == arrays[name]).all()
            assert isinstance(value, md.Tensor) == (name[2:] not in (
                "int16", "int8", "uint16", "uint32", "uint64"))


def test_with_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    theirs = {"b": torch.randn(3, 4).bfloat16(), "h": torch.randn(5).half(), "f": torch.randn(2, 2),
              "f8": torch.randn(6).to(torch.float8_e4m3fn)}
    save_file(theirs, tmp_path / "a.safetensors")
    ours = md.load(tmp_path / "a.safetensors")
    assert ours["b"].dtype is md.bfloat16 and ours["f8"].dtype == ml_dtypes.float8_e4m3fn
    md.save(ours, tmp_path / "b.safetensors")
    back = load_file(tmp_path / "b.safetensors")
    assert all((back[name].float() == theirs[name].float()).all() for name in theirs)
    layer, other = nn.Linear(4, 3), torch.nn.Linear(4, 3)
    save_file(other.state_dict(), tmp_path / "c.safetensors")
    layer.load_state_dict(md.load(tmp_path / "c.safetensors"))
    x = np.random.default_rng(0).random((2, 4), np.float32)
    expected = other(torch.from_numpy(x)).detach().numpy()
    assert np.allclose(layer(md.from_numpy(x)).detach().numpy(), expected, atol=1e-6)
