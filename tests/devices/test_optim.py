"""Optimizer steps over many arrays in one launch."""

import numpy as np
import pytest

from minidl_kernels import reference
from minidl_kernels.device import memory

SIZES = [(1,), (5, 7), (20000,), (3,), (0,), (129, 130)]


def both(be, draw, count):
    """The same lists of arrays for the reference and on the device."""
    lists = [[draw(*s) for s in SIZES] for _ in range(count)]
    return [[x.astype("float64") for x in xs] for xs in lists], \
        [[be.array(x) for x in xs] for xs in lists]


def agree(device, host):
    for xs, ys in zip(device, host, strict=True):
        for x, y in zip(xs, ys, strict=True):
            np.testing.assert_allclose(x.numpy(), y, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("decoupled", "maximize"), [(True, False), (False, False), (False, True)])
def test_adam(be, draw, decoupled, maximize):
    host, device = both(be, draw, 4)
    for lists in (host, device):
        lists[3] = [abs(x) if lists is host else be.abs(x) for x in lists[3]]
    for step in (1, 2):
        options = (1e-2, 0.9, 0.99, 1e-8, 0.1, step, decoupled, maximize)
        reference.adam_(*host, *options)
        launches = be.device.launches
        be.adam_(*device, *options)
        assert be.device.launches == launches + 1
    agree(device, host)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_sgd(be, draw, momentum, nesterov):
    host, device = both(be, draw, 3)
    for first in (True, False):
        for module, (p, g, b) in ((reference, host), (be, device)):
            module.sgd_(p, g, b if momentum else None, 0.1, momentum, 0.1 if not nesterov else 0.0,
                        0.01, nesterov, first, False)
    agree(device[:2], host[:2])


@pytest.mark.parametrize("maximize", [False, True])
def test_lion(be, draw, maximize):
    host, device = both(be, draw, 3)
    for _ in range(2):
        reference.lion_(*host, 0.01, 0.9, 0.99, 0.1, maximize)
        be.lion_(*device, 0.01, 0.9, 0.99, 0.1, maximize)
    agree(device, host)


def test_norm_and_scaling(be, draw):
    host, device = both(be, draw, 1)
    norm = reference.total_norm(host[0])
    assert be.total_norm(device[0]) == pytest.approx(norm, rel=1e-5)
    be.scale_(device[0], 0.5)
    reference.scale_(host[0], 0.5)
    agree(device, host)


@pytest.mark.parametrize("limit", [1.0, 1e6])
def test_clipping_without_waiting(be, draw, limit):
    host, device = both(be, draw, 1)
    norm = be.norm_of(device[0])
    be.clip_(device[0], norm, limit)
    factor = min(1, limit / (reference.total_norm(host[0]) + 1e-6))
    agree(device, [[x * factor for x in host[0]]])


def test_arrays_in_several_segments(be, draw, monkeypatch):
    first = be.array(draw(5))
    monkeypatch.setattr(memory, "_SEGMENT", 4096)
    monkeypatch.setattr(be.device.pool, "_open", None)
    arrays = [first, be.array(draw(54321)), be.array(draw(7))]
    assert arrays[0].block.number != arrays[1].block.number
    expected = [x.numpy() * 3 for x in arrays]
    be.scale_(arrays, 3.0)
    agree([arrays], [expected])


def test_what_belongs_together(be, draw):
    x = be.array(draw(4, 5))
    with pytest.raises(ValueError, match="contiguous float32"):
        be.scale_([x.T], 2.0)
    with pytest.raises(ValueError, match="differ in size"):
        be.sgd_([x], [be.array(draw(3))], None, 0.1, 0, 0, 0, False, True, False)
