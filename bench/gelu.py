"""GELU, exact and by tanh, fused against its formula written out; forward and with gradient."""

import math

SIZES = {"1M": (10**6,), "10M": (10**7,), "50M": (5 * 10**7,), "32x512x768": (32, 512, 768)}


def written_out(lib, x, form):
    """The formula in PyTorch's operations."""
    if form == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + lib.torch.tanh(inner))
    return 0.5 * x * (1 + lib.torch.erf(x / math.sqrt(2)))


def forward(shape, form):
    def build(lib):
        x = lib.tensor(*shape)
        if lib.peer == "unfused":
            return lambda: written_out(lib, x, form)
        return lambda: lib.F.gelu(x, approximate=form)

    return build


def forward_backward(shape, form):
    def build(lib):
        x = lib.tensor(*shape, grad=True)
        return lib.backward(lambda: lib.F.gelu(x, approximate=form), [x])

    return build


def cases(case):
    for name, form in (("gelu", "none"), ("gelu tanh", "tanh")):
        for label, shape in SIZES.items():
            n, build = math.prod(shape), forward(shape, form)
            builders = {"minidl": build, "torch": build}
            if label != "50M":
                builders["unfused"] = build
            case(name, label, builders, items=n, bytes=8 * n, quick=label == "1M")
        case(f"f+b {name}", label, forward_backward(shape, form), items=n, bytes=20 * n, grad=True)


if __name__ == "__main__":
    from script import run

    run(__file__)
