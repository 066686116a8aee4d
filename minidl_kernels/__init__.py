"""How things are computed: raw arrays in, raw arrays out. Never imports minidl.

HOST computes float32 arrays of NumPy with the compiled kernels, EXACT every other dtype with NumPy
itself. Arrays of other devices carry their backend with them (`array.backend`).
"""

from minidl_kernels import cpu as HOST
from minidl_kernels import reference as EXACT

__all__ = ["EXACT", "HOST"]
