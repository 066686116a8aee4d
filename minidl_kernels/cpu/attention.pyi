from numpy import bool_, float32, float64
from numpy.typing import NDArray

def attention(
    q: NDArray[float32],
    k: NDArray[float32],
    v: NDArray[float32],
    mask: NDArray[bool_] | NDArray[float32] | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int = 0,
    offset: int = 0,
) -> tuple[NDArray[float32], NDArray[float64]]: ...
def attention_grad(
    g: NDArray[float32],
    q: NDArray[float32],
    k: NDArray[float32],
    v: NDArray[float32],
    out: NDArray[float32],
    lse: NDArray[float64],
    mask: NDArray[bool_] | NDArray[float32] | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int = 0,
    offset: int = 0,
    need: tuple[bool, bool, bool, bool] = (True, True, True, False),
) -> tuple[
    NDArray[float32] | None,
    NDArray[float32] | None,
    NDArray[float32] | None,
    NDArray[float32] | None,
]: ...
