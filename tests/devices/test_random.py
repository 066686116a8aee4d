"""A device draws the CPU's random numbers."""

import numpy as np
import pytest

from minidl_kernels import reference

STREAMS = [(0, 0), (5, 3), (2**64 - 1, 2**64 - 2), (123456789012345, 2**33 + 7)]


@pytest.mark.parametrize(("seed", "offset"), STREAMS)
def test_the_same_numbers(be, seed, offset):
    for shape in ((1,), (5, 7), (1030,)):
        got = be.uniform(shape, seed, offset).numpy()
        np.testing.assert_array_equal(got, reference.uniform(shape, seed, offset))
        np.testing.assert_allclose(be.normal(shape, seed, offset).numpy(),
                                   reference.normal(shape, seed, offset), rtol=3e-6, atol=3e-6)
        got = be.integers(-3, 2**40, shape, seed, offset).numpy()
        np.testing.assert_array_equal(got, reference.integers(-3, 2**40, shape, seed, offset))
    np.testing.assert_array_equal(be.bits64(33, seed, offset).numpy().view(np.uint64),
                                  reference.bits64(33, seed, offset))


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_dropout(be, check, draw, p):
    x = draw(33, 5)
    got = check("dropout", x, p, 7, 9).numpy()
    assert (got == 0).mean() == pytest.approx(p, abs=0.1)


def test_wrong_arguments(be, draw):
    with pytest.raises(ValueError, match="p must be between 0 and 1"):
        be.dropout(be.array(draw(3)), 1.5, 0, 0)
    with pytest.raises(ValueError, match="low must be below high"):
        be.integers(3, 3, (2,), 0, 0)
