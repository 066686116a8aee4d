# The way of the most common calls, a + b and its like on float32 tensors of one shape, from the
# operator to the kernel without a Python frame in between. What is computed is what `apply` would.

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
