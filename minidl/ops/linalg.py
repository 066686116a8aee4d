"""Matrix products: matmul and everything that reduces to it."""

import numpy as np

from minidl import errors
from minidl._core import op
from minidl.ops.promotion import check_broadcast

__all__ = ["addmm", "bmm", "dot", "einsum", "linear",
           "linear_activation", "linear_add", "matmul", "mm", "mv", "outer"]


def _same_dtype(name, a, b):
    if a.dtype != b.dtype:
        raise errors.DTypeError(f"{name}: both tensors must have one dtype, got {a.dtype} and "
                                f"{b.dtype}; convert one with .to(dtype)")
    if a.dtype.kind == "b":
        raise errors.UnsupportedError(f"{name}: not defined for bool tensors")


def _reshaped(be, x, shape):
    return be.contiguous(x).reshape(shape)


@op
def matmul(be, input, other):
    """The matrix product input @ other, batch axes broadcast as in NumPy.

    [M, K] @ [K, N] -> [M, N]; a 1-D operand counts as a row on the left and a column on the right.

    >>> import minidl as md
    >>> (md.ones(2, 3) @ md.ones(3, 4)).shape
    (2, 4)
    """
    dtype, shape, other_shape = input.dtype, input.shape, other.shape
    if dtype is not other.dtype or dtype.kind != "f":
        _same_dtype("matmul", input, other)
    if len(shape) != 2 or len(other_shape) != 2:
        return _matmul_batched(be, input, other)
    if shape[1] != other_shape[0]:
        raise _do_not_fit(input, other)

    def vjp(g, need):
        return (be.matmul(g, other.swapaxes(0, 1)) if need[0] else None,
                be.linear_grad_weight(input, g) if need[1] else None)

    return be.matmul(input, other), vjp


def _do_not_fit(input, other):
    rows = other.shape[0 if other.ndim == 1 else -2]
    return errors.ShapeError(f"matmul: shapes {input.shape} and {other.shape} do not fit: "
                             f"{input.shape[-1]} columns against {rows} rows")


def _matmul_batched(be, input, other):
    """matmul() where an operand is no matrix: a vector, or several matrices."""
    if input.ndim == 0 or other.ndim == 0:
        raise errors.ShapeError("matmul: both tensors need at least one dimension, got shapes "
                                f"{input.shape} and {other.shape}; use * for numbers")
    a = input[None] if input.ndim == 1 else input
    b = other[:, None] if other.ndim == 1 else other
    if a.shape[-1] != b.shape[-2]:
        raise _do_not_fit(input, other)
    if a.shape[:-2] != b.shape[:-2]:
        check_broadcast("matmul", a.shape[:-2], b.shape[:-2])
    y = be.matmul(a, b)
    out = y
    if input.ndim == 1 or other.ndim == 1:
        shape = y.shape[:-2] + y.shape[-2:-1] * (input.ndim > 1) + y.shape[-1:] * (other.ndim > 1)
        out = y.reshape(shape)
    full = y.shape  # not y itself: the result may be overwritten

    def vjp(g, need):
        da = db = None
        g = _reshaped(be, g, full) if g.shape != full else g
        if need[0]:
            da = be.sum_to(be.matmul(g, b.swapaxes(-1, -2)), a.shape).reshape(input.shape)
        if need[1]:
            if b.ndim == 2:
                db = be.linear_grad_weight(a, g)
            else:
                db = be.sum_to(be.matmul(a.swapaxes(-1, -2), g), b.shape)
            db = db.reshape(other.shape)
        return da, db

    return out, vjp


@op(method=False)
def linear(be, input, weight, bias=None):
    """input[..., K] @ weight[N, K]^T + bias[N] -> [..., N].

    >>> import minidl as md
    >>> md.nn.functional.linear(md.ones(2, 3), md.ones(4, 3)).shape
    (2, 4)
    """
    if weight.ndim != 2:
        if weight.ndim == 1 and input.ndim >= 1:
            y, vjp = matmul.fn(be, input, weight)
            if bias is not None:
                raise errors.ShapeError("linear: a 1-D weight takes no bias")
            return y, vjp
        raise errors.ShapeError(f"linear: weight has shape {weight.shape}, expected [out, in]")
    n, k = weight.shape
    if input.ndim == 0 or input.shape[-1] != k:
        last = input.shape[-1] if input.ndim else "none"
        raise errors.ShapeError(f"linear: input has last axis {last}, expected {k} "
                                f"(input shape {input.shape})")
    dtype = input.dtype
    if weight.dtype is not dtype or dtype.kind != "f":
        _same_dtype("linear", input, weight)
    if bias is not None:
        if bias.dtype is not dtype:
            _same_dtype("linear", input, bias)
        if bias.shape != (n,):
            if bias.size != 1:
                raise errors.ShapeError(f"linear: bias has shape {bias.shape}, expected ({n},)")
            return _linear_scalar_bias(be, input, weight, bias)
    y = be.linear(input, weight, bias)

    def vjp(g, need):
        dx = dw = db = None
        if need[0]:
            dx = be.matmul(g.reshape(-1, n), weight).reshape(input.shape)
        if need[1]:
            if type(g) is not np.ndarray and len(need) > 2 and need[2]:
                dw, db = be.linear_grad_both(g, input)
                return dx, dw, db
            dw = be.linear_grad_weight(g, input)
        if len(need) > 2 and need[2]:
            db = be.sum_to(g, (n,))
        return dx, dw, db

    return y, vjp


@op(method=False)
def linear_add(be, input, weight, bias, residual):
    """residual + linear(input, weight, bias); on a device the product does it all."""
    plain, vjp = _linear_parts(be, input, weight, bias, residual)
    y = plain if plain is not None else be.linear_add(input, weight, bias, residual)

    def vjp_add(g, need):
        return *vjp(g, need[:3]), g

    return y, vjp_add


@op(method=False)
def linear_activation(be, input, weight, bias, name):
    """NAME(linear(input, weight, bias)) for gelu, gelu_tanh and silu, likewise."""
    plain, vjp = _linear_parts(be, input, weight, bias, None)
    if plain is not None:
        z, y = plain, getattr(be, name)(plain)
        return y, lambda g, need: vjp(getattr(be, name + "_grad")(g, z), need[:3])
    y, saved = be.linear_activation(name, input, weight, bias)
    return y, lambda g, need: vjp(be.linear_activation_grad(name, g, saved), need[:3])


def _linear_parts(be, input, weight, bias, residual):
    """The result of linear() on the host (with the residual), None on a device; and its vjp."""
    if input.ndim == 0 or input.shape[-1] != weight.shape[1]:
        raise errors.ShapeError(f"linear: input has last axis {input.shape[-1:]}, expected "
                                f"{weight.shape[1]} (input shape {input.shape})")
    if isinstance(input, np.ndarray):
        y, vjp = linear.fn(be, input, weight, bias)
        return (y if residual is None else be.add(y, residual)), vjp
    n = weight.shape[0]

    def vjp(g, need):
        dx = be.matmul(g.reshape(-1, n), weight).reshape(input.shape) if need[0] else None
        if not need[1]:
            return dx, None, be.sum_to(g, (n,)) if need[2] else None
        dw, db = be.linear_grad_both(g, input) if need[2] else (be.linear_grad_weight(g, input),
                                                                None)
        return dx, dw, db

    return None, vjp


def _linear_scalar_bias(be, input, weight, bias):
    """A bias of one element, broadcast over all outputs."""
    y, vjp = linear.fn(be, input, weight, np.broadcast_to(bias.reshape(-1), weight.shape[:1]))
    shape = bias.shape

    def vjp_scalar(g, need):
        dx, dw, db = vjp(g, need)
        return dx, dw, None if db is None else be.sum_to(db, (1,)).reshape(shape)

    return y, vjp_scalar


def _dims(name, x, ndim):
    if x.ndim != ndim:
        raise errors.ShapeError(f"{name}: expected a {ndim}-D tensor, got shape {tuple(x.shape)}")


def mm(input, mat2):
    """The product of two matrices: [M, K] @ [K, N]."""
    _dims("mm", input, 2)
    _dims("mm", mat2, 2)
    return matmul(input, mat2)


def bmm(input, mat2):
    """A batch of products: [B, M, K] @ [B, K, N]."""
    _dims("bmm", input, 3)
    _dims("bmm", mat2, 3)
    if input.shape[0] != mat2.shape[0]:
        raise errors.ShapeError(f"bmm: batches of {input.shape[0]} and {mat2.shape[0]} matrices")
    return matmul(input, mat2)


def mv(input, vec):
    """A matrix times a vector: [M, K] @ [K]."""
    _dims("mv", input, 2)
    _dims("mv", vec, 1)
    return matmul(input, vec)


def dot(input, other):
    """The sum of products of two vectors."""
    _dims("dot", input, 1)
    _dims("dot", other, 1)
    if input.shape != other.shape:
        raise errors.ShapeError(f"dot: vectors of {input.shape[0]} and {other.shape[0]} elements")
    return matmul(input, other)


def outer(input, vec2):
    """All products of the elements of two vectors: [M], [N] -> [M, N]."""
    _dims("outer", input, 1)
    _dims("outer", vec2, 1)
    return input.reshape(-1, 1) * vec2.reshape(1, -1)


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (input if beta == 1 else input * beta)


# ------------------------------------------------------------------------------------- einsum

def einsum(equation, *operands):
    """Sums of products by index letters, e.g. "bhtd,bhsd->bhts"; two operands at a time.

    >>> import minidl as md
    >>> md.einsum("ij,jk->ik", md.ones(2, 3), md.ones(3, 4)).shape
    (2, 4)
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str):
        raise errors.UnsupportedError("einsum: give the equation as a string, e.g. 'ij,jk->ik'")
    inputs, output = _parse(equation, [x.ndim for x in operands])
    total, letters = operands[0], inputs[0]
    total, letters = _diagonals(total, letters)
    for i in range(1, len(operands)):
        other, letters_other = _diagonals(operands[i], inputs[i])
        later = set(output).union(*inputs[i + 1:]) if i + 1 < len(inputs) else set(output)
        total, letters = _pair(total, letters, other, letters_other, later)
    gone = [i for i, c in enumerate(letters) if c not in output]
    if gone:
        total = total.sum(dim=tuple(gone))
        letters = [c for c in letters if c in output]
    return total.permute(*[letters.index(c) for c in output]) if letters else total


def _parse(equation, ndims):
    """Index letters of every operand and of the result; '...' becomes upper-range letters."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise errors.ArgumentError(f"einsum: '{equation}' names {len(terms)} operands, "
                                   f"{len(ndims)} were given")
    dots = [n - len(t.replace("...", "")) if "..." in t else 0
            for t, n in zip(terms, ndims, strict=True)]
    width = max(dots)
    ellipsis = [chr(0x3B1 + i) for i in range(width)]
    expanded = []
    for term, count, ndim in zip(terms, dots, ndims, strict=True):
        head, found, tail = term.partition("...")
        names = list(head) + (ellipsis[width - count:] if found else []) + list(tail)
        if len(names) != ndim or count < 0:
            raise errors.ShapeError(f"einsum: '{term}' does not name the {ndim} dimensions of its "
                                    "operand")
        if not all(c.isalpha() for c in head + tail):
            raise errors.ArgumentError(f"einsum: '{term}' has a character that is not a letter")
        expanded.append(names)
    everything = [c for names in expanded for c in names]
    if arrow:
        head, found, tail = right.partition("...")
        result = list(head) + (ellipsis if found else []) + list(tail)
        for c in result:
            if c not in everything:
                raise errors.ArgumentError(f"einsum: '{c}' of the result is in no operand")
        if len(set(result)) != len(result):
            raise errors.ArgumentError(f"einsum: '{right}' repeats a letter")
    else:
        result = ellipsis + sorted(c for c in set(everything)
                                   if everything.count(c) == 1 and c not in ellipsis)
    return expanded, result


def _diagonals(x, letters):
    """x with repeated letters of one operand ('ii') reduced to one axis."""
    letters = list(letters)
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            i = letters.index(c)
            j = letters.index(c, i + 1)
            x = x.diagonal(dim1=i, dim2=j)
            letters.pop(j)
            letters.pop(i)
            letters.append(c)
    return x, letters


def _pair(a, la, b, lb, later):
    """The contraction of two operands as one batched matmul; returns it and its letters."""
    sizes = {}
    for x, letters in ((a, la), (b, lb)):
        for c, n in zip(letters, x.shape, strict=True):
            if sizes.setdefault(c, n) != n and 1 not in (sizes[c], n):
                raise errors.ShapeError(f"einsum: '{c}' is {sizes[c]} in one operand and {n} in "
                                        "another")
            sizes[c] = max(sizes[c], n) if 0 not in (sizes[c], n) else 0
    for x, letters, other in ((0, la, lb), (1, lb, la)):
        gone = [i for i, c in enumerate(letters) if c not in other and c not in later]
        if gone:
            if x == 0:
                a, la = a.sum(dim=tuple(gone)), [c for c in la if c in lb or c in later]
            else:
                b, lb = b.sum(dim=tuple(gone)), [c for c in lb if c in la or c in later]
    batch = [c for c in la if c in lb and c in later]
    inner = [c for c in la if c in lb and c not in later]
    rows = [c for c in la if c not in lb]
    columns = [c for c in lb if c not in la]
    a = _arranged(a, la, batch, rows, inner, sizes)
    b = _arranged(b, lb, batch, inner, columns, sizes)
    product = matmul(a, b)
    letters = batch + rows + columns
    return product.reshape([sizes[c] for c in letters]), letters


def _arranged(x, letters, batch, first, second, sizes):
    """x as [*batch, prod(first), prod(second)] with shared axes expanded to their full size."""
    order = batch + first + second
    x = x.permute(*[letters.index(c) for c in order]) if order else x
    full = [sizes[c] for c in order]
    if list(x.shape) != full:
        x = x.expand(*full)
    count = np.prod([sizes[c] for c in first], dtype=int)
    return x.reshape([sizes[c] for c in batch] + [int(count), int(np.prod(
        [sizes[c] for c in second], dtype=int))])
