"""Tensors and the rest of Python: numbers, NumPy, DLPack, pickling, conversions, printing."""

import copy
import pickle

import numpy as np
import pytest

import minidl as md


def test_numbers():
    x = md.tensor([2.5])
    assert x.item() == 2.5 and float(x) == 2.5 and int(x) == 2 and bool(x)
    assert [10, 20, 30][md.tensor(1)] == 20
    assert not md.tensor(0) and md.tensor([[1, 2]]).tolist() == [[1, 2]]
    assert 2 in md.tensor([1, 2]) and 5 not in md.tensor([1, 2])
    assert f"{md.tensor(1.23456):.2f}" == "1.23" and len(md.zeros(3, 2)) == 3
    assert [row.tolist() for row in md.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


def test_iteration_carries_gradients():
    x = md.ones(3, requires_grad=True)
    a, _, c = x
    (a * 2 + c * 5).backward()
    assert x.grad.tolist() == [2, 0, 5]


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: md.zeros(2).item(), ValueError, r"item: expected one element, .* shape \(2,\)"),
    (lambda: bool(md.zeros(2)), ValueError, r"truth value .* use \.any\(\) or \.all\(\)"),
    (lambda: [0][md.tensor(0.0)], TypeError, "only an integer tensor"),
    (lambda: iter(md.tensor(1)), TypeError, "iteration over a 0-d tensor"),
    (lambda: len(md.tensor(1)), TypeError, "0-d tensor"),
    (lambda: md.ones(2, requires_grad=True).numpy(), RuntimeError, r"use \.detach\(\)\.numpy\(\)"),
    (lambda: np.asarray(md.ones(2, requires_grad=True)), RuntimeError, "requires a gradient"),
    (lambda: md.zeros(2).to("cuda:1"), RuntimeError, "to: 'cuda:1' is not available"),
    (lambda: md.zeros(2).to("float64"), TypeError, "pass md.float64"),
    (lambda: md.zeros(2).to(md.float64, copies=True), TypeError, "unknown argument 'copies'"),
    (lambda: md.zeros(2).size(2), IndexError, "dim 2 is out of range"),
    (lambda: "a" in md.zeros(2), TypeError, "expected a number or a tensor, got str"),
    (lambda: md.from_dlpack(3), TypeError, "an object with __dlpack__, got int"),
    (lambda: copy.deepcopy(md.ones(2, requires_grad=True) * 2), RuntimeError, "only leaf tensors"),
    (lambda: md.zeros(2).clone(memory_format="channels_last"), NotImplementedError,
     "clone: memory_format channels_last is not supported"),
])
def test_messages(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_numpy_shares_memory_both_ways():
    x = md.zeros(3)
    x.numpy()[0] = 5
    assert x[0].item() == 5
    assert np.asarray(x) is x.numpy() and np.array(x) is not x.numpy()
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert isinstance(np.ones(3, np.float32) + x, md.Tensor)
    assert isinstance(np.float32(2) * x, md.Tensor)
    np.testing.assert_array_equal(np.sin(x.numpy()), np.sin(np.asarray(x)))


def test_dlpack_is_zero_copy_with_numpy():
    x = md.arange(6).reshape(2, 3).float()
    a = np.from_dlpack(x)
    assert np.shares_memory(a, x.numpy()) and a.shape == (2, 3)
    y = md.from_dlpack(a)
    y[0, 0] = 9
    assert x[0, 0].item() == 9
    with pytest.raises(BufferError, match="requires a gradient"):
        np.from_dlpack(md.ones(2, requires_grad=True))
    np.testing.assert_array_equal(np.from_dlpack(md.ones(1).expand(3)), [1, 1, 1])


def test_dlpack_is_zero_copy_with_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = md.arange(6).reshape(2, 3).float()
    t = torch.from_dlpack(x.T)
    assert t.data_ptr() == x.data_ptr() and tuple(t.shape) == (3, 2)
    back = md.from_dlpack(t)
    back[0, 1] = 9
    assert x[1, 0].item() == 9
    assert back.stride() == (1, 3)


def test_pickle_and_copies():
    x = md.randn(2, 3, requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert (x == y).all() and y.requires_grad and y.is_leaf
    view = pickle.loads(pickle.dumps(md.zeros(1000)[:3]))
    assert view.shape == (3,) and len(pickle.dumps(md.zeros(100_000)[:3])) < 1000
    x.sum().backward()
    deep = copy.deepcopy(x)
    assert (deep == x).all() and (deep.grad == x.grad).all()
    assert not np.shares_memory(deep.detach().numpy(), x.detach().numpy())
    assert np.shares_memory(copy.copy(x).detach().numpy(), x.detach().numpy())
    tied = copy.deepcopy([x, x])
    assert tied[0] is tied[1]


def test_pickle_keeps_parameters():
    p = md.nn.Parameter(md.ones(2))
    for q in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p)):
        assert type(q) is md.nn.Parameter and q.requires_grad and q.tolist() == [1, 1]
    assert type(p * 2) is md.Tensor


def test_conversions():
    x = md.tensor([1.7, -2.3], requires_grad=True)
    assert x.to(md.float32) is x and x.float() is x and x.cpu() is x
    assert x.to(md.float32, copy=True) is not x
    assert x.long().tolist() == [1, -2] and x.bool().tolist() == [True, True]
    assert x.to(md.zeros(1, dtype=md.float64)).dtype is md.float64
    assert x.to("cpu", md.float64).dtype is md.float64
    assert x.type_as(md.tensor(1)).dtype is md.int64
    (x.double() * 3).sum().backward()
    assert x.grad.dtype is md.float32 and x.grad.tolist() == [3, 3]
    assert md.tensor([float("nan"), 1e30]).int().shape == (2,), "no warning leaks"


def test_what_it_is():
    x = md.zeros(2, 3).T
    assert x.size() == (3, 2) and x.size(-1) == 2 and x.dim() == 2 and x.numel() == 6
    assert x.stride() == (1, 3) and x.stride(0) == 1 and not x.is_contiguous()
    assert x.element_size() == 4 and x.nbytes == 24 and x.is_floating_point()
    assert x.device == md.device("cpu") and str(x.device) == "cpu" and x.device == "cpu"
    x.data = md.ones(5)
    assert x.tolist() == [1] * 5
    y = md.ones(2, requires_grad=True)
    assert not y.data.requires_grad and np.shares_memory(y.data.numpy(), y.detach().numpy())


@pytest.mark.parametrize(("tensor", "text"), [
    (lambda: md.tensor([[1.0, 2.5]]), "tensor([[1.0000, 2.5000]])"),
    (lambda: md.tensor([1.0, 2.0]), "tensor([1., 2.])"), (lambda: md.tensor(3.0), "tensor(3.)"),
    (lambda: md.tensor([1, -20]), "tensor([  1, -20])"),
    (lambda: md.tensor([True, False]), "tensor([ True, False])"),
    (lambda: md.tensor([1.0], dtype=md.float64), "tensor([1.], dtype=minidl.float64)"),
    (lambda: md.tensor([1], dtype=md.int32), "tensor([1], dtype=minidl.int32)"),
    (lambda: md.tensor([1e-9, 1.0]), "tensor([1.0000e-09, 1.0000e+00])"),
    (lambda: md.tensor([float("nan"), float("inf"), 1.0]), "tensor([nan, inf,  1.])"),
    (lambda: md.zeros(0), "tensor([])"), (lambda: md.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda: md.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (lambda: md.ones(1, requires_grad=True) * 2, "tensor([2.], grad_fn=<mul backward>)"),
    (lambda: md.tensor([[1.0], [-1.5]]), "tensor([[ 1.0000],\n        [-1.5000]])"),
    (lambda: md.arange(2000), "tensor([   0,    1,    2, ..., 1997, 1998, 1999])"),
])
def test_repr(tensor, text):
    assert repr(tensor()) == text
