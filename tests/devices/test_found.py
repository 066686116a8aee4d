"""Which devices are here, and what is said of the others. Needs none."""

import importlib.util
import sys
import types
from pathlib import Path

import pytest

import minidl as md
import minidl_kernels
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


class Broken:
    """A pyopencl whose devices are those of `names`, and whose compiler knows the last one only."""

    class Error(Exception):
        pass

    device_type = types.SimpleNamespace(GPU=4)
    device_fp_config = types.SimpleNamespace()
    Context = CommandQueue = Kernel = staticmethod(lambda *args: args)

    def __init__(self, *names):
        platform = types.SimpleNamespace(name="Portable")
        self.devices = [types.SimpleNamespace(name=name, type=2, platform=platform,
                                              single_fp_config=0) for name in names]

    def get_platforms(self):
        return [types.SimpleNamespace(get_devices=lambda: self.devices)]

    def Program(self, context, text):
        def build(options):
            if context[0][0].name != "good":
                raise self.Error("clBuildProgram failed\n\nerror: unknown target CPU 'generic'\n")

        return types.SimpleNamespace(build=build)


def test_an_opencl_that_cannot_compile_is_passed_over(monkeypatch):
    # the package itself would open a device
    path = Path(minidl_kernels.__file__).parent / "opencl" / "host.py"
    spec = importlib.util.spec_from_file_location("host", path)
    host = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(host)
    monkeypatch.setattr(host.Device, "__init__", lambda self: None)
    monkeypatch.setitem(sys.modules, "pyopencl", Broken("new", "good"))
    assert host.open_device().description == "good (Portable)"
    monkeypatch.setitem(sys.modules, "pyopencl", Broken("new", "newer"))
    with pytest.raises(RuntimeError) as told:
        host.open_device()
    for words in ("new (Portable) cannot compile a kernel (error: unknown target CPU 'generic'); "
                  "newer (Portable)", "pip install intel-opencl-rt"):
        assert words in str(told.value)


def test_names_that_are_no_device():
    for name in ("tpu", "cuda:1", "cpu:x"):
        with pytest.raises(errors.DeviceError):
            md.device(name)
    assert md.device("cpu:0") == "cpu" and md.device("opencl").type == "opencl"


def test_nothing_is_opened_before_it_is_asked_for(python):
    loaded = python("import sys, minidl, minidl.cli; minidl.device('opencl'); print(*sys.modules)")
    assert not {"pyopencl", "pycuda", "Metal", "objc", "minidl_kernels.opencl"} & {*loaded.split()}
