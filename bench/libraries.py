"""What a builder gets: a library under its own names, and the same inputs for each."""

import importlib
import importlib.util
import os
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np

# Which library a peer runs on. The last ones are minidl computing in a slower way, and what a row
# cannot be faster than.
LIBRARY = {
    "minidl": "minidl", "torch": "torch", "compile": "torch", "jax": "jax", "numpy": "numpy",
    "blas": "scipy", "safetensors": "safetensors",
    "naive": "minidl", "unfused": "minidl", "two-pass": "minidl", "json": "minidl",
    "write": "minidl", "copy": "numpy",
}
OPTIONAL = ("torch", "compile", "jax", "numpy", "blas", "safetensors")


def installed(peer):
    """Whether a peer can run here; compiling needs a C++ compiler."""
    if peer == "compile" and not any(map(shutil.which, ("g++", "c++", "clang++", "cl"))):
        return False
    return importlib.util.find_spec(LIBRARY[peer]) is not None


def environment(peer, threads):
    """Variables that the library of a peer reads when it is loaded; its own defaults otherwise."""
    n = str(threads)
    if peer == "jax":
        eigen = str(threads > 1).lower()
        return {"XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={eigen} "
                             f"intra_op_parallelism_threads={n}", "JAX_PLATFORMS": "cpu"}
    if LIBRARY[peer] in ("numpy", "scipy"):
        return dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                              "VECLIB_MAXIMUM_THREADS"), n)
    return {"TORCHINDUCTOR_COMPILE_THREADS": "1"} if peer == "compile" else {}


class Library:
    """`torch`, `nn` and `F` of PyTorch or of minidl, and inputs drawn from one seed."""

    def __init__(self, peer, threads):
        self.peer, self.threads, self.torch, self.folder = peer, threads, None, None
        name = LIBRARY[peer]
        if name in ("minidl", "torch"):
            self.torch = importlib.import_module(name)
            self.nn = importlib.import_module(f"{name}.nn")
            self.F = importlib.import_module(f"{name}.nn.functional")
            self.torch.set_num_threads(threads)
        if peer == "naive":
            self.torch.backends.cpu.use_blas(False)
        self.restart()

    def restart(self):
        """The same random numbers again, and no files."""
        if self.folder is not None:
            self.folder.cleanup()
        self.folder = None
        self.rng = np.random.default_rng(0)
        if self.torch is not None:
            self.torch.manual_seed(0)

    def instruction_set(self):
        """For which processor the code of PyTorch or OpenBLAS is that runs here, "" of others."""
        if self.peer == "torch":
            return self.torch.backends.cpu.get_cpu_capability()
        if self.peer == "blas":
            import scipy.linalg.blas  # noqa: F401
            from threadpoolctl import threadpool_info

            return next((f"{pool['internal_api']} {pool['version']} for {pool['architecture']}"
                         for pool in threadpool_info()
                         if "scipy.libs" in pool["filepath"] and "architecture" in pool), "")
        return ""

    def path(self, name):
        """A place for a file, until the next restart."""
        self.folder = self.folder or tempfile.TemporaryDirectory(prefix="minidl-bench-")
        return os.path.join(self.folder.name, name)

    def array(self, *shape):
        """Normal float32 numbers."""
        return self.rng.standard_normal(shape, dtype=np.float32)

    def tensor(self, *shape, grad=False):
        """The same numbers, in memory of the library's own."""
        return self.torch.from_numpy(self.array(*shape)).clone().requires_grad_(grad)

    def integers(self, high, *shape):
        """int64 tensor of numbers from 0 to high - 1."""
        return self.torch.from_numpy(self.rng.integers(0, high, shape)).clone()

    def backward(self, forward, inputs):
        """call(): y = forward(), then the gradient of all inputs from a random one of y."""
        g = self.tensor(*forward().shape)

        def call():
            for x in inputs:
                x.grad = None
            forward().backward(g)

        return call

    def script(self, name):
        """The names of a PyTorch script in bench/scripts; for minidl with its imports changed."""
        path = Path(__file__).with_name("scripts") / f"{name}.py"
        text = path.read_text()
        if self.torch.__name__ == "minidl":
            text = re.sub(r"^import torch$", "import minidl as torch", text, flags=re.M)
            text = re.sub(r"^import torch\.", "import minidl.", text, flags=re.M)
        namespace = {"__name__": f"bench_{name}"}
        exec(compile(text, str(path), "exec"), namespace)
        return namespace
