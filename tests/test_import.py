"""What `import minidl` brings along, and what it leaves as it was."""

import shutil
from pathlib import Path

import pytest

import minidl as md
from minidl_kernels.cpu import threads


def test_sources_that_are_not_built_say_so(python, tmp_path):
    source = Path(md.__file__).parent
    shutil.copytree(source, tmp_path / "minidl", ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    said = python(f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
# what `pip install -e` leaves would find the built one
sys.meta_path[:] = [f for f in sys.meta_path
                    if not getattr(f, "__module__", "").startswith("__editable__")]
try:
    import minidl
except ImportError as error:
    print(error)
""")
    assert f"not built here ({tmp_path / 'minidl'})" in said and "build_ext --inplace" in said


def test_import_is_light(python):
    """The slow ones come when they are used: scipy.linalg alone takes longer than all of us."""
    heavy = ["scipy.linalg", "scipy.special", "scipy.sparse", "torch", "matplotlib", "ml_dtypes",
             "tqdm", "jax", "pandas", "multiprocessing.pool", "asyncio", "unittest", "json",
             "safetensors", "hashlib", "minidl.checkpoint.manager", "minidl.checkpoint.tensors"]
    loaded = python("import sys, minidl; print(*sys.modules)").split()
    assert "minidl_kernels.cpu.matmul" in loaded
    assert not set(heavy) & set(loaded)


@pytest.mark.skipif(threads.instruction_set() == "baseline", reason="products are SciPy's here")
def test_our_own_products_do_without_scipy(python):
    python("""
import sys
import minidl as md
for rows in (1, 3, 40):
    md.ones(rows, 30) @ md.ones(30, 20)
assert not any(name.startswith("scipy") for name in sys.modules)
""")


@pytest.mark.parametrize("before", ["", "import scipy.linalg", "import scipy.linalg.cython_blas",
                                    "from scipy.linalg import cython_blas", "import scipy",
                                    "import scipy.special"])
def test_scipy_linalg_works_before_and_after(python, before):
    python(f"""
{before}
import minidl
import numpy as np
from minidl_kernels import cpu
cpu.matmul(np.ones((2, 2), "f"), np.ones((2, 2), "f"))
import scipy.linalg
import scipy.linalg.cython_blas
from scipy.linalg import cython_blas
assert scipy.linalg.cython_blas is cython_blas
assert "sgemm" in cython_blas.__pyx_capi__
assert not any(type(f).__module__.startswith("minidl") for f in __import__("sys").meta_path)
import threadpoolctl
assert not [lib for lib in threadpoolctl.threadpool_info() if lib["num_threads"] != 1
            and lib["user_api"] == "blas" and "scipy.libs" in lib["filepath"]]
a = np.eye(3) * 2
assert np.allclose(scipy.linalg.solve(a, a), np.eye(3))
assert np.allclose(cpu.matmul(a.astype("f"), a.astype("f")), 4 * np.eye(3))
""", env={"MINIDL_ISA": "baseline"})


def test_a_look_for_scipy_linalg_changes_nothing(python):
    python("""
import importlib.util
import minidl as md
md.ones(2, 2) @ md.ones(2, 2)
assert importlib.util.find_spec("scipy.linalg").name == "scipy.linalg"
import scipy.linalg
assert "sgemm" in scipy.linalg.cython_blas.__pyx_capi__
""", env={"MINIDL_ISA": "baseline"})


@pytest.mark.parametrize("env", [{}, {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "3"}])
def test_the_environment_is_as_before(python, env):
    clean = dict.fromkeys(["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"])
    python("""
import os
before = dict(os.environ)
import minidl as md
md.ones(2, 2) @ md.ones(2, 2)
assert dict(os.environ) == before, set(dict(os.environ).items()) ^ set(before.items())
""", env={**clean, **env, "MINIDL_ISA": "baseline"})
