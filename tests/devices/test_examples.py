"""The examples in the docstrings of the device modules."""

import doctest

import numpy as np
import pytest

from minidl_kernels.device import array, memory, source


@pytest.mark.parametrize("module", [array, memory, source], ids=lambda m: m.__name__)
def test_examples(module):
    failed, tried = doctest.testmod(module)
    # a cached function hides its examples from doctest's search
    for fn in (array.contiguous_steps.__wrapped__,) if module is array else ():
        for test in doctest.DocTestFinder().find(fn, globs=vars(module)):
            failed, tried = doctest.DocTestRunner().run(test)
    assert tried and not failed


def test_the_backends_example(be):
    failed, tried = doctest.testmod(be, extraglobs={"np": np})
    assert tried and not failed
