"""Training: a loop to read and to replace, its log, its progress, its callbacks."""

from .callbacks import Callback
from .log import read_log
from .progress import Progress
from .tensorboard import TensorBoard
from .trainer import Trainer

__all__ = ["Callback", "Progress", "read_log", "TensorBoard", "Trainer"]
