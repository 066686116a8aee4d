"""Every function of a backend that takes its device from its arguments, in one place.

The names and signatures are those of minidl_kernels.reference and minidl_kernels.cpu. Functions
that make an array from nothing are in create.py.
"""

from minidl_kernels.device.attention import *
from minidl_kernels.device.elementwise import *
from minidl_kernels.device.linalg import *
from minidl_kernels.device.loss import *
from minidl_kernels.device.move import *
from minidl_kernels.device.norm import *
from minidl_kernels.device.optim import *
from minidl_kernels.device.random import *
from minidl_kernels.device.reduce import *
from minidl_kernels.device.rotary import *
