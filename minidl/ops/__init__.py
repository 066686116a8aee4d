from minidl.ops.elementwise import *
