"""The kernels compile for CUDA and Metal; `python tests/devices/lint.py` tries everything."""

import importlib.util
import shutil
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("lint", Path(__file__).with_name("lint.py"))
lint = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lint)

need_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
need_clang = pytest.mark.skipif(not shutil.which("clang"), reason="needs clang")


@need_nvcc
@pytest.mark.parametrize(("file", "macros"), lint.HEAVY[:4:3], ids=str)
def test_cuda_within_budgets(file, macros):
    assert lint.cuda(file, macros, ("sm_75",)) == []


@need_clang
@pytest.mark.parametrize(("file", "macros"), lint.HEAVY + lint.LIGHT, ids=str)
def test_metal_is_accepted(file, macros):
    assert lint.metal(file, macros) == []


@need_nvcc
def test_a_spill_is_found():
    text, _ = lint.render("cuda", "matmul", {})
    (first, *_) = lint.cuda("matmul", {}, ("sm_80",), text.replace("(256, 2)", "(256, 8)"))
    assert "spills" in first


@need_clang
@pytest.mark.parametrize(("right", "wrong"), [
    ("device const float *row = x", "const float *row = x"),
    ("threadgroup float shared", "threadgroup int *shared"),
    ("s_exp(row", "__expf(row"),
])
def test_what_metal_forbids_is_found(right, wrong):
    text, _ = lint.render("metal", "reduce", {"T": "float", "A": "float", "FLOATING": 1})
    text = text.replace("GLOBAL const float *row", "device const float *row")
    text = text.replace("SHARED(float, shared, [THREADS])", "threadgroup float shared[THREADS]")
    assert right in text and lint.metal("reduce", {}, text) == []
    assert lint.metal("reduce", {}, text.replace(right, wrong))


@need_nvcc
def test_a_report_is_read():
    report = ("ptxas info : Function properties for k_x\n    8 bytes stack frame, 4 bytes spill "
              "stores, 4 bytes spill loads\nptxas info : Used 200 registers, 40000 bytes smem\n")
    assert len(list(lint.over_budget(report))) == 2
