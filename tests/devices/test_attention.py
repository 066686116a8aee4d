"""Attention on a device, forward and backward."""

import numpy as np
import pytest

from minidl_kernels import reference

# B, H, Hk, T, S, D, Dv
SHAPES = [(1, 1, 1, 1, 1, 16, 16), (2, 4, 4, 37, 37, 16, 16), (1, 6, 2, 33, 70, 5, 9),
          (1, 2, 1, 40, 24, 13, 16), (1, 2, 1, 19, 21, 80, 128)]


def inputs(draw, B, H, Hk, T, S, D, Dv):
    return (draw(B, H, T, D), draw(B, Hk, S, D), draw(B, Hk, S, Dv)), draw(B, H, T, Dv)


def run(be, check, arrays, g, mask=None, need=(True, True, True, False), **options):
    """Forward and backward against the reference, which gets the device's own lse."""
    out, lse = check("attention", *arrays, mask, tolerance=2e-5, **options)
    return check("attention_grad", g, *arrays, out.numpy(), lse.numpy(), mask, need=need,
                 tolerance=5e-5, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SHAPES)
def test_forward_and_backward(be, check, draw, sizes, causal):
    arrays, g = inputs(draw, *sizes)
    run(be, check, arrays, g, is_causal=causal)


@pytest.mark.parametrize("shape", [(2, 4, 37, 35), (37, 35), (2, 1, 1, 35), (1, 4, 37, 1)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(be, check, draw, shape, kind):
    arrays, g = inputs(draw, 2, 4, 2, 37, 35, 16, 16)
    mask = draw(*shape)
    if kind == "bool":
        mask = mask > 0
        mask[..., :1] = True
    run(be, check, arrays, g, mask, need=(True, True, True, kind == "float"), scale=0.3)


def test_rows_that_see_nothing(be, check, draw):
    arrays, g = inputs(draw, 1, 2, 2, 5, 6, 16, 16)
    mask = np.ones((5, 6), bool)
    mask[2] = False
    run(be, check, arrays, g, mask)
    added = np.where(mask, np.float32(0), np.float32(-np.inf))
    run(be, check, arrays, g, added)


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_dropout_is_the_cpus(be, check, draw, p):
    arrays, g = inputs(draw, 1, 2, 1, 21, 23, 16, 16)
    run(be, check, arrays, g, dropout_p=p, seed=5, offset=2**40 + 3)


def test_packed_heads_are_read_and_written_without_copies(be, draw):
    B, T, H, D = 2, 9, 3, 12
    whole = draw(B, T, 3 * H * D)

    def split(x):
        x = x.reshape((B, T, 3, H, D)).transpose(2, 0, 3, 1, 4)
        return x[0], x[1], x[2]

    q, k, v = split(be.array(whole))
    launches = be.device.launches
    out, lse = be.attention(q, k, v, is_causal=True)
    assert be.device.launches == launches + 1
    assert out.swapaxes(1, 2).contiguous
    g = draw(B, T, H, D).transpose(0, 2, 1, 3)
    grads = be.attention_grad(be.array(g), q, k, v, out, lse, is_causal=True)[:3]
    assert be.device.launches == launches + 3
    assert len({id(d.block) for d in grads}) == 1
    expected = reference.attention_grad(g, *split(whole), out.numpy(), lse.numpy(), is_causal=True)
    for got, e in zip(grads, expected, strict=False):
        np.testing.assert_allclose(got.numpy(), e, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("need", [(True, False, False, False), (False, True, False, False),
                                  (False, False, True, False), (False, False, False, False)])
def test_only_what_is_needed(be, check, draw, need):
    arrays, g = inputs(draw, 1, 2, 2, 9, 9, 9, 9)
    run(be, check, arrays, g, need=need)


def test_empty(be, check, draw):
    for sizes in ((0, 2, 2, 3, 3, 8, 8), (1, 2, 2, 0, 3, 8, 8), (1, 2, 2, 3, 0, 8, 8)):
        arrays, g = inputs(draw, *sizes)
        run(be, check, arrays, g)


def test_messages(be, draw):
    def call(*sizes, **options):
        arrays, _ = inputs(draw, *sizes)
        be.attention(*map(be.array, arrays), **options)

    with pytest.raises(ValueError, match="heads wider than 128"):
        call(1, 1, 1, 2, 2, 130, 130)
    with pytest.raises(ValueError, match="3 query heads are not a multiple of 2 key heads"):
        call(1, 3, 2, 2, 2, 8, 8)
    with pytest.raises(ValueError, match=r"a mask of shape \(3,\) does not broadcast"):
        call(1, 1, 1, 2, 2, 8, 8, mask=be.array(draw(3)))
