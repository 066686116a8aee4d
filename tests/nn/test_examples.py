"""The examples in the docstrings of these packages and modules print what they say."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import minidl as md

NAMES = {"md": md, "nn": md.nn, "F": md.nn.functional, "np": np}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    found.name
    for package in (md.nn, md.optim, md.checkpoint, md.data, md.text, md.models, md.generate,
                    md.train)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
)
MODULES += ["minidl.plots", "minidl.profiler"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    if name in ("minidl.text.bpe", "minidl.text.pretrained"):
        pytest.importorskip("tokenizers", reason="needs the extra `text`")
    printed = []
    for test in doctest.DocTestFinder().find(importlib.import_module(name), extraglobs=NAMES):
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=printed.append)
    assert not printed, "".join(printed)
