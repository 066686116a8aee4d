"""Rows of a table by number: forward, and forward with the table's gradient."""

SHAPES = ((65, 384, 2048), (5000, 768, 2048), (50257, 768, 2048))       # rows, width, looked up


def forward(rows, width, n):
    def build(lib):
        layer, index = lib.nn.Embedding(rows, width), lib.integers(rows, n)
        return lambda: layer(index)

    return build


def forward_backward(rows, width, n):
    def build(lib):
        layer, index = lib.nn.Embedding(rows, width), lib.integers(rows, n)
        return lib.backward(lambda: layer(index), [layer.weight])

    return build


def cases(case):
    for rows, width, n in SHAPES:
        shape = f"{rows}x{width}[{n}]"
        case("embedding", shape, forward(rows, width, n), bytes=8 * n * width, items=n * width)
        case("embedding f+b", shape, forward_backward(rows, width, n), items=n * width,
             bytes=16 * n * width + 4 * rows * width, grad=True, quick=rows == 65)


if __name__ == "__main__":
    from script import run

    run(__file__)
