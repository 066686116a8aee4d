"""A run that was killed and resumed gives the bits of one that was not."""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

import minidl as md
from minidl.checkpoint import random_state, set_random_state

SCRIPT = Path(__file__).with_name("resume.py").read_text()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_resumed_run_is_the_same_run(tmp_path, python):
    """Every optimizer, with dropout, random data from four streams and a falling rate."""
    found = json.loads(python(SCRIPT, tmp_path / "run"))
    straight = found["straight"]
    assert len(straight) >= 5
    for name, (_, log) in straight.items():
        assert len(log) == 200 and float.fromhex(log[-1]) < 0.5 * float.fromhex(log[0]), name
    assert found["resumed on 1"] == straight and found["resumed on 2"] == straight
    for stage in ("without optimizer", "without random"):
        assert set(found[stage]) == set(straight)
        for name, (_, log) in found[stage].items():
            assert len(log) > 100 and log != straight[name][1][:len(log)], f"{name} {stage}"


@pytest.mark.parametrize("name", ["a.safetensors", "a.json"])
def test_every_random_stream_goes_on(tmp_path, name):
    def draw():
        return [md.randn(5).tolist(), random.random(), random.gauss(0, 1),
                np.random.standard_normal(3).tolist(), np.random.random()]

    draw()  # an odd number of normal numbers leaves one behind in Python's and NumPy's stream
    md.save(random_state(), tmp_path / name)
    expected = draw()
    draw()
    set_random_state(md.load(tmp_path / name))
    assert draw() == expected
    with pytest.raises(ValueError, match=r"expected what random_state\(\) returned"):
        set_random_state({})


def test_numpys_own_generators_can_be_saved(tmp_path):
    rng = np.random.default_rng(5)
    rng.random(3)
    md.save({"rng": rng.bit_generator.state}, tmp_path / "a.json")
    expected = rng.random()
    again = np.random.default_rng()
    again.bit_generator.state = md.load(tmp_path / "a.json")["rng"]
    assert again.random() == expected
