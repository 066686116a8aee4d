"""Models: plain modules that read top-down, with presets and Hugging Face's weight names."""

from .bert import BERT, BERTConfig
from .cache import Cache
from .gpt import GPT, GPTConfig
from .llama import Llama, LlamaConfig
from .pretrained import from_pretrained

__all__ = ["BERT", "BERTConfig", "Cache", "GPT", "GPTConfig", "Llama", "LlamaConfig",
           "from_pretrained"]
