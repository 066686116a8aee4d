"""Gradients by hand: grad, gradcheck, recompute and operations of one's own."""

import numpy as np

from minidl import dtypes, errors
from minidl._core import Tensor, detect_nonfinite_enabled, op, run_backward
from minidl.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from minidl_kernels import ARRAYS

__all__ = [
    "Function", "detect_nonfinite", "enable_grad", "grad", "gradcheck", "inference_mode",
    "is_grad_enabled", "no_grad", "recompute", "set_grad_enabled",
]


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False,
         allow_unused=False):
    """The gradients of (the sum of) outputs with respect to inputs, leaving every .grad alone.

    >>> import minidl as md
    >>> x = md.tensor(3.0, requires_grad=True)
    >>> md.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if create_graph:
        raise errors.UnsupportedError("grad: create_graph=True (gradients of gradients) is not "
                                      "supported")
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if grad_outputs is None or isinstance(grad_outputs, Tensor):
        grad_outputs = [grad_outputs] * len(outputs)
    arrays = run_backward(outputs, list(grad_outputs), bool(retain_graph), inputs, False)
    for i, array in enumerate(arrays):
        if array is None and not allow_unused:
            raise errors.GradientError(f"grad: input {i} was not used to compute the outputs; pass "
                                       "allow_unused=True to get None for it")
    return tuple(None if array is None else Tensor(array) for array in arrays)


# ------------------------------------------------------------------------------------ Function

class FunctionContext:
    """What forward leaves for backward: save_for_backward(...), or any attribute."""

    def save_for_backward(self, *tensors):
        self._saved = tensors

    @property
    def saved_tensors(self):
        return getattr(self, "_saved", ())

    def mark_non_differentiable(self, *tensors):
        """Accepted for PyTorch's sake: integer results never take gradients here."""


class Function:
    """An operation with a gradient of your own.

    >>> import minidl as md
    >>> class Cube(md.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3 * x * x
    >>> x = md.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(ctx, *args):
        raise NotImplementedError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("a Function needs a static method backward(ctx, *grads)")

    @classmethod
    def apply(cls, *args):
        """Run forward and record backward."""
        made = cls.__dict__.get("_op")
        if made is None:
            made = cls._op = _custom(cls.__name__, cls.forward, cls.backward)
        return made(*args)


def _custom(name, forward, backward):
    """An op around a user's forward and backward, which see tensors."""
    def fn(be, *arrays):
        ctx = FunctionContext()
        args = [Tensor(a) if isinstance(a, ARRAYS) else a for a in arrays]
        with no_grad():
            out = forward(ctx, *args)
        several = isinstance(out, (tuple, list))
        ctx.needs_input_grad = tuple(isinstance(a, ARRAYS) for a in arrays)

        def vjp(g, need):
            ctx.needs_input_grad = need
            gs = tuple(None if x is None else Tensor(x) for x in (g if several else (g,)))
            with no_grad():
                grads = backward(ctx, *gs)
            grads = grads if isinstance(grads, (tuple, list)) else (grads,)
            if len(grads) != len(arrays):
                raise errors.GradientError(f"{name}.backward returned {len(grads)} gradients for "
                                           f"{len(arrays)} arguments of forward")
            return tuple(_checked(name, i, x, a) for i, (x, a)
                         in enumerate(zip(grads, arrays, strict=True)))

        return (tuple(x.array for x in out) if several else out.array), vjp

    fn.__name__ = name
    return op(fn, method=False)


def _checked(name, i, gradient, argument):
    if gradient is None:
        return None
    if not isinstance(gradient, Tensor) or gradient.shape != argument.shape:
        raise errors.GradientError(
            f"{name}.backward: gradient {i} must be a tensor of shape {np.shape(argument)}, got "
            + (f"shape {gradient.shape}" if isinstance(gradient, Tensor)
               else type(gradient).__name__))
    return gradient.array


# ----------------------------------------------------------------------------------- recompute

def recompute(fn, *args):
    """fn(*args) without keeping what it saves: backward runs it again. Same gradients, less memory.

    Gradients reach the tensors among `args` and every leaf (parameter) that fn uses. Random numbers
    (dropout) are drawn again from the same state.

    >>> import minidl as md
    >>> x = md.ones(3, requires_grad=True)
    >>> md.autograd.recompute(lambda t: (t * 2).exp(), x).sum().backward()
    """
    from minidl.ops.generator import default_generator

    if not is_grad_enabled():
        return fn(*args)
    state = default_generator.get_state()
    with no_grad():
        out = fn(*args)
    first = out[0] if isinstance(out, (tuple, list)) else out
    anchor = first.new_zeros((), dtype=dtypes.float32, requires_grad=True)  # records in any case

    def replay(be, anchor, *arrays):
        several = isinstance(out, (tuple, list))

        def vjp(g, need):
            now = default_generator.get_state()
            default_generator.set_state(state)
            inputs = [Tensor(a, requires_grad=n) if isinstance(a, ARRAYS) else a
                      for a, n in zip(arrays, need[1:], strict=True)]
            try:
                with enable_grad():
                    again = fn(*inputs)
            finally:
                default_generator.set_state(now)
            pairs = [(y, Tensor(d)) for y, d in zip(again if several else (again,),
                                                    g if several else (g,), strict=True)
                     if d is not None and y.requires_grad]
            if pairs:
                run_backward([y for y, _ in pairs], [d for _, d in pairs], False, None, True)
            return (None, *(x.grad.array if isinstance(x, Tensor) and x.grad is not None else None
                            for x in inputs))

        return (tuple(y.array for y in out) if several else out.array), vjp

    replay.__name__ = "recompute"
    return op(replay, method=False)(anchor, *args)


# ------------------------------------------------------------------------------------- checking

def gradcheck(fn, inputs, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """Compare backward() with finite differences for every element of every float64 input.

    >>> import minidl as md
    >>> x = md.randn(3, dtype=md.float64, requires_grad=True)
    >>> md.autograd.gradcheck(lambda t: t.exp().sum(), (x,))
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    watched = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not watched:
        raise errors.ArgumentError("gradcheck: no input requires a gradient")
    if any(x.dtype.name != "float64" for x in watched):
        raise errors.DTypeError("gradcheck: inputs must be float64, finite differences in float32 "
                                "are too coarse")
    outputs = fn(*inputs)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    rng = np.random.default_rng(0)
    for k, out in enumerate(outputs):
        if not out.requires_grad:
            continue
        cotangent = rng.standard_normal(out.shape)
        found = grad(out, watched, Tensor(cotangent), retain_graph=True, allow_unused=True)
        for i, x in enumerate(watched):
            exact = np.zeros(x.shape) if found[i] is None else found[i].array
            numeric = _numeric(fn, inputs, x, k, cotangent, eps)
            if not np.allclose(exact, numeric, atol=atol, rtol=rtol):
                if not raise_exception:
                    return False
                worst = np.abs(exact - numeric).max()
                raise errors.GradientError(f"gradcheck: gradient of output {k} with respect to "
                                           f"input {i} is off by up to {worst:.3g}")
    return True


def _numeric(fn, inputs, x, k, cotangent, eps):
    """Central differences of <cotangent, output k> in every element of x."""
    result = np.zeros(x.shape)
    flat = x.array.reshape(-1) if x.array.flags.c_contiguous else None
    if flat is None:
        raise errors.ArgumentError("gradcheck: inputs must be contiguous")
    with no_grad():
        for j in range(flat.size):
            before = flat[j]
            values = []
            for step in (eps, -eps):
                flat[j] = before + step
                out = fn(*inputs)
                out = out if isinstance(out, Tensor) else out[k]
                values.append(float((out.array * cotangent).sum()))
            flat[j] = before
            result.reshape(-1)[j] = (values[0] - values[1]) / (2 * eps)
    return result


class detect_nonfinite:
    """Inside, the first op whose result holds NaN or inf raises NonFiniteError and names itself.

    >>> import minidl as md
    >>> with md.autograd.detect_nonfinite():
    ...     md.tensor([0.0]).log()
    Traceback (most recent call last):
    minidl.errors.NonFiniteError: log produced NaN or inf in a result of shape (1,) ...
    """

    def __enter__(self):
        self._before = detect_nonfinite_enabled(True)
        return self

    def __exit__(self, *exc):
        detect_nonfinite_enabled(self._before)


