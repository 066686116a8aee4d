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
    losses, d = be.cross_entropy_both(be.array(logits), be.array(target), -100, smoothing, 0.25)
    wide = logits.astype("float64")
    expected, lse = reference.cross_entropy(wide, target, -100, smoothing)
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-5, atol=1e-5)
    expected = reference.cross_entropy_grad(np.full(n, 0.25), wide, target, lse, -100, smoothing)
    np.testing.assert_allclose(d.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_class_out_of_range_is_reported(be, draw):
    losses, _ = be.cross_entropy(be.array(draw(3, 5)), be.array(np.array([0, 5, 1])), -100, 0.0)
    with pytest.raises(IndexError, match="cross_entropy: index 5 is out of range for 5 places"):
        losses.numpy()


def test_wrong_arguments(be, draw):
    with pytest.raises(ValueError, match=r"expected logits \[N, V\]"):
        be.cross_entropy(be.array(draw(3, 5)), be.array(np.zeros(4, np.int64)), -100, 0.0)
    with pytest.raises(ValueError, match="label_smoothing"):
        be.cross_entropy(be.array(draw(3, 5)), be.array(np.zeros(3, np.int64)), -100, 2.0)
