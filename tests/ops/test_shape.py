"""Views share memory, splits join their gradients for free, and shapes follow PyTorch's rules."""

import numpy as np
import pytest

import minidl as md


def shares(a, b):
    return np.shares_memory(a.detach().numpy(), b.detach().numpy())


VIEWS = {
    "view": lambda x: x.view(4, 6), "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.flatten(1), "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1), "expand": lambda x: x[:1].expand(5, 3, 4),
    "transpose": lambda x: x.transpose(0, 2), "permute": lambda x: x.permute(2, 0, 1),
    "movedim": lambda x: x.movedim(0, -1), "T": lambda x: x[0].T, "mT": lambda x: x.mT,
    "select": lambda x: x.select(1, 2), "narrow": lambda x: x.narrow(2, 1, 2),
    "diagonal": lambda x: x.diagonal(0, 1, 2), "split": lambda x: x.split(2, 2)[1],
    "chunk": lambda x: x.chunk(2, 1)[0], "unbind": lambda x: x.unbind(1)[2],
    "slice": lambda x: x[:, 1:, ::2], "int": lambda x: x[1], "element": lambda x: x[1, 2, 3],
    "none": lambda x: x[None, ..., 1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_shares_memory(name):
    x = md.arange(24).reshape(2, 3, 4).float()
    assert shares(VIEWS[name](x), x)


COPIES = {"clone": lambda x: x.clone(), "flip": lambda x: x.flip(0), "index": lambda x: x[[0, 1]],
          "mask": lambda x: x[x > 3], "repeat": lambda x: x.repeat(1, 1, 1),
          "reshape": lambda x: x.mT.reshape(-1), "contiguous": lambda x: x.mT.contiguous()}


@pytest.mark.parametrize("name", COPIES)
def test_copy_does_not_share_memory(name):
    x = md.arange(24).reshape(2, 3, 4).float()
    assert not shares(COPIES[name](x), x)


def test_view_refuses_to_copy():
    x = md.zeros(2, 3).T
    with pytest.raises(md.errors.ShapeError, match=r"view: .* without a copy; use \.reshape"):
        x.view(6)
    assert x.reshape(6).shape == (6,)


def test_contiguous_is_the_tensor_itself():
    x = md.zeros(2, 3)
    assert x.contiguous() is x
    assert x.T.contiguous().is_contiguous()


@pytest.mark.parametrize(("call", "shape"), [
    (lambda x: x.reshape(3, -1), (3, 4)), (lambda x: x.reshape((2, 6)), (2, 6)),
    (lambda x: x.reshape([12]), (12,)), (lambda x: x.reshape(shape=(4, 3)), (4, 3)),
    (lambda x: x.view(-1), (12,)), (lambda x: x.expand(2, -1, -1), (2, 3, 4)),
    (lambda x: x.expand(size=(2, 3, 4)), (2, 3, 4)), (lambda x: x.permute((1, 0)), (4, 3)),
    (lambda x: x.permute(dims=(1, 0)), (4, 3)), (lambda x: x.unsqueeze(-3), (1, 3, 4)),
    (lambda x: x.repeat(2, 1, 3), (2, 3, 12)), (lambda x: x.tile((2,)), (3, 8)),
])
def test_forms_of_a_call(call, shape):
    assert call(md.zeros(3, 4)).shape == shape


def packed_gradient(parts, shape, d):
    """What split's vjp makes of gradients that are pieces of one buffer."""
    x = md.zeros(*shape, requires_grad=True)
    pieces = x.split([p.shape[d] for p in parts], dim=d)
    for piece in pieces:
        assert piece.requires_grad
    return md.autograd.grad(pieces, [x], [md.from_numpy(p) for p in parts])[0].numpy()


def test_split_returns_the_common_base_for_free():
    whole = np.arange(24, dtype=np.float32).reshape(2, 12)
    got = packed_gradient([whole[:, :4], whole[:, 4:8], whole[:, 8:]], (2, 12), 1)
    assert np.shares_memory(got, whole)
    np.testing.assert_array_equal(got, whole)


def test_split_joins_gradients_that_only_look_like_one_buffer():
    whole = np.arange(24, dtype=np.float32).reshape(2, 12)
    got = packed_gradient([whole[:, 4:8], whole[:, :4], whole[:, 8:]], (2, 12), 1)
    assert not np.shares_memory(got, whole)
    np.testing.assert_array_equal(got, np.concatenate([whole[:, 4:8], whole[:, :4], whole[:, 8:]],
                                                      1))
    other = np.ones((2, 4), np.float32)
    got = packed_gradient([whole[:, :4], other, whole[:, 8:]], (2, 12), 1)
    np.testing.assert_array_equal(got[:, 4:8], 1)


def test_split_part_without_gradient_gets_zeros():
    x = md.ones(2, 6, requires_grad=True)
    _, b, _ = x.split(2, dim=1)
    (b * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0, 3, 3, 0, 0]] * 2)


def test_unbind_of_an_empty_dim_is_empty():
    assert md.zeros(0, 3).unbind(0) == ()


def test_cat_promotes_and_skips_the_legacy_empty():
    out = md.cat([md.tensor([]), md.ones(2, 2, dtype=md.int64), md.zeros(1, 2)])
    assert out.shape == (3, 2) and out.dtype is md.float32


def test_half_tensors_can_be_moved_but_not_computed_with():
    x = md.ones(2, 3).half()
    assert x.T.reshape(6)[2:].clone().dtype is md.float16
    assert md.cat([x, x]).dtype is md.float16
    with pytest.raises(TypeError, match=r"float16 is a storage dtype; convert .* with \.float"):
        x + x


def test_bfloat16_keeps_the_gradient():
    pytest.importorskip("ml_dtypes")
    x = md.tensor([1.0, 2.0], requires_grad=True)
    (x.bfloat16().float() * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3, 3])


@pytest.mark.parametrize("dtype", [md.bfloat16, md.float16])
def test_gradients_of_storage_dtypes_are_summed_wider(dtype):
    """One by one, bfloat16's sum of ones would end at 256."""
    x = md.ones(1, dtype=dtype).requires_grad_()
    x.expand(2000).backward(md.ones(2000, dtype=dtype))
    assert x.grad.float().item() == 2000


def test_multinomial_draws_by_bfloat16_weights():
    assert md.multinomial(md.tensor([0, 1, 0], dtype=md.bfloat16), 1).tolist() == [1]
