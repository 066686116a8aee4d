"""softmax and log_softmax over the last axis, forward and forward+backward."""

import math

SHAPES = ((4096, 512), (32, 512, 768))


def forward(name, shape):
    def build(lib):
        x, function = lib.tensor(*shape), getattr(lib.F, name)
        return lambda: function(x, dim=-1)

    return build


def forward_backward(name, shape):
    def build(lib):
        x, function = lib.tensor(*shape, grad=True), getattr(lib.F, name)
        return lib.backward(lambda: function(x, dim=-1), [x])

    return build


def arrays(name, shape):
    def build(lib):
        import numpy as np

        x = lib.array(*shape)

        def call():
            shifted = x - x.max(-1, keepdims=True)
            powers = np.exp(shifted)
            total = powers.sum(-1, keepdims=True)
            return powers / total if name == "softmax" else shifted - np.log(total)

        return call

    return build


def cases(case):
    for name in ("softmax", "log_softmax"):
        for shape in SHAPES:
            n, label, build = math.prod(shape), "x".join(map(str, shape)), forward(name, shape)
            case(name, label, {"minidl": build, "torch": build, "numpy": arrays(name, shape)},
                 items=n, bytes=8 * n)
            case(f"{name} f+b", label, forward_backward(name, shape), items=n, bytes=20 * n,
                 grad=True, quick=shape == SHAPES[0])


if __name__ == "__main__":
    from script import run

    run(__file__)
