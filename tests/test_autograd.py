"""The tape: gradients, graph lifetime, hooks, in-place writes, grad modes, custom functions."""

import gc
import threading
import weakref

import numpy as np
import pytest

import minidl as md
from minidl import errors


def leaf(*values):
    return md.tensor(values, dtype=md.float64, requires_grad=True)


# --------------------------------------------------------------------------------- gradients

def test_gradients_add_up_over_uses_and_calls():
    x = leaf(1.0, 2.0)
    (x * x + 3 * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 7])
    (2 * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [7, 9])


def test_a_shared_gradient_is_not_corrupted_by_a_sum():
    # add hands one array to both parents; the second delivery to b must not write into a's.
    a, b = leaf(1.0), leaf(2.0)
    s = a + b
    (s + b + b + b).backward()
    assert a.grad.item() == 1 and b.grad.item() == 4
    a.grad.mul_(10)
    assert b.grad.item() == 4


def test_a_leaf_takes_over_a_gradient_that_nobody_else_holds(monkeypatch):
    from minidl_kernels import cpu

    copies = []
    real = cpu.copy
    monkeypatch.setattr(cpu, "copy", lambda x: copies.append(x.shape) or real(x))
    w = md.randn(3, 4, requires_grad=True)
    md.nn.functional.linear(md.randn(5, 4), w).square().sum().backward()
    assert not copies


def test_gradient_argument_weights_the_outputs():
    x = leaf(1.0, 2.0, 3.0)
    (x * x).backward(gradient=md.tensor([1.0, 0.0, 10.0], dtype=md.float64))
    np.testing.assert_array_equal(x.grad.numpy(), [2, 0, 60])


def test_a_float32_cotangent_is_converted():
    x = leaf(1.0, 2.0)
    (x * x).backward(md.ones(2))
    assert x.grad.dtype is md.float64


def test_multiple_outputs_where_one_is_unused():
    x = md.arange(6, dtype=md.float64).requires_grad_()
    first, _, last = x.split(2)
    (first.sum() + 5 * last.sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1, 0, 0, 5, 5])


def test_grad_leaves_dot_grad_alone_and_reaches_inner_tensors():
    x = leaf(3.0)
    y = x * x
    z = y * y
    gx, gy = md.autograd.grad(z, [x, y])
    assert (gx.item(), gy.item()) == (108, 18)
    assert x.grad is None


def test_grad_of_an_unused_input():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(errors.GradientError, match="input 1 was not used"):
        md.autograd.grad(x * 2, [x, y])
    assert md.autograd.grad(x * 2, [x, y], allow_unused=True)[1] is None


def test_work_for_unneeded_gradients_is_skipped(monkeypatch):
    from minidl_kernels import cpu

    calls = []
    real = cpu.linear_grad_weight
    monkeypatch.setattr(cpu, "linear_grad_weight", lambda *a: calls.append(1) or real(*a))
    x = md.randn(4, 3)
    w = md.randn(2, 3)
    md.nn.functional.linear(x.requires_grad_(), w).sum().backward()
    assert not calls
    md.nn.functional.linear(x, w.requires_grad_()).sum().backward()
    assert calls


# ------------------------------------------------------------------------- lifetime of a graph

def test_a_chain_of_200000_ops_differentiates_and_dies_without_recursion():
    x = md.ones(1, requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1
    z = x
    for _ in range(200_000):
        z = z * 1.0
    del y, z


def test_memory_returns_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        before = md.memory_stats()["in_use_bytes"]
        for _ in range(3):
            x = md.randn(100, 100, requires_grad=True)
            loss = (x @ x).tanh().softmax(-1).sum()
            loss.backward()
            del x, loss
        y = md.randn(100, 100, requires_grad=True)
        graph = (y * y).exp()
        del y, graph
        assert md.memory_stats()["in_use_bytes"] == before
    finally:
        gc.enable()


def test_saved_activations_are_freed_as_backward_goes():
    x = md.randn(1000, requires_grad=True)
    y = x.exp()
    saved = weakref.ref(y.array)
    z = y.sum()
    del y
    assert saved() is not None
    z.backward()
    assert saved() is None


def test_a_second_backward_needs_retain_graph():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8
    with pytest.raises(errors.GradientError, match="retain_graph=True"):
        y.backward()


def test_backward_of_something_without_a_graph():
    with pytest.raises(errors.GradientError, match="does not require a gradient"):
        md.ones(1).backward()
    with pytest.raises(errors.GradientError, match=r"shape \(3,\)"):
        (leaf(1.0, 2.0, 3.0) * 2).backward()
    with pytest.raises(NotImplementedError, match="create_graph"):
        leaf(1.0).backward(create_graph=True)


# ------------------------------------------------------------------------------ hooks, retained

def test_hooks_see_and_replace_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    assert seen == [[1, 1]]
    np.testing.assert_array_equal(x.grad.numpy(), [20, 20])
    handle.remove()
    x.grad = None
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2])


def test_a_leaf_hook_runs_once_on_the_whole_sum():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()) or g * 2)
    (x * 3 + x * 4).backward()
    assert seen == [7] and x.grad.item() == 14


def test_retain_grad_keeps_inner_gradients():
    x = leaf(3.0)
    y = x * 2
    y.retain_grad()
    (y * y).backward()
    assert y.grad.item() == 12
    assert (x * 2).grad is None


# -------------------------------------------------------------------------------- in-place ops

def test_in_place_ops_keep_the_graph_right():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.mul_(y)
    y += 1
    y[0] = 5.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 4])
    np.testing.assert_array_equal(y.detach().numpy(), [5, 5])


def test_gradient_reaches_an_assigned_value():
    v = leaf(3.0)
    y = md.zeros(3, dtype=md.float64)
    y[1] = v[0] * 2
    (y * md.tensor([1.0, 10.0, 100.0], dtype=md.float64)).sum().backward()
    assert v.grad.item() == 20


def test_overwriting_a_saved_tensor_names_tensor_and_op():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y * y
    y.add_(1)
    with pytest.raises(errors.GradientError, match=r"shape \(2,\).*mul saved.*in-place add_"):
        z.sum().backward()


def test_overwriting_what_nobody_saved_is_fine():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y + 1
    y.add_(5)
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2])


def test_overwriting_through_a_view_or_foreign_memory_is_noticed():
    memory = np.ones((2, 2))
    shared = md.from_numpy(memory)
    w = md.ones(2, 2, dtype=md.float64).requires_grad_()
    z = (shared * w).sum()
    shared[0].fill_(3)
    with pytest.raises(errors.GradientError, match="fill_"):
        z.backward()


def test_leaves_and_read_only_memory_are_protected():
    x = leaf(1.0, 2.0)
    with pytest.raises(errors.GradientError, match="leaf tensor"):
        x.add_(1)
    with md.no_grad():
        x.add_(1)
    np.testing.assert_array_equal(x.detach().numpy(), [2, 3])
    with pytest.raises(errors.ArgumentError, match="read-only"):
        md.ones(1).expand(3).add_(1)


def test_in_place_results_must_fit():
    with pytest.raises(errors.ShapeError, match="add_"):
        md.ones(1).add_(md.ones(3))
    with pytest.raises(errors.DTypeError, match="int64"):
        md.ones(2, dtype=md.int64).add_(0.5)


# ----------------------------------------------------------------------------------- grad modes

def test_grad_modes_nest_and_decorate():
    x = leaf(1.0)
    with md.no_grad():
        assert not (x * 2).requires_grad
        with md.enable_grad():
            assert (x * 2).requires_grad
        assert not md.is_grad_enabled()
    assert md.is_grad_enabled()

    @md.no_grad()
    def quiet(t):
        return t * 2

    @md.inference_mode
    def also_quiet(t):
        return t * 2

    assert not quiet(x).requires_grad and not also_quiet(x).requires_grad
    with md.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_grad_mode_is_restored_after_an_error_and_private_to_a_thread():
    with pytest.raises(ZeroDivisionError), md.no_grad():
        raise ZeroDivisionError
    assert md.is_grad_enabled()
    seen = []
    with md.no_grad():
        thread = threading.Thread(target=lambda: seen.append(md.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_requires_grad_rules():
    with pytest.raises(errors.DTypeError, match="int64"):
        md.ones(2, dtype=md.int64).requires_grad_()
    with pytest.raises(errors.GradientError, match="detach"):
        (leaf(1.0) * 2).requires_grad = False
    assert not (leaf(1.0) * 2).detach().requires_grad


# ------------------------------------------------------------------- Function, recompute, checks

class Scale(md.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x * ctx.factor, None


def test_a_function_of_ones_own():
    x = leaf(1.0, 2.0)
    Scale.apply(x, 3.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [6, 12])
    assert md.autograd.gradcheck(lambda t: Scale.apply(t, 0.5), (leaf(1.0, -2.0),))


def test_a_function_with_a_wrong_backward_is_told_so():
    class Wrong(Scale):
        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(errors.GradientError, match="1 gradients for 2 arguments"):
        Wrong.apply(leaf(1.0), 2.0).backward()


def test_recompute_gives_the_same_gradients_with_less_memory():
    md.manual_seed(0)
    model = md.nn.Sequential(*(m for _ in range(4) for m in (
        md.nn.Linear(64, 64), md.nn.GELU(), md.nn.Dropout(0.3))))
    x = md.randn(256, 64)
    results, peaks = [], []
    for run in (model, lambda t: md.autograd.recompute(model, t)):
        md.manual_seed(7)
        model.zero_grad()
        inp = x.clone().requires_grad_()
        start = md.memory_stats()["in_use_bytes"]
        out = run(inp)
        peaks.append(md.memory_stats()["in_use_bytes"] - start)
        out.square().sum().backward()
        results.append([inp.grad.numpy(), *(p.grad.numpy().copy() for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    assert peaks[1] < peaks[0] / 3


def test_gradcheck_finds_a_wrong_gradient():
    class Wrong(Scale):
        @staticmethod
        def backward(ctx, g):
            return g, None

    with pytest.raises(errors.GradientError, match="off by"):
        md.autograd.gradcheck(lambda t: Wrong.apply(t, 3.0), (leaf(1.0),))
    assert not md.autograd.gradcheck(lambda t: Wrong.apply(t, 3.0), (leaf(1.0),),
                                     raise_exception=False)
    with pytest.raises(errors.DTypeError, match="float64"):
        md.autograd.gradcheck(lambda t: t, (md.ones(1, requires_grad=True),))


def test_detect_nonfinite_names_the_first_op():
    x = md.tensor([0.0, 1.0])
    with md.autograd.detect_nonfinite(), pytest.raises(errors.NonFiniteError, match=r"^log "):
        (x + 1).log().sub(x.log()).exp()
    x.log()
