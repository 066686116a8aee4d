"""What the emulator must notice: one small kernel with one bug for each, and without it."""

import ctypes
import gc
import threading

import numpy as np
import pytest

HEAD = 'extern "C" __global__ void k(float *__restrict__ y, const float *__restrict__ x, int n)\n'
PLAIN = 'extern "C" __global__ void k(float *y, float *x, int n)\n'
T = "int t = threadIdx.x; "

# name: (kernel, what is wrong, replacement that makes it right, message)
CASES = {
    "write past the end": (HEAD + "{ " + T + "y[t + 1] = x[t]; }", "t + 1]", "t]",
                           "out of bounds: write by thread 63"),
    "read before the start": (HEAD + "{ " + T + "y[t] = x[t - 1]; }", "t - 1]", "t]",
                              "out of bounds: read by thread 0"),
    "far away": (HEAD + "{ " + T + "y[t] = x[t + (1ll << 40)]; }", " + (1ll << 40)", "",
                 "out of bounds"),
    "misaligned": (HEAD + "{ " + T + "y[t] = *(float *)((char *)x + 2); }", " + 2", " + 4",
                   "misaligned access of 4 bytes"),
    "shared past the end": (
        HEAD + "{ __shared__ float s[64], r[64]; " + T + "s[t + n - 63] = x[t]; r[t] = 0;"
        " __syncthreads(); y[t] = s[63 - t] + r[t]; }", "t + n - 63]", "t + n - 64]",
        "out of bounds: write by thread 63"),
    "shared not written": (
        HEAD + "{ __shared__ float s[64]; " + T + "if (t < 40) s[t] = x[t]; __syncthreads();"
        " y[t] = s[63 - t]; }", "if (t < 40) ", "", "uninitialised memory is read"),
    "no barrier after a write": (
        HEAD + "{ __shared__ float s[64]; " + T + "s[t] = 0; s[63 - t] = 0; __syncthreads();"
        " s[t] = x[t]; /**/ y[t] = s[63 - t]; }", "/**/", "__syncthreads();", "missing barrier"),
    "no barrier after a read": (
        HEAD + "{ __shared__ float s[64]; " + T + "s[t] = x[t]; __syncthreads(); float v ="
        " s[63 - t]; /**/ s[t] = v; y[t] = v; }", "/**/", "__syncthreads();", "missing barrier"),
    "two writers": (
        HEAD + "{ __shared__ float s; " + T + "s = t; __syncthreads(); y[t] = s; }", "s = t;",
        "s = 3;", "missing barrier after a write of"),
    "two blocks write": (HEAD + "{ " + T + "y[t] = x[t] + blockIdx.x; }", "+ blockIdx.x", "",
                         "race with a write of another block"),
    "a block reads what another writes": (
        PLAIN + "{ " + T + "if (blockIdx.x) y[t] = x[0]; else x[t] = 1; }", "y[t] = x[0]",
        "y[t] = 2", "race with a (read|write) of another block"),
    "a barrier for some": (
        HEAD + "{ " + T + "if (t < n - 1) __syncthreads(); y[t] = x[t]; }", "t < n - 1", "t < n",
        "a barrier is not reached by thread 63"),
    "two barriers": (
        HEAD + "{ __shared__ float s[64]; " + T + "s[t] = x[t]; if (t < n - 32) __syncthreads();"
        " else { s[t] += 1; __syncthreads(); } y[t] = s[t]; }", "n - 32", "n",
        "threads wait at different barriers"),
    "a shuffle without a lane": (
        HEAD + "{ " + T + "if (t == n - 9) return; y[t] = __shfl_xor_sync(~0u, x[t], 1); }",
        "t == n - 9", "t == n", "a shuffle (names|waits for) lanes"),
    "a shuffle that waits": (
        HEAD + "{ " + T + "float v = x[t]; if (t != n - 9) v = __shfl_xor_sync(~0u, v, 1);"
        " __syncthreads(); y[t] = v; }", "t != n - 9", "t != n",
        "a shuffle waits for lanes that do not come"),
}


@pytest.fixture
def arrays(be):
    return be.array(np.zeros(64, np.float32)), be.array(np.arange(64, dtype=np.float32))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_kernel(name, seed, be, emulator, load, arrays):
    text, wrong, right, message = CASES[name]
    assert wrong in text
    blocks = 2 if "block" in name else 1
    with emulator.shuffled(seed):
        load(text.replace(wrong, right), "k")(*arrays, 64, threads=64, blocks=blocks)
        be.device.synchronize()
        load(text, "k")(*arrays, 64, threads=64, blocks=blocks)
        with pytest.raises(RuntimeError, match=message):
            be.device.synchronize()


def test_a_constant_that_the_launch_writes(be, emulator, arrays, load):
    from minidl_kernels.cuda.compiler import compile_ptx  # opens the device

    text = PLAIN + "{ x[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = x[63 - threadIdx.x]; }"
    ptx = compile_ptx(text, "compute_75").decode()
    load(ptx, "k")(*arrays, 64, threads=64)
    be.device.synchronize()
    load(ptx.replace("ld.global.f32", "ld.global.nc.f32"), "k")(*arrays, 64, threads=64)
    with pytest.raises(RuntimeError, match="nc of what this launch has written"):
        be.device.synchronize()


def test_memory_that_nobody_wrote(be, emulator, arrays):
    x = be.empty((64,), np.float32)
    be.add(x, 1.0)
    with pytest.raises(RuntimeError, match="uninitialised memory is read"):
        be.device.synchronize()


def test_memory_of_the_pool_that_was_given_back(be, emulator, load, arrays):
    copy = load(HEAD + "{ " + T + "y[t] = x[t]; }", "k")
    x = be.array(np.ones(64, np.float32))
    copy(arrays[0], x, 64, threads=64)
    del x  # after the launch: work is in order, so this is right
    gc.collect()
    be.device.synchronize()
    x = be.array(np.ones(64, np.float32))
    place = type("Place", (), {"block": type("Block", (), {"segment": x.block.segment,
                                                           "offset": x.block.offset})})
    del x
    gc.collect()
    copy(arrays[0], place, 64, threads=64)
    with pytest.raises(RuntimeError, match="out of bounds: read"):
        be.device.synchronize()


def test_memory_that_was_freed(be, emulator, load):
    driver = be.device._driver
    memory = driver.mem_alloc(256)
    place = type("Place", (), {"block": type("Block", (), {"segment": int(memory), "offset": 0})})
    fill = load('extern "C" __global__ void k(float *y) { y[threadIdx.x] = 1; }', "k")
    fill(place)
    memory.free()
    fill(place)
    with pytest.raises(RuntimeError, match="out of bounds: write"):
        be.device.synchronize()


def test_a_forgotten_synchronize_is_seen(be, emulator):
    driver, stream = be.device._driver, be.device.stream
    x = be.add(be.array(np.ones(8, np.float32)), 1.0)
    seen = np.zeros(8, np.float32)
    driver.memcpy_dtoh_async(seen, x.block.segment + x.block.offset, stream)
    assert not seen.any()
    stream.synchronize()
    assert (seen == 2).all()


def test_pinned_memory_is_read_late_and_other_memory_at_once(be, emulator):
    driver, stream = be.device._driver, be.device.stream
    for values, expected in ((np.ones(8, np.float32), 1),
                             (driver.pagelocked_zeros(8, np.float32) + 0, 0),
                             (driver.pagelocked_zeros(8, np.float32), 5)):
        x = be.empty((8,), np.float32)
        driver.memcpy_htod_async(x.block.segment + x.block.offset, values, stream)
        values[:] = 5
        assert (x.numpy() == expected).all()


def test_an_error_comes_late_and_stays(be, emulator, load, arrays):
    y, x = arrays
    load(HEAD + "{ y[threadIdx.x + n] = x[0]; }", "k")(y, x, 64)  # queued: no error yet
    with pytest.raises(RuntimeError, match="out of bounds"):
        be.device.synchronize()
    with pytest.raises(RuntimeError, match="started anew"):
        be.array(np.ones(3, np.float32))
    emulator.forget()
    assert be.array(np.ones(3, np.float32)).numpy().sum() == 3


@pytest.mark.parametrize(("launch", "message"), [
    (lambda f, y, x: f(y, x, threads=64), "16 bytes of arguments, the kernel takes 20"),
    (lambda f, y, x: f(y, x, 64, threads=256), "too many threads for its launch bounds"),
    (lambda f, y, x: f(y, x, 64, blocks=0), "the grid is empty"),
])
def test_launches_that_are_refused(be, emulator, load, arrays, launch, message):
    bounded = HEAD.replace("void k", "void __launch_bounds__(64) k")
    text = bounded + "{ y[threadIdx.x] = x[n - 64]; }"
    with pytest.raises(be.device._driver.Error, match=message):
        launch(load(text, "k"), *arrays)


def test_only_ptx_is_loaded(be, emulator):
    with pytest.raises(be.device._driver.Error, match="only PTX text"):
        be.device._driver.module_from_buffer(b"\x7fELF" + bytes(5000))


def test_threads_need_a_context(be, emulator):
    result = []

    def other():
        address = ctypes.c_uint64()
        result.append(emulator._lib.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64)))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert result == [201]


def test_work_on_the_default_stream_is_counted(be, emulator):
    x = be.array(np.ones(8, np.float32))
    with emulator.counting() as n:
        be.device._driver.memcpy_htod_async(x.block.segment + x.block.offset,
                                            np.zeros(8, np.float32))
    assert n.default_stream == 1 and n.uploads == 1
