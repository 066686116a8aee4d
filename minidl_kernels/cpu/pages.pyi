from typing import Any

from numpy import uint64
from numpy.typing import NDArray

Sums = tuple[NDArray[uint64], NDArray[uint64], bytes]

def page_sums(data: Any) -> Sums: ...
def read_pages(fd: int, offset: int, pieces: list[Any]) -> Sums: ...
