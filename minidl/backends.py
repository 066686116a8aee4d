"""The places where things are computed, for those who want to look inside or switch parts.

>>> import minidl as md
>>> md.backends.cpu.use_blas(False)   # plain loops instead of BLAS: what benchmarks compare with
>>> md.backends.cpu.use_blas(True)
"""

from minidl_kernels import cpu, reference

__all__ = ["cpu", "reference"]
