"""minidl: a minimal deep-learning framework with PyTorch's names over Cython kernels.

>>> import minidl as md
>>> x = md.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

try:
    from minidl._core import Tensor
except ModuleNotFoundError as error:
    if error.name != "minidl._core":
        raise
    raise ImportError(f"these are minidl's sources, which are not built here ({__path__[0]}); "
                      "import the installed minidl from another folder, or build these: "
                      "python setup.py -q build_ext --inplace") from None
from minidl import autograd, backends, checkpoint, dtypes, errors, nn, ops, optim, profiler
from minidl.checkpoint import load, save
from minidl.config import __version__, show_config
from minidl.dtypes import (
    bfloat16, bool, double, dtype, float, float16, float32, float64, get_default_dtype, half, int,
    int32, int64, long, promote_types, result_type, set_default_dtype, uint8,
)
from minidl.grad_mode import (
    enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled,
)
from minidl.nn import Parameter
from minidl.ops import (
    abs, absolute, add, addmm, adjoint, all, allclose, amax, amin, aminmax, any, arange, argmax,
    argmin, argsort, argwhere, as_tensor, asarray, bernoulli, bitwise_and, bitwise_not, bitwise_or,
    bitwise_xor, bmm, broadcast_tensors, broadcast_to, cat, ceil, chunk, clamp, clip, clone, concat,
    concatenate, cos, count_nonzero, cumsum, default_generator, device, devices, diagonal, div,
    divide, dot, einsum, empty, empty_like, eq, equal, erf, exp, exp2, expm1, eye, flatten, flip,
    fliplr, flipud, floor, floor_divide, fmod, from_dlpack, from_numpy, full, full_like, gather, ge,
    Generator, get_rng_state, greater, greater_equal, gt, hstack, index_add, index_copy, index_fill,
    index_select, initial_seed, is_floating_point, is_tensor, isclose, isfinite, isinf, isnan, le,
    lerp, less, less_equal, linspace, log, log10, log1p, log2, log_softmax, logical_and,
    logical_not, logical_or, logical_xor, logsumexp, lt, manual_seed, masked_fill, masked_select,
    matmul, max, maximum, mean, min, minimum, mm, moveaxis, movedim, mul, multinomial, multiply, mv,
    narrow, ne, neg, negative, nonzero, norm, normal, not_equal, numel, ones, ones_like, outer,
    permute, pow, prod, rand, rand_like, randint, randint_like, randn, randn_like, randperm,
    reciprocal, relu, remainder, repeat_interleave, reshape, roll, round, rsqrt, scalar_tensor,
    scatter, scatter_add, seed, select, set_printoptions, set_rng_state, sigmoid, sign, sin,
    softmax, sort, split, sqrt, square, squeeze, stack, std, std_mean, sub, subtract, sum, swapaxes,
    swapdims, t, take, take_along_dim, tanh, tensor, tensor_split, tile, topk, transpose, tril,
    tril_indices, triu, triu_indices, true_divide, trunc, unbind, unflatten, unique, unsqueeze, var,
    var_mean, vstack, where, zeros, zeros_like,
)
from minidl_kernels.cpu.memory import empty_cache, memory_stats, reset_peak_memory
from minidl_kernels.cpu.scipy_blas import blas_threads
from minidl_kernels.cpu.threads import get_num_threads, set_num_threads

__all__ = [
    "__version__", "abs", "absolute", "add", "addmm", "adjoint", "all", "allclose", "amax", "amin",
    "aminmax", "any", "arange", "argmax", "argmin", "argsort", "argwhere", "as_tensor", "asarray",
    "autograd", "backends", "bernoulli", "bfloat16", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "blas_threads", "bmm", "bool", "broadcast_tensors", "broadcast_to", "cat",
    "ceil", "checkpoint", "chunk", "clamp", "clip", "clone", "concat", "concatenate", "cos",
    "count_nonzero", "cumsum", "data", "default_generator", "device", "devices", "diagonal", "div",
    "divide", "dot", "double", "dtype", "dtypes", "einsum", "empty", "empty_cache", "empty_like",
    "enable_grad", "eq", "equal", "erf", "errors", "exp", "exp2", "expm1", "eye", "flatten", "flip",
    "fliplr", "flipud", "float", "float16", "float32", "float64", "floor", "floor_divide", "fmod",
    "from_dlpack", "from_numpy", "full", "full_like", "gather", "ge", "generate", "Generator",
    "get_default_dtype", "get_num_threads", "get_rng_state", "greater", "greater_equal", "gt",
    "half", "hstack", "index_add", "index_copy", "index_fill", "index_select", "inference_mode",
    "initial_seed", "int", "int32", "int64", "is_floating_point", "is_grad_enabled", "is_tensor",
    "isclose", "isfinite", "isinf", "isnan", "le", "lerp", "less", "less_equal", "linspace", "load",
    "log", "log10", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsumexp", "long", "lt", "manual_seed", "masked_fill", "masked_select",
    "matmul", "max", "maximum", "mean", "memory_stats", "min", "minimum", "mm", "models",
    "moveaxis", "movedim", "mul", "multinomial", "multiply", "mv", "narrow", "ne", "neg",
    "negative", "nn", "no_grad", "nonzero", "norm", "normal", "not_equal", "numel", "ones",
    "ones_like", "ops", "optim", "outer", "Parameter", "permute", "pow", "prod", "profiler",
    "promote_types", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm", "reciprocal", "relu", "remainder", "repeat_interleave", "reset_peak_memory",
    "reshape", "result_type", "roll", "round", "rsqrt", "save", "scalar_tensor", "scatter",
    "scatter_add", "seed", "select", "set_default_dtype", "set_grad_enabled", "set_num_threads",
    "set_printoptions", "set_rng_state", "show_config", "sigmoid", "sign", "sin", "softmax", "sort",
    "split", "sqrt", "square", "squeeze", "stack", "std", "std_mean", "sub", "subtract", "sum",
    "swapaxes", "swapdims", "t", "take", "take_along_dim", "tanh", "Tensor", "tensor",
    "tensor_split", "text", "tile", "topk", "transpose", "tril", "tril_indices", "triu",
    "triu_indices", "true_divide", "trunc", "uint8", "unbind", "unflatten", "unique", "unsqueeze",
    "var", "var_mean", "vstack", "where", "zeros", "zeros_like", "plots", "train",
]

if _TYPE_CHECKING:
    from minidl import data, generate, models, plots, text, train

_LATE = ("data", "generate", "models", "plots", "text", "train")


def __getattr__(name):
    """Import what not everybody needs when it is first used: `import minidl` stays fast."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"{__name__}.{name}")
