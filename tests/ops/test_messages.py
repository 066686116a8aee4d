"""What the ops on shapes, indices and joins say when something does not fit."""

import pytest

import minidl as md

ids = md.tensor([[0, 5]])


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: md.zeros(6).reshape(4, -1), ValueError,
     r"reshape: 6 elements \(shape \(6,\)\) do not divide into shape \(4, -1\)"),
    (lambda: md.zeros(6).reshape(5), ValueError,
     r"reshape: shape \(5,\) has 5 elements, the tensor of shape \(6,\) has 6"),
    (lambda: md.zeros(6).view(-1, -1), ValueError, "at most one -1"),
    (lambda: md.zeros(6).view(-2, 3), ValueError, "sizes must be non-negative"),
    (lambda: md.zeros(6).reshape(2.0, 3), TypeError, "a size must be an integer, got 2.0"),
    (lambda: md.zeros(2).view(md.int32), NotImplementedError, r"convert with \.to\(dtype\)"),
    (lambda: md.zeros(2, 3).expand(4, 3), ValueError,
     r"expand: shape \(2, 3\) does not expand to \(4, 3\)"),
    (lambda: md.zeros(2, 3).permute(0), ValueError, "permute: 1 dims for a tensor of 2"),
    (lambda: md.zeros(2, 3).permute(0, 0), ValueError, "a dim appears twice"),
    (lambda: md.zeros(2, 3).transpose(0, 2), IndexError, "transpose: dim 2 is out of range"),
    (lambda: md.zeros(2, 3, 4).t(), ValueError, "t: expected at most 2 dimensions"),
    (lambda: md.zeros(3).mT, ValueError, r"\.mT: expected at least 2 dimensions"),
    (lambda: md.cat([]), ValueError, "cat: expected a non-empty list"),
    (lambda: md.cat(md.zeros(2)), TypeError, "cat: expected a list or tuple of tensors"),
    (lambda: md.cat([md.zeros(2), 3]), TypeError, "found int in it"),
    (lambda: md.cat([md.zeros(2, 3), md.zeros(3, 2)]), ValueError,
     r"cat: shapes \(2, 3\) and \(3, 2\) differ in more than dim 0"),
    (lambda: md.cat([md.tensor(1)]), ValueError, "0-d tensors cannot be joined; use stack"),
    (lambda: md.stack([md.zeros(2), md.zeros(3)]), ValueError, "expected tensors of one shape"),
    (lambda: md.zeros(7).split([3, 3]), ValueError,
     r"split: the sizes \(3, 3\) do not add up to 7, the size of dim 0"),
    (lambda: md.zeros(7).split(-1), ValueError, "split_size must be positive, got -1"),
    (lambda: md.zeros(7).chunk(0), ValueError, "at least one dimension and one chunk"),
    (lambda: md.zeros(2, 3).narrow(1, 2, 2), IndexError, "narrow: start 2 and length 2 do not fit"),
    (lambda: md.zeros(2, 3).repeat(2), ValueError, "repeat: expected a non-negative count for"),
    (lambda: md.zeros(2, 3).gather(1, ids), IndexError,
     r"gather: index 5 is out of range for dim 1 of size 3 \(shape \(2, 3\)\)"),
    (lambda: md.zeros(2, 3).gather(1, ids.float()), TypeError, "index must be an int64 tensor"),
    (lambda: md.zeros(2, 3).gather(1, [0]), TypeError,
     "argument 'index' must be a tensor, got list"),
    (lambda: md.zeros(2, 3).gather(1, md.tensor([0])), ValueError, "must have as many dims"),
    (lambda: md.zeros(3).scatter(0, md.tensor([0]), 1.0, "add"), NotImplementedError,
     "use scatter_add"),
    (lambda: md.zeros(3).scatter_add(0, md.tensor([0]), md.ones(1, dtype=md.float64)), TypeError,
     "scatter_add: src is float64, the tensor float32"),
    (lambda: md.zeros(3).index_add(0, md.tensor([0]), md.ones(2)), ValueError,
     r"the source has shape \(2,\), expected \(1,\)"),
    (lambda: md.zeros(3).masked_fill(md.tensor([1, 0, 1]), 0), TypeError,
     "masked_fill: mask must be a bool tensor, got int64"),
    (lambda: md.arange(3).masked_fill(md.tensor([True]), float("-inf")), ValueError,
     "-inf does not fit int64"),
    (lambda: md.zeros(3).masked_fill_(md.ones(2, 3).bool(), 0), ValueError, "masked_fill_: "),
    (lambda: md.zeros(3).tril(), ValueError, "tril: expected at least 2 dimensions"),
    (lambda: md.ones(1).expand(3).add_(1), ValueError, r"read-only .* use \.clone\(\) first"),
])
def test_messages(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
