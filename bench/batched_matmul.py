"""Batched products: 32 of 256x256, and 8 heads of 512x64 as attention multiplies them."""


def tensors(batch, m, k, n):
    def build(lib):
        a, b = lib.tensor(batch, m, k), lib.tensor(batch, k, n)
        return lambda: a @ b

    return build


def arrays(batch, m, k, n):
    def build(lib):
        a, b = lib.array(batch, m, k), lib.array(batch, k, n)
        return lambda: a @ b

    return build


def raw(batch, m, k, n):
    """One sgemm after the other."""
    def build(lib):
        from bench.limits import raw_gemm

        calls = [raw_gemm(lib, m, k, n) for _ in range(batch)]
        return lambda: [call() for call in calls]

    return build


def cases(case):
    for name, *size in (("32 products", 32, 256, 256, 256), ("scores", 8, 512, 64, 512),
                        ("weighted values", 8, 512, 512, 64)):
        batch, m, k, n = size
        tensor = tensors(*size)
        case(name, f"{batch}x[{m}x{k}x{n}]",
             {"minidl": tensor, "torch": tensor, "numpy": arrays(*size), "blas": raw(*size),
              "naive": tensor},
             flops=2 * batch * m * k * n, bytes=4 * batch * (m * k + k * n + m * n), quick=True)


if __name__ == "__main__":
    from script import run

    run(__file__)
