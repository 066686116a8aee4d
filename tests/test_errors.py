"""The sentences a user meets most often, word for word."""

import pytest

import minidl as md
from minidl import nn
from minidl.nn import functional as F


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(128, 384)

    def forward(self, x):
        return self.qkv(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Attention()

    def forward(self, x):
        return self.attn(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        return self.blocks[3](x)


def x():
    return md.ones(2, 3)


CASES = [
    (lambda: Net()(md.ones(12, 64, 64)), RuntimeError,
     "Block 3 → attn → qkv (Linear 128→384): input has last axis 64, expected 128 "
     "(input shape (12, 64, 64))"),
    (lambda: x() + md.ones(4), RuntimeError,
     "add: shapes (2, 3) and (4,) do not broadcast (3 against 4)"),
    (lambda: x() @ md.ones(4, 5), RuntimeError,
     "matmul: shapes (2, 3) and (4, 5) do not fit: 3 columns against 4 rows"),
    (lambda: md.ones(2, 3) @ 2.0, TypeError,
     "matmul: argument 'other' must be a tensor, got float"),
    (lambda: x() @ md.ones(3, dtype=md.float64), TypeError,
     "matmul: both tensors must have one dtype, got float32 and float64; convert one with "
     ".to(dtype)"),
    (lambda: x().reshape(5), RuntimeError,
     "reshape: shape (5,) has 5 elements, the tensor of shape (2, 3) has 6"),
    (lambda: md.cat([x(), md.ones(2, 4)]), RuntimeError,
     "cat: shapes (2, 3) and (2, 4) differ in more than dim 0"),
    (lambda: x()[5], IndexError,
     "index: index 5 is out of bounds for axis 0 with size 2 (shape (2, 3))"),
    (lambda: x()[0, 0, 0], IndexError,
     "index: 3 indices for a tensor of 2 dimensions (shape (2, 3))"),
    (lambda: x().sum(dim=2), IndexError,
     "sum: dim 2 is out of range for a tensor of 2 dimensions (expected -2 to 1)"),
    (lambda: x().to("cuda:1"), RuntimeError,
     "to: 'cuda:1' is not available; minidl uses one device of a kind, 'cuda'"),
    (lambda: x().backward(), RuntimeError,
     "backward: this tensor does not require a gradient and was not computed from one that does"),
    (lambda: (x().requires_grad_() * 2).backward(), RuntimeError,
     "backward: a gradient can be left out only for a tensor of one element, this one has shape "
     "(2, 3); call .sum() first or pass gradient="),
    (lambda: x().requires_grad_().add_(1), RuntimeError,
     "add_: a leaf tensor that requires a gradient cannot be changed in place; do it under "
     "md.no_grad()"),
    (lambda: F.cross_entropy(x(), md.tensor([0, 3])), IndexError,
     "cross_entropy: target[1] is 3, expected a class from 0 to 2 (3 classes) or ignore_index "
     "-100"),
    (lambda: F.cross_entropy(x(), md.ones(5, dtype=md.int64)), RuntimeError,
     "cross_entropy: the target has shape (5,), expected (2,) class ids for an input of shape "
     "(2, 3)"),
    (lambda: F.embedding(md.tensor([7]), x()), IndexError,
     "embedding: index 7 (element 0 of idx) is out of range for 2 rows"),
    (lambda: F.layer_norm(x(), (4,)), RuntimeError,
     "layer_norm: normalized_shape is (4,), but the input has shape (2, 3)"),
    (lambda: md.tensor([[1, 2], [3]]), ValueError,
     "tensor: the nested lists are ragged: every list of a level must have the same length"),
    (lambda: md.ones(2, dtype=md.int64).mean(), TypeError,
     "mean: expected a floating-point tensor, got int64; convert with .float()"),
    (lambda: nn.Linear(3, 4).load_state_dict({"weight": md.ones(4, 3), "c": x()}), RuntimeError,
     "the state dict does not fit Linear; nothing was loaded:\n  missing (1): bias\n"
     "  unexpected (1): c"),
    (lambda: x().item(), RuntimeError, "item: expected one element, the tensor has shape (2, 3)"),
    (lambda: x().requires_grad_().numpy(), RuntimeError,
     "numpy: this tensor requires a gradient; use .detach().numpy()"),
    (lambda: x().to(md.float16) + 1, TypeError,
     "add: float16 is a storage dtype; convert the tensor with .float() first"),
    (lambda: x().expand(3, 3), RuntimeError,
     "expand: shape (2, 3) does not expand to (3, 3); only dims of size 1 can grow, and new dims "
     "come first"),
    (lambda: F.gelu(x(), "fast"), ValueError,
     "gelu: approximate must be 'none' or 'tanh', got 'fast'"),
    (lambda: x().exp(out=x()), TypeError, "exp() has no argument 'out'; it takes input"),
]


@pytest.mark.parametrize("call, kind, sentence", CASES, ids=[c[2][:40] for c in CASES])
def test_sentence(call, kind, sentence):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == sentence


def test_operators_leave_foreign_types_to_python():
    with pytest.raises(TypeError, match="unsupported operand"):
        x() + "a"
