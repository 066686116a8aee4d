"""The Metal backend: importing it opens the GPU of a Mac.

>>> from minidl_kernels import metal as be
>>> be.add(be.array(np.ones(3, np.float32)), 1.0).numpy()
array([2., 2., 2.], dtype=float32)
"""

import sys

from minidl_kernels.device.create import creators
from minidl_kernels.device.functions import *
from minidl_kernels.metal.host import open_device

device = open_device()
device.backend = sys.modules[__name__]
globals().update(creators(device))
