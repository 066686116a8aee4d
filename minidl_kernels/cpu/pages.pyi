from typing import Any

from numpy import uint64
from numpy.typing import NDArray

def page_sums(data: Any) -> tuple[NDArray[uint64], NDArray[uint64]]: ...
