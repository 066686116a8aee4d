"""Datasets and the loader that makes batches of them, with PyTorch's names."""

from typing import TYPE_CHECKING, Any

from .collate import default_collate
from .dataset import Dataset, TensorDataset
from .shuffle import permuted

if TYPE_CHECKING:
    from .loader import DataLoader
    from .tokens import TokenDataset

__all__ = [
    "DataLoader", "Dataset", "default_collate", "permuted", "TensorDataset", "TokenDataset",
]


def __getattr__(name: str) -> Any:
    """Import the rest when it is first used: `import minidl` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import loader, tokens

    return getattr(loader, name, None) or getattr(tokens, name)
