# The way of the most common calls without a Python frame in between: a + b and its like on float32
# tensors of one shape, from the operator to the kernel, and views that are not recorded. What comes
# out is what `apply` would compute.

cdef class Saved:
    """The gradient of a kernel of two operands that needs their values."""
    cdef object grad
    cdef object input
    cdef object other

    def __call__(self, g, need):
        return self.grad(g, self.input, self.other, need)


cdef inline bint plain(object array) noexcept:
    return (cnp.PyArray_Check(array) and cnp.PyArray_TYPE(<cnp.ndarray>array) == cnp.NPY_FLOAT32
            and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>array))


cdef object shortcut(Op op, Tensor a, Tensor b):
    """op(a, b) by the kernel alone, or None where it is not that simple."""
    cdef Tensor t
    cdef Node node
    cdef Saved saved
    if not (plain(a.array) and plain(b.array)) or _detect_nonfinite or _profile is not None \
            or not cnp.PyArray_SAMESHAPE(<cnp.ndarray>a.array, <cnp.ndarray>b.array):
        return None
    keep_up(a)
    keep_up(b)
    t = Tensor.__new__(Tensor)
    t.array = op.kernel(a.array, b.array)
    if (a._requires_grad or b._requires_grad) and not minidl_no_grad:
        node = Node.__new__(Node)
        node.name = op.__name__
        node.parents = (origin(a), origin(b))
        node.need = (a._requires_grad, b._requires_grad)
        if op.kernel_vjp is not None:
            node.vjp = op.kernel_vjp
        else:
            saved = Saved.__new__(Saved)
            saved.grad = op.kernel_grad
            saved.input = a.array
            saved.other = b.array
            node.vjp = saved
        node.epoch = _epoch
        node.slot = -1
        t.node = node
        t._requires_grad = True
    return t


cdef inline object origin(Tensor t):
    """What a gradient of t goes to: the node that computed it, the leaf itself, or nothing."""
    if not t._requires_grad:
        return None
    return t if t.node is None else t.node


# ------------------------------------------------------------------------------------------ views

cdef object look_reshape(cnp.ndarray x, tuple args):
    """x in the shape (x, shape) or (x, size, size, ...), where x is contiguous."""
    cdef cnp.npy_intp sizes[64]
    cdef cnp.PyArray_Dims dims
    cdef tuple shape = args
    cdef Py_ssize_t first = 1, n, i
    if len(args) == 2 and type(args[1]) is tuple:
        shape, first = <tuple>args[1], 0
    n = len(shape) - first
    if n > 64 or (n == 0 and first == 1) or not cnp.PyArray_IS_C_CONTIGUOUS(x):
        return None
    for i in range(n):
        size = shape[first + i]
        if type(size) is not int:
            return None
        sizes[i] = <Py_ssize_t>size
        if sizes[i] < -1:
            return None
    dims.ptr, dims.len = sizes, <int>n
    return cnp.PyArray_Newshape(x, &dims, cnp.NPY_CORDER)


cdef object look_transpose(cnp.ndarray x, tuple args):
    """x with two axes swapped."""
    cdef Py_ssize_t nd = cnp.PyArray_NDIM(x), a, b
    if len(args) != 3 or type(args[1]) is not int or type(args[2]) is not int:
        return None
    a, b = args[1], args[2]
    if not (-nd <= a < nd and -nd <= b < nd):
        return None
    return cnp.PyArray_SwapAxes(x, <int>a, <int>b)


cdef object look_item(cnp.ndarray x, tuple args):
    """x[key], where that is no number."""
    return x[args[1]]


cdef dict LOOKS = {"reshape": 1, "transpose": 2, "item": 3}


cdef object view_at_once(Op op, tuple args):
    """The result of a view op, or None where it is recorded, or not that simple."""
    cdef Tensor t, a
    cdef object y
    if len(args) < 2 or not isinstance(args[0], Tensor) or _detect_nonfinite \
            or _profile is not None:
        return None
    a = <Tensor>args[0]
    keep_up(a)
    if not cnp.PyArray_Check(a.array) or (a._requires_grad and not minidl_no_grad):
        return None
    try:
        if op.look == 1:
            y = look_reshape(<cnp.ndarray>a.array, args)
        elif op.look == 2:
            y = look_transpose(<cnp.ndarray>a.array, args)
        else:
            y = look_item(<cnp.ndarray>a.array, args)
    except (IndexError, OverflowError, TypeError, ValueError):
        return None                     # the op itself says what is wrong
    if y is None or not cnp.PyArray_Check(y):
        return None
    t = Tensor.__new__(Tensor)
    t.array = y
    t.base = a if a.base is None else a.base
    t.seen = t.base.histories
    return t
