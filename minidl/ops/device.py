"""Where a tensor's memory lives: md.device("cpu")."""

from minidl.errors import DeviceError


class device:
    """A place for tensors. This build computes on the CPU.

    >>> md.device("cpu").type, md.zeros(1).device == md.device("cpu")
    ('cpu', True)
    """

    __slots__ = ("index", "type")

    def __init__(self, type="cpu", index=None):
        kind, _, number = str(type).partition(":")
        if kind != "cpu" or (number and number != "0"):
            raise DeviceError(f"device: '{type}' is not available; minidl computes on 'cpu'")
        self.type = kind
        self.index = int(number) if number else index

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


def check_device(name, where):
    """Refuse a device= that is not there."""
    if where is None or where is CPU or where == "cpu":
        return
    try:
        device(where)
    except DeviceError as error:
        raise DeviceError(f"{name}: {str(error).partition(': ')[2]}") from None
