"""The text of a tensor: repr() and str()."""

import numpy as np

from minidl import dtypes
from minidl._methods import TensorMethods

__all__ = ["set_printoptions"]

_OPTIONS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """How tensors are printed: digits, when to summarise, how many items at the edges."""
    if profile is not None:
        profiles = {"default": (4, 1000, 3), "short": (2, 1000, 2), "full": (4, np.inf, 3)}
        _OPTIONS.update(zip(("precision", "threshold", "edgeitems"), profiles[profile],
                            strict=True))
    for name, value in (("precision", precision), ("threshold", threshold),
                        ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if value is not None:
            _OPTIONS[name] = value
    _OPTIONS["sci_mode"] = sci_mode


def edges(x, n):
    """What a summary shows of x: the first and last n items of every dim."""
    for d in range(x.ndim):
        if x.shape[d] > 2 * n:
            x = np.concatenate([x.take(range(n), d), x.take(range(-n, 0), d)], d)
    return x


def float_format(shown):
    """A function from a number to its text, the same width for all of `shown`."""
    digits = _OPTIONS["precision"]
    finite = np.abs(shown[np.isfinite(shown)])
    nonzero = finite[finite > 0]
    whole = bool((finite == np.trunc(finite)).all())
    large, small = (nonzero.max(), nonzero.min()) if nonzero.size else (0, 0)
    if _OPTIONS["sci_mode"] is None:
        scientific = large > 1e8 or (not whole and (small < 1e-4 or large / max(small, 1e-300)
                                                    > 1000))
    else:
        scientific = _OPTIONS["sci_mode"]
    spec = f".{digits}e" if scientific else ".0f" if whole else f".{digits}f"

    def text(x):
        dot = "." if whole and not scientific and np.isfinite(x) else ""
        return format(x, spec) + dot

    width = max([len(text(float(x))) for x in shown.reshape(-1)], default=0)
    return lambda x: text(float(x)).rjust(width)


def body(x):
    """The elements in brackets."""
    if x.size == 0:
        return "[]"
    x = x.astype(np.float32) if x.dtype.kind not in "fiub" or x.dtype == np.float16 else x
    summary = x.size > _OPTIONS["threshold"]
    shown = edges(x, _OPTIONS["edgeitems"]) if summary else x
    if x.dtype.kind == "f":
        fmt = float_format(shown)
    else:
        width = max([len(str(v)) for v in shown.reshape(-1).tolist()])
        fmt = lambda v: str(v).rjust(width)  # noqa: E731
    if x.ndim == 0:
        return fmt(x[()]).strip()
    threshold = _OPTIONS["threshold"] if summary else x.size + 1
    return np.array2string(x, max_line_width=_OPTIONS["linewidth"], separator=", ",
                           prefix="tensor(", formatter={"all": fmt}, threshold=threshold,
                           edgeitems=_OPTIONS["edgeitems"])


def __repr__(self):
    """tensor([1., 2.]) with what is not the default: dtype, size when empty, requires_grad."""
    parts = [body(self.array if isinstance(self.array, np.ndarray) else self.array.numpy())]
    if self.array.size == 0 and self.shape != (0,):
        parts.append(f"size={self.shape}")
    plain = (dtypes.get_default_dtype(), dtypes.bool) + (
        (dtypes.int64,) if self.array.size else ())
    if self.dtype not in plain:
        parts.append(f"dtype={self.dtype!r}")
    if not isinstance(self.array, np.ndarray):
        parts.append(f"device='{self.device}'")
    if self.grad_fn is not None:
        parts.append(f"grad_fn={self.grad_fn!r}")
    elif self.requires_grad:
        parts.append("requires_grad=True")
    return "tensor(" + ", ".join(parts) + ")"


setattr(TensorMethods, "__repr__", __repr__)  # noqa: B010  mypy knows no other way
