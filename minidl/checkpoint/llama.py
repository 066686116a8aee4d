"""Models of the Llama family in GGUF files, under the names that Hugging Face gives their weights
and their configuration."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from minidl._core import Tensor
from minidl.errors import ArgumentError, CheckpointError

from . import gguf, tensors
from .files import Path, place_of
from .tree import pack

TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONFIG = {
    "block_count": ("num_hidden_layers", 4),
    "context_length": ("max_position_embeddings", 4),
    "embedding_length": ("hidden_size", 4),
    "feed_forward_length": ("intermediate_size", 4),
    "attention.head_count": ("num_attention_heads", 4),
    "attention.head_count_kv": ("num_key_value_heads", 4),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", 6),
    "rope.freq_base": ("rope_theta", 6),
    "rope.dimension_count": ("head_dim", 4),
    "vocab_size": ("vocab_size", 4),
}
ROTATED = ("llama",)  # architectures whose q and k lie in another order in a GGUF file


class Gguf(NamedTuple):
    """A model out of a GGUF file: ``config`` and ``state`` as Hugging Face names them, and all
    the ``values`` of the file (the tokenizer's among them) as they are there."""

    config: dict[str, Any]
    state: dict[str, Tensor]
    values: dict[str, Any]


def load_gguf(path: Path) -> Gguf:
    """Read a model of the Llama family (Llama, Mistral, SmolLM2, Qwen2) from a GGUF file, its
    weights as float32: F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are understood."""
    place = place_of("load_gguf", path, ".gguf")
    values, arrays = gguf.read(place)
    with tensors.named(place):
        config = _config(values, arrays)
        state = {}
        for name, array in arrays.items():
            renamed = _renamed(name)
            if renamed is None:
                continue  # rope_freqs: what the model computes itself
            heads = _heads(renamed, config)
            if heads and config["model_type"] in ROTATED:
                array = _interleaved_to_halves(array, heads)
            state[renamed] = Tensor(array)
        return Gguf(config, state, values)


def save_gguf(
    state: Any,
    config: dict[str, Any],
    path: Path,
    *,
    dtype: str = "F16",
    values: dict[str, Any] | None = None,
) -> None:
    """Write a model of the Llama family to a GGUF file: matrices as F16 or Q8_0, vectors as F32.

    ``state`` and ``config`` have Hugging Face's names; ``values`` go into the file as they are, a
    tokenizer's for example."""
    place = place_of("save_gguf", path, ".gguf")
    if dtype not in ("F16", "Q8_0"):
        raise ArgumentError(f'save_gguf: dtype must be "F16" or "Q8_0", got {dtype!r}')
    kind = config.get("model_type", "llama")
    if kind not in ("llama", "qwen2"):
        raise ArgumentError(f"save_gguf: {kind!r} is not of the Llama family (llama, qwen2)")
    config = _with_heads(
        config, ArgumentError("save_gguf: config does not say how many attention heads there are")
    )
    arrays: dict[str, tuple[str, np.ndarray]] = {}
    for name, array in pack(state).arrays.items():
        heads = _heads(name, config)
        array = array.astype(np.float32)
        if heads and kind in ROTATED:
            array = _halves_to_interleaved(array, heads)
        fits = dtype == "F16" or array.shape[-1] % 32 == 0
        stored = "F32" if array.ndim < 2 else dtype if fits else "F16"
        arrays[_gguf_name(name)] = stored, array
    about: dict[str, tuple[int, Any]] = {
        "general.architecture": (gguf.STRING, kind),
        "general.file_type": (4, {"F16": 1, "Q8_0": 7}[dtype]),
        "general.quantization_version": (4, 2),
    }
    for key, (theirs, number) in CONFIG.items():
        if theirs in config:
            about[f"{kind}.{key}"] = number, config[theirs]
    about.update((k, (gguf.kind_of(v), v)) for k, v in (values or {}).items() if k not in about)
    gguf.write(place, about, arrays)


def _config(values: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    kind = values.get("general.architecture")
    if kind not in ("llama", "qwen2"):
        raise CheckpointError(f"its architecture is {kind!r:.80}; minidl reads llama and qwen2")
    config: dict[str, Any] = {"model_type": kind}
    for key, (theirs, number) in CONFIG.items():
        value = values.get(f"{kind}.{key}")
        if value is None:
            continue
        if not isinstance(value, int if number == 4 else (int, float)):
            raise CheckpointError(f"its {kind}.{key} is {value!r:.80}, which is not a number")
        # 1e-5 was meant where float32 has 9.999999747378752e-06
        config[theirs] = float(str(np.float32(value))) if number == 6 else value
    if arrays.get("token_embd.weight", np.empty(0)).ndim == 2:
        config["vocab_size"] = len(arrays["token_embd.weight"])
    config["tie_word_embeddings"] = "output.weight" not in arrays
    return _with_heads(config, CheckpointError("it does not say how many attention heads it has"))


def _with_heads(config: dict[str, Any], complaint: Exception) -> dict[str, Any]:
    """The configuration with both numbers of heads: as many for k and v where it has one."""
    heads = config.get("num_attention_heads", 0)
    groups = config.get("num_key_value_heads", heads)
    if heads < 1 or groups < 1:
        raise complaint
    return {**config, "num_attention_heads": heads, "num_key_value_heads": groups}


def _renamed(name: str) -> str | None:
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if layer and layer[2] in LAYER:
        return f"model.layers.{layer[1]}.{LAYER[layer[2]]}.{layer[3]}"
    top, _, what = name.rpartition(".")
    if top in TOP and what in ("weight", "bias"):
        return f"{TOP[top]}.{what}"
    if name.startswith(("rope_freqs", "rope_factors")):
        return None
    raise CheckpointError(f"tensor {name!r:.80} does not belong to a model of the Llama family")


def _gguf_name(name: str) -> str:
    for ours, theirs in TOP.items():
        if name.rpartition(".")[0] == theirs:
            return f"{ours}.{name.rpartition('.')[2]}"
    layer = re.fullmatch(r"model\.layers\.(\d+)\.([\w.]+)\.(weight|bias)", name)
    for ours, theirs in LAYER.items():
        if layer and layer[2] == theirs:
            return f"blk.{layer[1]}.{ours}.{layer[3]}"
    raise ArgumentError(f"save_gguf: {name} is not a weight of a model of the Llama family")


def _heads(name: str, config: dict[str, Any]) -> int:
    """The heads of a q or k projection (0 for other tensors)."""
    if ".q_proj." in name:
        return config["num_attention_heads"]
    return config["num_key_value_heads"] if ".k_proj." in name else 0


def _interleaved_to_halves(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head: ggml rotates neighbours, Hugging Face the first half with the second."""
    if not array.size or not array.ndim or array.shape[0] % (2 * heads):
        raise CheckpointError(f"a projection of shape {array.shape} has no {heads} heads")
    return array.reshape(heads, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def _halves_to_interleaved(array: np.ndarray, heads: int) -> np.ndarray:
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
