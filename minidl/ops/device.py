"""Where a tensor's memory lives: md.device("cpu"), md.devices()."""

import importlib
from typing import NamedTuple

import numpy as np

from minidl.errors import DeviceError
from minidl_kernels import EXACT

__all__ = ["device", "devices"]

# What computes besides the CPU, and what to install for it.
OTHERS = {
    "cuda": "pip install 'minidl[cuda]' (pycuda is built from source: it needs NVIDIA's CUDA "
            "toolkit, and a driver to run)",
    "metal": "pip install 'minidl[metal]' (PyObjC's Metal, on macOS)",
    "opencl": "pip install 'minidl[opencl]' (pyopencl, and PoCL where no GPU has a driver for it)",
}


class device:
    """A place for tensors: "cpu", "cuda", "metal" or "opencl".

    >>> md.device("cpu").type, md.zeros(1).device == md.device("cpu")
    ('cpu', True)
    """

    __slots__ = ("index", "type")

    def __init__(self, type="cpu", index=None):
        kind, _, number = str(type).partition(":")
        if kind not in ("cpu", *OTHERS):
            raise DeviceError(f"device: there is no '{type}'; minidl computes on cpu, "
                              + ", ".join(OTHERS) + " (md.devices() says which are here)")
        self.type = kind
        self.index = int(number) if number.isdecimal() else index
        if (number and not number.isdecimal()) or self.index not in (None, 0):
            raise DeviceError(f"device: '{type}' is not available; minidl uses one device of a "
                              f"kind, '{kind}'")

    def __eq__(self, other):
        return str(self).partition(":")[0] == str(other).partition(":")[0] \
            if isinstance(other, (device, str)) else NotImplemented

    def __hash__(self):
        return hash(self.type)

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self):
        return f"device(type='{self.type}'" + (")" if self.index is None
                                               else f", index={self.index})")

    def __reduce__(self):
        return (device, (self.type, self.index))


CPU = device("cpu")
_NAMED = {name: device(name) for name in OTHERS}


def device_of(array):
    """The device of a raw array that is not NumPy's."""
    return _NAMED[array.device.name]


def backend_on(name, where):
    """The backend that makes arrays for a device= argument of the function `name`.

    That of a device is imported, and the device opened, when it is first asked for.
    """
    if where is None or where is CPU or (type(where) is str and where == "cpu"):
        return EXACT
    try:
        kind = (where if isinstance(where, device) else device(where)).type
        return EXACT if kind == "cpu" else opened(kind)
    except DeviceError as error:
        raise DeviceError(f"{name}: {str(error).partition(': ')[2]}") from None


def backend_at(array):
    """The backend that makes arrays beside this one."""
    return EXACT if isinstance(array, np.ndarray) else array.backend


def on_host(array):
    """The values of a raw array as NumPy's: itself, or fetched from its device."""
    return array if isinstance(array, np.ndarray) else array.numpy()


def opened(kind):
    """The backend minidl_kernels.KIND, or a sentence that says what is missing."""
    try:
        return importlib.import_module(f"minidl_kernels.{kind}")
    except Exception as error:  # whatever a driver has to say
        advice = "" if "pip install" in str(error) else f"; {OTHERS[kind]}"
        raise DeviceError(f"device: '{kind}' is not available: {error}{advice}") from None


class DeviceInfo(NamedTuple):
    """A device, whether it can be used, and what it is or why not."""

    name: str
    available: bool
    description: str


def devices():
    """Every kind of device, whether it can be used here, and what it is or what it misses.

    >>> [(d.name, d.description) for d in md.devices() if d.available][0]
    ('cpu', "the host's cores")
    """
    found = [DeviceInfo("cpu", True, "the host's cores")]
    for kind in OTHERS:
        try:
            found.append(DeviceInfo(kind, True, opened(kind).device.description))
        except DeviceError as error:
            found.append(DeviceInfo(kind, False, str(error).partition(": ")[2]))
    return found
