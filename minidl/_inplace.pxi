# Part of _core.pyx: who wrote where, and writes over tensors that the graph allows.

cdef object root_of(object array):
    """The object that owns an array's memory: a Block, or the outermost foreign array."""
    cdef object base = array
    if not cnp.PyArray_Check(array):
        return array.block              # on a device
    while cnp.PyArray_Check(base) and (<cnp.ndarray>base).base != NULL:
        base = <object>(<cnp.ndarray>base).base
    return base


cdef tuple last_write(object array):
    """(epoch, op name) of the last in-place write to an array's memory."""
    root = root_of(array)
    if isinstance(root, Block):
        return (<Block>root).epoch, (<Block>root).writer
    if not cnp.PyArray_Check(array):
        return root.epoch, root.writer
    return _foreign.get(id(root), (0, None))


cdef int mark_written(object array, str name) except -1:
    global _epoch
    _epoch += 1
    root = root_of(array)
    if isinstance(root, Block):
        (<Block>root).epoch = _epoch
        (<Block>root).writer = name
        return 0
    if not cnp.PyArray_Check(array):
        root.epoch, root.writer = _epoch, name
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
    cdef bint record = self.requires_grad
    cdef Tensor before = self, out
    for a in (*args, *kwargs.values()):
        if isinstance(a, Tensor) and a.requires_grad:
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
        set_history(self, out)
    return self


def overwrite(Tensor self, str name, values):
    """Write raw values over a tensor outside the graph (init, optimizers, copy_ under no_grad)."""
    check_writable(self, name, self.requires_grad and not minidl_no_grad)
    self.array[...] = values
    mark_written(self.array, name)
    return self


def written(list tensors, str name):
    """Note that a kernel has just written into the memory of these tensors."""
    for tensor in tensors:
        mark_written((<Tensor?>tensor).array, name)


def updater_of(Tensor self):
    """The backend that updates a tensor in place: its device's, the compiled kernels for plain
    float32 memory, NumPy for every other dtype and for views."""
    if not cnp.PyArray_Check(self.array):
        return self.array.backend
    if plain(self.array) and cnp.PyArray_ISWRITEABLE(<cnp.ndarray>self.array):
        return HOST
    return EXACT


def by_updater(tensors):
    """{backend: [tensors that it updates, in their order]}"""
    cdef dict groups = {}
    for tensor in tensors:
        groups.setdefault(updater_of(tensor), []).append(tensor)
    return groups


def rebase(Tensor self, Tensor out, str name):
    """Give `self`, whose memory has just been written by `name`, the history of `out`."""
    mark_written(self.array, name)
    set_history(self, out)
    return self


def check_writable(Tensor self, str name, bint record):
    """Refuse an in-place write that the graph or the memory does not allow."""
    cdef Tensor owner = self if self.base is None else self.base
    if record and owner.node is None and owner._requires_grad:
        what = "a leaf tensor" if owner is self else "a view of a leaf tensor"
        raise errors.GradientError(f"{name}: {what} that requires a gradient cannot be changed in "
                                   "place; do it under md.no_grad()")
    if cnp.PyArray_Check(self.array) and not self.array.flags.writeable:
        raise errors.ArgumentError(f"{name}: this tensor's memory is read-only (an expanded or "
                                   "mapped tensor); use .clone() first")


# ----------------------------------------------------------------------------------------- views

cdef int link_view(Tensor t, tuple args) except -1:
    """Note whose memory the result of a view op shows: an argument's, or what that shows itself."""
    cdef object root = root_of(t.array)
    cdef Tensor base
    for a in args:
        if isinstance(a, Tensor) and root_of((<Tensor>a).array) is root:
            base = (<Tensor>a).base
            t.base = <Tensor>a if base is None else base
            t.seen = t.base.histories
            return 0
    return 0


cdef inline int keep_up(Tensor t) except -1:
    """Give a view the history that an in-place op has given to its base since."""
    if t.base is not None and t.base.histories != t.seen:
        follow(t)
    return 0


cdef int follow(Tensor view) except -1:
    cdef Tensor base = view.base
    view.seen = base.histories
    if root_of(view.array) is not root_of(base.array):
        view.base = None                # .data was assigned: they share nothing any more
        return 0
    view.node = None
    view._requires_grad = base._requires_grad
    if base.node is not None:
        where = _strided.layout(base.array, view.array)
        view.node = new_node("view", (base.node,), _strided.read_vjp(backend_of(base.array), where))
    return 0


cdef int set_history(Tensor self, Tensor out) except -1:
    """What a recorded in-place op computed, `out`, is how self, or its part of its base, came."""
    cdef Tensor base = self.base
    if base is not None and root_of(self.array) is root_of(base.array):
        where = _strided.layout(base.array, self.array)
        base.node = new_node("write to a view", (base.node, out.node),
                             _strided.write_vjp(backend_of(base.array), where))
        base._requires_grad = True
        base.histories += 1
        return follow(self)
    self.base = None
    self.node = out.node
    self._requires_grad = out._requires_grad
    self.histories += 1
    return 0


cdef Node new_node(str name, tuple parents, object vjp):
    cdef Node node = Node.__new__(Node)
    node.name = name
    node.parents = parents
    node.need = tuple([parent is not None for parent in parents])
    node.vjp = vjp
    node.epoch = _epoch
    node.slot = -1
    return node
