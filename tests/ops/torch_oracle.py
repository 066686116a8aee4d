"""PyTorch's own sample inputs run through minidl, and the two results compared.

Every entry of torch's op_db whose name minidl has is called as a function, as a method and in
place. A sample ends as "equal", "declined" (NotImplementedError or TypeError with a sentence) or
"skipped" (it holds a dtype minidl does not have); everything else is a failure.
"""

import itertools
import os
import random
import warnings
from collections import Counter

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch_compare import ORDERINGS, compare, flatten, grads_differ, order_differs

import minidl as md

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
ALL = os.environ.get("MINIDL_ALL_SAMPLES") == "1"
CAP = 10**9 if ALL else 24
ERRORS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
# Results that are random or uninitialised: shape and dtype are compared, values are not.
UNCERTAIN = {
    "bernoulli", "empty", "empty_like", "exponential", "multinomial", "new_empty",
    "nn.functional.dropout", "normal", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "random", "uniform",
}


def seed_cpu(seed=common_utils.SEED):
    """torch's set_rng_seed without other devices, for each of which it formats a stack trace."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


common_utils.set_rng_seed = seed_cpu  # called before every sample; a quarter of the time went there


class Skip(Exception):
    """A sample that minidl cannot be given."""


# -------------------------------------------------------------------------------- torch to minidl

def strided_copy(x):
    """A NumPy array with the values, shape and strides of a torch tensor, in memory of its own."""
    if x.dtype not in (*DTYPES, torch.int32, torch.uint8) or x.layout != torch.strided:
        raise Skip(str(x.dtype))
    x = x.detach()
    if x.is_conj() or x.is_neg():
        raise Skip("conjugate view")
    reach = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) + 1
    if x.dim() > 64:
        raise Skip("more dimensions than an array can have")
    if x.numel() == 0:
        return np.empty(tuple(x.shape), x.numpy().dtype)
    flat = torch.as_strided(x, (reach,), (1,)).numpy().copy()
    steps = tuple(s * flat.itemsize for s in x.stride())
    return np.lib.stride_tricks.as_strided(flat, tuple(x.shape), steps)


def overlaps(x):
    """Whether two elements share a place in memory, where in-place results are anyone's guess."""
    places = sum((np.arange(n).reshape((-1,) + (1,) * (x.dim() - 1 - d)) * s
                  for d, (n, s) in enumerate(zip(x.shape, x.stride(), strict=True))),
                 np.zeros(tuple(x.shape), np.int64))
    return np.unique(places).size < x.numel()


def convert(x, leaves=None):
    """A torch argument as minidl's; tensors that require gradients are listed in `leaves`."""
    if isinstance(x, torch.Tensor):
        t = md.from_numpy(strided_copy(x))
        if x.requires_grad:
            t.requires_grad_()
            if leaves is not None:
                leaves.append((x, t))
        return t
    if isinstance(x, torch.dtype):
        found = getattr(md, str(x).removeprefix("torch."), None)
        if found is None:
            raise Skip(str(x))
        return found
    if isinstance(x, torch.device):
        return md.device(x.type)
    if isinstance(x, (torch.layout, torch.Generator)):
        raise Skip(str(x))
    if isinstance(x, slice):
        return slice(*(convert(i, leaves) for i in (x.start, x.stop, x.step)))
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, (tuple, list)):
        return type(x)(convert(i, leaves) for i in x)
    if isinstance(x, dict):
        return {k: convert(v, leaves) for k, v in x.items()}
    return x


def copied(x):
    """A torch argument whose tensors are leaves of their own, with the strides they had."""
    if isinstance(x, torch.Tensor):
        return torch.from_numpy(strided_copy(x)).requires_grad_(x.requires_grad)
    if isinstance(x, torch.Size):
        return x
    if isinstance(x, (tuple, list)):
        return type(x)(copied(i) for i in x)
    return {k: copied(v) for k, v in x.items()} if isinstance(x, dict) else x


# --------------------------------------------------------------------------------------- running

# op_db calls these with the differentiable argument first.
REORDERED = {
    "einsum": lambda tensors, equation: md.einsum(equation, tensors),
    "nn.functional.embedding": lambda w, ids, **k: md.nn.functional.embedding(ids, w, **k),
    "where": lambda x, condition, other, **k: md.where(condition, x, other, **k),
}


def function_of(name):
    """minidl's function of a torch name such as "nn.functional.gelu", or None."""
    if name in REORDERED:
        return REORDERED[name]
    found = md
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else None


def method_of(name):
    found = getattr(md.Tensor, name, None) if "." not in name else None
    return found.fget if isinstance(found, property) else found


def covered():
    """The entries of op_db that minidl has as a function or a method."""
    return [op for op in op_db if function_of(op.name) or method_of(op.name)
            or (op.name in UNCERTAIN and method_of(op.name + "_"))]


def forms(op):
    """(label, minidl callable, torch callable) of every way to call an op that both have."""
    function, method = function_of(op.name), method_of(op.name)
    if op.variant_test_name == "in_place" or not (function or method):
        function, method = None, method_of(op.name + "_")
    in_place = op.name.endswith("_") and not op.name.endswith("__")
    yield "inplace" if in_place else "function", function or method, op.op
    if function and method and op.method_variant is not None:
        yield "method", method, op.op
    inplace = method_of(op.name + "_")
    if inplace and op.inplace_variant is not None:
        yield "inplace", inplace, op.inplace_variant
    for alias in op.aliases:
        if function_of(alias.name):
            yield f"alias {alias.name}", function_of(alias.name), op.op


def refuse_warnings():
    """Warnings that leak from NumPy fail; those addressed to the user pass."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", UserWarning)


def attempt(op, label, ours, theirs, sample, grads, tally):
    """Run one sample through both; returns a description of what went wrong, or None."""
    leaves = []
    try:
        args = [copied(sample.input), *copied(tuple(sample.args))]
        kwargs = copied(dict(sample.kwargs))
        if label == "inplace" and (not isinstance(args[0], torch.Tensor)
                                   or sample.broadcasts_input or overlaps(args[0])):
            return None
        our_args = convert(args, leaves)
        our_kwargs = convert(kwargs, leaves)
    except Skip:
        tally["skipped"] += 1
        return None
    if label == "inplace" and args[0].requires_grad:
        # a leaf cannot be changed in place: change a copy that the graph knows
        args[0], our_args[0] = args[0].clone(), our_args[0].clone()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = theirs(*args, **kwargs)
    except Exception:
        return None  # torch itself refuses the sample in this form
    certain = op.name not in UNCERTAIN and not kwargs.get("dropout_p")
    got = wrong = None
    with warnings.catch_warnings():
        refuse_warnings()
        try:
            got = ours(*our_args, **our_kwargs)
        except (NotImplementedError, TypeError) as error:
            if str(error):
                tally["declined"] += 1
                tally[f"declined: {type(error).__name__}: {error}"] += 1
                return None
            wrong = f"{type(error).__name__} without a sentence"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        try:  # what was accepted must also have its gradient
            wrong = wrong or compare(op.name, got, expected, certain)
            if wrong is None and op.name in ORDERINGS:
                wrong = order_differs(op.name, got, expected, args, kwargs)
            if wrong is None and grads and op.supports_autograd and certain:
                wrong = grads_differ(op.name, got, expected, leaves)
        except Exception as error:
            wrong = f"gradient: {type(error).__name__}: {error}"
    if wrong is None:
        tally["equal"] += 1
        return None
    tally["failed"] += 1
    return f"{label}({describe(sample)}): {wrong}"


def describe(sample):
    def short(x):
        if isinstance(x, torch.Tensor):
            strides = "" if x.is_contiguous() else f" strides {tuple(x.stride())}"
            return f"<{str(x.dtype)[6:]} {tuple(x.shape)}{strides}>" \
                + (f"={x.tolist()}" if x.numel() < 5 else "")
        if isinstance(x, (tuple, list)):
            return "(" + ", ".join(map(short, x)) + ")"
        return repr(x)

    return ", ".join([short(sample.input), *map(short, sample.args),
                      *(f"{k}={short(v)}" for k, v in sample.kwargs.items())])


def spread(samples, cap):
    """At most `cap` of the samples, from the whole range of them."""
    samples = list(samples)
    if len(samples) <= cap:
        return samples
    return [samples[i * len(samples) // cap] for i in range(cap)]


def small(sample):
    tensors = [x for x in flatten([sample.input, list(sample.args)]) if isinstance(x, torch.Tensor)]
    return ALL or sum(x.numel() for x in tensors) < 200_000


def drawn(inputs, dtype, grads):
    """The samples of one dtype; a few generators of torch cannot make ones with gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(itertools.islice(inputs("cpu", dtype, requires_grad=grads),
                                         10**9 if ALL else 600))
        except (RuntimeError, ValueError):
            if not grads:
                raise
            return drawn(inputs, dtype, False)


def run(op, tally=None):
    """All failures of one op of op_db, as sentences."""
    tally = Counter() if tally is None else tally
    failures = []
    for dtype in DTYPES:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        seed_cpu(0)
        grads = dtype.is_floating_point and op.supports_autograd
        samples = spread(drawn(op.sample_inputs, dtype, grads), CAP)
        samples += spread(filter(small, drawn(op.reference_inputs, dtype, grads)), CAP)
        for label, ours, theirs in forms(op):
            subset = samples if label == "function" else spread(samples, CAP // 2)
            for sample in subset:
                wrong = attempt(op, label, ours, theirs, sample, grads, tally)
                if wrong:
                    failures.append(f"{str(dtype)[6:]} {wrong}")
    return failures


def run_errors(op, tally=None):
    """The error inputs of one op that minidl accepted or met with the wrong exception."""
    tally = Counter() if tally is None else tally
    failures = []
    if op.error_inputs_func is None:
        return failures
    ours = next(forms(op))[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = list(op.error_inputs("cpu"))
    for error_input in inputs:
        sample = error_input.sample_input
        try:
            args = convert([sample.input, *sample.args])
            kwargs = convert(dict(sample.kwargs))
        except Skip:
            tally["skipped"] += 1
            continue
        try:
            with warnings.catch_warnings():
                refuse_warnings()
                ours(*args, **kwargs)
        except ERRORS as error:
            if str(error):
                tally["refused"] += 1
                continue
            wrong = f"{type(error).__name__} without a sentence"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        else:
            wrong = f"accepted; torch says: {error_input.error_regex}"
        tally["failed"] += 1
        failures.append(f"error input ({describe(sample)}): {wrong}")
    return failures
