"""Cross-entropy of logits and class numbers, forward+backward."""

SHAPES = ((2048, 5000), (768, 65))


def build_for(rows, classes):
    def build(lib):
        logits, labels = lib.tensor(rows, classes, grad=True), lib.integers(classes, rows)

        def call():
            logits.grad = None
            lib.F.cross_entropy(logits, labels).backward()

        return call

    return build


def cases(case):
    for rows, classes in SHAPES:
        n = rows * classes
        case("cross_entropy f+b", f"{rows}x{classes}", build_for(rows, classes), items=n,
             bytes=12 * n, grad=True, quick=True)


if __name__ == "__main__":
    from script import run

    run(__file__)
