"""Run a minidl module beside PyTorch's: same arguments, same state, same inputs."""

import numpy as np
import pytest

import minidl as md

torch = pytest.importorskip("torch", reason="compares with PyTorch")

TOLERANCE = {"float32": {"rtol": 2e-4, "atol": 5e-5}, "float64": {"rtol": 1e-8, "atol": 1e-9}}


def ours(value):
    """PyTorch's tensors inside ``value`` as minidl's; everything else as it is."""
    if isinstance(value, torch.Tensor):
        tensor = md.from_numpy(value.detach().numpy().copy())
        return tensor.requires_grad_() if value.requires_grad else tensor
    if isinstance(value, torch.dtype):
        return getattr(md, str(value).split(".")[-1])
    if isinstance(value, (list, tuple)):
        return type(value)(ours(item) for item in value)
    if isinstance(value, dict):
        return {key: ours(item) for key, item in value.items()}
    return value


def assert_same(mine, theirs, what="output"):
    """Equal values, shapes and dtypes, in tensors and tuples of them."""
    if theirs is None:
        assert mine is None, f"{what}: PyTorch returns None"
        return
    if isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs), what
        for i, pair in enumerate(zip(mine, theirs, strict=True)):
            assert_same(*pair, f"{what}[{i}]")
        return
    expected = theirs.detach().numpy()
    actual = mine.detach().numpy()
    assert actual.shape == expected.shape, f"{what}: {actual.shape} for {expected.shape}"
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} for {expected.dtype}"
    tolerance = TOLERANCE.get(expected.dtype.name, {})
    np.testing.assert_allclose(actual, expected, err_msg=what, **tolerance)


def inputs_like(values, dtype):
    """Fresh leaf tensors of PyTorch: floating ones in ``dtype`` and with gradients."""
    result = []
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value = value.detach().to(dtype).clone().requires_grad_()
        result.append(value)
    return result


def total(output):
    """A number that depends on every element of every output, to differentiate."""
    outputs = output if isinstance(output, (list, tuple)) else [output]
    parts = []
    for out in outputs:
        if out is not None:
            count = int(np.prod(out.shape))
            factors = np.cos(np.arange(count, dtype=np.float64)).reshape(tuple(out.shape))
            factors = factors.astype(np.float32 if "32" in str(out.dtype) else np.float64)
            is_torch = isinstance(out, torch.Tensor)
            factors = torch.from_numpy(factors) if is_torch else md.from_numpy(factors)
            parts.append((out * factors).sum())
    return sum(parts[1:], parts[0])


def check_call(mine, theirs, inputs, keywords=None, what=""):
    """Same outputs, and same gradients of the inputs, of two callables."""
    keywords = keywords or {}
    my_inputs, my_keywords = ours(list(inputs)), ours(keywords)
    expected = theirs(*inputs, **keywords)
    actual = mine(*my_inputs, **my_keywords)
    assert_same(actual, expected, f"{what} output")
    loss = total(expected)
    if not loss.requires_grad:
        return
    loss.backward()
    total(actual).backward()
    everything = zip(my_inputs, inputs, strict=True)
    for i, (my_input, their_input) in enumerate(everything):
        if isinstance(their_input, torch.Tensor) and their_input.requires_grad:
            assert_same(my_input.grad, their_input.grad, f"{what} gradient of input {i}")


def pair(name, *args, dtype=None, **kwargs):
    """A module of minidl and PyTorch's of the same name with the same state."""
    dtype = torch.float32 if dtype is None else dtype
    theirs = getattr(torch.nn, name)(*args, **kwargs).to(dtype)
    mine = getattr(md.nn, name)(*ours(args), **ours(kwargs)).to(ours(dtype))
    their_state = theirs.state_dict()
    assert list(mine.state_dict()) == list(their_state), "names of the state dict"
    mine.load_state_dict(their_state)
    return mine, theirs


def check_module(name, args, kwargs, inputs, keywords=None, dtypes=("float32", "float64")):
    """Outputs and all gradients in both dtypes, in training and evaluation mode."""
    for dtype_name in dtypes:
        dtype = getattr(torch, dtype_name)
        for training in (True, False):
            mine, theirs = pair(name, *args, dtype=dtype, **kwargs)
            mine.train(training)
            theirs.train(training)
            what = f"{name}{args} {kwargs} {dtype_name} {'train' if training else 'eval'}"
            check_call(mine, theirs, inputs_like(inputs, dtype), keywords, what)
            mine_params, their_params = dict(mine.named_parameters()), theirs.named_parameters()
            for param_name, param in their_params:
                assert_same(mine_params[param_name].grad, param.grad, f"{what} {param_name}")
