"""Hugging Face's config.json in both directions.

What a config.json asks for and a model here cannot do is an error with a sentence: weights that
load and then compute something else would be worse than none.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from minidl.errors import ArgumentError

from .base import Model
from .bert import BERT, BERTConfig
from .gpt import GPT, GPTConfig
from .llama import Llama, LlamaConfig

Config = dict[str, Any]

# our field: theirs
GPT_FIELDS = {
    "vocab_size": "vocab_size", "context": "n_positions", "layers": "n_layer", "heads": "n_head",
    "width": "n_embd", "norm_eps": "layer_norm_epsilon", "dropout": "resid_pdrop",
}  # fmt: skip
LLAMA_FIELDS = {
    "vocab_size": "vocab_size", "context": "max_position_embeddings", "tied": "tie_word_embeddings",
    "layers": "num_hidden_layers", "heads": "num_attention_heads", "width": "hidden_size",
    "kv_heads": "num_key_value_heads", "hidden": "intermediate_size", "head_dim": "head_dim",
    "rope_base": "rope_theta", "rope_scaling": "rope_scaling", "norm_eps": "rms_norm_eps",
    "dropout": "attention_dropout",
}  # fmt: skip
BERT_FIELDS = {
    "vocab_size": "vocab_size", "context": "max_position_embeddings", "hidden": "intermediate_size",
    "layers": "num_hidden_layers", "heads": "num_attention_heads", "width": "hidden_size",
    "segments": "type_vocab_size", "norm_eps": "layer_norm_eps", "dropout": "hidden_dropout_prob",
}  # fmt: skip

# Fields that say how a model computes, and the values that these models compute (the first is
# theirs where the field is missing).
GPT_RULES: dict[str, tuple[Any, ...]] = {
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}
LLAMA_RULES: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"), "mlp_bias": (False,), "partial_rotary_factor": (1.0,),
    "attention_bias": (False,),
}  # fmt: skip
BERT_RULES: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("gelu",), "position_embedding_type": ("absolute",), "is_decoder": (False,),
    "add_cross_attention": (False,),
}  # fmt: skip


def read_config(theirs: Config) -> tuple[type[Model], Any]:
    """The class and our config for a config.json.

    >>> theirs = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64,
    ...           "n_positions": 32, "vocab_size": 99}
    >>> cls, config = read_config(theirs)
    >>> cls.__name__, config.width
    ('GPT', 64)
    """
    kind = theirs.get("model_type")
    if kind == "gpt2":
        _check(theirs, GPT_RULES)
        _check({"n_inner": theirs.get("n_inner") or 0}, {"n_inner": (0, 4 * theirs["n_embd"])})
        return GPT, _filled(GPTConfig, GPT_FIELDS, theirs)
    if kind in ("llama", "mistral", "qwen2"):
        return Llama, _read_llama(theirs)
    if kind == "bert":
        _check(theirs, BERT_RULES)
        return BERT, _filled(BERTConfig, BERT_FIELDS, theirs)
    raise ArgumentError(
        f"a model of type {kind!r:.80} is not among those that minidl has: gpt2, llama, mistral, "
        "qwen2, bert"
    )


def _read_llama(theirs: Config) -> LlamaConfig:
    theirs = dict(theirs)
    rope = theirs.pop("rope_parameters", None) or {}        # transformers 5 keeps both in one table
    if "rope_theta" in rope:
        theirs["rope_theta"] = rope["rope_theta"]
    scaling = theirs.get("rope_scaling") or {k: v for k, v in rope.items() if k != "rope_theta"}
    scaled = scaling.get("rope_type", scaling.get("type", "default")) != "default"
    theirs["rope_scaling"] = scaling if scaled else None
    _check(theirs, LLAMA_RULES)
    defaults = {"tie_word_embeddings": False, "rms_norm_eps": 1e-6, "num_key_value_heads":
                theirs.get("num_attention_heads")}
    config = _filled(LlamaConfig, LLAMA_FIELDS, {**defaults, **theirs})
    config.qkv_bias = theirs["model_type"] == "qwen2"
    window = theirs.get("sliding_window")
    if window and theirs.get("use_sliding_window", True):
        config.context = min(config.context, window)        # up to there nothing slides
    return config


def _check(theirs: Config, rules: dict[str, tuple[Any, ...]]) -> None:
    for name, allowed in rules.items():
        if theirs.get(name, allowed[0]) not in allowed:
            raise ArgumentError(
                f"its config.json has {name} = {theirs[name]!r:.80}, and minidl computes "
                f"{' or '.join(map(repr, allowed))} only"
            )


def _filled(cls: Any, names: dict[str, str], theirs: Config) -> Any:
    """Our config from their fields; those that decide the shapes must be there."""
    optional = {"norm_eps", "dropout", "rope_base", "rope_scaling", "head_dim", "segments"}
    missing = [name for ours, name in names.items() if name not in theirs and ours not in optional]
    if missing:
        raise ArgumentError(f"its config.json does not say {', '.join(missing)}")
    found = {ours: theirs[name] for ours, name in names.items() if name in theirs}
    return cls(**found)


def write_config(model: Model) -> Config:
    """The config.json of a model, as transformers reads it.

    >>> write_config(md.models.BERT.from_preset("tiny"))["architectures"]
    ['BertModel']
    """
    if isinstance(model, GPT):
        about = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
                 "activation_function": "gelu_new", "bos_token_id": None, "eos_token_id": None,
                 "embd_pdrop": model.config.dropout, "attn_pdrop": model.config.dropout}
        names = GPT_FIELDS
    elif isinstance(model, Llama):
        name, kind = ("Qwen2", "qwen2") if model.config.qkv_bias else ("Llama", "llama")
        about = {"architectures": [f"{name}ForCausalLM"], "model_type": kind, "hidden_act": "silu"}
        about |= {"bos_token_id": None, "eos_token_id": None}
        names = LLAMA_FIELDS
    else:
        about = {"architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu",
                 "attention_probs_dropout_prob": model.config.dropout}
        names = BERT_FIELDS
    ours = {field.name: getattr(model.config, field.name) for field in fields(model.config)}
    if isinstance(model, Llama):
        attn, ffn = model.blocks[0].attn, model.blocks[0].ffn
        ours |= {"head_dim": attn.head_dim, "hidden": ffn.up.out_features}
    if isinstance(model, GPT) and not model.config.bias:
        raise ArgumentError("GPT-2's layout has biases: a GPT with bias=False cannot be written")
    about |= {theirs: ours[name] for name, theirs in names.items()}
    return {**about, "torch_dtype": "float32"}
