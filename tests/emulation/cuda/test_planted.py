"""Bugs planted in the kernels and the host code of minidl itself: each is found."""

import numpy as np
import pytest

from minidl_kernels import reference
from minidl_kernels.device import interface, source


@pytest.fixture
def plant(be, emulator, monkeypatch):
    """plant(right, wrong): kernels compiled from now on have the one in place of the other."""

    def planted(right, wrong):
        def render(*args):
            text, kernels = original(*args)
            assert right in text, "the text to replace is gone: plant another bug"
            return text.replace(right, wrong), kernels

        original = interface.render
        monkeypatch.setattr(interface, "render", render)
        monkeypatch.setattr(be.device, "_kernels", {})

    return planted


def softmax(be):
    x = np.random.default_rng(0).standard_normal((3, 300)).astype("float32")
    return be.softmax(be.array(x)).numpy(), reference.softmax(x)


def strided_product(be):
    """By our own kernel: no BLAS takes both strides."""
    x = np.random.default_rng(0).standard_normal((2, 40, 40)).astype("float32")
    a, b = (be.array(v)[::2, ::2] for v in x)
    return be.matmul(a, b).numpy(), x[0, ::2, ::2] @ x[1, ::2, ::2]


def gradient(be):
    rng = np.random.default_rng(0)
    x, g, w = (rng.standard_normal(shape).astype("float32") for shape in ((5, 40), (5, 40), (40,)))
    _, mean, rstd = be.layer_norm(be.array(x), be.array(w), be.array(w), 1e-5)
    need = (True, True, True)
    got = be.layer_norm_grad(be.array(g), be.array(x), be.array(w), mean, rstd, need)
    _, mean, rstd = reference.layer_norm(x, w, w, 1e-5)
    return got[0].numpy(), reference.layer_norm_grad(g, x, w, mean, rstd, need)[0]


def attention(be):
    """Forward and backward, more keys than one tile has."""
    rng = np.random.default_rng(0)
    q, k, v, g = (rng.standard_normal((1, 1, 70, 16)).astype("float32") for _ in range(4))
    found = []
    for backend, make in ((be, be.array), (reference, np.array)):
        arrays = [make(x) for x in (q, k, v)]
        out, lse = backend.attention(*arrays, is_causal=True)
        found.append([out, *backend.attention_grad(make(g), *arrays, out, lse, is_causal=True)[:3]])
    return np.stack([x.numpy() for x in found[0]]), np.stack(found[1])


def extreme(be):
    """A reduction of integers: a tree in shared memory."""
    x = np.random.default_rng(0).integers(-9, 9, (3, 300))
    return be.amax(be.array(x), (1,), False).numpy(), x.max(1)


TILE = "k0 + k < s.K\n                ? b["
BUGS = {
    "half a warp left out": (softmax, "o_ = 16; o_ > 0", "o_ = 8; o_ > 0", None),
    "a wrong index": (strided_product, "left[k][ty * 4 + i]", "left[k][ty + 4 * i]", None),
    "a wrong gradient": (gradient, "(d - mean_h -", "(d -", None),
    "a tile read past its edge": (strided_product, TILE, TILE.replace("<", "<="),
                                  "out of bounds: read"),
    "a block that writes its neighbour's row": (softmax, "BLOCK_X * n", "(BLOCK_X | 1) * n",
                                                "race with a write of another block|out of bounds"),
}


@pytest.mark.parametrize("run", [softmax, strided_product, gradient, attention, extreme])
@pytest.mark.parametrize("seed", [0, 3])
def test_nothing_planted(be, emulator, run, seed):
    with emulator.shuffled(seed):
        got, expected = run(be)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("run", [softmax, strided_product, gradient, attention, extreme])
def test_the_order_of_threads_changes_no_bit(be, emulator, run):
    expected, _ = run(be)
    for seed in (1, 2):
        with emulator.shuffled(seed):
            np.testing.assert_array_equal(run(be)[0], expected)


@pytest.mark.parametrize("name", BUGS)
def test_kernel_bug(name, be, plant):
    run, right, wrong, message = BUGS[name]
    plant(right, wrong)
    if message:
        with pytest.raises(RuntimeError, match=message):
            run(be)
    else:
        got, expected = run(be)
        assert np.abs(got - expected).max() > 1e-3


# Every barrier of these, left out alone: what runs them, how many there are (so that a new one is
# not forgotten), how many are tried. The last of the tree is for a second one, which nobody makes.
BARRIERS = {"matmul": (strided_product, 2, 2), "attention": (attention, 6, 6),
            "norm": (gradient, 2, 2), "tree": (extreme, 3, 2), "shuffled": (softmax, 2, 2)}
PARTS = {"tree": ("#define BLOCK_TREE", "#ifdef SHUFFLE_XOR"),
         "shuffled": ("#define BLOCK_FLOAT", "#else"), "attention": ("KERNEL(", "@"),
         "matmul": ("KERNEL(", "@"), "norm": ("#define ROW_BLOCK", "KERNEL(rms_norm,")}


@pytest.mark.parametrize(("part", "number"), [(part, i) for part, (*_, tried) in BARRIERS.items()
                                              for i in range(tried)])
def test_each_barrier_is_needed(part, number, be, emulator, monkeypatch):
    run, count, _ = BARRIERS[part]

    def read(name):
        text = original(name)
        if name != ("common.h" if part in ("tree", "shuffled") else f"{part}.c"):
            return text
        begin, end = PARTS[part]
        before, begin, rest = text.partition(begin)
        inside, end, after = rest.partition(end)
        pieces = inside.split("BARRIER();")
        assert len(pieces) == count + 1
        pieces[number:number + 2] = [pieces[number] + pieces[number + 1]]
        return before + begin + "BARRIER();".join(pieces) + end + after

    original = source._read
    monkeypatch.setattr(source, "_read", read)
    monkeypatch.setattr(be.device, "_kernels", {})
    with pytest.raises(RuntimeError, match=r"missing barrier|uninitialised"):
        run(be)


def test_a_forgotten_synchronize_in_the_host_code(be, emulator, monkeypatch):
    x = be.add(be.array(np.ones(8, np.float32)), 1.0)

    def download(values, x):
        values[...] = -1  # what the memory held before
        be.device._driver.memcpy_dtoh_async(values, x.block.segment + x.block.offset,
                                            be.device.stream)

    monkeypatch.setattr(be.device, "download", download)
    assert (x.numpy() != 2).all()
    monkeypatch.undo()
    assert (x.numpy() == 2).all()
