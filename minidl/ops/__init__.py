"""Every differentiable op: forward and gradient side by side."""

from minidl.ops import operators as operators
