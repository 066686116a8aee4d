"""The repr tree and the path in error messages."""

import pytest

import minidl as md
from minidl import nn

from .test_module import Block, Head, Model


def message(function, *args, error=md.errors.ShapeError):
    with pytest.raises(error) as caught:
        function(*args)
    return str(caught.value)


def test_path_of_a_nested_module():
    model = Model()
    model.blocks[3].attn.qkv = nn.Linear(16, 24)
    assert message(model, md.tensor([[1, 2]])) == (
        "Block 3 → attn → qkv (Linear 16→24): input has last axis 8, expected 16 "
        "(input shape (1, 2, 8))"
    )


def test_path_starts_at_the_module_that_was_called():
    x = md.zeros(3, 4)
    tail = "input has last axis 4, expected 8 (input shape (3, 4))"
    assert message(nn.Linear(8, 24), x) == f"Linear 8→24: {tail}"
    assert message(Head(), x) == f"qkv (Linear 8→24): {tail}"
    assert message(Block(), x) == f"attn → qkv (Linear 8→24): {tail}"


def test_members_of_lists_read_by_class_and_number():
    net = nn.Sequential(nn.ReLU(), nn.Linear(8, 2))
    assert message(net, md.zeros(3, 4)).startswith("Linear 1 (8→2): input has last axis 4")

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net
            self.heads = nn.ModuleDict({"a": nn.Linear(1, 1)})

        def forward(self, x, key=None):
            return self.heads[key](x) if key else self.net(x)

    assert message(Outer(), md.zeros(3, 4)).startswith("net → Linear 1 (8→2): input has")
    assert message(Outer(), md.zeros(3, 4), "a").startswith("heads → a (Linear 1→1): input has")


def test_a_path_is_added_once():
    saved = md.errors.ShapeError("op: wrong")

    class Broken(nn.Module):
        def forward(self, x):
            raise saved

    model = nn.Sequential(nn.Sequential(Broken()))
    for _ in range(2):
        assert message(model, 1) == "Sequential 0 → Broken 0: op: wrong"


def test_errors_of_other_kinds_pass_untouched():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    assert message(nn.Sequential(Broken()), 1, error=KeyError) == "'mine'"


def test_index_error_of_an_embedding_has_its_path():
    text = message(Model(), md.tensor([7]), error=IndexError)
    assert text.startswith("embed (Embedding 5→8): ")
    assert "7" in text


def test_repr_is_a_tree_with_parameter_counts():
    model = Model(3)
    model.blocks[2].net = nn.Identity()
    assert repr(model) == """\
Model(  # 1,088 parameters
  (embed): Embedding(5, 8)  # 40 parameters
  (blocks): ModuleList(  # 1,048 parameters
    (0-1): 2 x Block(  # 416 parameters
      (attn): Head(  # 216 parameters
        (qkv): Linear(in_features=8, out_features=24, bias=True)  # 216 parameters
      )
      (net): Sequential(  # 200 parameters
        (0): Linear(in_features=24, out_features=8, bias=True)  # 200 parameters
        (1): ReLU()
      )
    )
    (2): Block(  # 216 parameters
      (attn): Head(  # 216 parameters
        (qkv): Linear(in_features=8, out_features=24, bias=True)  # 216 parameters
      )
      (net): Identity()
    )
  )
  (head): Linear(in_features=8, out_features=5, bias=False)  # 40 parameters
)"""


@pytest.mark.parametrize(
    "module, text",
    [
        (nn.ReLU(), "ReLU()"),
        (nn.ReLU(inplace=True), "ReLU(inplace=True)"),
        (nn.GELU("tanh"), "GELU(approximate='tanh')"),
        (nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
        (nn.Softmax(dim=-1), "Softmax(dim=-1)"),
        (nn.Embedding(5, 2, padding_idx=1), "Embedding(5, 2, padding_idx=1)  # 10 parameters"),
        (nn.RMSNorm(4, eps=1e-6), "RMSNorm((4,), eps=1e-06, elementwise_affine=True)"
                                  "  # 4 parameters"),
        (nn.PReLU(), "PReLU(num_parameters=1)  # 1 parameter"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_repr_of_layers(module, text):
    assert repr(module) == text
