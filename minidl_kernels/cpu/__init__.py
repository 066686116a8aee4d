"""The float32 CPU backend: compiled kernels over the NumPy reference."""

from minidl_kernels.cpu import threads
from minidl_kernels.cpu import scipy_blas
from minidl_kernels.reference import *

from minidl_kernels.cpu.attention import attention, attention_grad
from minidl_kernels.cpu.elementwise import *
from minidl_kernels.cpu.embedding import embedding, embedding_grad, index_add_rows
from minidl_kernels.cpu.loss import counted_mean, cross_entropy, cross_entropy_grad
from minidl_kernels.cpu.matmul import linear, linear_grad_weight, matmul, use_blas
from minidl_kernels.cpu.norm import (
    layer_norm, layer_norm_grad, log_softmax, log_softmax_grad, rms_norm, rms_norm_grad, softmax,
    softmax_grad,
)
from minidl_kernels.cpu.optim import adam_, lion_, scale_, sgd_, total_norm
from minidl_kernels.cpu.random import bits64, dropout, integers, normal, uniform
from minidl_kernels.cpu.reduce import (
    amax, amin, argmax, argmin, cumsum, logsumexp, mean, prod, sqsum, sum, var,
)
from minidl_kernels.cpu.rotary import rotary, rotary_grad
from minidl_kernels.cpu.select import *
