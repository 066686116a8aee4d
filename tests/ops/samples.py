"""Sample inputs of every registered op: its name -> functions that build its arguments.

Each function takes a random generator and returns the arguments; tensors that can take a gradient
are float64 and require one. Values stay away from kinks, ties and poles, so that finite differences
agree with the gradients.
"""

import numpy as np

import minidl as md
from minidl_kernels import EXACT


def real(rng, *shape, low=-2.0, high=2.0):
    """A float64 tensor that requires a gradient."""
    return md.from_numpy(np.asarray(rng.uniform(low, high, shape))).requires_grad_()


def positive(rng, *shape):
    return real(rng, *shape, low=0.3, high=2.0)


def apart(rng, *shape):
    """Distinct values, none near another, a whole number or a half: no ties, no kinks."""
    n = int(np.prod(shape))
    values = (np.arange(n) - n // 2) * 0.2 + 0.07
    return md.from_numpy(rng.permutation(values).reshape(shape)).requires_grad_()


def ids(rng, high, *shape):
    return md.from_numpy(rng.integers(0, high, shape))


def mask(rng, *shape):
    return md.from_numpy(rng.random(shape) < 0.5)


def unary(build):
    return [lambda r: (build(r, 3, 4),), lambda r: (build(r),), lambda r: (build(r, 0, 3),)]


def binary(a, b):
    return [lambda r: (a(r, 3, 4), b(r, 3, 4)), lambda r: (a(r, 3, 1), b(r, 4)),
            lambda r: (a(r, 2, 3), b(r)), lambda r: (a(r, 2, 3), 1.5)]


def whole(rng, *shape):
    return md.from_numpy(rng.integers(-3, 4, shape))


SAMPLES = {
    # elementwise
    **{name: unary(real) for name in (
        "cos", "erf", "exp", "exp2", "expm1", "gelu", "gelu_tanh", "logsigmoid", "neg", "sigmoid",
        "silu", "sin", "softplus", "square", "tanh")},
    **{name: unary(positive) for name in ("log", "log10", "log1p", "log2", "reciprocal", "rsqrt",
                                          "sqrt")},
    **{name: unary(apart) for name in ("abs", "ceil", "floor", "relu", "round", "sign", "trunc")},
    **{name: binary(real, real) for name in ("add", "mul", "sub")},
    **{name: binary(apart, lambda r, *s: real(r, *s, low=0.01, high=0.05))[:3]
       for name in ("maximum", "minimum")},
    "div": binary(real, positive),
    "pow": binary(positive, real),
    "remainder": [lambda r: (real(r, 3, 4, low=0.1, high=0.9), real(r, 4, low=1.1, high=1.9))],
    "fmod": [lambda r: (real(r, 3, 4, low=2.1, high=2.9), real(r, 4, low=1.1, high=1.3))],
    "floor_divide": [lambda r: (whole(r, 3, 4), 2)],
    "floor_rounded_divide": [lambda r: (real(r, 3, low=2.1, high=2.9), real(r, 3, low=1.1,
                                                                             high=1.3))],
    "trunc_divide": [lambda r: (real(r, 3, low=2.1, high=2.9), real(r, 3, low=1.1, high=1.3))],
    **{name: [lambda r: (whole(r, 3, 4), whole(r, 4))] for name in (
        "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor",
        "logical_and", "logical_or", "logical_xor")},
    **{name: [lambda r: (whole(r, 3, 4),)] for name in ("bitwise_not", "logical_not", "isnan",
                                                        "isinf", "isfinite")},
    "clamp": [lambda r: (apart(r, 3, 4), -0.55, 0.85), lambda r: (apart(r, 3, 4), None, 0.55),
              lambda r: (apart(r, 3, 4), real(r, 4, low=-0.06, high=-0.04),
                         real(r, 1, low=0.24, high=0.26))],
    "_where": [lambda r: (mask(r, 3, 4), real(r, 4), real(r, 3, 1))],
    "fill": [lambda r: (real(r, 3), 2.0), lambda r: (real(r, 3), real(r))],
    "copy": [lambda r: (real(r, 3, 4), real(r, 4))],
    "moved": [lambda r: (real(r, 3), EXACT)],
    "cast": [lambda r: (real(r, 3), np.dtype("float64"))],
    "clone": [lambda r: (real(r, 3, 4),), lambda r: (real(r, 4, 3).T,)],
    # linear algebra and layers
    "matmul": [lambda r: (real(r, 3, 4), real(r, 4, 2)), lambda r: (real(r, 4), real(r, 4)),
               lambda r: (real(r, 2, 1, 3, 4), real(r, 5, 4, 2)),
               lambda r: (real(r, 4), real(r, 2, 4, 3)), lambda r: (real(r, 2, 3, 4), real(r, 4))],
    "linear": [lambda r: (real(r, 2, 3, 4), real(r, 5, 4), real(r, 5)),
               lambda r: (real(r, 4), real(r, 5, 4))],
    "linear_add": [lambda r: (real(r, 2, 3, 4), real(r, 5, 4), real(r, 5), real(r, 2, 3, 5)),
                   lambda r: (real(r, 3, 4), real(r, 5, 4), None, real(r, 3, 5))],
    "linear_activation": [lambda r: (real(r, 2, 3, 4), real(r, 5, 4), real(r, 5), "gelu_tanh"),
                          lambda r: (real(r, 3, 4), real(r, 5, 4), None, "silu")],
    "softmax": [lambda r: (real(r, 3, 4), 1), lambda r: (real(r, 3, 4), 0),
                lambda r: (real(r), 0)],
    "log_softmax": [lambda r: (real(r, 3, 4), -1), lambda r: (real(r, 3, 4), 0)],
    "layer_norm": [lambda r: (real(r, 3, 4), (4,), real(r, 4), real(r, 4)),
                   lambda r: (real(r, 2, 3, 4), (3, 4), real(r, 3, 4))],
    "rms_norm": [lambda r: (real(r, 3, 4), (4,), real(r, 4)), lambda r: (real(r, 2, 3, 4), (3, 4))],
    "norm_and_skip": [lambda r: (real(r, 3, 4), real(r, 4), real(r, 4), 1e-5, True),
                      lambda r: (real(r, 3, 4), real(r, 4), None, 1e-5, False)],
    "embedding": [lambda r: (real(r, 5, 3), ids(r, 5, 2, 4)),
                  lambda r: (real(r, 5, 3), ids(r, 5, 6))],
    "_dropout": [lambda r: (real(r, 3, 4), 0.3, 7, 0)],
    "_attention": [lambda r: (real(r, 2, 2, 3, 4), real(r, 2, 2, 5, 4), real(r, 2, 2, 5, 4), None,
                              0.0, False, None, False, 0, 0),
                   lambda r: (real(r, 1, 2, 3, 4), real(r, 1, 2, 3, 4), real(r, 1, 2, 3, 4), None,
                              0.0, True, 0.5, False, 0, 0),
                   lambda r: (real(r, 1, 2, 3, 4), real(r, 1, 2, 3, 4), real(r, 1, 2, 3, 4),
                              real(r, 3, 3), 0.0, False, None, False, 0, 0)],
    "cached_attention": [lambda r: (md.from_numpy(r.random((2, 1, 12))),
                                    md.from_numpy(r.random((2, 1, 4, 3))),
                                    md.from_numpy(r.random((2, 1, 4, 3))), 2, None, False, None,
                                    None, None)],
    "one_hot": [lambda r: (ids(r, 4, 2, 3), 5)],
    "rotary": [lambda r: (real(r, 2, 3, 4), md.from_numpy(r.uniform(size=(3, 2))),
                          md.from_numpy(r.uniform(size=(3, 2))))],
    "cross_entropy": [lambda r: (real(r, 3, 4), ids(r, 4, 3)),
                      lambda r: (real(r, 3, 4), ids(r, 4, 3), 1, 0.1, "sum")],
    # shape
    "reshape": [lambda r: (real(r, 3, 4), 2, -1), lambda r: (real(r, 4, 3).T, (6, 2))],
    "view": [lambda r: (real(r, 3, 4), (2, 6)), lambda r: (real(r, 2, 3, 4).permute(1, 0, 2),
                                                           3, 2, 2, 2)],
    "flatten": [lambda r: (real(r, 2, 3, 4), 1), lambda r: (real(r),)],
    "unflatten": [lambda r: (real(r, 2, 12), 1, (3, -1))],
    "squeeze": [lambda r: (real(r, 2, 1, 3, 1),), lambda r: (real(r, 2, 1, 3), 1)],
    "unsqueeze": [lambda r: (real(r, 2, 3), -1)],
    "expand": [lambda r: (real(r, 3, 1), (2, -1, 4)), lambda r: (real(r), 2, 3)],
    "broadcast_to": [lambda r: (real(r, 3, 1), (2, 3, 4))],
    "transpose": [lambda r: (real(r, 2, 3, 4), 0, -1), lambda r: (real(r), 0, 0)],
    "permute": [lambda r: (real(r, 2, 3, 4), 2, 0, 1)],
    "movedim": [lambda r: (real(r, 2, 3, 4), (0, 1), (2, 0))],
    "t": [lambda r: (real(r, 2, 3),), lambda r: (real(r, 3),)],
    "select": [lambda r: (real(r, 3, 4), 1, -2)],
    "narrow": [lambda r: (real(r, 3, 4), 1, 1, 2)],
    "diagonal": [lambda r: (real(r, 3, 4), 1), lambda r: (real(r, 2, 3, 3), 0, 1, 2)],
    # joining and rearranging
    "split": [lambda r: (real(r, 7, 2), 3), lambda r: (real(r, 2, 7), [3, 0, 4], 1)],
    "chunk": [lambda r: (real(r, 2, 7), 3, 1)],
    "tensor_split": [lambda r: (real(r, 7), 3), lambda r: (real(r, 7, 2), (2, 5))],
    "unbind": [lambda r: (real(r, 3, 4), 1)],
    "cat": [lambda r: (1, real(r, 3, 4), real(r, 3, 2)), lambda r: (0, real(r, 0), real(r, 2))],
    "stack": [lambda r: (1, real(r, 3, 4), real(r, 3, 4))],
    "flip": [lambda r: (real(r, 3, 4), (0, 1))],
    "roll": [lambda r: (real(r, 3, 4), 5), lambda r: (real(r, 3, 4), (1, -2), (0, 1))],
    "repeat": [lambda r: (real(r, 2, 3), 2, 2, 1)],
    "tile": [lambda r: (real(r, 2, 3), (2,))],
    "repeat_interleave": [lambda r: (real(r, 2, 3), 2), lambda r: (
        real(r, 2, 3), md.tensor([2, 0, 1]), 1)],
    "tril": [lambda r: (real(r, 3, 4), 1)],
    "triu": [lambda r: (real(r, 2, 3, 4), -1)],
    # indexing
    "getitem": [lambda r: (real(r, 3, 4), (1, slice(0, 3, 2))),
                lambda r: (real(r, 3, 4), (..., None, 2))],
    "index": [lambda r: (real(r, 3, 4), (np.array([0, 2, 0]),)),
              lambda r: (real(r, 3, 4), (np.array([0, -1]), np.array([1, 3]))),
              lambda r: (real(r, 3, 4), (np.array([True, False, True]), slice(None)))],
    "index_put": [lambda r: (real(r, 3, 4).clone(), real(r, 4), (1,), None),
                  lambda r: (real(r, 3, 4).clone(), real(r, 1, 2, 4), (slice(None),),
                             (np.array([0, 2]),))],
    "gather": [lambda r: (real(r, 3, 4), 1, ids(r, 4, 3, 2)), lambda r: (
        real(r, 3, 4), 0, ids(r, 3, 5, 3))],
    "take_along_dim": [lambda r: (real(r, 3, 4), ids(r, 4, 1, 2), 1),
                       lambda r: (real(r, 3, 4), ids(r, 12, 5))],
    "take": [lambda r: (real(r, 3, 4), ids(r, 12, 2, 3))],
    "index_select": [lambda r: (real(r, 3, 4), 1, ids(r, 4, 6)), lambda r: (
        real(r, 3, 4), 0, ids(r, 3, 2))],
    "index_add": [lambda r: (real(r, 3, 4), 1, ids(r, 4, 6), real(r, 3, 6), 0.5)],
    "index_copy": [lambda r: (real(r, 3, 4), 0, md.tensor([2, 0]), real(r, 2, 4))],
    "index_fill": [lambda r: (real(r, 3, 4), 1, md.tensor([1, 3, 1]), 2.0),
                   lambda r: (real(r, 3, 4), 1, md.tensor([1, 3]), real(r))],
    "scatter": [lambda r: (real(r, 3, 4), 1, md.tensor([[0, 2], [1, 3]]), real(r, 2, 3)),
                lambda r: (real(r, 3, 4), 1, md.tensor([[0, 2], [1, 3]]), 1.5)],
    "scatter_add": [lambda r: (real(r, 3, 4), 0, ids(r, 3, 2, 4), real(r, 2, 4))],
    "masked_fill": [lambda r: (real(r, 3, 4), mask(r, 4), 1.5), lambda r: (
        real(r, 4), mask(r, 3, 4), real(r))],
    "masked_select": [lambda r: (real(r, 3, 4), mask(r, 3, 4)), lambda r: (
        real(r, 3, 1), mask(r, 4))],
    "nonzero": [lambda r: (whole(r, 3, 4),)],
    # reductions
    **{name: [lambda r: (real(r, 2, 3, 4),), lambda r: (real(r, 2, 3, 4), (0, 2), True),
              lambda r: (real(r, 2, 3), -1), lambda r: (real(r), 0)] for name in ("sum", "mean")},
    "logsumexp": [lambda r: (real(r, 2, 3, 4), (0, 2)), lambda r: (real(r, 3), 0, True)],
    "cumsum": [lambda r: (real(r, 2, 3), 1), lambda r: (real(r, 3, 2), 0)],
    "prod": [lambda r: (real(r, 2, 3),), lambda r: (real(r, 2, 3), 1, True),
             lambda r: (md.tensor([[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]], dtype=md.float64,
                                  requires_grad=True), 1)],
    "count_nonzero": [lambda r: (whole(r, 3, 4), 1)],
    "var": [lambda r: (real(r, 2, 3, 4), (1,), 1, False), lambda r: (
        real(r, 3, 4), (0, 1), 0, True)],
    "isclose": [lambda r: (real(r, 3, 4), real(r, 4))],
    "deviation": [lambda r: (positive(r, 3, 4),)],
    "extreme": [lambda r: (apart(r, 3, 4), "amax"), lambda r: (apart(r, 5), "amin")],
    "amax": [lambda r: (apart(r, 2, 3, 4), (0, 2)), lambda r: (apart(r, 3), 0, True)],
    "amin": [lambda r: (apart(r, 2, 3, 4), 1)],
    "max_min": [lambda r: (apart(r, 3, 4), 1, False, "max"), lambda r: (
        apart(r, 3, 4), 0, True, "min")],
    "argmax": [lambda r: (apart(r, 3, 4), 1)],
    "argmin": [lambda r: (apart(r, 3, 4),)],
    "any": [lambda r: (mask(r, 3, 4), 1)],
    "all": [lambda r: (mask(r, 3, 4),)],
    "norm": [lambda r, p=p: (apart(r, 3, 4), p, (1,), False)
             for p in (2.0, 1.0, 0.0, 3.0, 0.5, np.inf, -np.inf)],
    "sort": [lambda r: (apart(r, 3, 4), 1, True), lambda r: (apart(r, 5), 0, False)],
    "topk": [lambda r: (apart(r, 3, 4), 2, 1, True), lambda r: (apart(r, 40), 2, 0, False)],
    "unique": [lambda r: (whole(r, 3, 4), None, True, True)],
    "bernoulli": [lambda r: (real(r, 3, low=0.0, high=1.0), None, md.Generator())],
    "replaced": [lambda r: (real(r, 3), md.from_numpy(r.uniform(size=3)))],
}
