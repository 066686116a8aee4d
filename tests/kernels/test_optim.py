"""The fused optimizer kernels against NumPy in float64, on one and several threads."""

import numpy as np
import pytest

from minidl_kernels import cpu, reference
from minidl_kernels.cpu import threads

SIZES = [(1,), (7,), (33, 5), (1000,), (0,), (3, 9000)]


def arrays(seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float32).astype(dtype) for s in SIZES]


def settings(**changes):
    return {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1,
            "decoupled": True, "maximize": False, **changes}


@pytest.mark.parametrize("changes", [{}, {"decoupled": False}, {"maximize": True}])
def test_adam_agrees_with_the_reference(changes):
    results = []
    for backend, dtype in ((cpu, np.float32), (reference, np.float64)):
        p, m, v = arrays(0, dtype), arrays(1, dtype), [abs(x) for x in arrays(2, dtype)]
        for step in range(1, 6):
            backend.adam_(p, arrays(10 + step, dtype), m, v, step=step, **settings(**changes))
        results.append([*p, *m, *v])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("momentum, nesterov, dampening",
                         [(0.0, False, 0.0), (0.9, False, 0.1), (0.9, True, 0.0)])
def test_sgd_agrees_with_the_reference(momentum, nesterov, dampening):
    results = []
    for backend, dtype in ((cpu, np.float32), (reference, np.float64)):
        p = arrays(0, dtype)
        buffers = [np.full_like(x, np.nan) for x in p] if momentum else None
        for step in range(5):
            backend.sgd_(p, arrays(10 + step, dtype), buffers, 0.1, momentum, dampening, 0.01,
                         nesterov, step == 0, False)
        results.append(p)
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("decay, maximize", [(0.0, False), (0.1, False), (0.1, True)])
def test_lion_agrees_with_the_reference(decay, maximize):
    results = []
    for backend, dtype in ((cpu, np.float32), (reference, np.float64)):
        p, m = arrays(0, dtype), arrays(1, dtype)
        for step in range(5):
            backend.lion_(p, arrays(10 + step, dtype), m, 1e-2, 0.9, 0.99, decay, maximize)
        results.append([*p, *m])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_lion_at_zero_and_nan():
    for dtype, backend in ((np.float32, cpu), (np.float64, reference)):
        p, m = np.array([1, 1, 1], dtype), np.zeros(3, dtype)
        backend.lion_([p], [np.array([0, np.nan, -2], dtype)], [m], 0.5, 0.9, 0.99, 0.0, False)
        np.testing.assert_array_equal(p, [1, np.nan, 1.5])


def test_norm_and_scale():
    x = arrays(3)
    assert cpu.total_norm(x) == pytest.approx(reference.total_norm(x), rel=1e-12)
    before = [a.copy() for a in x]
    cpu.scale_(x, 0.5)
    for got, was in zip(x, before, strict=True):
        np.testing.assert_array_equal(got, was * np.float32(0.5))


def test_bits_do_not_depend_on_threads():
    results = []
    count = threads.get_num_threads()
    for n in (1, 2, 4):
        threads.set_num_threads(n)
        p, m, v = ([np.tile(x, 3) for x in arrays(s)] for s in (0, 1, 2))
        v = [abs(x) for x in v]
        cpu.adam_(p, m, m, v, step=1, **settings())
        cpu.lion_(p, v, m, 0.01, 0.9, 0.99, 0.1, False)
        results.append([cpu.total_norm(p), *(x.tobytes() for x in p)])
    threads.set_num_threads(count)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("bad", [None, [1.0], np.ones(3), np.ones((4, 4), np.float32).T])
def test_bad_arrays_are_refused(bad):
    with pytest.raises(TypeError, match="float32"):
        cpu.total_norm([bad])


def test_mismatched_lists_are_refused():
    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="lists of 1 and 2"):
        cpu.adam_([x], [x, x], [x], [x], step=1, **settings())
    with pytest.raises(ValueError, match="3 and 4 elements"):
        cpu.adam_([x], [np.ones(4, np.float32)], [x], [x], step=1, **settings())
