"""Dropout of 10% in training, forward and forward+backward."""

import math

SHAPES = ((4096, 512), (32, 512, 768))


def build_for(shape, backward):
    def build(lib):
        x = lib.tensor(*shape, grad=backward)

        def forward():
            return lib.F.dropout(x, 0.1, training=True)

        return lib.backward(forward, [x]) if backward else forward

    return build


def cases(case):
    for shape in SHAPES:
        n, label = math.prod(shape), "x".join(map(str, shape))
        case("dropout", label, build_for(shape, False), items=n, bytes=8 * n)
        case("dropout f+b", label, build_for(shape, True), items=n, bytes=16 * n, grad=True,
             quick=shape == SHAPES[0])


if __name__ == "__main__":
    from script import run

    run(__file__)
