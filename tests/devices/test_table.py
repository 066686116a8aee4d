"""The table of ops in docs/devices.md says what is so."""

from pathlib import Path

import pytest

from minidl_kernels.device.interface import Device


def test_the_table_is_current(device, be):
    if type(be.device).gemm is not Device.gemm:
        pytest.skip("the table counts our own products; this device has its vendor's")
    folder = Path(__file__).parent
    import importlib.util

    spec = importlib.util.spec_from_file_location("device_table", folder / "table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    document = table.DOCUMENT.read_text()
    assert table.BEGIN + table.table(device) + table.END in document, \
        "docs/devices.md is not current: python tests/devices/table.py"
