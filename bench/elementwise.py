"""ReLU, exp, sigmoid, tanh and SiLU of 1 to 50 million numbers, the result freshly allocated."""

import math

SIZES = {"1M": (10**6,), "10M": (10**7,), "50M": (5 * 10**7,), "32x512x768": (32, 512, 768)}
TENSORS = {
    "relu": lambda lib, x: lib.torch.relu(x),
    "exp": lambda lib, x: lib.torch.exp(x),
    "sigmoid": lambda lib, x: lib.torch.sigmoid(x),
    "tanh": lambda lib, x: lib.torch.tanh(x),
    "silu": lambda lib, x: lib.F.silu(x),
}


def numpy_call(name, x):
    import numpy as np

    return {
        "relu": lambda: np.maximum(x, 0),
        "exp": lambda: np.exp(x),
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "tanh": lambda: np.tanh(x),
        "silu": lambda: x / (1 + np.exp(-x)),
    }[name]


def jax_call(name, x):
    import jax

    x = jax.numpy.asarray(x)
    function = jax.jit(jax.numpy.exp if name == "exp" else getattr(jax.nn, name))
    return lambda: function(x).block_until_ready()


def copying(lib, n):
    from bench.limits import copy

    return copy(lib, n)


def builders(name, shape):
    def tensors(lib):
        x, function = lib.tensor(*shape), TENSORS[name]
        return lambda: function(lib, x)

    return {"minidl": tensors, "torch": tensors,
            "numpy": lambda lib: numpy_call(name, lib.array(*shape)),
            "jax": lambda lib: jax_call(name, lib.array(*shape))}


def cases(case):
    for name in TENSORS:
        for label, shape in SIZES.items():
            n, found = math.prod(shape), builders(name, shape)
            if (name, label) == ("relu", "50M"):    # it moves what copying moves
                found["copy"] = lambda lib, n=n: copying(lib, n)
            case(name, label, found, items=n, bytes=8 * n, quick=label == "1M")


if __name__ == "__main__":
    from script import run

    run(__file__)
