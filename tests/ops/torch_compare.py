"""Comparing what minidl and PyTorch computed: values, dtypes, shapes, orders, gradients."""

import numpy as np
import torch

import minidl as md

TOLERANCE = {"float32": (2e-4, 2e-5), "float64": (1e-7, 1e-8)}
# How much looser gradients are compared: scores of hundreds, as the samples have, make sums of
# large numbers that cancel, in which both libraries err by as much as they differ.
SLACK = {"nn.functional.scaled_dot_product_attention": 2}
# Results whose order among equal elements PyTorch leaves open.
ORDERINGS = {"argsort", "sort", "topk"}
# Gradients that PyTorch's own vectorised and plain loops answer differently at NaN.
UNSETTLED_AT_NAN = {"nn.functional." + name for name in (
    "celu", "elu", "hardshrink", "hardtanh", "relu6", "selu", "softshrink")}


def flatten(x):
    if isinstance(x, (tuple, list)):
        return [leaf for item in x for leaf in flatten(item)]
    return [x]


def compare(name, ours, theirs, values=True):
    """None when equal, else what differs."""
    ours, theirs = flatten(ours), flatten(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(b, torch.Tensor):
            if isinstance(a, md.Tensor):
                return f"a tensor instead of {b!r}"
            if not isinstance(b, (torch.dtype, torch.device)) and a != b and b == b:
                return f"{a!r} instead of {b!r}"
            continue
        if not isinstance(a, md.Tensor):
            return f"{type(a).__name__} instead of a tensor"
        if tuple(a.shape) != tuple(b.shape):
            return f"shape {tuple(a.shape)} instead of {tuple(b.shape)}"
        if "torch." + a.dtype.name != str(b.dtype):
            return f"dtype {a.dtype} instead of {b.dtype}"
        if values and not (name in ORDERINGS and i == len(ours) - 1):
            wrong = differs(plain(a.detach()), plain(b.detach().resolve_conj()))
            if wrong:
                return wrong
    return None


def plain(x):
    """The values as NumPy knows them: bfloat16 widened to float32."""
    return (x.float() if "bfloat16" in str(x.dtype) else x).numpy()


def differs(a, b, slack=1):
    rtol, atol = [t * slack for t in TOLERANCE.get(a.dtype.name, (0, 0))]
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b)) if a.dtype.kind != "f" else np.isclose(
            a, b, rtol, atol * max(1.0, scale(b)), equal_nan=True)
    if same.all():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(~same)) if same.ndim else ()
    return f"{(~same).sum()} of {same.size} values differ, first {a[at]!r} instead of {b[at]!r}"


def scale(b):
    """The size that rounding errors of sums are measured by: nine in ten values are smaller."""
    finite = np.abs(b[np.isfinite(b)])
    return float(min(np.quantile(finite, 0.9), 1e6)) if finite.size else 1.0


def order_differs(name, ours, theirs, args, kwargs):
    """None when sort, argsort or topk chose the same elements, in the same order if stable."""
    mine, wanted = torch.from_numpy(flatten(ours)[-1].numpy()), flatten(theirs)[-1]
    if kwargs.get("stable"):
        return None if torch.equal(mine, wanted) else "another order, though stable"
    x, place = args[0].detach(), 2 if name == "topk" else 1
    if x.dim():
        dim = kwargs.get("dim", args[place] if len(args) > place else -1)
        mine, wanted = x.gather(dim, mine), x.gather(dim, wanted)
    wrong = differs(mine.numpy(), wanted.numpy())
    return f"indices of other elements: {wrong}" if wrong else None


def grads_differ(name, ours, theirs, leaves):
    """Backward with one random cotangent through both, and the leaves' gradients compared."""
    pairs = [(a, b) for a, b in zip(flatten(ours), flatten(theirs), strict=True)
             if isinstance(b, torch.Tensor) and b.requires_grad]
    if not pairs:
        return None
    for a, _ in pairs:
        if not a.requires_grad:
            return "the result does not require a gradient"
    seeds = [torch.randn(b.shape, dtype=b.dtype) for _, b in pairs]
    try:
        wanted = torch.autograd.grad([b for _, b in pairs], [x for x, _ in leaves], seeds,
                                     allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return None  # torch has no such gradient itself
    got = md.autograd.grad([a for a, _ in pairs], [t for _, t in leaves],
                           [md.from_numpy(plain(s).copy()).to(a.dtype)
                            for (a, _), s in zip(pairs, seeds, strict=True)], allow_unused=True)
    for i, (g, w) in enumerate(zip(got, wanted, strict=True)):
        shape = leaves[i][0].shape
        a = np.zeros(shape) if g is None else g.numpy()
        b = np.zeros(shape) if w is None else w.numpy()
        if g is not None and a.shape != b.shape:
            return f"gradient {i} has shape {a.shape} instead of {b.shape}"
        if g is not None and w is not None and a.dtype != b.dtype:
            return f"gradient {i} is {a.dtype} instead of {b.dtype}"
        if name in UNSETTLED_AT_NAN:
            known = ~np.isnan(leaves[i][0].detach().numpy())
            a, b = a[known], b[known]
        wrong = differs(a, b, SLACK.get(name, 1))
        if wrong:
            return f"gradient {i}: {wrong}"
    return None
