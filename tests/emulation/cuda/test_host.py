"""The host code of minidl_kernels.cuda: products, memory, threads, compilers, messages."""

import ctypes
import sys
import threading

import numpy as np
import pytest

import minidl as md
from minidl import nn
from minidl.nn import functional as F

VIEWS = {
    "plain": (lambda x: x, 1),
    "transposed": (lambda x: x.swapaxes(-1, -2), 1),
    "a part": (lambda x: x[..., 1:4, 2:5], 1),
    "every other": (lambda x: x[..., ::2, ::2], 0),
    "backwards": (lambda x: x[..., ::-1, :], 0),
}


@pytest.fixture
def draw():
    rng = np.random.default_rng(0)
    return lambda *shape: rng.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("left", VIEWS)
@pytest.mark.parametrize("right", VIEWS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_products_are_cublas_where_it_takes_the_strides(be, emulator, draw, left, right, batch):
    a, b = draw(*batch, 6, 6), draw(*batch, 6, 6)
    (f, by_blas), (g, as_well) = VIEWS[left], VIEWS[right]
    expected = f(a)[..., :3, :3] @ g(b)[..., :3, :3]
    with emulator.counting() as n:
        got = be.matmul(f(be.array(a))[..., :3, :3], g(be.array(b))[..., :3, :3])
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)
    # a batch over two axes that do not lie evenly takes a call for each of the outer ones
    assert (n.products > 0) == bool(by_blas and as_well)
    assert n.products + n.launches <= max(1, np.prod(batch[:1]))
    assert n.default_stream == 0


@pytest.mark.parametrize("shape", [(1, 5, 7), (4, 1, 7), (4, 5, 1), (1, 1, 1), (33, 70, 17)])
def test_thin_products_and_bias(be, emulator, draw, shape):
    m, n, k = shape
    x, w, b = draw(m, k), draw(n, k), draw(n)
    with emulator.counting() as counted:
        got = be.linear(be.array(x), be.array(w), be.array(b)).numpy()
    np.testing.assert_allclose(got, x @ w.T + b, rtol=1e-5, atol=1e-5)
    assert counted.products == 1 and counted.launches == 1  # the bias is put there first


def test_tf32_only_when_allowed(be, emulator):
    x = np.full((1, 1), 1 + 2.0**-12, np.float32)

    def square():
        return be.matmul(be.array(x), be.array(x)).item()

    assert not be.device.allow_tf32
    exact = square()
    be.device.allow_tf32 = True
    rounded = square()
    be.device.allow_tf32 = False
    assert (exact, rounded) == (float(x[0, 0] * x[0, 0]), 1.0) and square() == exact


def test_cublas_refuses_what_is_wrong(be, emulator, draw):
    x = be.array(draw(4, 4))
    at = x.block.segment + x.block.offset
    fine, short = (at, False, 4, 0), (at, False, 3, 0)
    host = (draw(4, 4).ctypes.data, False, 4, 0)
    be.device._blas.multiply(4, 4, 4, 1.0, fine, fine, 0.0, (at, False, 4, 0), 1)
    for a in (short, host):
        with pytest.raises(RuntimeError, match="an argument is wrong"):
            be.device._blas.multiply(4, 4, 4, 1.0, a, fine, 0.0, fine, 1)


def test_a_warm_sequence_takes_nothing_and_waits_for_nothing(be, emulator, draw):
    """A block's kernels, forward and backward, and AdamW."""
    x, w = be.array(draw(8, 16)), be.array(draw(16, 16))
    one, zero = be.ones((16,), np.float32), be.zeros((16,), np.float32)
    m, v = be.zeros((16, 16), np.float32), be.zeros((16, 16), np.float32)
    target = be.array(np.arange(8))

    def step():
        y, mean, rstd = be.layer_norm(x, one, zero, 1e-5)
        h = be.gelu(be.linear(y, w, zero))
        q = h.reshape(1, 1, 8, 16)
        out, lse = be.attention(q, q, q, is_causal=True)
        loss, *_ = be.cross_entropy(out.reshape(8, 16), target, -100, 0.0)
        dq, dk, _, _ = be.attention_grad(out, q, q, q, out, lse, is_causal=True)
        dy = be.add(dq, dk).reshape(8, 16)
        be.layer_norm_grad(dy, x, one, mean, rstd, (True, True, True))
        be.adam_([w], [be.linear_grad_weight(dy, y)], [m], [v], 1e-3, .9, .99, 1e-8, 0.0, 1, True,
                 False)
        return loss

    for _ in range(2):
        step()
    be.device.synchronize()
    with emulator.counting() as n:
        for _ in range(3):
            loss = step()
    assert np.isfinite(loss.numpy()).all()
    assert n.launches > 20 and n.products == 6
    assert [n.allocations, n.frees, n.waits, n.downloads, n.uploads, n.modules,
            n.default_stream] == [0] * 7


def work_of_a_step(emulator, layers):
    md.manual_seed(0)
    model = md.models.GPT(md.models.GPTConfig(vocab_size=16, context=8, layers=layers, heads=2,
                                              width=16, dropout=0.0)).to("cuda")
    optimizer = md.optim.AdamW(model.parameters(), lr=1e-3)
    x = md.zeros(2, 8, dtype=md.int64, device="cuda")
    for _ in range(3):
        with emulator.counting() as n:
            loss = F.cross_entropy(model(x).reshape(-1, 16), x.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    assert np.isfinite(loss.item())
    return n


def test_a_training_step_is_few_launches(be, emulator):
    """A layer takes at most 40, forward and backward, products included, and nothing waits."""
    two, four = (work_of_a_step(emulator, layers) for layers in (2, 4))
    assert four.launches + four.products - two.launches - two.products <= 2 * 40
    for n in (two, four):
        assert [n.allocations, n.frees, n.waits, n.downloads, n.default_stream] == [0] * 5


def test_other_threads(be, emulator):
    got = []

    def work():
        got.append(be.add(be.array(np.ones(3, np.float32)), 2.0).numpy())

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [list(x) for x in got] == [[3, 3, 3]] * 2


def test_out_of_memory_is_a_sentence(be, emulator):
    with (emulator.capacity(64 << 20), pytest.raises(
            MemoryError, match=r"out of memory: 256 MB more are needed, of 64 MB .* are free")):
        be.empty((64 << 20,), np.float32)
    assert be.array(np.ones(3, np.float32)).numpy().sum() == 3


def test_a_segment_is_given_back(be, emulator):
    with emulator.counting() as n:
        segment = be.device.alloc(1 << 20)
        be.device.free(segment)
    assert n.allocations == n.frees == 1


def test_both_compilers_give_the_same(be, emulator, monkeypatch, draw, tmp_path):
    pytest.importorskip("cuda.bindings", reason="pip install cuda-bindings nvidia-cuda-nvrtc")
    from minidl_kernels.cuda import compiler

    x = draw(3, 50)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    results, made = [], []
    for name, run in (("NVRTC", compiler._by_nvrtc), ("nvcc", compiler._by_nvcc)):
        def compile(text, architecture, name=name, run=run):
            made.append(name)
            return run(text, architecture)

        monkeypatch.setattr(compiler, "_compiler", lambda name=name, run=compile: (name, run))
        for _ in range(2):  # the second time it is read from the folder
            monkeypatch.setattr(be.device, "_kernels", {})
            monkeypatch.setattr(be.device, "_modules", {})
            results.append(be.softmax(be.array(x)).numpy())
    assert made == ["NVRTC", "nvcc"] and len(list(tmp_path.rglob("*.ptx"))) == 2
    for y in results[1:]:
        np.testing.assert_allclose(y, results[0], rtol=1e-6)
    for name, run in (("NVRTC", compiler._by_nvrtc), ("nvcc", compiler._by_nvcc)):
        with pytest.raises(RuntimeError, match=f"(?s){name} refuses a kernel for .*error"):
            run("this is no C", "compute_75")


def test_missing_pieces_say_what_to_install(be, emulator, monkeypatch):
    from minidl_kernels.cuda import blas, compiler, host

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pycuda", None)
        patch.setitem(sys.modules, "pycuda.driver", None)
        with pytest.raises(ImportError, match=r"pycuda: pip install 'minidl\[cuda\]'.*toolkit"):
            host.open_device()

    def absent(name, *args):
        raise OSError(name)

    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", absent)
        with pytest.raises(RuntimeError, match=r"needs cuBLAS .*pip install nvidia-cublas"):
            blas.Blas(None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cuda.bindings", None)
        patch.setenv("PATH", "")
        with pytest.raises(RuntimeError, match=r"needs NVRTC \(pip install .*or nvcc"):
            compiler._compiler.__wrapped__()
    with monkeypatch.context() as patch:
        patch.setattr(be.device._driver.Device, "count", staticmethod(lambda: 0))
        with pytest.raises(RuntimeError, match="there is no CUDA device; CUDA_VISIBLE_DEVICES"):
            host.open_device()


def test_a_text_that_the_driver_refuses(be, emulator, monkeypatch):
    from minidl_kernels.cuda import host

    monkeypatch.setattr(host, "compile_ptx", lambda *args: b".version 99.0\n.visible nothing")
    monkeypatch.setattr(be.device, "_kernels", {})
    monkeypatch.setattr(be.device, "_modules", {})
    with pytest.raises(RuntimeError, match="newer than the driver: update the driver"):
        be.add(be.array(np.ones(3, np.float32)), 1.0)
