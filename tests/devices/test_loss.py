"""Cross-entropy on a device."""

import numpy as np
import pytest

from minidl_kernels import reference


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("n", "v"), [(5, 7), (3, 1000), (1, 1), (0, 3)])
def test_losses_and_gradient(be, check, draw, n, v, smoothing):
    logits, g = draw(n, v, scale=4), draw(n)
    target = np.random.default_rng(0).integers(0, v, n)
    target[1:2] = -100
    _, lse = check("cross_entropy", logits, target, -100, smoothing, tolerance=1e-5)
    check("cross_entropy_grad", g, logits, target, lse.numpy(), -100, smoothing, tolerance=1e-5)


@pytest.mark.parametrize("n", [1, 5, 300])
def test_the_mean_over_rows_that_count(be, draw, n):
    logits, target = draw(n, 7), np.random.default_rng(0).integers(0, 7, n)
    target[1::2] = -100
    wide, kept = logits.astype("float64"), int((target != -100).sum())
    on = be.array(logits), be.array(target)
    losses, lse = be.cross_entropy(*on, -100, 0.0)
    mean, count = be.counted_mean(losses, on[1], -100)
    expected, wide_lse = reference.cross_entropy(wide, target, -100, 0.0)
    np.testing.assert_allclose(mean.numpy(), expected.sum() / kept, rtol=1e-5)
    assert count.item() == kept
    g = be.array(np.float32(0.5))
    d = be.cross_entropy_grad(g, *on, lse, -100, 0.0, count).numpy()
    rows = np.full(n, 0.5 / kept)
    expected = reference.cross_entropy_grad(rows, wide, target, wide_lse, -100, 0.0)
    np.testing.assert_allclose(d, expected, rtol=1e-5, atol=1e-7)


def test_the_mean_over_no_row(be, draw):
    on = be.array(draw(2, 3)), be.array(np.full(2, -100))
    losses, lse = be.cross_entropy(*on, -100, 0.0)
    mean, count = be.counted_mean(losses, on[1], -100)
    assert np.isnan(mean.item())
    d = be.cross_entropy_grad(be.array(np.float32(1)), *on, lse, -100, 0.0, count)
    assert not d.numpy().any()


def test_a_class_out_of_range_is_reported(be, draw):
    losses, _ = be.cross_entropy(be.array(draw(3, 5)), be.array(np.array([0, 5, 1])), -100, 0.0)
    with pytest.raises(IndexError, match="cross_entropy: index 5 is out of range for 5 places"):
        losses.numpy()


def test_wrong_arguments(be, draw):
    with pytest.raises(ValueError, match=r"expected logits \[N, V\]"):
        be.cross_entropy(be.array(draw(3, 5)), be.array(np.zeros(4, np.int64)), -100, 0.0)
    with pytest.raises(ValueError, match="label_smoothing"):
        be.cross_entropy(be.array(draw(3, 5)), be.array(np.zeros(3, np.int64)), -100, 2.0)
