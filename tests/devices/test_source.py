"""One kernel text becomes the text of every target."""

import re

import pytest

from minidl_kernels.device import source

FILES = sorted(p.stem for p in source._HERE.glob("*.c"))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("target", source.TARGETS)
def test_every_declaration_is_understood(target, file):
    text, kernels = source.render(target, file, {"ROW_THREADS": 32})
    written = re.findall(r"^KERNEL\((\w+)", source._read(f"{file}.c"), re.M)
    assert written and list(kernels) == written
    assert "KERNEL(" not in text.replace("KERNEL(name", "")
    assert not re.search(r'#include "', text)


def test_signature_and_spelling():
    text, kernels = source.render("metal", "norm", {"ROW_THREADS": 32})
    assert kernels["softmax"] == (32, (("IN", "float", "x"), ("OUT", "float", "y"),
                                       ("VAL", "int", "n"), ("VAL", "int", "logarithm")))
    assert "kernel void k_softmax(device const float *x [[buffer(0)]], device float *y" in text
    text, _ = source.render("opencl", "norm", {"ROW_THREADS": 32})
    assert "__global const float *restrict x = x_ + x_at;" in text
    text, _ = source.render("cuda", "norm", {"ROW_THREADS": 32})
    assert '__launch_bounds__(32, 16) k_softmax(const float *__restrict__ x' in text


def test_macros_name_the_types():
    _, kernels = source.render("cuda", "cast", {"T": "int64_t", "U": "float", "FROM": "_int64",
                                                "TO": "_float32"})
    assert [type_ for _, type_, _ in kernels["cast"].arguments] == ["int64_t", "float", "Layout"]


@pytest.mark.parametrize("file", FILES)
def test_the_dialect_is_kept(file):
    text = re.sub(r"/\*.*?\*/", "", source._read(f"{file}.c"), flags=re.S)
    for foreign in ("threadIdx", "__syncthreads", "get_local_id", "threadgroup", "atomic", "double",
                    "template", "INFINITY"):
        assert foreign not in text
