"""How things are computed: raw arrays in, raw arrays out. Never imports minidl.

HOST computes float32 arrays of NumPy with the compiled kernels, EXACT every other dtype with NumPy
itself. Arrays of other devices carry their backend with them (`array.backend`).
"""

import numpy as np

from minidl_kernels import cpu as HOST
from minidl_kernels import reference as EXACT
from minidl_kernels.device.array import DeviceArray

ARRAYS = (np.ndarray, DeviceArray)  # what a raw array can be

__all__ = ["ARRAYS", "EXACT", "HOST", "DeviceArray"]
