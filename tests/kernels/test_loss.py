"""cross_entropy and its gradient against float64 and PyTorch."""

import numpy as np
import pytest

from minidl_kernels.cpu import loss
from minidl_kernels.reference import loss as reference

rng = np.random.default_rng(0)


def draw(N, V, offset=0.0):
    logits = (rng.standard_normal((N, V)) * 3 + offset).astype("float32")
    target = rng.integers(0, V, N)
    target[::3] = -100
    return logits, target


def both(logits, target, smoothing=0.0, ignore=-100):
    """(losses, dlogits) of the kernel and of the float64 reference."""
    g = rng.standard_normal(len(target)).astype("float32")
    pairs = []
    for module, x, gx in ((loss, logits, g), (reference, logits.astype("f8"), g.astype("f8"))):
        losses, lse = module.cross_entropy(x, target, ignore, smoothing)
        pairs.append((losses, module.cross_entropy_grad(gx, x, target, lse, ignore, smoothing)))
    return pairs


@pytest.mark.parametrize("V", [1, 7, 33, 65, 1000, 5000])
@pytest.mark.parametrize("N", [0, 1, 7, 33])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_loss_and_gradient(N, V, smoothing):
    (losses, grad), (losses64, grad64) = both(*draw(N, V), smoothing)
    assert losses.dtype == grad.dtype == np.float32
    assert losses.shape == (N,) and grad.shape == (N, V)
    assert (losses[::3] == 0).all() and (grad[::3] == 0).all()
    np.testing.assert_allclose(losses, losses64, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(grad, grad64, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("N", [1, 7, 1000])
@pytest.mark.parametrize("module", [loss, reference])
def test_mean_of_the_rows_that_count(module, N):
    logits, target = draw(N, 65)
    losses, lse = module.cross_entropy(logits, target, -100, 0.0)
    mean, count = module.counted_mean(losses, target, -100)
    assert count == (target != -100).sum() and mean.shape == () and mean.dtype == np.float32
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(mean, losses.astype("f8").sum() / count, rtol=1e-6)
    grads = [module.cross_entropy_grad(g, logits, target, lse, -100, 0.0, n) for g, n in (
        (np.asarray(np.float32(3)), count), (np.full(N, 3 / max(count, 1), "float32"), None))]
    np.testing.assert_allclose(*grads, rtol=1e-6, atol=0)
    alike = module.cross_entropy_grad(np.asarray(np.float32(3)), logits, target, lse, -100, 0.0)
    each = module.cross_entropy_grad(np.full(N, 3, "float32"), logits, target, lse, -100, 0.0)
    np.testing.assert_array_equal(alike, each)


def test_large_logits_keep_their_digits():
    (losses, grad), (losses64, grad64) = both(*draw(30, 65, offset=1e5))
    np.testing.assert_allclose(losses, losses64, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(grad, grad64, rtol=2e-6, atol=1e-6)


def test_infinities_and_nan():
    inf, nan = np.inf, np.nan
    rows = [[-inf, 0, 1], [0, -inf, 1], [nan, 0, 1], [inf, 0, 1], [-inf, -inf, -inf]]
    logits = np.array(rows, "float32")
    target = np.array([0, 0, 1, 1, 1])
    (losses, grad), (losses64, grad64) = both(logits, target)
    assert losses[0] == inf and np.isfinite(losses[1]) and np.isnan(losses[2:]).all()
    np.testing.assert_allclose(losses, losses64, rtol=1e-6)
    np.testing.assert_allclose(grad, grad64, rtol=1e-6, atol=1e-7)


def test_views_and_every_row_ignored():
    logits, target = draw(12, 40)
    for x, t in [(logits[::2, ::3], target[::2] % 14), (logits.T[:12], np.zeros(12, "int64")),
                 (np.broadcast_to(logits[0], (5, 40)), target[:5] % 40)]:
        (losses, grad), (losses64, grad64) = both(x, t, ignore=0)
        np.testing.assert_allclose(losses, losses64, rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(grad, grad64, rtol=2e-6, atol=1e-6)
    losses, _ = loss.cross_entropy(logits[:, :0], np.full(12, 7), 7, 0.0)
    assert losses.tolist() == [0] * 12


def all_results():
    fixed = np.random.default_rng(1)
    logits, g = (fixed.standard_normal(s).astype("f4") for s in ((600, 130), 600))
    target = fixed.integers(0, 130, 600)
    losses, lse = loss.cross_entropy(logits, target, 3, 0.1)
    return {"losses": losses, "lse": lse,
            "grad": loss.cross_entropy_grad(g, logits, target, lse, 3, 0.1)}


def test_same_bits_on_any_thread_count(same_on_any_thread_count):
    same_on_any_thread_count()


def test_same_results_on_any_instruction_set(same_on_any_isa):
    same_on_any_isa()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_against_pytorch(smoothing):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    logits, target = draw(50, 65)
    g = rng.standard_normal(50).astype("f4")
    t = torch.tensor(logits, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(t, torch.tensor(target), reduction="none",
                                                 label_smoothing=smoothing)
    expected.backward(torch.tensor(g))
    losses, lse = loss.cross_entropy(logits, target, -100, smoothing)
    grad = loss.cross_entropy_grad(g, logits, target, lse, -100, smoothing)
    np.testing.assert_allclose(losses, expected.detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grad, t.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("module", [loss, reference])
def test_wrong_targets_name_row_value_and_classes(module):
    logits = np.zeros((3, 5), "f4")
    for bad in (5, -1, 2**40):
        words = rf"cross_entropy: target\[1\] is {bad}, expected a class from 0 to 4 \(5 classes\)"
        with pytest.raises(IndexError, match=words):
            module.cross_entropy(logits, np.array([0, bad, 0]), -100, 0.0)
        with pytest.raises(IndexError, match=r"cross_entropy_grad: target\[1\]"):
            module.cross_entropy_grad(logits[:, 0], logits, np.array([0, bad, 0]), np.zeros(3),
                                      -100, 0.0)
    with pytest.raises(ValueError, match=r"expected logits \[N, V\] and target \[N\]"):
        module.cross_entropy(logits, np.zeros(4, "int64"), -100, 0.0)
    with pytest.raises(ValueError, match=r"label_smoothing must be between 0 and 1, got 1\.5"):
        module.cross_entropy(logits, np.zeros(3, "int64"), -100, 1.5)


def test_wrong_types_are_refused_with_a_sentence():
    logits, target, lse = np.zeros((3, 5), "f4"), np.zeros(3, "int64"), np.zeros(3)
    for call, error, words in [
        (lambda: loss.cross_entropy(None, target, 0, 0.0), TypeError, "expected a float32 array"),
        (lambda: loss.cross_entropy(logits, target.astype("i4"), 0, 0.0), TypeError, "an int64"),
        (lambda: loss.cross_entropy_grad(logits[0, :3], logits, target, None, 0, 0.0), TypeError,
         "the lse that cross_entropy returned"),
        (lambda: loss.cross_entropy_grad(logits[0], logits, target, lse, 0, 0.0), ValueError,
         "g has 5 and lse 3 elements, expected 3"),
        (lambda: loss.cross_entropy_grad(logits[0, :3], logits, target, lse, 0, 0.0, 3), ValueError,
         "count goes with one g for all rows"),
        (lambda: loss.counted_mean(logits[0], target, 0), ValueError, "expected the same"),
    ]:
        with pytest.raises(error, match=words):
            call()
