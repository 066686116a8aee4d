"""The tape: Tensor, Node, Op, and (included below) in-place writes and backward().

An op is a function of raw arrays that returns its result and a closure for the gradient. Calling
it unwraps tensors, runs it on the backend of its arguments, wraps the result and, only when an
input needs a gradient, records Node(parents, vjp). Nodes never point at the tensors made from
them, closures hold raw arrays only: a graph has no reference cycles.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_REFCNT
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM

from minidl_kernels.cpu.memory cimport Block

import weakref

import numpy as np

from minidl import _strided, dtypes, errors
from minidl._methods import TensorMethods
from minidl_kernels import EXACT, HOST

cnp.import_array()

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int minidl_no_grad = 0;
    #else
    static _Thread_local int minidl_no_grad = 0;
    #endif
    """
    int minidl_no_grad

cdef extern from "Python.h":
    object PyMethod_New(object function, object instance)

cdef Py_ssize_t _epoch = 0          # counts in-place writes, see Node.check_saved
cdef Py_ssize_t _run = 0            # counts backward passes, marks the nodes each has seen
cdef bint _detect_nonfinite = False
cdef object _profile = None         # call(name, fn, args) while a profile is taken, see profiler.py
cdef object _foreign = {}           # writes to memory that is not a Block: id -> (epoch, op)


# ---------------------------------------------------------------------------------------- Tensor

cdef class Node


cdef class TensorBase:
    pass


cdef class Tensor(TensorBase, TensorMethods):
    """An array that remembers how it was made.

    Create one with md.tensor, md.zeros, md.randn and their like; wrap an array without copying by
    md.from_numpy.
    """
    cdef public object array            # the raw array: numpy.ndarray, or a device's own
    cdef readonly Node node             # how it was computed; None for leaves
    cdef public Tensor _grad
    cdef bint _requires_grad
    cdef Tensor base                    # of a view: the tensor whose memory it shows
    cdef Py_ssize_t histories           # how often an in-place op gave it a new history
    cdef Py_ssize_t seen                # of a view: how many of its base's are in its own
    cdef list hooks                     # of a leaf; those of other tensors live on the node
    cdef object __weakref__

    def __init__(self, data, bint requires_grad=False):
        if isinstance(data, Tensor):
            data = (<Tensor>data).array
        elif not isinstance(data, np.ndarray) and not hasattr(data, "backend"):
            raise TypeError("Tensor wraps an existing array; use md.tensor(...) to make one from "
                            f"{type(data).__name__}")
        if cnp.PyArray_Check(data):
            dtypes.from_numpy_dtype(data.dtype)
        self.array = data
        if requires_grad:
            self.requires_grad = True

    @property
    def requires_grad(self):
        """Whether backward() computes a gradient for this tensor."""
        keep_up(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, bint value):
        if value and not self.dtype.is_floating_point:
            raise errors.DTypeError("requires_grad: only floating-point tensors can require "
                                    f"gradients, this one is {self.dtype.name}")
        keep_up(self)
        if not value and self.node is not None:
            raise errors.GradientError("requires_grad: only leaf tensors can be switched off; "
                                       "use .detach() for the result of an operation")
        self._requires_grad = value

    @property
    def is_leaf(self):
        keep_up(self)
        return self.node is None

    @property
    def grad_fn(self):
        """The node of the graph that computed this tensor, None for leaves."""
        keep_up(self)
        return self.node

    @property
    def grad(self):
        """The gradient summed by backward(), a tensor or None."""
        return self._grad

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: expected a tensor or None, got {type(value).__name__}")
            if (<Tensor>value).array.shape != self.array.shape:
                raise errors.ShapeError(f"grad: expected shape {self.array.shape}, got "
                                        f"{(<Tensor>value).array.shape}")
        self._grad = value

    @property
    def shape(self):
        return self.array.shape

    @property
    def ndim(self):
        return self.array.ndim

    @property
    def dtype(self):
        return dtypes.from_numpy_dtype(self.array.dtype)

    def detach(self):
        """The same memory without its history."""
        return wrap(self.array)

    def requires_grad_(self, bint requires_grad=True):
        """Set requires_grad and return the tensor."""
        self.requires_grad = requires_grad
        return self

    def backward(self, gradient=None, retain_graph=False, create_graph=False, inputs=None):
        """Add d(self)/d(leaf) to .grad of every leaf that requires a gradient.

        >>> import minidl as md
        >>> x = md.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        if create_graph:
            raise errors.UnsupportedError("backward: create_graph=True (gradients of gradients) is "
                                          "not supported")
        run_backward([self], [gradient], retain_graph, inputs, True)

    def register_hook(self, hook):
        """Call hook(grad) when this tensor's gradient is known; what it returns replaces it.

        Returns a handle whose remove() takes the hook away.
        """
        keep_up(self)
        if not self._requires_grad:
            raise errors.GradientError("register_hook: this tensor does not require a gradient")
        cdef list hooks
        if self.node is not None:
            if self.node.hooks is None:
                self.node.hooks = []
            hooks = self.node.hooks
        else:
            if self.hooks is None:
                self.hooks = []
            hooks = self.hooks
        hooks.append(hook)
        return HookHandle(hooks, hook)

    def retain_grad(self):
        """Keep .grad of a tensor that is not a leaf."""
        keep_up(self)
        if not self._requires_grad:
            raise errors.GradientError("retain_grad: this tensor does not require a gradient")
        if self.node is not None:
            if self.node.retained is None:
                self.node.retained = []
            self.node.retained.append(weakref.ref(self))

    def __len__(self):
        if self.array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.array.shape[0]

    def __hash__(self):
        return <Py_ssize_t><PyObject*>self >> 4

    def __add__(self, other):
        return apply2(_operators[0], self, other)

    def __radd__(self, other):
        return apply2(_operators[0], other, self)

    def __sub__(self, other):
        return apply2(_operators[1], self, other)

    def __rsub__(self, other):
        return apply2(_operators[1], other, self)

    def __mul__(self, other):
        return apply2(_operators[2], self, other)

    def __rmul__(self, other):
        return apply2(_operators[2], other, self)

    def __truediv__(self, other):
        return apply2(_operators[3], self, other)

    def __rtruediv__(self, other):
        return apply2(_operators[3], other, self)

    def __matmul__(self, other):
        return apply2(_operators[4], self, other)

    def __rmatmul__(self, other):
        return apply2(_operators[4], other, self)

    def __eq__(self, other):
        return apply2(_operators[5], self, other)

    def __ne__(self, other):
        return apply2(_operators[6], self, other)

    def __lt__(self, other):
        return apply2(_operators[7], self, other)

    def __le__(self, other):
        return apply2(_operators[8], self, other)

    def __gt__(self, other):
        return apply2(_operators[9], self, other)

    def __ge__(self, other):
        return apply2(_operators[10], self, other)


cdef list _operators = [None] * 11


def set_operators(*ops):
    """Which ops the compiled operators are, in the order of their use above; called once."""
    _operators[:] = ops


class HookHandle:
    """Returned by register_hook: remove() takes the hook away."""

    def __init__(self, hooks, hook):
        self._hooks = hooks
        self._hook = hook

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


cdef inline Tensor wrap(object array):
    """A tensor over a raw array (NumPy scalars become 0-d arrays), with no history."""
    cdef Tensor t = Tensor.__new__(Tensor)
    if not cnp.PyArray_Check(array) and isinstance(array, (np.generic, int, float)):
        array = np.asarray(array)
    t.array = array
    return t


# ------------------------------------------------------------------------------------------ Node

cdef class Node:
    """One recorded operation: where its inputs came from and how its gradient is computed."""
    cdef readonly str name
    cdef tuple parents                  # per argument: Node, leaf Tensor, or None
    cdef tuple need                     # per argument: does it need a gradient?
    cdef object vjp                     # gradient of the output -> gradients of the arguments
    cdef Py_ssize_t epoch               # the in-place epoch it was recorded in
    cdef int outputs                    # 0: one output; n: vjp takes a tuple of n gradients
    cdef int slot                       # of an output of such a node: which one; else -1
    cdef list hooks
    cdef list retained                  # weak references to tensors that want .grad
    # The state of one backward pass:
    cdef object grad
    cdef bint owned                     # may grad be added to in place?
    cdef Py_ssize_t pending             # consumers that have not delivered yet
    cdef Py_ssize_t run

    def __dealloc__(self):
        # Chains of nodes are hundreds of thousands long: unlink them in a loop, not by recursion.
        global _draining
        _dying.append(self.parents)
        self.parents = None
        if not _draining:
            _draining = True
            while _dying:
                _dying.pop()
            _draining = False

    def __repr__(self):
        return f"<{self.name} backward>"

    cdef int check_saved(self) except -1:
        """Refuse to compute with saved arrays that an in-place op has overwritten since."""
        if isinstance(self.vjp, Saved):
            kept = (("input", (<Saved>self.vjp).input), ("other", (<Saved>self.vjp).other))
        else:
            cells = getattr(self.vjp, "__closure__", None) or ()
            kept = zip(self.vjp.__code__.co_freevars if cells else (),
                       [cell.cell_contents for cell in cells])
        for name, saved in kept:
            for array in saved if isinstance(saved, (tuple, list)) else (saved,):
                if isinstance(array, np.ndarray):
                    epoch, writer = last_write(array)
                    if epoch > self.epoch:
                        raise errors.GradientError(
                            f"backward: '{name}' (shape {array.shape}), which {self.name} saved "
                            f"for its gradient, has been overwritten by the in-place {writer}; use "
                            f"the out-of-place form, or {writer} on a .clone()")
        return 0


cdef list _dying = []
cdef bint _draining = False


# -------------------------------------------------------------------------------------------- Op

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
    cdef object kernel                  # see _shortcut.pxi; None: no short cut
    cdef object kernel_grad
    cdef object kernel_vjp

    def __call__(self, *args, **kwargs):
        if kwargs or (len(args) > len(self.params) and not self.variadic):
            args = self.bind(args, kwargs)
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


def op(fn=None, *, method=True, view=False, storage=False, name=None, kernel=None,
       kernel_vjp=None):
    """Turn `fn(be, *arrays)`, which returns (result, vjp), into an op on tensors.

    The op is attached to Tensor under its name (the function's, unless given) unless method=False.
    `view=True` says that the result may share memory with an argument; `storage=True` that the op
    only moves elements and so takes float16 and bfloat16 too, as views do. vjp(g, need) returns one
    gradient (or None) per positional argument; need[i] is False where nobody will look at it. A
    function that returns a tuple of arrays as its result gets a tuple of gradients in vjp.

    `kernel` names a kernel of two operands that is the whole op where both are float32 tensors of
    one shape; its gradient is kernel_vjp, or the kernel's own where that needs the operands.
    """
    if fn is None:
        return lambda f: op(f, method=method, view=view, storage=storage, name=name, kernel=kernel,
                            kernel_vjp=kernel_vjp)
    cdef Op self = Op.__new__(Op)
    code = fn.__code__
    self.fn = fn
    self.__name__ = name or fn.__name__
    self.__doc__ = fn.__doc__
    self.params = code.co_varnames[1:code.co_argcount]
    self.defaults = fn.__defaults__ or ()
    self.view = view
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
    cdef bint record = False, fast = False, exact = False
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
    elif fast or exact:
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
    if not cnp.PyArray_Check(t.array) or cnp.PyArray_ISFLOAT(<cnp.ndarray>t.array) \
            or cnp.PyArray_ISUSERDEF(<cnp.ndarray>t.array):     # bfloat16
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
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" \
                and not np.isfinite(array).all():
            bad = [f"argument {i} already had some" for i, a in enumerate(raw[1:])
                   if isinstance(a, np.ndarray) and a.dtype.kind == "f"
                   and not np.isfinite(a).all()]
            raise errors.NonFiniteError(
                f"{op.__name__} produced NaN or inf in a result of shape {array.shape}; "
                + ("; ".join(bad) if bad else "all its inputs were finite"))
    return 0


def detect_nonfinite_enabled(value=None):
    """Read or set whether every op checks its results for NaN and inf."""
    global _detect_nonfinite
    before = _detect_nonfinite
    if value is not None:
        _detect_nonfinite = value
    return before


def set_profile(call):
    """Have every op and every gradient run as call(name, fn, args); None ends that."""
    global _profile
    before = _profile
    _profile = call
    return before


def grad_enabled(value=None):
    """Read or set whether operations are recorded in this thread."""
    global minidl_no_grad
    before = not minidl_no_grad
    if value is not None:
        minidl_no_grad = not value
    return before


include "_shortcut.pxi"
include "_inplace.pxi"
include "_backward.pxi"
