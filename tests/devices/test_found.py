"""Which devices are here, and what is said of the others. Needs none."""

import sys

import pytest

import minidl as md
from minidl import errors


def test_every_kind_is_listed_with_a_reason():
    found = {d.name: d for d in md.devices()}
    assert list(found) == ["cpu", "cuda", "metal", "opencl"] and found["cpu"].available
    for d in found.values():
        assert d.description
        if not d.available:
            assert f"'{d.name}' is not available" in d.description
            assert "pip install" in d.description


@pytest.mark.parametrize(("kind", "advice"), [("cuda", "CUDA toolkit"), ("metal", "on macOS"),
                                              ("opencl", "PoCL")])
def test_a_missing_device_says_what_to_install(monkeypatch, kind, advice):
    monkeypatch.setitem(sys.modules, f"minidl_kernels.{kind}", None)
    with pytest.raises(errors.DeviceError) as told:
        md.zeros(2, device=kind)
    assert str(told.value).startswith(f"zeros: '{kind}' is not available: ")
    assert f"pip install 'minidl[{kind}]'" in str(told.value) and advice in str(told.value)
    for ask in (lambda: md.nn.Linear(2, 2).to(kind), lambda: md.ones(1).to(md.device(kind)),
                lambda: md.Generator(kind)):
        with pytest.raises(errors.DeviceError, match="is not available"):
            ask()


def test_names_that_are_no_device():
    for name in ("tpu", "cuda:1", "cpu:x"):
        with pytest.raises(errors.DeviceError):
            md.device(name)
    assert md.device("cpu:0") == "cpu" and md.device("opencl").type == "opencl"


def test_nothing_is_opened_before_it_is_asked_for(python):
    loaded = python("import sys, minidl, minidl.cli; minidl.device('opencl'); print(*sys.modules)")
    assert not {"pyopencl", "pycuda", "Metal", "objc", "minidl_kernels.opencl"} & {*loaded.split()}
