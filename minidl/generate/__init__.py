"""Generate text: cached decoding of one prompt or many, whole or as a stream."""

from .decode import generate, stream
from .sampling import Sampler

__all__ = ["Sampler", "generate", "stream"]
