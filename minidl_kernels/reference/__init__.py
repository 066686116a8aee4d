"""Every kernel in a few lines of NumPy: the specification, the oracle, and the float64 backend."""

from minidl_kernels.reference.arrays import *
from minidl_kernels.reference.logic import *
from minidl_kernels.reference.elementwise import *
from minidl_kernels.reference.linalg import *
from minidl_kernels.reference.optim import *
