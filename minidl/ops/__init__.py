"""Every differentiable op: forward and gradient side by side."""

from minidl.ops import operators as operators
from minidl.ops.attention import *
from minidl.ops.create import *
from minidl.ops.device import device as device
from minidl.ops.device import devices as devices
from minidl.ops.elementwise import *
from minidl.ops.extreme import *
from minidl.ops.gather import *
from minidl.ops.index import *
from minidl.ops.interop import *
from minidl.ops.join import *
from minidl.ops.linalg import *
from minidl.ops.logic import *
from minidl.ops.masked import *
from minidl.ops.neural import *
from minidl.ops.printing import *
from minidl.ops.random import *
from minidl.ops.rearrange import *
from minidl.ops.reduce import *
from minidl.ops.shape import *
from minidl.ops.slices import *
from minidl.ops.sort import *
