from numpy import float32
from numpy.typing import NDArray

def rotary(
    x: NDArray[float32], cos: NDArray[float32], sin: NDArray[float32], interleaved: bool = False
) -> NDArray[float32]: ...
def rotary_grad(
    g: NDArray[float32], cos: NDArray[float32], sin: NDArray[float32], interleaved: bool = False
) -> NDArray[float32]: ...
