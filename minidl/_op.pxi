# How a function of raw arrays becomes an op on tensors, and what a call of it does: unwrap, run on
# the arguments' backend, wrap, record.

cdef class Op:
    """A differentiable function of tensors made from a function of raw arrays. See `op`."""
    cdef readonly object fn
    cdef readonly str __name__
    cdef readonly object __doc__
    cdef readonly tuple params
    cdef readonly tuple defaults
    cdef bint view
    cdef bint variadic                  # fn(be, *arrays)
    cdef bint storage
    cdef int look                       # see _shortcut.pxi, as for the next three; 0: no short cut
    cdef object kernel                  # None: no short cut
    cdef object kernel_grad
    cdef object kernel_vjp

    def __call__(self, *args, **kwargs):
        if kwargs or (len(args) > len(self.params) and not self.variadic):
            args = self.bind(args, kwargs)
        if self.look:
            out = view_at_once(self, args)
            if out is not None:
                return out
        return apply(self, args)

    def __get__(self, instance, owner):
        if instance is None:
            return self
        return PyMethod_New(self, instance)

    def __repr__(self):
        return f"<minidl op {self.__name__}({', '.join(self.params)})>"

    @property
    def __wrapped__(self):
        return self.fn

    cdef tuple bind(self, tuple args, dict kwargs):
        """args and kwargs as one tuple of positional arguments, defaults filled in."""
        cdef Py_ssize_t n = len(args), total = len(self.params), required, i
        required = total - len(self.defaults)
        cdef list values = list(args)
        cdef Py_ssize_t used = 0
        if n > total:
            raise TypeError(f"{self.__name__}() takes at most {total} arguments, got {n}")
        for i in range(n, total):
            name = self.params[i]
            if name in kwargs:
                values.append(kwargs[name])
                used += 1
            elif i >= required:
                values.append(self.defaults[i - required])
            else:
                raise TypeError(f"{self.__name__}() misses its argument '{name}'")
        if used != len(kwargs):
            for name in kwargs:
                if name in self.params[:n]:
                    raise TypeError(f"{self.__name__}() got two values for '{name}'")
                if name not in self.params:
                    raise TypeError(f"{self.__name__}() has no argument '{name}'; it takes "
                                    + ", ".join(self.params))
        return tuple(values)


def op(fn=None, *, method=True, view=False, look=None, storage=False, name=None, kernel=None,
       kernel_vjp=None):
    """Turn `fn(be, *arrays)`, which returns (result, vjp), into an op on tensors.

    The op is attached to Tensor under its name (the function's, unless given) unless method=False.
    `view=True` says that the result may share memory with an argument, and `look` names how
    _shortcut.pxi sees that argument ("reshape", "transpose" or "item"); `storage=True` that the op
    only moves elements and so takes float16 and bfloat16 too, as views do. vjp(g, need) returns one
    gradient (or None) per positional argument; need[i] is False where nobody will look at it. A
    function that returns a tuple of arrays as its result gets a tuple of gradients in vjp.

    `kernel` names a kernel of two operands that is the whole op where both are float32 tensors of
    one shape; its gradient is kernel_vjp, or the kernel's own where that needs the operands.
    """
    if fn is None:
        return lambda f: op(f, method=method, view=view, look=look, storage=storage, name=name,
                            kernel=kernel, kernel_vjp=kernel_vjp)
    cdef Op self = Op.__new__(Op)
    code = fn.__code__
    self.fn = fn
    self.__name__ = name or fn.__name__
    self.__doc__ = fn.__doc__
    self.params = code.co_varnames[1:code.co_argcount]
    self.defaults = fn.__defaults__ or ()
    self.view = view
    self.look = LOOKS[look] if look else 0
    self.variadic = bool(code.co_flags & 4)
    self.storage = view or storage
    if kernel is not None:
        self.kernel = getattr(HOST, kernel)
        self.kernel_grad = getattr(HOST, kernel + "_grad")
        self.kernel_vjp = kernel_vjp
    if method:
        setattr(TensorMethods, self.__name__, self)
    return self


cdef inline object apply2(object op, object a, object b):
    """op(a, b) for the binary operators; lets Python try the other operand's class."""
    if isinstance(a, Tensor) and isinstance(b, Tensor) and (<Op>op).kernel is not None:
        out = shortcut(<Op>op, <Tensor>a, <Tensor>b)
        if out is not None:
            return out
    if not isinstance(a, Tensor) and not isinstance(a, (int, float, np.ndarray, np.generic)):
        return NotImplemented
    if not isinstance(b, Tensor) and not isinstance(b, (int, float, np.ndarray, np.generic)):
        return NotImplemented
    return apply(<Op>op, (a, b))


cdef object mixed_devices(Op op, tuple args):
    names = [str(a.device) for a in args if isinstance(a, Tensor)]
    return errors.DeviceError(f"{op.__name__}: the tensors are on different devices "
                              f"({', '.join(names)}); move them to one with .to(device)")


cdef object wrong_type(Op op, tuple args, tuple raw, error):
    """What to raise when fn asked an argument that is no array for something only arrays have."""
    cdef Py_ssize_t i
    for i in range(len(args)):
        if error.obj is raw[i + 1] and not isinstance(args[i], Tensor):
            name = f"'{op.params[i]}'" if i < len(op.params) else str(i + 1)
            return TypeError(f"{op.__name__}: argument {name} must be a tensor, got "
                             f"{type(args[i]).__name__}")
    return error


cdef object apply(Op op, tuple args):
    """Unwrap, run on the arguments' backend, wrap, record."""
    cdef Py_ssize_t i, n = len(args)
    cdef bint record = False, fast = False, exact = False, host = False
    cdef Tensor t
    cdef int kind
    cdef tuple raw = PyTuple_New(n + 1)
    cdef object be = None, a
    for i in range(n):
        a = args[i]
        if isinstance(a, Tensor):
            t = <Tensor>a
            keep_up(t)
            record |= t._requires_grad
            a = t.array
            if cnp.PyArray_Check(a):
                host = True
                kind = cnp.PyArray_TYPE(<cnp.ndarray>a)
                if kind == cnp.NPY_FLOAT32:
                    fast = True
                elif kind == cnp.NPY_FLOAT64:
                    exact = True
                elif kind >= cnp.NPY_FLOAT16:
                    if not op.storage:
                        raise errors.DTypeError(
                            f"{op.__name__}: {t.dtype.name} is a storage dtype; convert the tensor "
                            "with .float() first")
            elif be is None or be is a.backend:
                be = a.backend
            else:
                raise mixed_devices(op, args)
        Py_INCREF(a)
        PyTuple_SET_ITEM(raw, i + 1, a)
    if be is None:
        be = HOST if fast and not exact else EXACT
    elif host:
        raise mixed_devices(op, args)
    Py_INCREF(be)
    PyTuple_SET_ITEM(raw, 0, be)
    try:
        if _profile is None:
            out, vjp = op.fn(*raw)
        else:
            out, vjp = _profile(op.__name__, op.fn, raw)
    except AttributeError as error:
        raise wrong_type(op, args, raw, error)
    if _detect_nonfinite:
        check_finite(op, raw, out)
    if record and vjp is not None and not minidl_no_grad:
        return record_node(op, args, out, vjp)
    if type(out) is tuple:
        return tuple([wrap_view(op, args, o) for o in <tuple>out])
    return wrap_view(op, args, out)


cdef inline Tensor wrap_view(Op op, tuple args, object array):
    cdef Tensor t = wrap(array)
    if op.view:
        link_view(t, args)
    return t


cdef object record_node(Op op, tuple args, object out, object vjp):
    """The wrapped outputs of an op, with a node of the graph behind them."""
    cdef Py_ssize_t i, n = len(args)
    cdef Node node = Node.__new__(Node)
    cdef tuple parents = PyTuple_New(n), need = PyTuple_New(n)
    cdef object parent, wanted
    for i in range(n):
        parent = None
        if isinstance(args[i], Tensor):
            parent = origin(<Tensor>args[i])
        wanted = parent is not None
        Py_INCREF(parent)
        PyTuple_SET_ITEM(parents, i, parent)
        Py_INCREF(wanted)
        PyTuple_SET_ITEM(need, i, wanted)
    node.name = op.__name__
    node.parents = parents
    node.need = need
    node.vjp = vjp
    node.epoch = _epoch
    node.slot = -1
    if type(out) is not tuple:
        return attach(wrap_view(op, args, out), node)
    node.outputs = <int>len(<tuple>out)
    return tuple([attach_slot(wrap_view(op, args, (<tuple>out)[i]), node, <int>i)
                  for i in range(node.outputs)])


cdef inline Tensor attach(Tensor t, Node node):
    """Make `node` the origin of a tensor; integer results stay outside the graph."""
    if (t.array.dtype.kind == "f" if not cnp.PyArray_Check(t.array) else
            cnp.PyArray_ISFLOAT(<cnp.ndarray>t.array)
            or cnp.PyArray_ISUSERDEF(<cnp.ndarray>t.array)):     # bfloat16
        t.node = node
        t._requires_grad = True
    return t


cdef Tensor attach_slot(Tensor t, Node node, int slot):
    cdef Node output = Node.__new__(Node)
    output.name = node.name
    output.parents = (node,)
    output.epoch = node.epoch
    output.slot = slot
    return attach(t, output)


cdef int check_finite(Op op, tuple raw, object out) except -1:
    for array in out if type(out) is tuple else (out,):
        if isinstance(array, ARRAYS) and array.dtype.kind == "f" \
                and not np.isfinite(array).all():
            bad = [f"argument {i} already had some" for i, a in enumerate(raw[1:])
                   if isinstance(a, ARRAYS) and a.dtype.kind == "f"
                   and not np.isfinite(a).all()]
            raise errors.NonFiniteError(
                f"{op.__name__} produced NaN or inf in a result of shape {array.shape}; "
                + ("; ".join(bad) if bad else "all its inputs were finite"))
    return 0
