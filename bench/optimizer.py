"""One step of AdamW, SGD with momentum and gradient clipping over 10 million parameters.

PyTorch's AdamW and SGD run with fused=True, its fastest way.
"""

SHAPES = [(1000, 1000)] * 8 + [(1000,)] * 1000 + [(100, 100)] * 100     # 10M in 1108 tensors


def parameters(lib, shapes):
    params = [lib.tensor(*shape, grad=True) for shape in shapes]
    for p in params:
        p.grad = lib.tensor(*p.shape)
    return params


def stepping(name, shapes, **options):
    def build(lib):
        return getattr(lib.torch.optim, name)(parameters(lib, shapes), fused=True, **options).step

    return build


def clipping(shapes):
    def build(lib):
        params = parameters(lib, shapes)
        return lambda: lib.nn.utils.clip_grad_norm_(params, 1.0)

    return build


def cases(case):
    n = 10**7
    one = [(n,)]
    case("AdamW", "10M", stepping("AdamW", one, lr=1e-3), items=n, bytes=28 * n, grad=True,
         quick=True)
    case("AdamW", "10M in 1108 tensors", stepping("AdamW", SHAPES, lr=1e-3), items=n, bytes=28 * n,
         grad=True)
    case("SGD momentum", "10M", stepping("SGD", one, lr=1e-3, momentum=0.9), items=n, bytes=20 * n,
         grad=True)
    case("clip_grad_norm_", "10M", clipping(one), items=n, bytes=12 * n, grad=True)


if __name__ == "__main__":
    from script import run

    run(__file__)
