"""The stand-in's table of selectors is PyObjC's."""

import pytest


@pytest.fixture(scope="module")
def described(metal_emulation):
    import metal_emulation.metadata as metadata

    paths = metadata.wheels()
    if not paths:
        pytest.skip("MINIDL_PYOBJC_WHEELS names no folder with PyObjC's wheels (metadata.py)")
    return metadata.Description(paths)


def test_types_are_pyobjcs(metal_emulation, described):
    from metal_emulation.selectors import SELECTORS

    for selector, spelled in SELECTORS.items():
        ours, theirs = spelled.split(), described.types(selector)
        assert len(ours) == len(theirs), selector
        for mine, listed in zip(ours, theirs, strict=True):
            assert listed in (None, mine), f"{selector}: {spelled} here, {theirs} in PyObjC"


def test_lengths_are_where_pyobjc_looks_for_them(metal_emulation, described):
    bytes_ = described.selectors["setBytes:length:atIndex:"]["arguments"]
    assert bytes_[2]["c_array_length_in_arg"] == 3
    assert described.selectors["contents"]["retval"]["c_array_of_variable_length"]


def test_other_names_are_pyobjcs(metal_emulation, described):
    from metal_emulation.selectors import LISTED_BY_NAME, UNLISTED

    assert set(LISTED_BY_NAME) <= described.names
    assert not set(LISTED_BY_NAME) & set(described.selectors)
    assert not set(UNLISTED) & set(described.selectors)


def test_constants_are_pyobjcs(metal_emulation, described):
    from metal_emulation.selectors import CONSTANTS

    assert {name: described.constants[name] for name in CONSTANTS} == CONSTANTS
