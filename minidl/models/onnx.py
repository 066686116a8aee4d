"""ONNX files: each model as a graph of standard operators, weights included.

Shape letters: B batch, T tokens, C width, H heads, K key-value heads, G = H / K, D head size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minidl import nn
from minidl._core import Tensor
from minidl.checkpoint import atomic, blocks
from minidl.checkpoint.files import place_of
from minidl.config import __version__
from minidl.errors import ArgumentError

from .base import Model
from .bert import BERT
from .gpt import GPT
from .llama import Llama

OPSET, IR_VERSION = 20, 10
LIMIT = 2**31 - 2**20  # bytes of a protobuf message, with room for the graph


def library() -> Any:
    """The `onnx` package, or a sentence that says how to get it."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("save_onnx needs the package `onnx`: pip install 'minidl[onnx]'"
                          ) from error
    return onnx


def save_onnx(model: Model, path: Any) -> None:
    """Write the graph of a model to a file, whole or not at all."""
    place, onnx = place_of("save_onnx", path, ".onnx"), library()
    size = 4 * model.num_parameters()
    if size > LIMIT:
        raise ArgumentError(
            f"save_onnx: the weights take {size:,} bytes, and a file holds {LIMIT:,}"
        )
    graph = _Graph(model, onnx.helper, onnx.numpy_helper)
    number = onnx.TensorProto.INT64
    inputs, output = ["input_ids"], "logits"
    if isinstance(model, BERT):
        inputs += ["attention_mask", "token_type_ids"]
        output = "hidden"
        _bert(graph, model, output)
    else:
        _decoder(graph, model, output)
    width = model.config.width if isinstance(model, BERT) else model.config.vocab_size
    info = onnx.helper.make_tensor_value_info
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            type(model).__name__,
            [info(name, number, ["batch", "length"]) for name in inputs],
            [info(output, onnx.TensorProto.FLOAT, ["batch", "length", width])],
            list(graph.tensors.values()),
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="minidl",
        producer_version=__version__,
    )
    data = proto.SerializeToString()
    atomic.replace(place, lambda fd: blocks.write_at(fd, data, 0))


class _Graph:
    """Nodes in their order, and the tensors they use: ``graph("Add", a, b)`` is the name of a sum.

    Inputs are names of earlier results, parameters of the model, or arrays."""

    def __init__(self, model: Model, helper: Any, numpy_helper: Any) -> None:
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._helper, self._convert = helper, numpy_helper.from_array

    def __call__(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"{kind}.{len(self.nodes)}.{i}" for i in range(outputs)]
        given = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        self.nodes.append(self._helper.make_node(kind, given, names, **attributes))
        return names[0] if outputs == 1 else names

    def _constant(self, x: Any) -> str:
        if isinstance(x, nn.Parameter):
            name = self._names[id(x)]
            array = x.detach().cpu().numpy().astype(np.float32, copy=False)
        else:
            array = np.asarray(x)
            name = f"constant.{array.dtype}.{array.shape}.{array.tobytes().hex()}"
            if array.size > 8:
                name = f"constant.{len(self.tensors)}"
        if name not in self.tensors:
            self.tensors[name] = self._convert(np.asarray(array, order="C"), name)
        return name

    def linear(self, x: str, module: nn.Linear) -> str:
        y: str = self("MatMul", x, self("Transpose", module.weight, perm=[1, 0]))
        return y if module.bias is None else self("Add", y, module.bias)

    def norm(self, x: str, module: Any) -> str:
        if isinstance(module, nn.LayerNorm):
            bias = () if module.bias is None else (module.bias,)
            return str(self("LayerNormalization", x, module.weight, *bias, epsilon=module.eps))
        mean = self("ReduceMean", self("Mul", x, x), np.array([-1]))
        root = self("Sqrt", self("Add", mean, np.float32(module.eps)))
        return str(self("Mul", self("Div", x, root), module.weight))

    def rotate(self, x: str, tables: tuple[str, str]) -> str:
        """(..., T, D) turned by cos and sin (T, D/2)."""
        cos, sin = tables
        a, b = self("Split", x, outputs=2, axis=-1, num_outputs=2)
        first = self("Sub", self("Mul", a, cos), self("Mul", b, sin))
        second = self("Add", self("Mul", b, cos), self("Mul", a, sin))
        return str(self("Concat", first, second, axis=-1))

    def attention(self, x: str, attn: Any, mask: str, tables: tuple[str, str] | None) -> str:
        """(B, T, C) -> (B, T, C); ``mask`` is added to the scores (B, K, G, T, T)."""
        H, K, D = attn.num_heads, attn.num_kv_heads, attn.head_dim
        sizes = np.array([H * D, K * D, K * D])
        parts = []
        split = self("Split", self.linear(x, attn.qkv), sizes, outputs=3, axis=-1)
        for part, groups in zip(split, (H // K, 1, 1), strict=True):
            heads = self("Reshape", part, np.array([0, 0, K, groups, D]))
            parts.append(self("Transpose", heads, perm=[0, 2, 3, 1, 4]))      # [B, K, G or 1, T, D]
        q, k, v = parts
        if tables is not None:
            q, k = self.rotate(q, tables), self.rotate(k, tables)
        q = self("Mul", q, np.float32(D**-0.5))
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 2, 4, 3]))  # [B, K, G, T, T]
        weights = self("Softmax", self("Add", scores, mask), axis=-1)
        y = self("Transpose", self("MatMul", weights, v), perm=[0, 3, 1, 2, 4])  # [B, T, K, G, D]
        return self.linear(self("Reshape", y, np.array([0, 0, H * D])), attn.proj)

    def feed_forward(self, x: str, ffn: Any, approximate: str = "none") -> str:
        up = self.linear(x, ffn.up)
        if isinstance(ffn, nn.SwiGLU):
            gate = self.linear(x, ffn.gate)
            up = self("Mul", self("Mul", gate, self("Sigmoid", gate)), up)
        else:
            up = self("Gelu", up, approximate=approximate)
        return self.linear(up, ffn.down)

    def named(self, x: str, name: str) -> None:
        """Give a result the name of an output of the graph."""
        self.nodes.append(self._helper.make_node("Identity", [x], [name]))


def _decoder(graph: _Graph, model: GPT | Llama | Any, output: str) -> None:
    length = graph("Shape", "input_ids", start=1, end=2)                      # [1]
    places = graph("Range", np.int64(0), graph("Squeeze", length), np.int64(1))   # [T]
    rows, columns = (graph("Unsqueeze", places, np.array([axis])) for axis in (1, 0))
    mask = graph("Where", graph("Greater", columns, rows), np.float32("-inf"), np.float32(0))
    x = graph("Gather", model.token.weight, "input_ids")                      # [B, T, C]
    tables = None
    if isinstance(model, GPT):
        x = graph("Add", x, graph("Gather", model.position.weight, places))
    else:
        cos, sin = _tables(model.blocks[0].attn, model.config.context)
        tables = graph("Gather", cos, places), graph("Gather", sin, places)   # [T, D/2]
    for block in model.blocks:
        x = graph("Add", x, graph.attention(graph.norm(x, block.norm1), block.attn, mask, tables))
        x = graph("Add", x, graph.feed_forward(graph.norm(x, block.norm2), block.ffn, "tanh"))
    graph.named(graph.linear(graph.norm(x, model.norm), model.head), output)


def _tables(attn: Any, length: int) -> list[np.ndarray]:
    """cos and sin (T, D/2) of all positions: what turning makes of pairs (1, 0)."""
    pairs = np.zeros((1, 1, length, attn.head_dim), np.float32)
    pairs[..., : attn.head_dim // 2] = 1
    turned = attn.rotary(Tensor(pairs).to(attn.rotary.cos.device)).cpu()
    return np.split(turned.numpy()[0, 0], 2, axis=-1)


def _bert(graph: _Graph, model: BERT, output: str) -> None:
    length = graph("Shape", "input_ids", start=1, end=2)
    places = graph("Range", np.int64(0), graph("Squeeze", length), np.int64(1))
    hidden = graph("Equal", "attention_mask", np.int64(0))
    hidden = graph("Unsqueeze", hidden, np.array([1, 2, 3]))                  # [B, 1, 1, 1, T]
    mask = graph("Where", hidden, np.finfo(np.float32).min, np.float32(0))
    x = graph("Add", graph("Gather", model.token.weight, "input_ids"),
              graph("Gather", model.position.weight, places))                 # [B, T, C]
    x = graph("Add", x, graph("Gather", model.segment.weight, "token_type_ids"))
    x = graph.norm(x, model.norm)
    for block in model.blocks:
        x = graph.norm(graph("Add", x, graph.attention(x, block.attn, mask, None)), block.norm1)
        x = graph.norm(graph("Add", x, graph.feed_forward(x, block.ffn)), block.norm2)
    graph.named(x, output)
