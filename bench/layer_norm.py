"""LayerNorm and RMSNorm over the last axis; one pass over a row against two written out."""

import math

SHAPES = ((4096, 512), (32, 512, 768))


def two_passes(x, weight, bias):
    """Mean, then variance, in separate operations."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / (variance + 1e-5).sqrt() * weight + bias


def layer(lib, name, width):
    return lib.nn.LayerNorm(width) if name == "layer_norm" else lib.nn.RMSNorm(width, eps=1e-5)


def forward(name, shape):
    def build(lib):
        module, x = layer(lib, name, shape[-1]), lib.tensor(*shape)
        if lib.peer == "two-pass":
            return lambda: two_passes(x, module.weight, module.bias)
        return lambda: module(x)

    return build


def forward_backward(name, shape):
    def build(lib):
        module, x = layer(lib, name, shape[-1]), lib.tensor(*shape, grad=True)
        return lib.backward(lambda: module(x), [x, *module.parameters()])

    return build


def arrays(shape):
    def build(lib):
        import numpy as np

        x, weight, bias = lib.array(*shape), lib.array(shape[-1]), lib.array(shape[-1])
        return lambda: ((x - x.mean(-1, keepdims=True))
                        / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias)

    return build


def cases(case):
    for name in ("layer_norm", "rms_norm"):
        for shape in SHAPES:
            n, label, build = math.prod(shape), "x".join(map(str, shape)), forward(name, shape)
            builders = {"minidl": build, "torch": build}
            if name == "layer_norm":
                builders.update({"numpy": arrays(shape), "two-pass": build})
            case(name, label, builders, items=n, bytes=8 * n, quick=shape == SHAPES[0])
            case(f"{name} f+b", label, forward_backward(name, shape), items=n, bytes=20 * n,
                 grad=True, quick=shape == SHAPES[0])


if __name__ == "__main__":
    from script import run

    run(__file__)
