from numpy import float32, int64
from numpy.typing import NDArray

def embedding(weight: NDArray[float32], idx: NDArray[int64]) -> NDArray[float32]: ...
def embedding_grad(
    g: NDArray[float32], idx: NDArray[int64], V: int, padding_idx: int | None
) -> NDArray[float32]: ...
def index_add_rows(
    dst: NDArray[float32], idx: NDArray[int64], src: NDArray[float32]
) -> NDArray[float32]: ...
