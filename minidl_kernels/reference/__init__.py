"""Every kernel in a few lines of NumPy: the specification, the oracle, and the float64 backend."""

from minidl_kernels.reference.arrays import *
from minidl_kernels.reference.attention import attention, attention_grad
from minidl_kernels.reference.elementwise import *
from minidl_kernels.reference.embedding import embedding, embedding_grad, index_add_rows
from minidl_kernels.reference.index import add_at, one_hot
from minidl_kernels.reference.linalg import *
from minidl_kernels.reference.logic import *
from minidl_kernels.reference.loss import *
from minidl_kernels.reference.norm import *
from minidl_kernels.reference.optim import *
from minidl_kernels.reference.random import bits64, dropout, integers, normal, uniform
from minidl_kernels.reference.reduce import *
from minidl_kernels.reference.rotary import *
