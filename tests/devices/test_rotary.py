"""Rotary embedding on a device."""

import numpy as np
import pytest

from minidl_kernels import reference


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(5, 6), (2, 3, 7, 8), (1, 2), (0, 4, 2)])
def test_rotation_and_back(check, draw, shape, interleaved):
    x, angle = draw(*shape), draw(shape[-2], shape[-1] // 2)
    for name in ("rotary", "rotary_grad"):
        check(name, x, np.cos(angle), np.sin(angle), interleaved=interleaved)


def test_heads_stay_strided(be, draw):
    x, angle = draw(2, 7, 3, 8), draw(7, 4)
    got = be.rotary(be.array(x).swapaxes(1, 2), be.array(np.cos(angle)), be.array(np.sin(angle)))
    expected = reference.rotary(x.swapaxes(1, 2), np.cos(angle), np.sin(angle))
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert got.swapaxes(1, 2).contiguous


def test_wrong_tables(be, draw):
    with pytest.raises(ValueError, match=r"needs cos and sin of shape \(5, 3\)"):
        be.rotary(be.array(draw(5, 6)), be.array(draw(5, 2)), be.array(draw(5, 2)))
