from numpy import float32, float64, int64
from numpy.typing import NDArray

def cross_entropy(
    logits: NDArray[float32],
    target: NDArray[int64],
    ignore_index: int,
    label_smoothing: float,
) -> tuple[NDArray[float32], NDArray[float64]]: ...
def counted_mean(
    losses: NDArray[float32], target: NDArray[int64], ignore_index: int
) -> tuple[NDArray[float32], int]: ...
def cross_entropy_grad(
    g: NDArray[float32],
    logits: NDArray[float32],
    target: NDArray[int64],
    lse: NDArray[float64],
    ignore_index: int,
    label_smoothing: float,
    count: int | None = None,
) -> NDArray[float32]: ...
