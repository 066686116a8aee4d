"""Matrix products: every layout, empty and thin shapes, batches, limits, and the plain loops."""

import mmap

import numpy as np
import pytest
import threadpoolctl
from numpy.lib.stride_tricks import as_strided

from minidl_kernels import cpu, reference
from minidl_kernels.cpu import scipy_blas
from minidl_kernels.cpu.memory import empty_array

SIZES = [1, 2, 7, 33]
scipy_blas.load()               # which a CPU with AVX2 does without


def rand(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def layouts(x):
    """The same values as plain, transposed, sliced, reversed, strided and unaligned memory."""
    *lead, rows, columns = x.shape
    yield "plain", x
    yield "transposed", np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    wide = np.full((*lead, rows + 2, columns + 3), np.nan, np.float32)
    wide[..., 1:-1, 2:-1] = x
    yield "inside a larger one", wide[..., 1:-1, 2:-1]
    tall = np.full((*lead, columns + 3, rows + 2), np.nan, np.float32)
    tall[..., 2:-1, 1:-1] = x.swapaxes(-1, -2)
    yield "transposed inside a larger one", tall[..., 2:-1, 1:-1].swapaxes(-1, -2)
    spread = np.full((*lead, 2 * rows, 3 * columns), np.nan, np.float32)
    spread[..., ::2, ::3] = x
    yield "every second row, third column", spread[..., ::2, ::3]
    yield "reversed rows", x[..., ::-1, :].copy()[..., ::-1, :]
    yield "reversed columns", x[..., ::-1].copy()[..., ::-1]
    raw = np.zeros(4 * x.size + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    yield "unaligned", unaligned
    yield "big-endian", x.astype(">f4").view(">f4")


def close(result, expected, k, what=""):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5 * max(1, k) ** 0.5,
                               err_msg=what)


# ------------------------------------------------------------------------------------- the product

@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("n", SIZES)
def test_every_layout_of_both_operands(m, k, n):
    a, b = rand(m, k), rand(k, n, seed=1)
    expected = a.astype(np.float64) @ b
    for name_a, x in layouts(a):
        for name_b, y in layouts(b):
            before = x.copy(), y.copy()
            result = cpu.matmul(x, y)
            assert result.shape == (m, n) and result.dtype == np.float32
            close(result, expected, k, f"{name_a} @ {name_b}")
            assert np.array_equal(x, before[0]) and np.array_equal(y, before[1])


@pytest.mark.parametrize("m, k, n", [
    (1, 100, 300), (2, 17, 64), (3, 385, 130), (5, 384, 16), (6, 385, 17), (193, 769, 31),
    (250, 100, 260), (1000, 33, 515), (7, 1500, 3000), (32, 16, 32),
    (129, 300, 517), (1000, 200, 800), (301, 700, 600), (512, 3100, 200), (400, 385, 2100),
])
def test_across_the_edges_of_panels_and_tiles(m, k, n):
    """Sizes around the panels of 6 by 16, the tiles, and the steps of k."""
    a, b, bias = rand(m, k), rand(k, n, seed=1), rand(n, seed=2)
    expected = a.astype(np.float64) @ b
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            close(cpu.matmul(x, y), expected, k)
    close(cpu.linear(a, np.ascontiguousarray(b.T), bias), expected + bias, k)
    close(cpu.linear_grad_weight(np.ascontiguousarray(a.T), b), expected, k)


@pytest.mark.parametrize("rows", [300, 385, 768, 1153, 1536, 1537])
@pytest.mark.parametrize("m, n", [(128, 128), (65, 130), (512, 100), (700, 600)])
def test_the_gradient_of_a_weight_has_the_same_bits_on_any_number_of_threads(rows, m, n):
    """Several threads compute the steps of K apart, each from operands that it packed itself."""
    g, x, other = rand(rows, m), rand(rows, n, seed=1), rand(m, n, seed=2)
    before = cpu.threads.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 8):
            cpu.threads.set_num_threads(threads)
            for _ in range(3):
                cpu.matmul(g, other)            # another product packs in between
                results.append(cpu.linear_grad_weight(g, x))
    finally:
        cpu.threads.set_num_threads(before)
    close(results[0], g.T.astype(np.float64) @ x, rows)
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.skipif(cpu.threads.instruction_set() == "baseline",
                    reason="BLAS promises no such thing")
def test_a_product_does_not_depend_on_its_neighbours():
    """An element has the same bits in a small product, a large one, and in a batch."""
    a, b = rand(300, 500), rand(500, 200, seed=1)
    whole = cpu.matmul(a, b)
    assert np.array_equal(cpu.matmul(a[:24], b), whole[:24])
    assert np.array_equal(cpu.matmul(a[:1], b), cpu.matmul(a[:3], b)[:1])
    assert np.array_equal(cpu.matmul(a, b[:, :40]), whole[:, :40])
    batch = cpu.matmul(np.stack([a[:100], a[100:200], a[200:]] * 2), b[None])
    assert np.array_equal(batch[:3].reshape(300, 200), whole)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_the_other_instruction_sets(isa, python):
    """Without wide vectors BLAS multiplies: the same product to rounding."""
    out = python("""
import numpy as np
from minidl_kernels import cpu
for m, k, n in [(1, 5, 7), (5, 33, 16), (100, 400, 70), (300, 300, 300)]:
    a, b = (np.random.default_rng(i).standard_normal(s, np.float32)
            for i, s in enumerate([(m, k), (k, n)]))
    print(np.abs(cpu.matmul(a, b) - a.astype(float) @ b).max() < 1e-3)
""", env={"MINIDL_ISA": isa})
    assert out.split() == ["True"] * 4


@pytest.mark.parametrize("a, b", [
    ((5, 3, 4), (4, 2)), ((3, 4), (5, 4, 2)), ((5, 3, 4), (5, 4, 2)), ((1, 3, 4), (5, 4, 2)),
    ((5, 1, 3, 4), (6, 4, 2)), ((2, 3, 1, 4, 5), (1, 7, 5, 6)), ((5, 1, 4), (5, 4, 1)),
    ((2, 0, 3, 4), (4, 5)), ((0, 3, 4), (1, 4, 2)), ((2, 3, 0), (2, 0, 5)), ((2, 0, 4), (4, 3)),
    ((2, 3, 4), (4, 0)), ((40, 60, 50), (40, 50, 70)),
])
def test_batches_broadcast(a, b):
    x, y = rand(*a), rand(*b, seed=1)
    expected = np.matmul(x.astype(np.float64), y)
    for _, left in layouts(x):
        for _, right in layouts(y):
            result = cpu.matmul(left, right)
            assert result.shape == expected.shape
            close(result, expected, a[-1])


def test_batches_given_by_strides():
    """Broadcast (stride 0), reversed and permuted batch axes, as views and heads have them."""
    x = rand(4, 10, 3, 8)
    q, k = x.transpose(0, 2, 1, 3), x[::-1].transpose(0, 2, 3, 1)
    close(cpu.matmul(q, k), np.matmul(q.astype(np.float64), k), 8)
    one = np.broadcast_to(rand(3, 8, 5, seed=1), (4, 3, 8, 5))
    close(cpu.matmul(q, one), np.matmul(q.astype(np.float64), one), 8)


@pytest.mark.parametrize("m, k, n", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 0, 1),
                                     (0, 1, 0)])
def test_empty_products(m, k, n):
    result = cpu.matmul(rand(m, k), rand(k, n))
    assert result.shape == (m, n) and not result.any()
    assert cpu.matmul(rand(2, m, k), rand(2, k, n)).shape == (2, m, n)
    for bias in (None, np.arange(n, dtype=np.float32)):
        expected = np.zeros((m, n)) if bias is None else np.broadcast_to(bias, (m, n))
        if k == 0:
            assert np.array_equal(cpu.linear(rand(m, k), rand(n, k), bias), expected)
    weight_grad = cpu.linear_grad_weight(rand(m, n), rand(m, k))
    assert weight_grad.shape == (n, k)
    assert m > 0 or not weight_grad.any()


@pytest.mark.parametrize("shape", [(1, 40, 60), (30, 40, 1), (1, 40, 1), (30, 40, 60), (3, 0, 4)])
@pytest.mark.parametrize("blas", [True, False])
def test_what_was_in_the_memory_of_the_result_does_not_matter(shape, blas):
    m, k, n = shape
    cpu.use_blas(blas)
    for _ in range(3):
        dirty = [empty_array((m, n)) for _ in range(4)]
        for x in dirty:
            x.fill(np.nan)
        del dirty, x
        assert not np.isnan(cpu.matmul(rand(m, k), rand(k, n))).any()
        assert not np.isnan(cpu.linear(rand(m, k), rand(n, k), None)).any()


def test_nan_and_inf_propagate():
    a, b = rand(5, 6), rand(6, 7)
    a[2, 3], b[1, 4] = np.nan, np.inf
    expected = a @ b
    assert np.array_equal(np.isnan(cpu.matmul(a, b)), np.isnan(expected))
    assert np.array_equal(np.isinf(cpu.matmul(a, b)), np.isinf(expected))
    zero = np.zeros((3, 5), np.float32)
    assert np.isnan(cpu.matmul(zero, a)[:, 3]).all()          # 0 * nan
    assert np.isnan(cpu.matmul(zero[:1], a)[:, 3]).all()


@pytest.mark.parametrize("shape, k, n", [((5,), 5, 3), ((1, 5), 5, 3), ((4, 6, 33), 33, 7),
                                         ((0, 5), 5, 3), ((2, 3, 4, 9), 9, 1),
                                         ((700, 65), 65, 400)])
def test_linear(shape, k, n):
    x, w, b, g = rand(*shape), rand(n, k, seed=1), rand(n, seed=2), rand(*shape[:-1], n, seed=3)
    exact = x.astype(np.float64)
    for _, weight in layouts(w):
        for bias in (None, b):
            result = cpu.linear(x, weight, bias)
            assert result.shape == (*shape[:-1], n)
            close(result, reference.linear(exact, w.astype(np.float64), bias), k)
    rows = max(1, x.size // k)
    close(cpu.linear_grad_weight(g, x), reference.linear_grad_weight(g.astype(np.float64), exact),
          rows)


# --------------------------------------------------------------------------------- the plain loops

@pytest.mark.parametrize("m, k, n", [(1, 33, 7), (7, 1, 33), (33, 65, 1), (65, 33, 129), (3, 0, 4),
                                     (150, 200, 170)])
def test_plain_loops_agree_with_blas(m, k, n):
    a, b, bias = rand(m, k), rand(k, n, seed=1), rand(n, seed=2)
    left, right = [x for _, x in layouts(a)], [y for _, y in layouts(b)]
    cases = [(x, y) for i, x in enumerate(left) for j, y in enumerate(right) if m < 100 or i == j]
    fast = [(cpu.matmul(x, y), cpu.linear(x, y.T, bias)) for x, y in cases]
    cpu.use_blas(False)
    for (x, y), (product, affine) in zip(cases, fast, strict=True):
        close(cpu.matmul(x, y), product, k)
        close(cpu.linear(x, y.T, bias), affine, k)


def test_use_blas_false_really_does_not_use_blas():
    """Three loops sum in order, which a float32 sum of these values shows; BLAS does not."""
    k = 4096
    a = np.full((1, k), 0.1, np.float32)
    b = np.ones((k, 1), np.float32)
    in_order = np.add.accumulate(a[0])[-1]
    cpu.use_blas(False)
    assert cpu.matmul(a, b)[0, 0] == in_order
    cpu.use_blas(True)
    assert cpu.matmul(a, b)[0, 0] != in_order


# ---------------------------------------------------------------------------------------- refusals

BIG = 2**31 + 5


def broadcast(*shape):
    """An array of any size that needs no memory."""
    return np.broadcast_to(np.float32(1), shape)


@pytest.mark.parametrize("call", [
    lambda: cpu.matmul(broadcast(BIG, 3), rand(3, 2)),
    lambda: cpu.matmul(rand(2, 3), broadcast(3, BIG)),
    lambda: cpu.matmul(broadcast(2, BIG), broadcast(BIG, 2)),
    lambda: cpu.matmul(broadcast(4, BIG, 1), rand(1, 2)),
    lambda: cpu.matmul(broadcast(0, BIG), broadcast(BIG, 0)),
    lambda: cpu.linear(broadcast(BIG, 3), rand(2, 3), None),
    lambda: cpu.linear(broadcast(2, 2**30, 3), rand(2, 3), None),
    lambda: cpu.linear(rand(2, 3), broadcast(BIG, 3), None),
    lambda: cpu.linear_grad_weight(broadcast(BIG, 3), broadcast(BIG, 2)),
])
def test_a_dimension_that_blas_cannot_count_is_refused(call):
    with pytest.raises(ValueError, match="BLAS counts in 32 bits and cannot take a matrix of"):
        call()


@pytest.mark.parametrize("rows", [1, 2])
def test_a_step_that_blas_cannot_count_is_copied(rows):
    """Rows 2^31 elements apart, in 8 GB of which only the touched pages exist."""
    step = 2**31 + 8
    try:
        sparse = np.frombuffer(mmap.mmap(-1, 4 * step + 64), np.float32)
    except (OSError, OverflowError) as error:
        pytest.skip(f"no address space: {error}")
    x = as_strided(sparse, (rows, 3), (4 * step, 4), writeable=True)
    x[...] = rand(rows, 3)
    y = rand(3, 2, seed=1)
    close(cpu.matmul(x, y), rand(rows, 3) @ y, 3)
    close(cpu.matmul(y.T, x.T), (rand(rows, 3) @ y).T, 3)


@pytest.mark.parametrize("call, error, message", [
    (lambda: cpu.matmul(rand(2, 3), rand(4, 5)), ValueError,
     "matmul: shapes (2, 3) and (4, 5) do not fit: 3 columns against 4 rows"),
    (lambda: cpu.matmul(rand(3), rand(3, 5)), ValueError,
     "matmul: expected at least 2 dimensions, got shape (3,)"),
    (lambda: cpu.matmul(rand(2, 3), None), TypeError,
     "matmul: expected a float32 array, got NoneType"),
    (lambda: cpu.matmul(rand(2, 3).astype(float), rand(3, 2)), TypeError,
     "matmul: expected a float32 array, got one of float64"),
    (lambda: cpu.matmul([[1.0]], rand(1, 1)), TypeError,
     "matmul: expected a float32 array, got list"),
    (lambda: cpu.linear(rand(2, 3), rand(4, 5), None), ValueError,
     "linear: input of shape (2, 3) does not fit a weight of shape (4, 5)"),
    (lambda: cpu.linear(rand(2, 3), rand(2, 4, 3), None), ValueError,
     "linear: input of shape (2, 3) does not fit a weight of shape (2, 4, 3)"),
    (lambda: cpu.linear(rand(2, 3), rand(4, 3), rand(3)), ValueError,
     "linear: bias of shape (3,) does not fit 4 outputs"),
    (lambda: cpu.linear(np.float32(1), rand(4, 3), None), TypeError,
     "linear: expected a float32 array, got float32"),
    (lambda: cpu.linear(np.array(1, np.float32), rand(4, 3), None), ValueError,
     "linear: expected at least 1 dimension, got a 0-d array"),
    (lambda: cpu.linear_grad_weight(rand(4, 2), rand(5, 3)), ValueError,
     "linear_grad_weight: gradient of shape (4, 2) does not fit an input of shape (5, 3)"),
    (lambda: cpu.linear_grad_weight(rand(4, 0), rand(5, 3)), ValueError,
     "linear_grad_weight: gradient of shape (4, 0) does not fit an input of shape (5, 3)"),
])
def test_refusals_are_sentences(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_batches_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        cpu.matmul(rand(2, 4, 5), rand(3, 5, 6))


# ------------------------------------------------------------------------------------ BLAS threads

def scipy_threads():
    return {lib["num_threads"] for lib in threadpoolctl.threadpool_info()
            if lib["user_api"] == "blas" and "numpy.libs" not in lib["filepath"]
            and "scipy" in lib["filepath"]}


needs_wheel = pytest.mark.skipif(not scipy_threads(), reason="SciPy has no BLAS of its own here")


@needs_wheel
def test_blas_runs_on_one_thread_and_can_be_given_threads():
    assert scipy_threads() == {1}
    with scipy_blas.blas_threads(2):
        assert scipy_threads() == {2}
        with scipy_blas.blas_threads(3):
            assert scipy_threads() == {3}
        assert scipy_threads() == {2}
    assert scipy_threads() == {1}
    scipy_blas.blas_threads(2)
    assert scipy_threads() == {2}
    scipy_blas.blas_threads(1)
    assert scipy_threads() == {1}


@needs_wheel
def test_blas_threads_come_back_after_an_error():
    with pytest.raises(RuntimeError, match="inside"), scipy_blas.blas_threads(2):
        raise RuntimeError("inside")
    assert scipy_threads() == {1}


def test_numpys_own_threads_are_untouched(python):
    code = """
import sys, threadpoolctl
import numpy
def numpys():
    return [lib["num_threads"] for lib in threadpoolctl.threadpool_info()
            if lib["user_api"] == "blas" and "numpy" in lib["filepath"]]
before = numpys()
from minidl_kernels.cpu import scipy_blas
scipy_blas.blas_threads(3)
assert numpys() == before, (before, numpys())
scipy_blas.blas_threads(1)
assert numpys() == before, (before, numpys())
"""
    python(code)
    python(code.replace("import numpy\n", "import scipy.linalg, numpy\n"))


@pytest.mark.parametrize("n", [0, -1, None, "2", 1.0, True])
def test_blas_threads_says_what_it_expects(n):
    with pytest.raises(ValueError, match="blas_threads: expected a number of threads from 1 up"):
        scipy_blas.blas_threads(n)


@needs_wheel
def test_the_description_names_the_library():
    (line,) = scipy_blas.describe()
    assert "openblas" in line.lower() and "(1 thread," in line
