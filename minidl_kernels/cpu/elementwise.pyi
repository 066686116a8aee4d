from collections.abc import Callable, Sequence
from typing import Any

from numpy import float32
from numpy.typing import NDArray

UNARY: dict[str, str]
BINARY: tuple[str, ...]

def sum_to(g: NDArray[float32], shape: int | Sequence[int]) -> NDArray[float32]: ...

# Every op of scalar.h: NAME and NAME_grad, with the signatures that the module's docstring gives.
def __getattr__(name: str) -> Callable[..., Any]: ...
