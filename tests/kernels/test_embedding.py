"""embedding, its gradient and index_add_rows against NumPy and PyTorch."""

from importlib import import_module

import numpy as np
import pytest

# By name: each package also has a function called embedding.
embedding = import_module("minidl_kernels.cpu.embedding")
reference = import_module("minidl_kernels.reference.embedding")
rng = np.random.default_rng(0)


def draw(*shape):
    return rng.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("C", [0, 1, 7, 33, 1000, 64, 65, 200])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (33, 3), (1000,)])
def test_rows_and_gradient(C, shape):
    weight, idx, g = draw(11, C), rng.integers(0, 11, shape), draw(*shape, C)
    out = embedding.embedding(weight, np.asarray(idx))
    assert out.shape == (*shape, C) and out.dtype == np.float32
    assert (out == weight[idx]).all()
    dweight = embedding.embedding_grad(g, np.asarray(idx), 11, None)
    expected = reference.embedding_grad(g.astype("f8"), np.asarray(idx), 11, None)
    assert dweight.shape == (11, C)
    np.testing.assert_allclose(dweight, expected, rtol=1e-5, atol=1e-5)


def test_padding_row_gets_no_gradient_and_unused_rows_are_zero():
    g, idx = draw(50, 8), rng.integers(0, 4, 50)
    dweight = embedding.embedding_grad(g, idx, 6, 2)
    np.testing.assert_allclose(dweight, reference.embedding_grad(g, idx, 6, 2), atol=1e-5)
    assert (dweight[[2, 4, 5]] == 0).all() and (dweight[[0, 1, 3]] != 0).all()


def test_views():
    weight, idx, g = draw(8, 6).T, np.arange(6)[::-2], draw(8, 3).T
    assert (embedding.embedding(weight, idx) == weight[idx]).all()
    np.testing.assert_allclose(embedding.embedding_grad(g, idx, 6, None),
                               reference.embedding_grad(g, idx, 6, None))


def test_index_add_rows_adds_in_place_even_into_itself():
    dst, src, idx = draw(9, 70), draw(40, 70), rng.integers(0, 9, 40)
    expected = reference.index_add_rows(dst.astype("f8"), idx, src)
    assert embedding.index_add_rows(dst, idx, src) is dst
    np.testing.assert_allclose(dst, expected, atol=1e-5)
    twice = dst + dst
    assert (embedding.index_add_rows(dst, np.arange(9), dst) == twice).all()


def test_sums_in_the_order_of_the_indices():
    g = np.array([[1e8], [1.0], [-1e8], [1.0]], "f4")          # only this order gives exactly 1
    assert embedding.embedding_grad(g, np.zeros(4, "int64"), 1, None)[0, 0] == 1


def all_results():
    fixed = np.random.default_rng(1)
    weight, g = fixed.standard_normal((300, 200)).astype("f4"), fixed.standard_normal((4000, 200))
    idx, g = fixed.integers(0, 300, 4000), g.astype("f4")
    return {"rows": embedding.embedding(weight, idx),
            "grad": embedding.embedding_grad(g, idx, 300, 5)}


def test_same_bits_on_any_thread_count(same_on_any_thread_count):
    same_on_any_thread_count()


def test_same_results_on_any_instruction_set(same_on_any_isa):
    same_on_any_isa(rtol=0, atol=0)


def test_against_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    weight, idx, g = draw(30, 48), rng.integers(0, 30, (6, 9)), draw(6, 9, 48)
    t = torch.tensor(weight, requires_grad=True)
    out = torch.nn.functional.embedding(torch.tensor(idx), t, padding_idx=3)
    out.backward(torch.tensor(g))
    assert (embedding.embedding(weight, idx) == out.detach().numpy()).all()
    np.testing.assert_allclose(embedding.embedding_grad(g, idx, 30, 3), t.grad.numpy(), atol=1e-5)


@pytest.mark.parametrize("module", [embedding, reference])
def test_indices_out_of_range_are_named(module):
    weight, idx = draw(5, 3), np.array([[0, 4], [7, 1]])
    words = r": index 7 \(element 2 of idx\) is out of range for 5 rows"
    with pytest.raises(IndexError, match="embedding" + words):
        module.embedding(weight, idx)
    with pytest.raises(IndexError, match="embedding_grad" + words):
        module.embedding_grad(draw(2, 2, 3), idx, 5, None)
    with pytest.raises(IndexError, match="index_add_rows: index -1"):
        module.index_add_rows(weight, np.array([-1]), draw(1, 3))


def test_wrong_arguments_are_refused_with_a_sentence():
    weight, idx = draw(5, 3), np.array([0, 4])
    read_only = draw(5, 3)
    read_only.flags.writeable = False
    for call, error, words in [
        (lambda: embedding.embedding(None, idx), TypeError, "embedding: expected a float32 array"),
        (lambda: embedding.embedding(weight, [0]), TypeError, "embedding: expected an int64 array"),
        (lambda: embedding.embedding(weight[0], idx), ValueError, r"expected weight \[V, C\]"),
        (lambda: embedding.embedding_grad(weight, idx, 5, None), ValueError, "one more axis"),
        (lambda: embedding.embedding_grad(weight, idx, -1, None), ValueError, "not be negative"),
        (lambda: embedding.index_add_rows(weight.T, idx, weight), TypeError, "dst must be"),
        (lambda: embedding.index_add_rows(read_only, idx, weight[:2]), TypeError, "writeable"),
        (lambda: embedding.index_add_rows(weight, idx, weight), ValueError, r"idx \[N\], src"),
    ]:
        with pytest.raises(error, match=words):
            call()
