"""Matrix products: squares from 128 to 2048 and the shapes of a transformer."""

SQUARES = (128, 256, 512, 1024, 2048)
TRANSFORMER = ((768, 128, 384), (2048, 384, 1536), (256, 768, 3072))        # m, k, n
NAIVE = (128, 512, 1024)


def tensors(lib, m, k, n):
    a, b = lib.tensor(m, k), lib.tensor(k, n)
    return lambda: a @ b


def arrays(lib, m, k, n):
    a, b = lib.array(m, k), lib.array(k, n)
    return lambda: a @ b


def raw(lib, m, k, n):
    from bench.limits import raw_gemm

    return raw_gemm(lib, m, k, n)


def jax(lib, m, k, n):
    import jax

    a, b = jax.numpy.asarray(lib.array(m, k)), jax.numpy.asarray(lib.array(k, n))
    product = jax.jit(jax.numpy.matmul)
    return lambda: product(a, b).block_until_ready()


def builders(m, k, n, **others):
    found = {"minidl": tensors, "torch": tensors, "numpy": arrays, "blas": raw, "jax": jax,
             **others}
    return {peer: lambda lib, build=build: build(lib, m, k, n) for peer, build in found.items()}


def cases(case):
    for n in SQUARES:
        naive = {"naive": tensors} if n in NAIVE else {}
        case("matmul", str(n), builders(n, n, n, **naive), flops=2 * n**3, bytes=12 * n * n,
             quick=n <= 512)
    for m, k, n in TRANSFORMER:
        case("matmul", f"{m}x{k}x{n}", builders(m, k, n), flops=2 * m * k * n,
             bytes=4 * (m * k + k * n + m * n), quick=m == 768)


if __name__ == "__main__":
    from script import run

    run(__file__)
