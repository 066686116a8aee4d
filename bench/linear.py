"""A linear layer with bias: forward, and forward with all three gradients."""

SHAPES = ((2048, 384, 1536), (768, 128, 384), (256, 768, 3072))     # rows, in, out


def forward(rows, fan_in, fan_out):
    def build(lib):
        layer, x = lib.nn.Linear(fan_in, fan_out), lib.tensor(rows, fan_in)
        return lambda: layer(x)

    return build


def forward_backward(rows, fan_in, fan_out):
    def build(lib):
        layer, x = lib.nn.Linear(fan_in, fan_out), lib.tensor(rows, fan_in, grad=True)
        return lib.backward(lambda: layer(x), [x, *layer.parameters()])

    return build


def cases(case):
    for rows, fan_in, fan_out in SHAPES:
        shape, flops = f"{rows}x{fan_in}->{fan_out}", 2 * rows * fan_in * fan_out
        traffic = 4 * (rows * fan_in + fan_in * fan_out + rows * fan_out)
        case("linear", shape, forward(rows, fan_in, fan_out), flops=flops, bytes=traffic)
        case("linear f+b", shape, forward_backward(rows, fan_in, fan_out), flops=3 * flops,
             bytes=3 * traffic, grad=True, quick=True)


if __name__ == "__main__":
    from script import run

    run(__file__)
