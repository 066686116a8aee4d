# Part of _core.pyx: who wrote where, and writes over tensors that the graph allows.

cdef object root_of(object array):
    """The object that owns an array's memory: a Block, or the outermost foreign array."""
    cdef object base = array
    while cnp.PyArray_Check(base) and (<cnp.ndarray>base).base != NULL:
        base = <object>(<cnp.ndarray>base).base
    return base


cdef tuple last_write(object array):
    """(epoch, op name) of the last in-place write to an array's memory."""
    root = root_of(array)
    if isinstance(root, Block):
        return (<Block>root).epoch, (<Block>root).writer
    return _foreign.get(id(root), (0, None))


cdef int mark_written(object array, str name) except -1:
    global _epoch
    _epoch += 1
    root = root_of(array)
    if isinstance(root, Block):
        (<Block>root).epoch = _epoch
        (<Block>root).writer = name
        return 0
    key = id(root)
    if key not in _foreign:
        try:
            weakref.finalize(root, _foreign.pop, key, None)
        except TypeError:
            return 0                    # memory of an object that takes no weak references
    _foreign[key] = (_epoch, name)
    return 0


def inplace(fn, Tensor self, *args, **kwargs):
    """self.fn_(...): compute fn(self, ...) and write the result over self, in memory and graph.

    fn sees a copy of the old values when it records, so its gradient stays right.
    """
    name = fn.__name__ + "_"
    cdef bint record = self._requires_grad
    cdef Tensor before = self, out
    for a in args:
        if isinstance(a, Tensor) and (<Tensor>a)._requires_grad:
            record = True
    record = record and not minidl_no_grad
    check_writable(self, name, record)
    if record:
        before = wrap(self.array.copy())
        before.node = self.node
        before._requires_grad = self._requires_grad
    out = fn(before, *[before if a is self else a for a in args], **kwargs)
    if out.array.shape != self.array.shape:
        raise errors.ShapeError(f"{name}: the result has shape {out.array.shape}, which does not "
                                f"fit into the tensor's {self.array.shape}")
    if out.dtype.category > self.dtype.category:
        raise errors.DTypeError(f"{name}: the result is {out.dtype.name} and cannot be stored in "
                                f"a tensor of {self.dtype.name}")
    self.array[...] = out.array
    mark_written(self.array, name)
    if record:
        self.node = out.node
        self._requires_grad = out._requires_grad
    return self


def overwrite(Tensor self, str name, values):
    """Write raw values over a tensor outside the graph (init, optimizers, copy_ under no_grad)."""
    check_writable(self, name, self._requires_grad and not minidl_no_grad)
    self.array[...] = values
    mark_written(self.array, name)
    return self


def written(Tensor self, str name):
    """Note that a kernel has just written into a tensor's memory."""
    mark_written(self.array, name)


def rebase(Tensor self, Tensor out, str name):
    """Give `self`, whose memory has just been written by `name`, the history of `out`."""
    mark_written(self.array, name)
    self.node = out.node
    self._requires_grad = out._requires_grad
    return self


def check_writable(Tensor self, str name, bint record):
    """Refuse an in-place write that the graph or the memory does not allow."""
    if record and self.node is None and self._requires_grad:
        raise errors.GradientError(f"{name}: a leaf tensor that requires a gradient cannot be "
                                   "changed in place; do it under md.no_grad()")
    if record and self.is_view:
        raise errors.UnsupportedError(f"{name}: a view cannot be changed in place while gradients "
                                      "are recorded; assign to the tensor it views, as in "
                                      "x[i] = x[i] + y")
    if cnp.PyArray_Check(self.array) and not self.array.flags.writeable:
        raise errors.ArgumentError(f"{name}: this tensor's memory is read-only (an expanded or "
                                   "mapped tensor); use .clone() first")
