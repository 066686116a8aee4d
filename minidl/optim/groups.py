"""Parameter groups of a model: which weights decay, which ones Muon steps."""

from __future__ import annotations

from typing import Any

HEADS = ("head", "lm_head")


def decay_groups(model: Any, weight_decay: float = 0.1) -> list[dict[str, Any]]:
    """Two groups, as GPT is trained: parameters of two and more axes (matrices, embeddings) decay,
    the others (biases and the weights of norms) do not. Frozen parameters are left out, a tied one
    is there once.

    >>> model = md.nn.Sequential(md.nn.Linear(4, 4), md.nn.LayerNorm(4))
    >>> optimizer = md.optim.AdamW(md.optim.decay_groups(model, 0.1), lr=1e-3)
    >>> [(group["weight_decay"], group["param_names"]) for group in optimizer.param_groups]
    [(0.1, ['0.weight']), (0.0, ['0.bias', '1.weight', '1.bias'])]
    """
    named = _trained(model)
    return _not_empty(
        {"params": [(n, p) for n, p in named if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [(n, p) for n, p in named if p.ndim < 2], "weight_decay": 0.0},
    )


def muon_groups(
    model: Any, weight_decay: float = 0.1, adamw_lr: float = 3e-4
) -> list[dict[str, Any]]:
    """Groups for :class:`Muon`: the matrices of the hidden layers; then, stepped by AdamW with
    ``adamw_lr``, the embeddings and the output layer (a module named ``head`` or ``lm_head``, or
    tied to an embedding), which decay; then biases and norms, which do not.

    >>> model = md.nn.Sequential(md.nn.Embedding(9, 4), md.nn.Linear(4, 4))
    >>> [(g.get("adamw", False), g["weight_decay"], [name for name, _ in g["params"]])
    ...  for g in md.optim.muon_groups(model)]
    [(False, 0.1, ['1.weight']), (True, 0.1, ['0.weight']), (True, 0.0, ['1.bias'])]
    """
    ends = {
        id(param)
        for name, module in model.named_modules()
        if hasattr(module, "num_embeddings") or name.rpartition(".")[2] in HEADS
        for param in module.parameters()
    }
    hidden: list[Any] = []
    wide: list[Any] = []
    narrow: list[Any] = []
    for name, param in _trained(model):
        matrix = param.ndim == 2 and id(param) not in ends
        (hidden if matrix else wide if param.ndim >= 2 else narrow).append((name, param))
    adamw = {"adamw": True, "lr": adamw_lr}
    return _not_empty(
        {"params": hidden, "weight_decay": weight_decay},
        {"params": wide, "weight_decay": weight_decay, **adamw},
        {"params": narrow, "weight_decay": 0.0, **adamw},
    )


def _trained(model: Any) -> list[tuple[str, Any]]:
    return [(name, param) for name, param in model.named_parameters() if param.requires_grad]


def _not_empty(*groups: dict[str, Any]) -> list[dict[str, Any]]:
    return [group for group in groups if group["params"]]
