"""PyTorch's own sample inputs of its functions, run through nn.functional by name.

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
    from torch.testing._internal.common_methods_invocations import op_db

F = md.nn.functional
OPS = {}
for info in op_db:
    name = info.name.removeprefix("nn.functional.")
    if info.name != name and hasattr(F, name) and info.variant_test_name != "complex":
        OPS[f"{name} {info.variant_test_name}".strip()] = info
REFUSED = {  # what samples minidl refuses, by the sentence it refuses them with
    "embedding": "max_norm|sparse|scale_grad_by_freq",
    "pad": "pads the last",
}
ROUGH = {"hardsigmoid"}  # PyTorch's float64 hardsigmoid multiplies by 1/6 in float32
RANDOM = {"dropout", "scaled_dot_product_attention"}
SIZE_LIMIT = 20_000  # some samples check speed, not numbers


def is_random(name, kwargs):
    return name in RANDOM and (kwargs.get("p", 0.5) or kwargs.get("dropout_p")) not in (0, None)


def run(function, sample):
    return function(sample.input, *sample.args, **sample.kwargs)


def gradients(output, inputs):
    for x in inputs:
        x.grad = None  # samples may share tensors
    loss = total(output)
    if loss.requires_grad:
        loss.backward()
    return [x.grad for x in inputs if x.requires_grad]


def tensors(sample, kind):
    values = [sample.input, *sample.args, *sample.kwargs.values()]
    return [v for v in values if isinstance(v, kind)]


def converted(sample):
    args = ours(tuple(sample.args))
    return type(sample)(ours(sample.input), args=args, kwargs=ours(sample.kwargs))


def function(name):
    """minidl's function with the order of arguments that PyTorch's samples have."""
    if name == "embedding":
        return lambda weight, ids, **kwargs: F.embedding(ids, weight, **kwargs)
    return getattr(F, name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(OPS))
def test_samples(name, dtype):
    info = OPS[name]
    function_name = name.split(" ")[0]
    dtype = getattr(torch, dtype)
    if dtype not in info.supported_dtypes("cpu"):
        dtype = torch.int64
    if name in ROUGH and dtype == torch.float64:
        pytest.skip("PyTorch's own float64 is only float32")
    mine = function(function_name)
    same = 0
    for sample in info.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point):
        if sum(t.numel() for t in tensors(sample, torch.Tensor)) > SIZE_LIMIT:
            continue
        own = converted(sample)
        try:
            actual = run(mine, own)
        except (NotImplementedError, TypeError) as error:
            pattern = REFUSED.get(function_name)
            assert pattern and re.search(pattern, str(error)), f"{sample.summary()}: {error}"
            continue
        if not is_random(function_name, sample.kwargs):
            expected = run(info.op, sample)
            assert_same(actual, expected, f"{name} {sample.summary()}")
            theirs = gradients(expected, tensors(sample, torch.Tensor))
            ours_ = gradients(actual, tensors(own, md.Tensor))
            assert_same(ours_, theirs, f"gradients of {name} {sample.summary()}")
        same += 1
    assert same, "no sample was compared"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", sorted(name for name, info in OPS.items() if info.error_inputs_func is not None)
)
def test_error_inputs(name):
    for error_input in OPS[name].error_inputs("cpu"):
        with pytest.raises(Exception) as caught:
            run(function(name.split(" ")[0]), converted(error_input.sample_input))
        assert len(str(caught.value)) > 15, error_input.sample_input.summary()
