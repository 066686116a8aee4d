"""Tensors on a device: made, moved, read, printed, written in place."""

import numpy as np
import pytest

import minidl as md
from minidl import errors


def on(device, *values, grad=False):
    return md.tensor(values, device=device, requires_grad=grad)


MAKERS = {
    "zeros": lambda **d: md.zeros(2, 3, **d),
    "full": lambda **d: md.full((2,), 7, **d),
    "arange": lambda **d: md.arange(1.0, 2.0, 0.25, **d),
    "linspace": lambda **d: md.linspace(0, 1, 5, **d),
    "eye": lambda **d: md.eye(3, 4, **d),
    "tril_indices": lambda **d: md.tril_indices(3, 3, **d),
    "as_tensor": lambda **d: md.as_tensor(np.arange(3), **d),
    "asarray": lambda **d: md.asarray([1.0, 2.0], **d),
    "scalar_tensor": lambda **d: md.scalar_tensor(2.5, **d),
    "rand": lambda **d: md.rand(3, 5, **d),
    "randn": lambda **d: md.randn(3, 5, **d),
    "randn float16": lambda **d: md.randn(6, dtype=md.float16, **d),
    "randint": lambda **d: md.randint(3, 9, (4,), **d),
    "randperm": lambda **d: md.randperm(7, **d),
    "normal": lambda **d: md.normal(1.0, 2.0, (5,), **d),
}


@pytest.mark.parametrize("name", MAKERS)
def test_made_on_the_device(device, name):
    made = []
    for where in ("cpu", device):
        md.manual_seed(5)
        made.append(MAKERS[name](device=where))
    assert made[1].device == device and made[0].device == "cpu"
    assert made[1].dtype is made[0].dtype
    np.testing.assert_allclose(made[1].cpu().numpy(), made[0].numpy(), rtol=1e-6, atol=1e-6)


def test_made_beside_another(device):
    x = md.ones(2, 3, device=device)
    for y in (md.zeros_like(x), md.rand_like(x), md.randint_like(x, 5), x.new_ones(4), x.new_full(
            (2,), 1.5), x.new_tensor([1, 2]), md.tensor(x), md.asarray(x), x.clone(), md.normal(x)):
        assert y.device == device
    assert md.zeros_like(x, device="cpu").device == "cpu"
    assert md.as_tensor(x, device="cpu").device == "cpu"


@pytest.mark.parametrize("draw", ["uniform_", "normal_", "bernoulli_", "random_", "exponential_"])
def test_filled_in_place(device, draw):
    found = []
    for where in ("cpu", device):
        md.manual_seed(2)
        found.append(getattr(md.zeros(4, 5, device=where), draw)().cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)


def test_drawn(device):
    weights = md.tensor([[0.1, 0.7, 0.2], [0.0, 0.5, 0.5]])
    found = []
    for where in ("cpu", device):
        md.manual_seed(2)
        found.append([md.multinomial(weights.to(where), 6, replacement=True),
                      md.bernoulli(weights.to(where))])
    for a, b in zip(*found, strict=True):
        assert b.device == device and a.tolist() == b.tolist()


def test_moving(device):
    x = md.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(device)
    assert y.device == device == str(y.device) and y.to(device) is y and y.cpu().device == "cpu"
    assert y.is_cuda is (device == "cuda")
    assert x.to(y).device == device and y.to(x).device == "cpu"
    (y * y).sum().backward()
    assert x.grad.device == "cpu" and x.grad.tolist() == [2.0, 4.0]
    wide = md.tensor([1.5], dtype=md.float64)
    assert wide.to(device, md.float32).dtype is md.float32
    assert md.tensor([1.5]).to(device).to("cpu", md.float64).dtype is md.float64
    with pytest.raises(TypeError, match="has no float64"):
        wide.to(device)
    z = md.zeros(2)
    assert z.copy_(y.detach()).tolist() == [1.0, 2.0]
    assert md.zeros(2, device=device).copy_(z).tolist() == [1.0, 2.0]


def test_reading(device):
    x = on(device, 1.5, -2.0)
    assert x.tolist() == [1.5, -2.0] and x[0].item() == float(x[0]) == 1.5 and -2.0 in x
    assert bool(x[0] > 0) and [v.item() for v in x] == [1.5, -2.0]
    assert repr(x) == f"tensor([ 1.5000, -2.0000], device='{device}')"
    assert x.stride() == (1,) and x.is_contiguous() and x.nbytes == 8
    np.testing.assert_array_equal(x.numpy(force=True), [1.5, -2.0])
    for fails, sentence in ((lambda: x.numpy(), r"use \.cpu\(\)"), (lambda: np.asarray(x), "cpu"),
                            (lambda: x.data_ptr(), "cpu")):
        with pytest.raises((errors.DeviceError, errors.UnsupportedError, TypeError),
                           match=sentence):
            fails()
    with pytest.raises(BufferError, match=r"pass \.cpu"):
        np.from_dlpack(x)


def test_mixed_devices_are_refused(device):
    x, y = md.ones(2), md.ones(2, device=device)
    for mixed in (lambda: x + y, lambda: y * x, lambda: y + np.ones(2, "float32"),
                  lambda: md.nn.functional.embedding(md.tensor([0]), md.ones(2, 2, device=device)),
                  lambda: y.add_(x), lambda: md.cat([x, y])):
        with pytest.raises((errors.DeviceError, ValueError), match=r"different devices|on the CPU"):
            mixed()


def test_writes_through_views_reach_the_graph(device):
    def gradients(where):
        x = md.arange(12.0, device=where).reshape(3, 4).detach().requires_grad_()
        y = x * 2
        row, columns = y[1], y[:, 1:3].transpose(0, 1)
        row.mul_(3)
        columns[0].add_(x[:, 0])
        y[md.tensor([0, 2], device=where)] = 1.5
        y[y > 100] = 0.0
        (y * y).sum().backward()
        return y.detach().cpu().numpy(), x.grad.cpu().numpy()

    for got, expected in zip(gradients(device), gradients("cpu"), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_overwritten_values_are_noticed(device):
    x = on(device, 1.0, 2.0, grad=True)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(errors.GradientError, match="overwritten by the in-place add_"):
        z.backward()
    with pytest.raises(errors.GradientError, match="leaf tensor"):
        x.add_(1)


def test_a_leaf_keeps_its_gradient_for_itself(device):
    x, y = on(device, 1.0, 2.0, grad=True), on(device, 3.0, 4.0, grad=True)
    (x + y).sum().backward()
    x.grad.mul_(5)
    assert y.grad.tolist() == [1.0, 1.0]
    (x + y).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and y.grad.tolist() == [2.0, 2.0]


def test_an_index_out_of_range_is_reported(device, be):
    y = md.nn.functional.embedding(md.tensor([7], device=device), md.ones(3, 2, device=device))
    with pytest.raises(IndexError, match="embedding: index 7 is out of range for 3 places"):
        y.tolist()


def test_a_result_that_is_not_finite_is_found(device):
    with md.autograd.detect_nonfinite(), pytest.raises(errors.NonFiniteError, match="log"):
        on(device, -1.0).log()
