"""PyTorch's own sample inputs of its modules, run through minidl's modules of the same names.

Every sample gives the same numbers and gradients, or an exception that says what is not supported;
its error inputs raise.
"""

import re
import warnings

import pytest

from .compare import assert_same, md, ours, torch, total

pytest.importorskip("expecttest", reason="PyTorch's sample inputs need the package expecttest")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

MODULES = {info.name.removeprefix("nn."): info for info in module_db}
COVERED = sorted(name for name in MODULES if hasattr(md.nn, name))
REFUSED = {  # what samples minidl refuses, by the sentence it refuses them with
    "Embedding": "max_norm|sparse|scale_grad_by_freq",
}


def converted(value):
    """``ours``, and PyTorch's functions and encoder layers as minidl's too."""
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        attention = value.self_attn
        layer = md.nn.TransformerEncoderLayer(
            attention.embed_dim,
            attention.num_heads,
            value.linear1.out_features,
            value.dropout.p,
            converted(value.activation),
            value.norm1.eps,
            attention.batch_first,
            value.norm_first,
            value.linear1.bias is not None,
        )
        layer.load_state_dict(value.state_dict())
        return layer
    if callable(value) and hasattr(value, "__name__") and hasattr(md.nn.functional, value.__name__):
        return getattr(md.nn.functional, value.__name__)
    if isinstance(value, (list, tuple)):
        return type(value)(converted(item) for item in value)
    if isinstance(value, dict):
        return {key: converted(item) for key, item in value.items()}
    return ours(value)


def samples(info, dtype, training):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        )


def run_ours(info, sample, theirs, dtype, training):
    args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
    mine = getattr(md.nn, info.name.removeprefix("nn."))(*converted(args), **converted(kwargs))
    mine = mine.to(ours(dtype)).train(training)
    mine.load_state_dict(theirs.state_dict())
    inputs = converted(sample.forward_input.args)
    keywords = converted(sample.forward_input.kwargs)
    return mine, inputs, mine(*inputs, **keywords)


def compare_gradients(mine, theirs, my_inputs, inputs, actual, expected):
    loss = total(expected)
    if not loss.requires_grad:
        return
    loss.backward()
    total(actual).backward()
    for i, (a, b) in enumerate(zip(my_inputs, inputs, strict=True)):
        if isinstance(b, torch.Tensor) and b.grad is not None:
            assert_same(a.grad, b.grad, f"gradient of input {i}")
    params = dict(mine.named_parameters())
    for name, param in theirs.named_parameters():
        assert_same(params[name].grad, param.grad, f"gradient of {name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", COVERED)
def test_samples(name, dtype, training):
    info, dtype = MODULES[name], getattr(torch, dtype)
    same = 0
    for sample in samples(info, dtype, training):
        args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
        theirs = info.module_cls(*args, **kwargs).to(dtype).train(training)
        inputs, keywords = sample.forward_input.args, sample.forward_input.kwargs
        try:
            mine, my_inputs, actual = run_ours(info, sample, theirs, dtype, training)
        except (NotImplementedError, TypeError) as error:
            assert name in REFUSED and re.search(REFUSED[name], str(error)), str(error)
            continue
        expected = theirs(*inputs, **keywords)
        assert_same(actual, expected, f"{name} {sample.desc} {args} {kwargs}")
        compare_gradients(mine, theirs, my_inputs, inputs, actual, expected)
        same += 1
    assert same, "no sample was compared"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [n for n in COVERED if MODULES[n].module_error_inputs_func is not None]
)
def test_error_inputs(name):
    info = MODULES[name]
    inputs = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    )
    for error_input in inputs:
        sample = error_input.module_error_input
        args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
        kinds = (error_input.error_type, NotImplementedError, TypeError)
        make = getattr(md.nn, name)
        if error_input.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR:
            with pytest.raises(kinds) as caught:
                make(*converted(args), **converted(kwargs))
        else:
            module = make(*converted(args), **converted(kwargs))
            forward = sample.forward_input
            with pytest.raises(kinds) as caught:
                module(*converted(forward.args), **converted(forward.kwargs))
        assert len(str(caught.value)) > 20, "a sentence"
