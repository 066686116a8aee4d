"""What one operation costs beside its arithmetic: tensors of 16 numbers, on one thread."""


def adding(backward, recorded):
    def build(lib):
        a, b = lib.tensor(4, 4, grad=recorded), lib.tensor(4, 4, grad=recorded)
        return lib.backward(lambda: a + b, [a, b]) if backward else lambda: a + b

    return build


def arrays(lib):
    a, b = lib.array(4, 4), lib.array(4, 4)
    return lambda: a + b


def other(expression):
    """An expression of torch, F, x and y, evaluated again and again."""
    def build(lib):
        names = {"torch": lib.torch, "F": lib.F, "x": lib.tensor(4, 4), "y": lib.tensor(4, 4)}
        return eval(f"lambda: {expression}", names)

    return build


def cases(case):
    add = adding(False, False)
    case("add", "4x4", {"minidl": add, "torch": add, "numpy": arrays}, threads=1, quick=True)
    case("add, recorded", "4x4", adding(False, True), grad=True, threads=1, quick=True)
    case("add f+b", "4x4", adding(True, True), grad=True, threads=1, quick=True)
    for name, expression in (("multiply by a number", "x * 2.0"), ("matmul", "x @ y"),
                             ("relu", "torch.relu(x)"), ("sum", "x.sum()"), ("view", "x.view(16)"),
                             ("transpose", "x.transpose(0, 1)"), ("index a row", "x[1]"),
                             ("softmax", "F.softmax(x, dim=-1)"), ("item", "x.sum().item()")):
        case(name, "4x4", other(expression), threads=1)


if __name__ == "__main__":
    from script import run

    run(__file__)
