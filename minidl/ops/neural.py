"""The ops of a transformer: softmax, norms, embedding, dropout, rotary, cross-entropy.

Shape letters: B batch, T time (queries), S time (keys), C features, H heads, D features of a head,
V classes, N rows.
"""

import numpy as np

from minidl import errors
from minidl._core import op
from minidl.ops.generator import default_generator


def need_float(name, x):
    if x.dtype.kind != "f":
        raise errors.DTypeError(f"{name}: expected a floating-point tensor, got {x.dtype.name}")


def axis_of(name, dim, ndim):
    """dim as a non-negative axis of ndim dimensions; a 0-d tensor has the axis 0."""
    limit = max(ndim, 1)
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
        raise TypeError(f"{name}: dim must be an int, got {type(dim).__name__}")
    if not -limit <= dim < limit:
        raise errors.DimensionError(f"{name}: dim {dim} is out of range for {ndim} dimensions "
                                    f"(expected {-limit} to {limit - 1})")
    return int(dim) % limit


# ------------------------------------------------------------------------------------- softmax

def _along(name):
    """The op of a kernel of the last axis, along any axis."""
    name_grad = name + "_grad"

    def fn(be, input, dim):
        ndim = input.ndim
        if input.dtype.kind != "f":
            need_float(name, input)
        if type(dim) is not int or not -ndim <= dim < ndim:
            dim = axis_of(name, dim, ndim)
        kernel, kernel_grad = getattr(be, name), getattr(be, name_grad)
        if dim == -1 or dim == ndim - 1:
            y = kernel(input)
            return y, lambda g, need: kernel_grad(g, y)
        if ndim == 0:
            y = kernel(input.reshape(1)).reshape(())
            return y, lambda g, need: kernel_grad(g.reshape(1), y.reshape(1)).reshape(())
        y = kernel(input.swapaxes(dim, -1))
        return y.swapaxes(dim, -1), lambda g, need: kernel_grad(
            g.swapaxes(dim, -1), y).swapaxes(dim, -1)

    fn.__doc__ = f"{name} along an axis."
    return op(fn, method=False, name=name)


_softmax, _log_softmax = _along("softmax"), _along("log_softmax")


def softmax(input, dim, dtype=None):
    """exp(x - max) / sum(exp(x - max)) along dim.

    >>> import minidl as md
    >>> md.softmax(md.zeros(2), dim=-1)
    tensor([0.5000, 0.5000])
    """
    return _softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input, dim, dtype=None):
    """log(softmax(x)) along dim, without overflow."""
    return _log_softmax(input if dtype is None else input.to(dtype), dim)


# --------------------------------------------------------------------------------------- norms

def _trailing(name, input, normalized_shape, *params):
    """Check normalized_shape against the input and parameters; returns the size it covers."""
    shape, dtype = normalized_shape, input.dtype
    if type(shape) is not tuple:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not shape:
        raise errors.ArgumentError(f"{name}: normalized_shape must have at least one axis")
    if input.shape[-len(shape):] != shape:
        raise errors.ShapeError(f"{name}: normalized_shape is {shape}, but the input has shape "
                                f"{input.shape}")
    for what, p in params:
        if p is None:
            continue
        if p.shape != shape:
            raise errors.ShapeError(f"{name}: {what} has shape {p.shape}, expected {shape}")
        if p.dtype is not dtype and p.dtype != dtype:
            raise errors.DTypeError(f"{name}: {what} is {p.dtype.name}, the input {dtype.name}")
    return len(shape)


def _flat(be, x, axes):
    """x with its last `axes` axes as one (no copy when contiguous)."""
    if axes == 1 or x is None:
        return x
    size = int(np.prod(x.shape[x.ndim - axes:]))
    return be.contiguous(x).reshape((*x.shape[:x.ndim - axes], size))


@op(method=False)
def layer_norm(be, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) * rstd * weight + bias over the last axes, whose sizes are normalized_shape.

    >>> import minidl as md
    >>> md.nn.functional.layer_norm(md.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    need_float("layer_norm", input)
    axes = _trailing("layer_norm", input, normalized_shape, ("weight", weight), ("bias", bias))
    x, w, b = input, weight, bias
    if axes > 1:
        x, w, b = [_flat(be, a, axes) for a in (x, w, b)]
    y, mean, rstd = be.layer_norm(x, w, b, eps)
    has_bias = bias is not None

    def vjp(g, need):
        wanted = (need[0], weight is not None and need[2], has_bias and need[3])
        dx, dw, db = be.layer_norm_grad(_flat(be, g, axes), x, w, mean, rstd, wanted)
        if axes > 1:
            shape = input.shape[-axes:]
            dx = None if dx is None else dx.reshape(input.shape)
            dw = None if dw is None else dw.reshape(shape)
            db = None if db is None else db.reshape(shape)
        return dx, None, dw, db

    return y if axes == 1 else y.reshape(input.shape), vjp


@op(method=False)
def rms_norm(be, input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes."""
    need_float("rms_norm", input)
    axes = _trailing("rms_norm", input, normalized_shape, ("weight", weight))
    x, w = _flat(be, input, axes), _flat(be, weight, axes)
    eps = float(np.finfo(input.dtype).eps) if eps is None else eps
    y, rstd = be.rms_norm(x, w, eps)

    def vjp(g, need):
        wanted = (need[0], weight is not None and need[2])
        dx, dw = be.rms_norm_grad(_flat(be, g, axes), x, w, rstd, wanted)
        return (None if dx is None else dx.reshape(input.shape), None,
                None if dw is None else dw.reshape(weight.shape))

    return y.reshape(input.shape), vjp


@op(method=False, view=True)
def norm_and_skip(be, input, weight, bias, eps, centred):
    """(norm(input), input) over the last axis, LayerNorm where centred, else RMSNorm.

    What goes round the norm in a residual block is its second result: on a device the two
    gradients of the input meet in the kernel of the norm, not in one of their own.
    """
    y, *saved = be.layer_norm(input, weight, bias, eps) if centred \
        else be.rms_norm(input, weight, eps)
    grad = be.layer_norm_grad if centred else be.rms_norm_grad

    def vjp(g, need):
        g, skip = g
        if g is None:
            return skip
        wanted = (need[0], weight is not None and need[1], bias is not None and need[2])
        wanted = wanted if centred else wanted[:2]
        if skip is None or not need[0]:
            return grad(g, input, weight, *saved, wanted)
        if not isinstance(g, np.ndarray):
            return grad(g, input, weight, *saved, wanted, skip)
        dx, *rest = grad(g, input, weight, *saved, wanted)
        return be.add(dx, skip), *rest

    return (y, input), vjp


# --------------------------------------------------------------------------- embedding, dropout

@op(method=False)
def embedding(be, weight, indices, padding_idx=None):
    """weight[indices]: rows of weight[V, C] -> [..., C]; row padding_idx gets no gradient."""
    if indices.dtype.kind not in "iu":
        raise errors.DTypeError(f"embedding: indices must be integers, got {indices.dtype.name}")
    if weight.ndim != 2:
        raise errors.ShapeError(f"embedding: weight has shape {weight.shape}, expected [V, C]")
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise errors.ArgumentError(f"embedding: padding_idx {padding_idx} is outside the "
                                       f"{rows} rows")
        padding_idx %= rows
    idx = indices.astype(np.int64, copy=False)
    try:
        y = be.embedding(weight, idx)
    except IndexError as error:
        raise errors.DimensionError(str(error)) from None
    return y, lambda g, need: be.embedding_grad(g, idx, rows, padding_idx)


@op(method=False)
def one_hot(be, input, num_classes=-1):
    """Class ids as rows of zeros with a one: int64 [...] -> int64 [..., num_classes].

    >>> import minidl as md
    >>> md.nn.functional.one_hot(md.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if input.dtype != np.int64:
        raise errors.DTypeError(f"one_hot: class ids must be int64, got {input.dtype.name}")
    if num_classes == -1:
        if input.size == 0:
            raise errors.ArgumentError("one_hot: without ids num_classes must be given")
        num_classes = int(input.max()) + 1
    elif num_classes < 1:
        raise errors.ArgumentError(f"one_hot: num_classes must be positive, got {num_classes}")
    if isinstance(input, np.ndarray) and input.size \
            and (input.min() < 0 or input.max() >= num_classes):
        raise errors.ArgumentError(f"one_hot: class ids go from {input.min()} to {input.max()}, "
                                   f"expected 0 to {num_classes - 1}")
    return be.one_hot(input, num_classes), None


@op(method=False)
def _dropout(be, input, p, seed, offset):
    y = be.dropout(input, p, seed, offset)
    return y, lambda g, need: be.dropout(g, p, seed, offset)


def dropout(input, p=0.5, training=True, generator=None):
    """x / (1 - p) with probability 1 - p, else 0; x itself when not training."""
    if not 0 <= p <= 1:
        raise errors.ArgumentError(f"dropout: the probability must be from 0 to 1, got {p}")
    if not training or p == 0:
        return input
    need_float("dropout", input.array)
    seed, offset = (generator or default_generator).reserve(input.array.size)
    return _dropout(input, p, seed, offset)


@op(method=False)
def rotary(be, input, cos, sin, interleaved=False):
    """Rotate pairs of features of input[..., T, D] by angles given as cos, sin [T, D/2].

    interleaved=False pairs feature i with i + D/2 (Llama), True with i + 1 (GPT-J).
    """
    need_float("rotary", input)
    t, half = input.shape[-2], input.shape[-1] // 2
    if input.shape[-1] % 2 or cos.shape != (t, half) or sin.shape != (t, half):
        raise errors.ShapeError(f"rotary: input {input.shape} needs cos and sin of shape "
                                f"({t}, {half}), got {cos.shape} and {sin.shape}")
    y = be.rotary(input, cos, sin, interleaved)
    return y, lambda g, need: be.rotary_grad(g, cos, sin, interleaved)


# ------------------------------------------------------------------------------- cross-entropy

@op(method=False)
def cross_entropy(be, input, target, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """-log softmax(input)[target] of input[N, V] and class ids target[N], in one pass.

    Rows whose target is ignore_index count for nothing; reduction is "mean", "sum" or "none".
    """
    need_float("cross_entropy", input)
    if target.dtype.kind not in "iu":
        raise errors.DTypeError(f"cross_entropy: class ids must be integers, got "
                                f"{target.dtype.name}")
    if input.ndim != 2 or target.shape != input.shape[:1]:
        raise errors.ShapeError(f"cross_entropy: expected input [N, V] and target [N], got "
                                f"{input.shape} and {target.shape}")
    if reduction not in ("mean", "sum", "none"):
        raise errors.ArgumentError("cross_entropy: reduction must be 'mean', 'sum' or 'none', got "
                                   f"{reduction!r}")
    if not 0 <= label_smoothing <= 1:
        raise errors.ArgumentError("cross_entropy: label_smoothing must be from 0 to 1, got "
                                   f"{label_smoothing}")
    ids = target.astype(np.int64, copy=False)
    try:
        losses, lse = be.cross_entropy(input, ids, ignore_index, label_smoothing)
    except IndexError as error:
        raise errors.DimensionError(str(error)) from None
    y, count = losses, None  # the number of rows that count stays on a device
    if reduction == "mean":
        y, count = be.counted_mean(losses, ids, ignore_index)
    elif reduction == "sum":
        y = be.sum(losses, (), False)
    return y, lambda g, need: be.cross_entropy_grad(g, input, ids, lse, ignore_index,
                                                    label_smoothing, count)


__all__ = ["axis_of", "cross_entropy", "dropout", "embedding", "layer_norm", "log_softmax",
           "norm_and_skip", "one_hot", "rms_norm", "rotary", "softmax"]
