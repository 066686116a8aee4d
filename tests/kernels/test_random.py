"""Random numbers: known answers of the cipher, the reference bit for bit, and their statistics."""

import importlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minidl_kernels.cpu import threads
from minidl_kernels.cpu.random import bits64, dropout, integers, normal, uniform

reference = importlib.import_module("minidl_kernels.reference.random")
STREAMS = [(0, 0), (1, 5), (2**64 - 1, 2**32 - 3), (0x1234567890ABCDEF, 2**64 - 7), (-1, -2)]
SIZES = [0, 1, 2, 3, 5, 7, 33, 63, 64, 65, 1000, 20001]

# philox4x32-10 in the kat_vectors file of Random123: counter, key, result
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers_of_the_cipher(counter, key, result):
    words = reference.philox([counter], key[0] | key[1] << 32)
    assert [hex(w) for w in words[0]] == [hex(w) for w in result]


def test_known_answer_of_the_kernel():
    assert [hex(x) for x in bits64(2, 0, 0)] == ["0xe169c58d6627e8d5", "0x9b00dbd8bc57ac4c"]


@pytest.mark.parametrize(("seed", "offset"), STREAMS)
@pytest.mark.parametrize("n", SIZES)
def test_the_reference_bit_for_bit(n, seed, offset):
    np.testing.assert_array_equal(uniform(n, seed, offset), reference.uniform(n, seed, offset))
    np.testing.assert_array_equal(bits64(n, seed, offset), reference.bits64(n, seed, offset))
    for low, high in ((0, 1), (-7, 50257), (-(2**63), 2**63 - 1), (2**62, 2**63)):
        x = integers(low, high, (n,), seed, offset)
        np.testing.assert_array_equal(x, reference.integers(low, high, (n,), seed, offset))
    x = reference.normal(n, 7, 7)
    for p in (0.0, 0.1, 0.5, 1 - 2.0**-40, 1.0):
        np.testing.assert_array_equal(
            dropout(x, p, seed, offset), reference.dropout(x, p, seed, offset))
    np.testing.assert_allclose(
        normal(n, seed, offset), reference.normal(n, seed, offset), rtol=5e-7, atol=3e-7)


def test_shapes_and_types():
    for f, dtype in ((uniform, np.float32), (normal, np.float32)):
        for shape in ((), (3,), (2, 3), [2, 0, 4], 5, np.int64(6)):
            x = f(shape, 1, 2)
            assert x.dtype == dtype
            assert x.shape == (tuple(shape) if np.iterable(shape) else (int(shape),))
    assert integers(0, 9, (2, 3), 0, 0).dtype == np.int64
    assert integers(0, 9, (2, 3), 0, 0).shape == (2, 3)
    assert bits64(3, 0, 0).dtype == np.uint64


def test_offsets_count_blocks_of_the_same_stream():
    whole = uniform(1000, 3, 10)
    np.testing.assert_array_equal(whole[400:], uniform(600, 3, 110))
    np.testing.assert_array_equal(bits64(100, 3, 10)[40:], bits64(60, 3, 30))
    assert reference.blocks(5) == 2 and reference.blocks(8) == 2 and reference.blocks(5, 2) == 3
    assert (uniform(1000, 4, 10) != whole).mean() > 0.99


def test_the_same_numbers_on_any_number_of_threads():
    x = reference.normal(50001, 1, 1)
    before, results = threads.get_num_threads(), []
    try:
        for n in (1, 2, 3, 4):
            threads.set_num_threads(n)
            results.append((uniform(50001, 1, 2), normal(50001, 1, 2), bits64(50001, 1, 2),
                            integers(-5, 99, 50001, 1, 2), dropout(x, 0.3, 1, 2)))
    finally:
        threads.set_num_threads(before)
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(a, b)


ISA_SCRIPT = """
import sys, numpy as np
from minidl_kernels.cpu.random import bits64, dropout, integers, normal, uniform
x = np.linspace(-1, 1, 1001, dtype=np.float32)
np.savez(sys.argv[1], uniform(1001, 1, 2), bits64(1001, 1, 2), integers(-5, 99, 1001, 1, 2),
         dropout(x, 0.3, 1, 2), normal(1001, 1, 2))
"""


def test_every_instruction_set_gives_the_same_numbers(tmp_path):
    results = []
    for isa in ("baseline", "avx2", "avx512"):
        path = str(tmp_path / f"{isa}.npz")
        environment = {**os.environ, "MINIDL_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", ISA_SCRIPT, path], check=True, env=environment,
                       cwd=Path(threads.__file__).parents[2])  # -c looks here first
        with np.load(path) as file:
            results.append([file[name] for name in file.files])
    for result in results[1:]:
        for x, y in zip(result[:4], results[0][:4], strict=True):
            np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(result[4], results[0][4], rtol=5e-7, atol=3e-7)


N = 2_000_000


def ks_distance(x, cdf):
    """Kolmogorov-Smirnov distance between a sample and a distribution function."""
    x = np.sort(x)
    c, i = cdf(x), np.arange(len(x))
    return max((c - i / len(x)).max(), ((i + 1) / len(x) - c).max())


def normal_cdf(x):
    erf = np.frompyfunc(math.erf, 1, 1)
    return 0.5 + 0.5 * erf(x / math.sqrt(2)).astype(float)


def test_uniform_is_uniform():
    x = uniform(N, 42, 0)
    assert x.min() >= 0 and x.max() < 1
    assert (x * 2**24 == np.floor(x * 2**24)).all()
    assert ks_distance(x[:500_000].astype(float), lambda t: t) < 1.95 / math.sqrt(500_000)
    assert abs(x.astype(float).mean() - 0.5) < 5 * math.sqrt(1 / 12 / N)
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 5 / math.sqrt(N)


def test_normal_has_the_right_moments_distribution_and_tails():
    x = normal(N, 42, 0).astype(float)
    assert abs(x.mean()) < 5 / math.sqrt(N)
    assert abs((x**2).mean() - 1) < 5 * math.sqrt(2 / N)
    assert abs((x**3).mean()) < 5 * math.sqrt(15 / N)
    assert abs((x**4).mean() - 3) < 5 * math.sqrt(96 / N)
    assert ks_distance(x[:200_000], normal_cdf) < 1.95 / math.sqrt(200_000)
    for far in (3, 4, 4.5):
        expected = N * math.erfc(far / math.sqrt(2))
        assert abs((abs(x) > far).sum() - expected) < 5 * math.sqrt(expected)
    for lag in (1, 2, 3, 4):
        assert abs((x[:-lag] * x[lag:]).mean()) < 5 / math.sqrt(N)
        assert abs((x[:-lag] ** 2 * x[lag:] ** 2).mean() - 1) < 5 * math.sqrt(8 / N)


def test_integers_are_uniform():
    x = integers(-3, 7, N, 9, 0)
    counts = np.bincount(x + 3, minlength=10)
    assert len(counts) == 10
    assert ((counts - N / 10) ** 2 / (N / 10)).sum() < 36  # chi squared, 9 degrees, p = 4e-5


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p):
    y = dropout(np.ones(N, np.float32), p, 5, 0)
    kept = y != 0
    assert abs(kept.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / N)
    assert (y[kept] == np.float32(1 / (1 - p))).all()


def test_dropout_keeps_a_word_equal_to_the_threshold():
    word = int(reference.words(1, 8, 0)[0])
    one = np.ones(1, np.float32)
    assert dropout(one, word / 2**32, 8, 0)[0] > 0
    assert dropout(one, (word + 1) / 2**32, 8, 0)[0] == 0


def test_dropout_of_views_nan_and_inf():
    x = reference.normal((40, 30), 1, 1)
    np.testing.assert_array_equal(dropout(x.T, 0.4, 2, 3), dropout(x.T.copy(), 0.4, 2, 3))
    assert dropout(np.zeros((0, 3), np.float32), 0.4, 2, 3).shape == (0, 3)
    x = np.full(100, np.nan, np.float32)
    assert np.isnan(dropout(x, 0.4, 2, 3)).all()  # NaN times zero, as in PyTorch
    assert not dropout(np.ones(100, np.float32), 1.0, 2, 3).any()


def test_errors_are_sentences():
    x = np.ones(3, np.float32)
    cases = [
        (lambda: uniform((2, -1), 0, 0), ValueError, r"uniform: negative size in shape \(2, -1\)"),
        (lambda: uniform((2.5,), 0, 0), TypeError, "uniform: a shape is made of ints"),
        (lambda: normal(None, 0, 0), TypeError, "normal: a shape is made of ints"),
        (lambda: normal((2**70,), 0, 0), MemoryError, "normal: cannot allocate"),
        (lambda: normal((2**40, 2**40), 0, 0), MemoryError, "cannot allocate"),
        (lambda: uniform((1,) * 65, 0, 0), ValueError, "uniform: at most 64 axes"),
        (lambda: bits64(3, 0.5, 0), TypeError, "bits64: seed and offset must be ints"),
        (lambda: integers(3, 3, 4, 0, 0), ValueError, "integers: low must be below high"),
        (lambda: integers(0, 2**63 + 1, 4, 0, 0), ValueError, "both within int64"),
        (lambda: integers(-(2**63), 2**63, 4, 0, 0), ValueError, "one too many"),
        (lambda: dropout(x, 1.5, 0, 0), ValueError, "dropout: p must be between 0 and 1"),
        (lambda: dropout(x, float("nan"), 0, 0), ValueError, "dropout: p must be between"),
        (lambda: dropout([1.0], 0.5, 0, 0), TypeError, "dropout: x: expected a float32 array"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()
