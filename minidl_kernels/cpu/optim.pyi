from numpy import float32
from numpy.typing import NDArray

Arrays = list[NDArray[float32]]

def adam_(
    params: Arrays,
    grads: Arrays,
    m: Arrays,
    v: Arrays,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: float,
    decoupled: bool,
    maximize: bool,
) -> None: ...
def sgd_(
    params: Arrays,
    grads: Arrays,
    buffers: Arrays | None,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    first: bool,
    maximize: bool,
) -> None: ...
def lion_(
    params: Arrays,
    grads: Arrays,
    m: Arrays,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    maximize: bool,
) -> None: ...
def total_norm(arrays: Arrays) -> float: ...
def scale_(arrays: Arrays, factor: float) -> None: ...
