"""Random arguments for tests/fuzz_kernels.py: valid ones from a parameter's name, then spoiled."""

import contextlib
import inspect

import numpy as np

import minidl as md

HUGE = [-(2**70), -(2**63), -(2**31) - 1, -5, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, 2**63,
        2**70]
DTYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64", "object",
          "U3", ">f4", "M8[s]", "uint64", "int8"]
NAMES = ["float32", "int64", "float16", "nonsense", "object", "i4"]
WORDS = ["sum", "mean", "none", "tanh", "", "ij,jk->ik", "...i,i", "nonsense", "cpu", "\u00b2"]


def make(rng, name, function):
    """(args, kwargs) of a call: half of the calls a valid guess with 0 to 2 arguments spoiled."""
    tensors = not name.startswith("cpu.")
    dims = {letter: rng.choice([1, 1, 2, 3, 4, 7, 8, 16, 33]) for letter in "BTCHSV"}
    if rng.random() < 0.1:
        dims[rng.choice("BTCHSV")] = 0
    parameters = names_of(function, rng)
    short = name.rpartition(".")[2]
    if name.startswith("Tensor.") and (not parameters or parameters[0] != "self"):
        parameters = ["self", *parameters]
    if rng.random() < 0.6:
        values = [guess(rng, p, dims, short, tensors) for p in parameters]
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            if values:
                spoil(rng, values, dims, tensors)
    else:
        count = max(0, len(parameters) + rng.choice([0, 0, 0, 0, -1, -2, 1]))
        values = [anything(rng, dims, tensors) for _ in range(count)]
    if name.startswith("Tensor.") and values and not isinstance(values[0], md.Tensor):
        values[0] = tensor(rng, array(rng, shape(rng, dims)))
    kwargs = {}
    if parameters and len(values) == len(parameters) and rng.random() < 0.2:
        kwargs = {parameters[-1]: values.pop()}
    return values, kwargs


def names_of(function, rng):
    """The parameters of a function; some when it does not say."""
    if hasattr(function, "nin"):                                   # a ufunc of NumPy
        return ["a", "b"][:function.nin]
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ["a", "b", "x"][:rng.randint(1, 3)]
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in found if p.default is p.empty and p.name in names]
    names = names[:rng.randint(len(required), max(len(names), len(required)))]
    if any(p.kind == p.VAR_POSITIONAL for p in found):
        names += ["x"] * rng.randint(0, 3)
    return names


# ----------------------------------------------------------------------------------- valid guesses

LISTS = {"params", "grads", "m", "v", "buffers", "arrays", "tensors"}


def guess(rng, parameter, dims, function, tensors):
    """A value that a parameter of this name usually takes."""
    B, T, C, H, S, V = (dims[letter] for letter in "BTCHSV")
    plain = {
        "shape": (B, T, C), "size": (T, C), "sizes": (B, T, C), "eps": 1e-5, "axes": (-1,),
        "axis": -1, "dim": -1, "dim0": 0, "dim1": -1, "dims": (0,), "keepdim": True, "seed": 3,
        "offset": 7, "p": 0.5, "n": 5, "need": (True, True, True, True), "interleaved": False,
        "is_causal": True, "scale": 0.5, "dropout_p": 0.1, "ignore_index": -100,
        "label_smoothing": 0.1, "low": 0, "high": 10, "padding_idx": None, "V": V, "value": 1.5,
        "dtype": "float32", "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01,
        "step": 1, "decoupled": True, "maximize": False, "momentum": 0.9, "dampening": 0.0,
        "nesterov": False, "first": True, "factor": 0.5, "lo": -0.5, "hi": 0.5, "correction": 1.0,
        "normalized_shape": (C,), "equation": "ij,jk->ik", "num_classes": -1, "repeats": 2,
        "chunks": 2, "shifts": 1, "diagonal": 0, "k": 1, "start": 0, "end": 5, "steps": 4,
        "reduction": "mean", "approximate": "tanh", "fill_value": 2.0, "min": -1.0, "max": 1.0,
        "training": True, "split_size": 2, "split_size_or_sections": 2, "enabled": True,
        "requires_grad": True,
    }
    heads = {"q": (B, H, T, 8), "k": (B, H, S, 8), "v": (B, H, S, 8), "query": (B, H, T, 8),
             "key": (B, H, S, 8), "out": (B, H, T, 8), "lse": (B, H, T)}
    shapes = {"weight": (C,), "bias": (C,), "mean": (B, T), "rstd": (B, T), "cos": (T, 4),
              "sin": (T, 4), "logits": (T, V), "dst": (V, C), "src": (T, C), "mask": (T, S),
              "attn_mask": (T, S), "weights": (V, C), "bias_k": (C,)}
    if function in ("linear", "linear_grad_weight", "embedding"):
        shapes.update(weight=(V, C), bias=(V,))
    if function.startswith("attention") or function == "scaled_dot_product_attention":
        shapes.update(heads, g=(B, H, T, 8), value=(B, H, S, 8))
        plain = {name: x for name, x in plain.items() if name not in ("k", "value")}
    if function.startswith("cross_entropy"):
        shapes.update(g=(T,), lse=(T,), input=(T, V))
    if function.startswith("rotary"):
        shapes.update(x=(B, T, 8), g=(B, T, 8))
    if function in ("matmul", "bmm") and parameter in ("b", "other", "mat2"):
        shapes[parameter] = (B, C, V)
    if parameter in ("idx", "index", "target", "indices", "input_ids", "cond", "condition"):
        if parameter.startswith("cond") or rng.random() < 0.1:
            made = np.array([[rng.random() < 0.5 for _ in range(C)] for _ in range(T)], bool)
        else:
            top = max(1, min(V, C, T))
            made = np.array([rng.randrange(top) for _ in range(T)], np.int64)
        return tensor(rng, made.reshape((T, C) if made.size != T else (T,))) if tensors else made
    if parameter in ("params", "tensors") or (parameter in LISTS and parameter not in heads):
        return [wrapped(rng, (T, C), tensors) for _ in range(2)]
    if parameter in shapes:
        return wrapped(rng, shapes[parameter], tensors)
    if parameter in plain:
        return plain[parameter]
    return wrapped(rng, (B, T, C), tensors)


def wrapped(rng, dims, tensors):
    values = np.random.default_rng(rng.randrange(1 << 30))
    made = np.asarray(values.standard_normal(dims, np.float32))
    return tensor(rng, made) if tensors else made


def tensor(rng, made):
    try:
        made = md.from_numpy(made)
        return made.requires_grad_() if rng.random() < 0.5 else made
    except (TypeError, RuntimeError, ValueError):
        return md.from_numpy(np.ones(3, np.float32))


# ---------------------------------------------------------------------------------- spoiled values

def spoil(rng, values, dims, tensors):
    """Change one argument: its strides, its shape, its dtype, some values, or all of it."""
    i = rng.randrange(len(values))
    value = values[i].array if isinstance(values[i], md.Tensor) else values[i]
    kind = rng.randrange(6)
    if not isinstance(value, np.ndarray) or kind == 0:
        values[i] = anything(rng, dims, tensors)
        return
    if kind == 1:
        value = strided(rng, value)
    elif kind == 2:
        value = array(rng, shape(rng, dims), str(value.dtype))
    elif kind == 3:
        with np.errstate(all="ignore"), contextlib.suppress(
                TypeError, ValueError, OverflowError):
            value = value.astype(rng.choice(DTYPES))
    elif kind == 4 and value.size and value.dtype.kind in "iuf":
        value = value.copy()
        extreme = np.array(rng.choice([-1, 2**31, 2**62, -(2**63), 127]))
        value.flat[rng.randrange(value.size)] = extreme.astype(value.dtype)
    elif kind == 5 and value.dtype.kind == "f":
        with np.errstate(all="ignore"):
            value = value * np.float32(rng.choice([np.nan, np.inf, 0.0, -0.0, 1e38, 1e-45]))
    values[i] = tensor(rng, np.asarray(value)) if tensors else np.asarray(value)


def strided(rng, value):
    """Other strides, broadcast, read-only or unaligned memory, mostly of the same shape."""
    kind = rng.randrange(7)
    if kind == 0 and value.ndim >= 2:
        return value.swapaxes(rng.randrange(value.ndim), rng.randrange(value.ndim))
    if kind == 1 and value.ndim:
        return value[..., ::-1]
    if kind == 2 and value.ndim:
        return np.repeat(value, 2, -1)[..., ::2]
    if kind == 3 and value.ndim and value.shape[0]:
        return np.broadcast_to(value[:1], value.shape)
    if kind == 4:
        value = value.copy()
        value.flags.writeable = False
        return value
    if kind == 5 and not value.dtype.hasobject:
        raw = np.zeros(value.nbytes + 1, np.uint8)[1:]
        raw[:] = np.frombuffer(value.tobytes(), np.uint8)
        return raw.view(value.dtype).reshape(value.shape)
    return np.asfortranarray(value)


def shape(rng, dims):
    sizes = [0, 1, 2, 3, 7, 33, *dims.values()]
    return tuple(rng.choice(sizes) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5])))


def array(rng, dims, dtype=None):
    while np.prod(dims, dtype=float) > 20_000:
        dims = dims[1:]
    dtype = np.dtype(dtype or rng.choice(["float32"] * 4 + ["int64"] * 2 + DTYPES))
    made = np.random.default_rng(rng.randrange(1 << 30)).integers(-3, 40, dims)
    return np.asarray(made).astype(dtype)


def anything(rng, dims, tensors):
    """An array, number, shape, name, None, or what no function expects."""
    kind = rng.randrange(12)
    if kind < 5:
        made = strided(rng, array(rng, shape(rng, dims)))
        return tensor(rng, made) if tensors and rng.random() < 0.9 else made
    return [
        lambda: rng.choice([-2, -1, 0, 1, 2, 3, 8]),
        lambda: rng.choice(HUGE),
        lambda: rng.choice([0.5, -1.0, float("nan"), float("inf"), 1e300, 0.0]),
        lambda: rng.choice([None, True, False, Ellipsis, object(), 1j, b"x", {}, set()]),
        lambda: rng.choice(WORDS + NAMES),
        lambda: tuple(rng.choice([0, 1, 2, 3, -1, None, 2**40]) for _ in range(rng.randrange(5))),
        lambda: [anything(rng, dims, tensors) for _ in range(rng.randrange(3))],
    ][kind - 5]()


def show(value):
    """One argument as short text."""
    if isinstance(value, md.Tensor):
        return f"Tensor({show(value.array)}{', requires_grad' if value.requires_grad else ''})"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}" + (
            "" if value.flags.carray else f" strides {value.strides}")
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(show, value))})"
    return repr(value)[:80]
