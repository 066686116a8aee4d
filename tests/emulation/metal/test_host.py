"""The Metal backend's host code over the stand-in: the queue, memory, products, messages."""

import importlib
import sys

import numpy as np
import pytest

from minidl_kernels import reference
from minidl_kernels.device import memory

rng = np.random.default_rng(0)


def draw(*shape):
    return rng.standard_normal(shape).astype("float32")


@pytest.fixture(scope="module")
def be(metal_emulation):
    with metal_emulation.installed():
        yield importlib.import_module("minidl_kernels.metal")


@pytest.fixture
def small_staging(be, monkeypatch):
    """1024 bytes may be on their way to the device."""
    be.device.synchronize()
    monkeypatch.setattr(sys.modules["minidl_kernels.metal.host"], "_STAGING", 1024)


@pytest.fixture
def counts(metal_emulation):
    return metal_emulation.counts


def step(be, p, grads, m, v, x, target):
    """Forward, backward and optimizer of a small network; its losses, still on the device."""
    weight, bias, scale, head = p
    h = be.linear(x, weight, bias)
    y, mean, rstd = be.layer_norm(h, scale, None, 1e-5)
    q = y.reshape((4, 32, 4, 32)).transpose(0, 2, 1, 3)
    out, lse = be.attention(q, q, q, is_causal=True)
    flat = out.transpose(0, 2, 1, 3).reshape((128, 128))
    logits = be.linear(flat, head, None)
    losses, _ = be.cross_entropy(logits, target, -100, 0.0)
    g = be.softmax(logits)
    dflat = be.matmul(g, head)
    dq, dk, dv = be.attention_grad(dflat.reshape((4, 32, 4, 32)).transpose(0, 2, 1, 3), q, q, q,
                                   out, lse, is_causal=True)[:3]
    dy = be.add(be.add(dq, dk), dv).transpose(0, 2, 1, 3).reshape((128, 128))
    dh, dscale = be.layer_norm_grad(dy, h, scale, mean, rstd,
                                    (True, True, False))[:2]
    be.assign(grads[0], be.linear_grad_weight(dh, x))
    be.assign(grads[1], be.sum(dh, (0,), False))
    be.assign(grads[2], dscale)
    be.assign(grads[3], be.linear_grad_weight(g, flat))
    be.adam_(p, grads, m, v, 1e-3, 0.9, 0.99, 1e-8, 0.0, 1, True, False)
    return losses


def test_a_warm_step_makes_no_objects_and_waits_once(be, counts):
    shapes = [(128, 64), (128,), (128,), (96, 128)]
    p, grads, m, v = ([be.array(abs(draw(*s))) for s in shapes] for _ in range(4))
    x, target = draw(128, 64), rng.integers(0, 96, 128)
    losses = []
    for i in range(5):
        before = counts.copy()
        losses.append(step(be, p, grads, m, v, be.array(x + i), be.array(target)).numpy())
        if i >= 2:
            made = counts - before  # those that grew
            assert made["new"] == 0 and made["alloc"] == 0 and made["leaked"] == 0
            assert made["commits"] == 1 and made["waits"] == 1
            assert made["products"] == 5 and made["launches"] > 10
    assert np.isfinite(losses).all()


def test_nothing_is_computed_before_it_is_read(be, counts):
    x = be.array(draw(100))
    before = counts["commits"]
    y = be.add(x, 1.0)
    at = y.offset * 4
    assert counts["commits"] == before
    raw = y.block.segment.view[at:at + 400].view(np.float32)
    raw[:] = 5  # what the memory held before
    assert (raw == 5).all()
    np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)


@pytest.mark.parametrize(("values", "waits"), [
    (np.full(100, 7, np.float32), 0), (np.ones(101, bool), 1),
    (np.full(300, 7, np.float32), 1)], ids=["staged", "odd", "long"])
def test_uploads_keep_their_place_in_the_queue(be, counts, small_staging, values, waits):
    a = be.array(np.zeros_like(values))
    b = be.copy(a)
    before = counts["waits"]
    be.device.upload(a, values)
    assert counts["waits"] == before + waits
    c = be.copy(a)
    assert not b.numpy().any()
    np.testing.assert_array_equal(c.numpy(), values)


def test_the_staging_buffer_is_used_again_after_a_wait(be, counts, small_staging):
    a = be.array(np.zeros(64, np.float32))
    be.device.synchronize()
    before, sums = counts["waits"], []
    for i in range(9):
        be.device.upload(a, np.full(64, i, np.float32))
        sums.append(be.add(a, 1.0))
    assert 0 < counts["waits"] - before < 4
    assert [int(x.numpy()[0]) for x in sums] == list(range(1, 10))


def test_a_long_queue_is_sent_without_waiting(be, counts):
    x = be.array(np.zeros(4, np.float32))
    be.device.synchronize()
    before = counts.copy()
    for _ in range(1030):
        x = be.add(x, 1.0)
    assert counts["commits"] - before["commits"] == 2 and counts["waits"] == before["waits"]
    assert x.numpy()[0] == 1030 and counts["waits"] == before["waits"] + 1


@pytest.mark.parametrize(("a", "b"), [
    ((128, 64), (64, 160)), ((3, 64, 128), (3, 128, 64)), ((2, 3, 64, 64), (2, 3, 64, 64)),
    ((1, 1024), (1024, 1024))])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_large_products_are_metals(be, counts, a, b, transposed):
    x, y = draw(*a), draw(*b)
    u = be.array(x.swapaxes(-1, -2).copy()).swapaxes(-1, -2) if "a" in transposed else be.array(x)
    w = be.array(y.swapaxes(-1, -2).copy()).swapaxes(-1, -2) if "b" in transposed else be.array(y)
    before = counts["products"]
    np.testing.assert_allclose(be.matmul(u, w).numpy(), x @ y, rtol=1e-4, atol=1e-4)
    assert counts["products"] == before + 1


def test_rows_with_gaps_and_a_bias(be, counts):
    x, w, bias = draw(128, 3, 64), draw(160, 64), draw(160)
    before = counts["products"]
    part = be.array(x)[:, 1]
    np.testing.assert_allclose(be.matmul(part, be.array(w).T).numpy(), x[:, 1] @ w.T, atol=1e-4)
    got = be.linear(be.array(x), be.array(w), be.array(bias))
    np.testing.assert_allclose(got.numpy(), x @ w.T + bias, rtol=1e-4, atol=1e-4)
    assert counts["products"] == before + 2


@pytest.mark.parametrize(("left", "right"), [
    (lambda x: x[..., ::2], lambda y: y[:64]),  # elements apart
    (lambda x: x[::-1, :64], lambda y: y[:64]),  # backwards
    (lambda x: x[:5, :5], lambda y: y[:5]),  # small
    (lambda x: x[None, :, :64], lambda y: np.stack([y[:64], y[64:]]) if type(y) is np.ndarray
     else y.reshape((2, 64, 128))),  # one matrix for a batch
])
def test_other_products_are_ours(be, counts, left, right):
    x, y = draw(128, 128), draw(128, 128)
    before = counts["products"]
    got = be.matmul(left(be.array(x)), right(be.array(y))).numpy()
    np.testing.assert_allclose(got, left(x) @ right(y), rtol=1e-4, atol=1e-4)
    assert counts["products"] == before


def test_a_failed_launch_raises_where_values_are_read(be):
    x = be.array(draw(8))
    beyond = x._view((8,), (1,), x.block.segment.view.size // 4 - 4)
    y = be.add(beyond, 1.0)
    with pytest.raises(RuntimeError, match=r"emulated GPU \(Metal\) failed: k_.* reads 4 bytes"):
        y.numpy()
    assert be.add(x, 1.0).numpy().shape == (8,)


def exact(be, monkeypatch):
    """Functions that make arrays on a device where each has a buffer of exactly its own size."""
    from minidl_kernels.device.create import creators
    from minidl_kernels.metal.host import open_device

    monkeypatch.setattr(memory, "_SEGMENT", 1)
    monkeypatch.setattr(memory, "bucket", lambda nbytes: max(nbytes, 4))
    device = open_device()
    device.backend = be
    return creators(device)["array"]


def test_no_kernel_touches_what_is_beside_its_arrays(be, monkeypatch):
    array = exact(be, monkeypatch)
    x, y, w = draw(5, 37), draw(5, 37), draw(37)
    a, b, c = array(x), array(y), array(w)
    q, k = draw(1, 2, 19, 5), draw(1, 2, 23, 5)
    np.testing.assert_allclose(be.mul(a, b).numpy(), x * y, rtol=1e-6)
    np.testing.assert_allclose(be.softmax(a).numpy(), reference.softmax(x), rtol=1e-5)
    np.testing.assert_allclose(be.matmul(a, b.T).numpy(), x @ y.T, rtol=1e-4, atol=1e-5)
    out, mean, rstd = be.layer_norm(a, c, c, 1e-5)
    for got, expected in zip(be.layer_norm_grad(b, a, c, mean, rstd, [True] * 3),
                             reference.layer_norm_grad(y, x, w, mean.numpy(), rstd.numpy(),
                                                       [True] * 3), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-4)
    out, lse = be.attention(array(q), array(k), array(k))
    for got in be.attention_grad(out, array(q), array(k), array(k), out, lse):
        assert got is None or np.isfinite(got.numpy()).all()
    for axes in ((0,), (1,), (0, 1)):
        got = be.sum(a, axes, False).numpy()
        np.testing.assert_allclose(got, x.sum(axes), rtol=1e-4, atol=1e-5)
    ids = np.array([3, 0, 3])
    np.testing.assert_array_equal(be.embedding(a, array(ids)).numpy(), x[ids])
    with pytest.raises(RuntimeError, match=r"at byte 740 of buffer\(0\), which has 740"):
        be.add(a._view((186,), (1,)), 1.0).numpy()


def test_memory_goes_back_when_it_is_asked_to(be, monkeypatch):
    x = exact(be, monkeypatch)(draw(64, 64))
    device, buffer = x.device, x.block.segment.buffer
    be.matmul(be.matmul(x, x), x)
    del x
    device.pool.empty()
    assert buffer._empty and device.pool.stats()["reserved"] == 0


def test_messages(be, metal_emulation, monkeypatch, python):
    from minidl_kernels.metal.host import open_device

    metal = metal_emulation.framework
    with pytest.raises(MemoryError, match=r"emulated GPU \(Metal\) has no 8589934592 bytes left"):
        be.device.alloc(8 << 30)
    with pytest.raises(RuntimeError, match=r"Metal does not compile the kernel f: .*error"):
        be.device.compile("nonsense", "f", None)
    monkeypatch.setattr(metal.Pipeline, "threadExecutionWidth", lambda self: 16)
    with pytest.raises(RuntimeError, match=r"needs 64 threads, 32 of them .* 16 together"):
        be.device.launch("norm", "norm_grad_weight", (1, 1, 1), (None,) * 10, ROW_THREADS=64)
    monkeypatch.setattr(metal, "MTLCreateSystemDefaultDevice", lambda: None)
    with pytest.raises(RuntimeError, match="no Metal device was found"):
        open_device()
    said = python("try:\n    import minidl_kernels.metal\nexcept ImportError as e:\n    print(e)")
    assert "needs PyObjC: pip install 'minidl[metal]', and macOS: this is linux" in said
