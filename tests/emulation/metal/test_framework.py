"""The stand-in refuses what PyObjC or Metal's validation refuses."""

import numpy as np
import pytest

TEXT = """#include <metal_stdlib>
using namespace metal;
typedef struct { int n; float by; } Options;
kernel void k_scale(device float *x [[buffer(0)]], constant Options &o [[buffer(1)]],
                    uint3 thread_ [[thread_position_in_threadgroup]])
{ if ((int)thread_.x < o.n) x[thread_.x] *= o.by; }
kernel void k_large(device float *x [[buffer(0)]], constant int &n [[buffer(1)]])
{ threadgroup float large[8193]; large[n] = 1; x[0] = large[n]; }
"""
OPTIONS = np.int32(4).tobytes() + np.float32(2).tobytes()


class Setup:
    """A device with a pipeline, a buffer of sixteen ones, and a command buffer."""

    def __init__(self, emulation):
        self.metal, objc = emulation.framework, emulation.objc
        self.device = self.metal.MTLCreateSystemDefaultDevice()
        self.queue = self.device.newCommandQueue()
        self.options = self.metal.MTLCompileOptions.alloc().init()
        self.options.setMathMode_(0)
        self.library, _ = self.device.newLibraryWithSource_options_error_(TEXT, self.options, None)
        self.pipeline, _ = self.device.newComputePipelineStateWithFunction_error_(
            self.library.newFunctionWithName_("k_scale"), None)
        self.buffer = self.device.newBufferWithLength_options_(64, 0)
        self.view = np.frombuffer(self.buffer.contents().as_buffer(64), np.float32)
        self.fresh = self.view.copy()
        self.view[:] = 1
        with objc.autorelease_pool():
            self.commands = self.queue.commandBuffer()

    def encoder(self):
        made = self.commands.computeCommandEncoder()
        made.setComputePipelineState_(self.pipeline)
        made.setBuffer_offset_atIndex_(self.buffer, 0, 0)
        made.setBytes_length_atIndex_(OPTIONS, 8, 1)
        return made

    def dispatch(self, encoder):
        encoder.dispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (32, 1, 1))


@pytest.fixture
def s(metal_emulation):
    return Setup(metal_emulation)


def test_nothing_runs_before_the_wait(s):
    assert np.isnan(s.fresh).all()  # memory nobody wrote
    encoder = s.encoder()
    s.dispatch(encoder)
    encoder.endEncoding()
    assert s.view[0] == 1
    s.commands.commit()
    assert s.view[0] == 1 and s.commands.status() == s.metal.MTLCommandBufferStatusCommitted
    s.commands.waitUntilCompleted()
    assert s.view.tolist() == [2] * 4 + [1] * 12
    assert s.commands.status() == s.metal.MTLCommandBufferStatusCompleted


def test_arguments_are_those_of_the_encoding(s):
    encoder = s.encoder()
    s.dispatch(encoder)
    encoder.setBytes_length_atIndex_(bytes(8), 8, 1)
    s.dispatch(encoder)
    encoder.endEncoding()
    s.commands.commit()
    s.commands.waitUntilCompleted()
    assert s.view[0] == 2


def test_what_is_made_outside_of_a_pool_is_counted(s, metal_emulation):
    before = metal_emulation.counts["leaked"]
    s.encoder()
    assert metal_emulation.counts["leaked"] == before + 1
    with pytest.raises(metal_emulation.Misuse, match="another order"):
        metal_emulation.objc.autorelease_pool().__exit__()


CALLS = {
    "a selector that does not exist": (
        lambda s: s.device.newBufferWithLength_option_(4, 0), "there is no selector newB"),
    "another object's selector": (lambda s: s.queue.commit(), "Queue does not respond to commit"),
    "too few arguments": (lambda s: s.device.newBufferWithLength_options_(4), "takes 2 arguments"),
    "a float for an integer": (
        lambda s: s.device.newBufferWithLength_options_(4.0, 0), "an integer is expected"),
    "a NumPy integer": (
        lambda s: s.device.newBufferWithLength_options_(np.int64(4), 0), "an integer is expected"),
    "a negative length": (
        lambda s: s.device.newBufferWithLength_options_(-4, 0), "an integer is expected"),
    "an array for a buffer": (
        lambda s: s.encoder().setBuffer_offset_atIndex_(s.view, 0, 0), "an object is expected"),
    "a length that is not the bytes'": (
        lambda s: s.encoder().setBytes_length_atIndex_(b"abc", 4, 1), "it has 3 bytes"),
    "two sizes for three": (
        lambda s: s.encoder().dispatchThreadgroups_threadsPerThreadgroup_((1, 1), (1, 1, 1)),
        "three integers are expected"),
    "an error that is passed in": (
        lambda s: s.device.newLibraryWithSource_options_error_(TEXT, s.options, 0), "None is exp"),
    "fast math": (lambda s: s.device.newLibraryWithSource_options_error_(TEXT, None, None), "fast"),
    "a function that is not there": (
        lambda s: s.device.newComputePipelineStateWithFunction_error_(
            s.library.newFunctionWithName_("k_other"), None), "not in the library"),
    "an offset past the end": (
        lambda s: s.encoder().setBuffer_offset_atIndex_(s.buffer, 64, 0), "1 bytes at 64"),
    "more bytes than the buffer has": (lambda s: s.buffer.contents().as_buffer(65), "65 bytes"),
    "too many bytes for setBytes": (
        lambda s: s.encoder().setBytes_length_atIndex_(bytes(4097), 4097, 1), "at most 4096"),
    "a struct of another size": (
        lambda s: (e := s.encoder(), e.setBytes_length_atIndex_(bytes(4), 4, 1), s.dispatch(e)),
        "4 bytes for o, which is 8"),
    "a value for an array": (
        lambda s: (e := s.encoder(), e.setBytes_length_atIndex_(bytes(4), 4, 0), s.dispatch(e)),
        "which is an array"),
    "an array for a value": (
        lambda s: (e := s.encoder(), e.setBuffer_offset_atIndex_(s.buffer, 0, 1), s.dispatch(e)),
        "a buffer for o"),
    "half an element": (
        lambda s: (e := s.encoder(), e.setBuffer_offset_atIndex_(s.buffer, 2, 0), s.dispatch(e)),
        "starts at byte 2"),
    "nothing bound": (
        lambda s: (e := s.commands.computeCommandEncoder(),
                   e.setComputePipelineState_(s.pipeline), s.dispatch(e)), r"nothing at buffer\(0"),
    "no pipeline": (lambda s: s.dispatch(s.commands.computeCommandEncoder()), "without a pipeline"),
    "too many threads": (
        lambda s: s.encoder().dispatchThreadgroups_threadsPerThreadgroup_((1, 1, 1), (1025, 1, 1)),
        "1 to 1024"),
    "an empty grid": (
        lambda s: s.encoder().dispatchThreadgroups_threadsPerThreadgroup_((0, 1, 1), (1, 1, 1)),
        "a grid of"),
    "an ended encoder": (lambda s: (e := s.encoder(), e.endEncoding(), s.dispatch(e)), "has ended"),
    "two encoders": (lambda s: (s.encoder(), s.encoder()), "has an open encoder"),
    "a commit with an encoder open": (lambda s: (s.encoder(), s.commands.commit()), "open encoder"),
    "two commits": (lambda s: (s.commands.commit(), s.commands.commit()), "was committed"),
    "encoding after the commit": (lambda s: (s.commands.commit(), s.encoder()), "was committed"),
    "a wait without a commit": (lambda s: s.commands.waitUntilCompleted(), "was not committed"),
    "a copy of half words": (
        lambda s: s.commands.blitCommandEncoder()
        .copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(s.buffer, 0, s.buffer, 2, 4),
        "whole words"),
    "a copy past the end": (
        lambda s: s.commands.blitCommandEncoder()
        .copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(s.buffer, 0, s.buffer, 60, 8),
        "copy to: 8 bytes at 60"),
    "memory that was given back": (
        lambda s: (s.buffer.setPurgeableState_(4), s.encoder()), "was given back"),
}


@pytest.mark.parametrize("name", CALLS)
def test_misuse_is_found(s, metal_emulation, name):
    call, expected = CALLS[name]
    with pytest.raises((metal_emulation.Misuse, AttributeError), match=expected):
        call(s)


def test_threadgroup_memory_is_limited(s):
    pipeline, error = s.device.newComputePipelineStateWithFunction_error_(
        s.library.newFunctionWithName_("k_large"), None)
    assert pipeline is None and "32772 bytes, there are 32768" in error.localizedDescription()


def matrix(emulation, buffer, offset, rows, columns, matrices=1, row_bytes=None, between=None):
    shaders = emulation.shaders
    row_bytes = columns * 4 if row_bytes is None else row_bytes
    with emulation.objc.autorelease_pool():
        described = shaders.MPSMatrixDescriptor \
            .matrixDescriptorWithRows_columns_matrices_rowBytes_matrixBytes_dataType_(
                rows, columns, matrices, row_bytes, between or rows * row_bytes,
                shaders.MPSDataTypeFloat32)
        made = shaders.MPSMatrix.alloc()
        return made.initWithBuffer_offset_descriptor_(buffer, offset, described)


def product(emulation, s, *key):
    return emulation.shaders.MPSMatrixMultiplication.alloc().initWithDevice_transposeLeft_transposeRight_resultRows_resultColumns_interiorColumns_alpha_beta_(  # noqa: E501
        s.device, *key)


def test_products(s, metal_emulation):
    s.view[:] = np.arange(16)
    a, b, c = (matrix(metal_emulation, s.buffer, at, *shape)
               for at, shape in ((0, (3, 2)), (0, (3, 2)), (24, (2, 2))))
    expected = 2 * s.view[:6].reshape(3, 2).T @ s.view[:6].reshape(3, 2) \
        + 0.5 * s.view[6:10].reshape(2, 2)
    kernel = product(metal_emulation, s, True, False, 2, 2, 3, 2.0, 0.5)
    kernel.encodeToCommandBuffer_leftMatrix_rightMatrix_resultMatrix_(s.commands, a, b, c)
    s.commands.commit()
    assert s.view[6] == 6
    s.commands.waitUntilCompleted()
    np.testing.assert_array_equal(s.view[6:10].reshape(2, 2), expected)


PRODUCTS = {
    "rows that overlap": (lambda e, s: matrix(e, s.buffer, 0, 2, 2, row_bytes=4), "do not start 4"),
    "matrices that overlap": (lambda e, s: matrix(e, s.buffer, 0, 2, 2, 2, between=8), "8 bytes"),
    "matrices between rows": (lambda e, s: matrix(e, s.buffer, 0, 2, 2, 2, between=20), "20 bytes"),
    "a matrix past the end": (lambda e, s: matrix(e, s.buffer, 60, 1, 2), "8 bytes at 60"),
    "an integer for a bool": (lambda e, s: product(e, s, 0, 0, 2, 2, 2, 1.0, 0.0), "a bool is exp"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_misuse_of_products_is_found(s, metal_emulation, name):
    call, expected = PRODUCTS[name]
    with pytest.raises(metal_emulation.Misuse, match=expected):
        call(metal_emulation, s)


def test_products_check_their_sizes_and_the_encoder(s, metal_emulation):
    a, b = (matrix(metal_emulation, s.buffer, 0, 2, n) for n in (2, 3))
    kernel = product(metal_emulation, s, False, False, 2, 2, 2, 1.0, 0.0)
    encode = kernel.encodeToCommandBuffer_leftMatrix_rightMatrix_resultMatrix_
    with pytest.raises(metal_emulation.Misuse, match="a right matrix of"):
        encode(s.commands, a, b, a)
    s.encoder()
    with pytest.raises(metal_emulation.Misuse, match="has an open encoder"):
        encode(s.commands, a, a, a)
