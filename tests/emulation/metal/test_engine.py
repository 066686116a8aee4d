"""What the engine computes, and that it finds each kind of mistake in a kernel."""

import numpy as np
import pytest

HEAD = """#include <metal_stdlib>
using namespace metal;
#define BARRIER threadgroup_barrier(mem_flags::mem_threadgroup)
kernel void k_test(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                   constant int &n [[buffer(2)]], uint3 thread_ [[thread_position_in_threadgroup]],
                   uint3 block_ [[threadgroup_position_in_grid]],
                   uint3 blocks_ [[threadgroups_per_grid]])
{
    threadgroup float shared[64];
    threadgroup float tile[4][16];
    const int t = (int)thread_.x, b = (int)block_.x, i = b * 64 + t;
"""
X = np.arange(128, dtype=np.float32)


@pytest.fixture(scope="module")
def run(metal_emulation):
    """run(body, grid): y of a kernel with 64 threads a threadgroup over x = 0, 1, ..., 127."""
    metal, objc = metal_emulation.framework, metal_emulation.objc
    device = metal.MTLCreateSystemDefaultDevice()
    queue, options = device.newCommandQueue(), metal.MTLCompileOptions.alloc().init()
    options.setMathMode_(metal.MTLMathModeSafe)
    x, y = (device.newBufferWithLength_options_(512, 0) for _ in "xy")
    view = np.frombuffer(y.contents().as_buffer(512), np.float32)
    np.frombuffer(x.contents().as_buffer(512), np.float32)[:] = X

    def call(body, grid=2):
        view[:] = -1
        library, error = device.newLibraryWithSource_options_error_(HEAD + body + "}\n", options,
                                                                    None)
        if library is None:
            raise metal_emulation.Refused(error.localizedDescription())
        function = library.newFunctionWithName_("k_test")
        pipeline, error = device.newComputePipelineStateWithFunction_error_(function, None)
        with objc.autorelease_pool():
            commands = queue.commandBuffer()
            encoder = commands.computeCommandEncoder()
            encoder.setComputePipelineState_(pipeline)
            encoder.setBuffer_offset_atIndex_(x, 0, 0)
            encoder.setBuffer_offset_atIndex_(y, 0, 1)
            encoder.setBytes_length_atIndex_(np.int32(128).tobytes(), 4, 2)
            encoder.dispatchThreadgroups_threadsPerThreadgroup_((grid, 1, 1), (64, 1, 1))
            encoder.endEncoding()
            commands.commit()
            commands.waitUntilCompleted()
        if commands.status() == metal.MTLCommandBufferStatusError:
            raise RuntimeError(commands.error().localizedDescription())
        return view.copy()

    return call


def test_threads_and_threadgroups(run):
    np.testing.assert_array_equal(run("y[i] = x[n - 1 - i] + 1000 * b;"),
                                  X[::-1] + 1000 * (np.arange(128) // 64))


def test_barriers(run):
    got = run("shared[t] = x[i]; BARRIER; y[i] = shared[63 - t]; BARRIER; shared[t] = 0;")
    np.testing.assert_array_equal(got, X.reshape(2, 64)[:, ::-1].ravel())


@pytest.mark.parametrize("lanes", [1, 2, 16, 31])
def test_shuffles(run, lanes):
    np.testing.assert_array_equal(run(f"y[i] = simd_shuffle_xor(x[i], {lanes});"),
                                  X[np.arange(128) ^ lanes])


def test_sums_by_shuffles(run):
    got = run("float v = x[i]; for (int o = 16; o > 0; o >>= 1) v += simd_shuffle_xor(v, o);"
              "y[i] = v;")
    np.testing.assert_array_equal(got, np.repeat(X.reshape(4, 32).sum(1), 32))


def test_simdgroups_may_take_different_ways(run):
    got = run("float v = x[i]; if (t < 32) v = simd_shuffle_xor(v, 1); BARRIER; y[i] = v;")
    expected = X.reshape(2, 64).copy()
    expected[:, :32] = expected[:, np.arange(32) ^ 1]
    np.testing.assert_array_equal(got, expected.ravel())


def test_functions(run):
    got = run("float v = x[i] - 60.5f; y[i] = fma(floor(v), 0.5f, sqrt(fabs(v))) "
              "+ copysign(rint(v), -1.0f) * trunc(v) + ceil(v) + fmod(v, 7.0f) "
              "+ (float)(mulhi(4000000000u, (uint)i) & 0xffff);")
    v = X.astype(np.float64) - 60.5
    expected = (np.floor(v) * 0.5 + np.sqrt(np.abs(v)) - np.abs(np.rint(v)) * np.trunc(v)
                + np.ceil(v) + np.fmod(v, 7) + (4000000000 * np.arange(128) >> 32))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_threads_may_write_the_same(run):
    assert run("y[0] = 5; shared[0] = n; BARRIER; if (t == 1) y[1 + b] = shared[0];")[2] == 128


WRONG = {
    "reads past the end": ("y[i] = x[i + 1];", "reads 4 bytes at byte 512 of buffer.0., which has"),
    "reads before the start": ("y[i] = x[i - 1];", r"thread 0 .*: reads 4 bytes"),
    "writes past the end": ("y[i + n] = 1;", "writes 4 bytes at byte 512"),
    "no barrier before reading": ("shared[t] = x[i]; y[i] = shared[63 - t];",
                                  "no thread has written|wrote without a barrier"),
    "no barrier after writing twice": (
        "shared[t] = 0; BARRIER; shared[t] = x[i]; y[i] = shared[t ^ 1];",
        "byte .* of shared, which thread .* without a barrier"),
    "no barrier before writing again": (
        "shared[t] = x[i]; BARRIER; y[i] = shared[63 - t]; shared[t] = 0;",
        "byte .* of shared, which thread .* without a barrier"),
    "no barrier after all read one": (
        "shared[t] = x[i]; BARRIER; y[i] = shared[0]; if (t == 0) shared[0] = 0;",
        "writes byte 0 of shared, which thread .* read without a barrier"),
    "unwritten threadgroup memory": ("if (n == 0) shared[t] = 1; y[i] = shared[t];",
                                     "which no thread has written"),
    "a barrier for some": ("if (t < 40) BARRIER; y[i] = 1;", "24 of 64 threads do not reach"),
    "a shuffle for some": ("y[i] = t < 5 ? simd_shuffle_xor(x[i], 1) : 0;", "5 of the 32 threads"),
    "a shuffle past the simdgroup": ("y[i] = simd_shuffle_xor(x[i], 32);", "lane 32 of 32"),
    "different lanes": ("y[i] = simd_shuffle_xor(x[i], t < 3 ? 1 : 2);", "different lanes"),
    "outside a threadgroup array": ("shared[t + 1] = 1; y[i] = 1;", "index 64 is outside"),
    "outside a row": ("tile[0][t] = 1; y[i] = 1;", "index 16 is outside its array"),
    "outside a private array": ("float v[4]; for (int j = 0; j < 4; j++) v[j] = x[j]; y[i] = v[t];",
                                "index 4 is outside its array"),
    "two threads, one place": ("y[t / 2] = x[i];", "writes byte 0 .* which thread 0 .* wrote"),
    "two threadgroups, one place": ("if (t == 0) y[0] = b;", "thread 0 of threadgroup 0 wrote"),
    "what another threadgroup reads": ("if (b) y[t] = y[64]; else y[t + 64] = 1;",
                                       "reads byte 256 of buffer.1., which thread 0"),
    "a barrier does not order device memory": ("y[i] = x[i]; BARRIER; y[i] = y[i ^ 1];",
                                               "of buffer.1., which thread .* wrote without"),
    "division by zero": ("y[i] = t / (n - 128);", "divided by zero"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(run, name):
    body, expected = WRONG[name]
    with pytest.raises(RuntimeError, match=expected):
        run(body)
    np.testing.assert_array_equal(run("y[i] = x[i];"), X)  # and the next launch is not disturbed


@pytest.mark.parametrize("body", ["n = 1;", "const float *p = x; y[i] = p[i];", "x[i] = 1;",
                                  "threadgroup float *p = y; p[0] = 1;", "y[i] = __expf(x[i]);"])
def test_what_metal_refuses_is_refused(run, metal_emulation, body):
    with pytest.raises(metal_emulation.Refused, match="error:"):
        run(body)


def test_unknown_parameters_are_refused(metal_emulation):
    with pytest.raises(metal_emulation.Refused, match="does not know the parameter"):
        metal_emulation.translate("#include <metal_stdlib>\nkernel void k(uint3 lane "
                                  "[[thread_index_in_simdgroup]]) {}\n")
