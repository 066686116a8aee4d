from collections.abc import Sequence

from numpy import float32
from numpy.typing import NDArray

def softmax(x: NDArray[float32]) -> NDArray[float32]: ...
def softmax_grad(g: NDArray[float32], y: NDArray[float32]) -> NDArray[float32]: ...
def log_softmax(x: NDArray[float32]) -> NDArray[float32]: ...
def log_softmax_grad(g: NDArray[float32], y: NDArray[float32]) -> NDArray[float32]: ...
def layer_norm(
    x: NDArray[float32],
    weight: NDArray[float32] | None,
    bias: NDArray[float32] | None,
    eps: float,
) -> tuple[NDArray[float32], NDArray[float32], NDArray[float32]]: ...
def layer_norm_grad(
    g: NDArray[float32],
    x: NDArray[float32],
    weight: NDArray[float32] | None,
    mean: NDArray[float32],
    rstd: NDArray[float32],
    need: Sequence[bool],
) -> tuple[NDArray[float32] | None, NDArray[float32] | None, NDArray[float32] | None]: ...
def rms_norm(
    x: NDArray[float32], weight: NDArray[float32] | None, eps: float
) -> tuple[NDArray[float32], NDArray[float32]]: ...
def rms_norm_grad(
    g: NDArray[float32],
    x: NDArray[float32],
    weight: NDArray[float32] | None,
    rstd: NDArray[float32],
    need: Sequence[bool],
) -> tuple[NDArray[float32] | None, NDArray[float32] | None]: ...
