"""attention against the NumPy reference in float64 and against PyTorch."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minidl_kernels.cpu import threads
from minidl_kernels.cpu.attention import attention, attention_grad

# `import minidl_kernels.reference.attention as x` gives the function where the package exports it
reference = importlib.import_module("minidl_kernels.reference.attention")
rng = np.random.default_rng(0)


def randn(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def double(x):
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x


def inputs(B=2, H=2, Hk=None, T=33, S=None, D=16, Dv=None):
    Hk, S, Dv = Hk or H, T if S is None else S, Dv or D
    return randn(B, H, T, D), randn(B, Hk, S, D), randn(B, Hk, S, Dv), randn(B, H, T, Dv)


def check(q, k, v, g, mask=None, is_causal=False, scale=None, dropout_p=0.0, tol=4e-6):
    """Forward and all gradients agree with float64 to `tol` of the largest element."""
    options = (mask, is_causal, scale, dropout_p, 12345, 67)
    need = (True, True, True, mask is not None)
    out, lse = attention(q, k, v, *options)
    grads = attention_grad(g, q, k, v, out, lse, *options, need)
    wide = [double(x) for x in (q, k, v, *options)]
    want_out, want_lse = reference.attention(*wide)
    want = reference.attention_grad(double(g), *wide[:3], want_out, want_lse, *wide[3:], need)
    names = ("out", "lse", "dq", "dk", "dv", "dmask")
    for name, x, y in zip(names, (out, lse, *grads), (want_out, want_lse, *want), strict=True):
        if y is None:
            assert x is None, name
            continue
        assert x.shape == y.shape, name
        assert x.dtype == (np.float64 if name == "lse" else np.float32), name
        finite = np.isfinite(y)
        np.testing.assert_array_equal(np.isfinite(x), finite, err_msg=name)
        np.testing.assert_array_equal(x[~finite], y[~finite], err_msg=name)
        if finite.any():
            # dmask may be a sum of everything that should cancel
            bound = tol * max(10.0 if name == "dmask" else 1.0, abs(y[finite]).max())
            assert abs(x[finite] - y[finite]).max() <= bound, (name, abs(x - y)[finite].max())
    return out, lse, grads


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("T", [1, 2, 5, 7, 33, 64, 65, 129, 258, 300])
def test_lengths(T, is_causal):
    check(*inputs(T=T), is_causal=is_causal)


@pytest.mark.parametrize("D", [1, 3, 4, 7, 8, 15, 20, 24, 32, 33, 64, 80, 100, 128, 200, 256, 300])
def test_widths(D):
    check(*inputs(B=1, T=70, D=D), is_causal=True)
    check(*inputs(B=1, T=2, S=70, D=D))
    check(*inputs(B=1, T=40, S=70, D=8, Dv=D))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("T", "S"), [(1, 300), (3, 70), (4, 70), (40, 200), (200, 40), (258, 400), (400, 258), (65, 1)]
)
def test_cross_lengths_follow_the_top_left_rule(T, S, is_causal):
    check(*inputs(T=T, S=S), is_causal=is_causal)


@pytest.mark.parametrize(("H", "Hk"), [(4, 2), (6, 1), (8, 8), (6, 2)])
def test_grouped_heads(H, Hk):
    check(*inputs(H=H, Hk=Hk, T=70, D=20), is_causal=True)
    check(*inputs(H=H, Hk=Hk, T=1, S=70, D=32), dropout_p=0.25)


MASKS = {
    "full": lambda B, H, T, S: (B, H, T, S),
    "queries-keys": lambda B, H, T, S: (T, S),
    "keys": lambda B, H, T, S: (B, 1, 1, S),
    "one-row": lambda B, H, T, S: (S,),
    "queries": lambda B, H, T, S: (1, H, T, 1),
    "scalar": lambda B, H, T, S: (),
}


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", [bool, float])
@pytest.mark.parametrize("shape", MASKS)
def test_masks(shape, kind, is_causal, dropout_p):
    B, H, T, S = 2, 3, 70, 67
    mask = randn(*MASKS[shape](B, H, T, S))
    mask = np.asarray(mask > -0.7 if kind is bool else mask)
    check(*inputs(B, H, T=T, S=S, D=12), mask, is_causal, dropout_p=dropout_p)


@pytest.mark.parametrize("kind", [bool, float])
def test_mask_with_strides_and_long_rows(kind):
    mask = randn(300, 2, 290).transpose(1, 2, 0)[:, ::-1]
    mask = (mask > 0) if kind is bool else mask
    assert not mask.flags.c_contiguous or kind is bool
    check(*inputs(1, 2, T=290, S=300, D=8), mask)
    check(*inputs(1, 2, T=290, S=300, D=8), mask.copy()[:, :, ::-1])


@pytest.mark.parametrize("kind", [bool, float])
def test_a_fully_masked_row_gives_zeros_and_no_gradient(kind):
    q, k, v, g = inputs(T=70, D=16)
    allowed = rng.random((70, 70)) > 0.2
    allowed[[0, 3, 69]] = False
    allowed[:, 5] = False
    mask = allowed if kind is bool else np.where(allowed, 0, -np.inf).astype(np.float32)
    out, lse, (dq, dk, dv, _dmask) = check(q, k, v, g, mask)
    rows = [0, 3, 69]
    assert (out[:, :, rows] == 0).all() and (lse[:, :, rows] == -np.inf).all()
    assert (dq[:, :, rows] == 0).all() and (dk[:, :, 5] == 0).all() and (dv[:, :, 5] == 0).all()


def test_everything_masked():
    q, k, v, g = inputs(T=9)
    mask = np.zeros((9, 9), bool)
    out, _lse, grads = check(q, k, v, g, mask)
    assert not out.any() and all(not x.any() for x in grads[:3])


def test_large_scores_do_not_overflow():
    q, k, v, g = inputs(T=70)
    check(q * 60, k * 60, v, g, is_causal=True, tol=2e-3)  # scores of some 1e4 lose digits
    out, _ = attention(q * 1e4, k * 1e4, v)
    assert np.isfinite(out).all()


def test_scale_is_applied():
    q, k, v, g = inputs(T=40)
    for scale in (0.0, 0.5, -1.0):
        check(q, k, v, g, scale=scale, is_causal=True)


def test_nan_reaches_exactly_the_rows_that_see_it():
    q, k, v, _ = inputs(B=1, H=1, T=150)
    q[0, 0, 4, 2] = np.nan
    out, lse = attention(q, k, v)
    assert np.isnan(out[0, 0, 4]).all() and np.isnan(lse[0, 0, 4])
    assert np.isfinite(np.delete(out[0, 0], 4, axis=0)).all()
    q[0, 0, 4, 2] = 0
    k[0, 0, 70, 0] = np.nan
    out, _ = attention(q, k, v, is_causal=True)
    assert np.isfinite(out[0, 0, :64]).all() and np.isnan(out[0, 0, 70:]).all()
    assert np.isnan(attention(q[:, :, :1], k, v)[0]).all()
    q, k, v, _ = inputs(B=1, H=1, T=20)
    v[0, 0, 3, 1] = np.inf
    assert (attention(q, k, v)[0][..., 1] == np.inf).all()


@pytest.mark.parametrize("T", [3, 70])
def test_views_give_the_same_bits_as_copies(T):
    B, H, D = 2, 3, 32
    packed = randn(B, T, 3 * H * D)
    q, k, v = (x.reshape(B, T, H, D).transpose(0, 2, 1, 3) for x in np.split(packed, 3, axis=2))
    g = randn(B, T, H, D).transpose(0, 2, 1, 3)
    dense = [np.ascontiguousarray(x) for x in (q, k, v, g)]
    odd = [np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3) for x in (q, k, v, g)]
    flipped = [x[::-1, :, ::-1].copy()[::-1, :, ::-1] for x in (q, k, v, g)]
    want = attention(*dense[:3], is_causal=True)
    want_grad = attention_grad(dense[3], *dense[:3], *want, is_causal=True)
    for q_, k_, v_, g_ in ((q, k, v, g), odd, flipped):
        got = attention(q_, k_, v_, is_causal=True)
        got_grad = attention_grad(g_, q_, k_, v_, *got, is_causal=True)
        for x, y in zip(got + got_grad[:3], want + want_grad[:3], strict=True):
            np.testing.assert_array_equal(x, y)


def test_broadcast_inputs_and_a_broadcast_gradient():
    q, k, v, _ = inputs(B=1, H=2, T=20, D=8)
    q = np.broadcast_to(q, (3, 2, 20, 8))
    k, v = (np.broadcast_to(x[:, :1], (3, 2, 20, 8)) for x in (k, v))
    check(q, k, v, np.broadcast_to(np.float32(0.5), (3, 2, 20, 8)))


def test_results_are_laid_out_for_a_free_reshape():
    q, k, v, g = inputs(2, 3, T=10, D=8)
    out, lse = attention(q, k, v)
    for x in (out, *attention_grad(g, q, k, v, out, lse)[:3]):
        assert x.transpose(0, 2, 1, 3).flags.c_contiguous
        assert np.shares_memory(x.transpose(0, 2, 1, 3).reshape(2, 10, 24), x)


def test_packed_projection_gets_a_packed_gradient():
    B, T, H, D = 2, 5, 3, 8
    packed = randn(B, T, 3 * H * D)
    q, k, v = (x.reshape(B, T, H, D).transpose(0, 2, 1, 3) for x in np.split(packed, 3, axis=2))
    out, lse = attention(q, k, v)
    g = randn(*out.shape)
    dq, dk, dv, _ = attention_grad(g, q, k, v, out, lse)
    step = H * D * 4
    start = dq.__array_interface__["data"][0]
    assert dq.strides == dk.strides == dv.strides == q.strides
    assert [x.__array_interface__["data"][0] - start for x in (dk, dv)] == [step, 2 * step]
    dq, _, dv, _ = attention_grad(g, q, k, v, out, lse, need=(True, False, True, False))
    assert dq.transpose(0, 2, 1, 3).flags.c_contiguous


def test_need_skips_what_is_not_wanted():
    q, k, v, g = inputs(T=70)
    mask = randn(70, 70)
    out, lse = attention(q, k, v, mask)
    everything = attention_grad(g, q, k, v, out, lse, mask, need=(True,) * 4)
    for i in range(4):
        need = tuple(i == j for j in range(4))
        grads = attention_grad(g, q, k, v, out, lse, mask, need=need)
        for j, x in enumerate(grads):
            if i == j:
                np.testing.assert_array_equal(x, everything[j])
            else:
                assert x is None
    assert attention_grad(g, q, k, v, out, lse, need=(False,) * 4) == (None,) * 4


def test_dropout_keeps_the_expected_share_and_the_ends_are_exact():
    q, k, v, g = inputs(1, 2, T=200, D=8)
    v = np.ones_like(v)
    out, _ = attention(q * 0, k, v, dropout_p=0.25, seed=3)
    assert abs(out.mean() - 1) < 0.01 and out.std() > 0.01
    again, _ = attention(q * 0, k, v, dropout_p=0.25, seed=3)
    other, _ = attention(q * 0, k, v, dropout_p=0.25, seed=3, offset=1)
    assert (out == again).all() and (out != other).any()
    check(q, k, v, g, dropout_p=1.0)
    check(q, k, v, g, is_causal=True, dropout_p=0.6)
    assert not attention(q, k, v, dropout_p=1.0)[0].any()


@pytest.mark.parametrize("axis", ["B", "H", "T", "S", "D", "Dv"])
def test_zero_sizes(axis):
    B, H, T, S, D, Dv = (0 if axis == name else n for name, n in
                         (("B", 2), ("H", 3), ("T", 4), ("S", 5), ("D", 6), ("Dv", 7)))
    q, k, v = randn(B, H, T, D), randn(B, H, S, D), randn(B, H, S, Dv)
    out, lse = attention(q, k, v, is_causal=True)
    assert out.shape == (B, H, T, Dv) and lse.shape == (B, H, T)
    grads = attention_grad(randn(B, H, T, Dv), q, k, v, out, lse, is_causal=True)
    assert [x.shape for x in grads[:3]] == [q.shape, k.shape, v.shape]
    if axis == "S":
        assert (out == 0).all() and (lse == -np.inf).all() and (grads[0] == 0).all()
    if axis == "T":
        assert (grads[1] == 0).all() and (grads[2] == 0).all()


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ({"B": 1, "H": 1, "T": 700, "D": 64}, {"is_causal": True}),  # one head's keys are split
        ({"B": 2, "H": 4, "Hk": 2, "T": 300, "D": 32}, {"is_causal": True, "dropout_p": 0.1}),
        ({"B": 3, "H": 4, "T": 1, "S": 3000, "D": 64}, {}),
    ],
)
def test_the_same_bits_on_any_number_of_threads(shape, options):
    q, k, v, g = inputs(**shape)
    before, results = threads.get_num_threads(), []
    try:
        for n in (1, 2, 3, 4):
            threads.set_num_threads(n)
            out, lse = attention(q, k, v, seed=1, **options)
            results.append((out, lse, *attention_grad(g, q, k, v, out, lse, seed=1, **options)[:3]))
    finally:
        threads.set_num_threads(before)
    for result in results[1:]:
        for x, y in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(x, y)
    check(q, k, v, g, **options)


def run_script(script, *arguments, **environment):
    """What a Python script prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-c", script, *arguments]
    tested = Path(threads.__file__).parents[2]  # -c looks here first: not at unbuilt sources
    return subprocess.run(command, check=True, env=environment, cwd=tested,
                          stdout=subprocess.PIPE).stdout


MEMORY_SCRIPT = """
import resource
import numpy as np
from minidl_kernels.cpu.attention import attention, attention_grad
q, k, v, g, mask = (np.ones((1, 1, 8192, n), np.float32) for n in (4, 4, 4, 4, 1))
mask = mask.reshape(1, 1, 1, 8192)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
out, lse = attention(q, k, v, mask, is_causal=True)
attention_grad(g, q, k, v, out, lse, mask, is_causal=True, need=(True,) * 4)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss counts KiB on Linux")
def test_memory_is_linear_in_the_sequence():
    """8192 by 8192 scores take 256 MiB; a run of 256 queries for dmask takes 8 MiB."""
    assert int(run_script(MEMORY_SCRIPT)) < 96 * 1024


ISA_SCRIPT = """
import sys, numpy as np
from minidl_kernels.cpu.attention import attention, attention_grad
rng = np.random.default_rng(5)
q, k, v, g = (rng.standard_normal((2, 3, 90, 40), dtype=np.float32) for _ in range(4))
out, lse = attention(q, k, v, is_causal=True, dropout_p=0.2, seed=9)
one, _ = attention(q[:, :, :1], k, v)
dq, dk, dv, _ = attention_grad(g, q, k, v, out, lse, is_causal=True, dropout_p=0.2, seed=9)
np.savez(sys.argv[1], out, lse, one, dq, dk, dv)
"""


def test_every_instruction_set_gives_the_same_numbers(tmp_path):
    results = []
    for isa in ("baseline", "avx2", "avx512"):
        path = str(tmp_path / f"{isa}.npz")
        run_script(ISA_SCRIPT, path, MINIDL_ISA=isa)
        with np.load(path) as file:
            results.append([file[name] for name in file.files])
    for result in results[1:]:
        for x, y in zip(result, results[0], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=2e-6)


def test_errors_are_sentences():
    q, k, v, g = inputs(T=6)
    cases = [
        (lambda: attention(q[0], k, v), ValueError, "attention: query: expected 4 axes"),
        (lambda: attention(None, k, v), TypeError, "attention: query: expected a float32 array"),
        (lambda: attention(q, k.astype("d"), v), TypeError, "attention: key: expected a float32"),
        (lambda: attention(q, k[:1], v), ValueError, "batches; they must agree"),
        (lambda: attention(q, k[..., :3], v), ValueError, "query has width 16 and key 3"),
        (lambda: attention(q, k, v[:, :, 1:]), ValueError, "heads and length must agree"),
        (lambda: attention(q, randn(2, 3, 6, 16), randn(2, 3, 6, 16)), ValueError,
         "2 query heads are not a multiple of 3 key heads"),
        (lambda: attention(q, k, v, np.ones((5, 6), bool)), ValueError, "does not broadcast"),
        (lambda: attention(q, k, v, np.ones((6, 6))), TypeError, "the mask must be a bool or"),
        (lambda: attention(q, k, v, dropout_p=1.5), ValueError, "between 0 and 1"),
        (lambda: attention(q, k, v, seed="x"), TypeError, "seed and offset must be ints"),
        (lambda: attention_grad(g[:1], q, k, v, g, g[..., 0]), ValueError, "must have shape"),
        (lambda: attention_grad(g, q, k, v, g, g), ValueError, "lse must have shape"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("case", ["plain", "causal", "bool", "float", "gqa", "cross"])
def test_pytorch_agrees(case):
    torch = pytest.importorskip("torch", reason="compares with PyTorch where it is installed")
    q, k, v, g = inputs(H=4, Hk=2 if case == "gqa" else 4, T=100,
                        S=130 if case == "cross" else None, D=24)
    mask = {"bool": randn(100, 100) > -1, "float": randn(2, 1, 100, 100)}.get(case)
    causal = case in ("causal", "gqa", "cross")
    theirs = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    y = torch.nn.functional.scaled_dot_product_attention(
        *theirs, attn_mask=None if mask is None else torch.tensor(mask), is_causal=causal,
        enable_gqa=case == "gqa")
    y.backward(torch.tensor(g))
    out, _lse, grads = check(q, k, v, g, mask, causal)
    for x, z in zip((out, *grads[:3]), (y.detach(), *(t.grad for t in theirs)), strict=True):
        np.testing.assert_allclose(x, z.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_of_large_scores_keep_their_digits():
    """Scores of hundreds: the probabilities of backward are those of forward to the last digits."""
    q, k, v, g = inputs(T=70)
    check(30 * q, k, v, g, is_causal=True, tol=2e-5)
    q[..., 0], k[..., 0] = 100, np.linspace(0, 100, 70, dtype=np.float32)   # one key wins: dv = g
    out, lse = attention(q, k, v)
    dv = attention_grad(g, q, k, v, out, lse)[2]
    np.testing.assert_allclose(dv[..., -1, :], g.sum(axis=2), rtol=1e-5, atol=1e-5)
