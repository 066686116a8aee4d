"""nn.MultiheadAttention with its projections, as self-attention."""

SHAPES = ((1, 512, 512, 8), (8, 256, 384, 6))       # batch, length, width, heads


def build_for(B, T, C, heads, backward):
    def build(lib):
        layer = lib.nn.MultiheadAttention(C, heads, batch_first=True)
        x = lib.tensor(B, T, C, grad=backward)

        def forward():
            return layer(x, x, x, need_weights=False)[0]

        return lib.backward(forward, [x, *layer.parameters()]) if backward else forward

    return build


def cases(case):
    for B, T, C, heads in SHAPES:
        flops = 2 * B * T * C * 4 * C + 4 * B * T * T * C
        for name, backward in (("forward", False), ("f+b", True)):
            case(name, f"{B}x{T}x{C} {heads} heads", build_for(B, T, C, heads, backward),
                 flops=flops * (3 if backward else 1), grad=backward, quick=B == 1)


if __name__ == "__main__":
    from script import run

    run(__file__)
