"""Embedding: a table of vectors, looked up by number."""

from __future__ import annotations

from typing import Any

from minidl import ops
from minidl._core import Tensor
from minidl.grad_mode import no_grad

from . import functional as F
from . import init
from .functional.sparse import check_embedding_options
from .module import Module
from .parameter import Parameter


class Embedding(Module):
    """``y[...] = weight[x[...]]``: one row of the table for each number.

    Shapes: input (...) of integers in [0, num_embeddings), output (..., embedding_dim), weight
    (num_embeddings, embedding_dim), starting as N(0, 1). The row ``padding_idx`` starts as zeros
    and gets no gradient.

    >>> nn.Embedding(10, 4)(md.tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_embedding_options(max_norm, scale_grad_by_freq, sparse)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(
                    f"padding_idx {padding_idx} is outside a table of {num_embeddings} embeddings"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            self.weight = Parameter(ops.empty(shape, device=device, dtype=dtype), not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != shape:
            raise ValueError(f"the weight has shape {tuple(_weight.shape)}, expected {shape}")
        else:
            self.weight = Parameter(_weight, not _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding over a given table (num_embeddings, embedding_dim), frozen by default.

        >>> nn.Embedding.from_pretrained(md.randn(10, 4))
        Embedding(10, 4)  # 40 parameters
        """
        if embeddings.ndim != 2:
            raise ValueError(
                f"from_pretrained takes a matrix, got shape {tuple(embeddings.shape)}"
            )
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            embeddings,
            freeze,
        )

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    def forward(self, input: Tensor) -> Tensor:
        """(...) -> (..., embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The constructor's arguments."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"

    def summary(self) -> str:
        """For error messages: ``Embedding 65→128``."""
        return f"{type(self).__name__} {self.num_embeddings}→{self.embedding_dim}"
