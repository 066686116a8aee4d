from collections.abc import Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

class Block:
    nbytes: int
    epoch: int
    writer: str | None

def empty_array(shape: int | Sequence[int], dtype: DTypeLike = "float32") -> NDArray[Any]: ...
def empty_cache() -> None: ...
def memory_stats() -> dict[str, int]: ...
def reset_peak_memory() -> None: ...
