"""The float32 CPU backend: compiled kernels over the NumPy reference."""

import os

# libgomp reads this once, when it is loaded: with its default of spinning for milliseconds, a busy
# neighbour on one core slows every parallel loop by an order of magnitude. A user's setting wins.
_unset = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}.isdisjoint(os.environ)
if _unset:
    os.environ["GOMP_SPINCOUNT"] = "1000"
from minidl_kernels.cpu import threads  # noqa: E402

if _unset:
    del os.environ["GOMP_SPINCOUNT"]  # programs started from here keep their own default

from minidl_kernels.cpu import scipy_blas  # noqa: E402
from minidl_kernels.reference import *  # noqa: E402

from minidl_kernels.cpu.attention import attention, attention_grad  # noqa: E402
from minidl_kernels.cpu.elementwise import *  # noqa: E402
from minidl_kernels.cpu.embedding import embedding, embedding_grad, index_add_rows  # noqa: E402
from minidl_kernels.cpu.loss import cross_entropy, cross_entropy_grad  # noqa: E402
from minidl_kernels.cpu.matmul import linear, linear_grad_weight, matmul, use_blas  # noqa: E402
from minidl_kernels.cpu.norm import (  # noqa: E402
    layer_norm, layer_norm_grad, log_softmax, log_softmax_grad, rms_norm, rms_norm_grad, softmax,
    softmax_grad,
)
from minidl_kernels.cpu.optim import adam_, scale_, sgd_, total_norm  # noqa: E402
from minidl_kernels.cpu.random import bits64, dropout, integers, normal, uniform  # noqa: E402
from minidl_kernels.cpu.reduce import (  # noqa: E402
    amax, amin, argmax, argmin, cumsum, logsumexp, mean, prod, sqsum, sum, var,
)
from minidl_kernels.cpu.rotary import rotary, rotary_grad  # noqa: E402
from minidl_kernels.cpu.select import *  # noqa: E402
