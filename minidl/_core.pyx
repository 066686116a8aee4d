"""The tape: Tensor, Node and, included below, ops, in-place writes and backward().

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
from minidl_kernels import ARRAYS, EXACT, HOST

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
                if isinstance(array, ARRAYS):
                    epoch, writer = last_write(array)
                    if epoch > self.epoch:
                        raise errors.GradientError(
                            f"backward: '{name}' (shape {array.shape}), which {self.name} saved "
                            f"for its gradient, has been overwritten by the in-place {writer}; use "
                            f"the out-of-place form, or {writer} on a .clone()")
        return 0


cdef list _dying = []
cdef bint _draining = False


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


include "_op.pxi"
include "_shortcut.pxi"
include "_inplace.pxi"
include "_backward.pxi"
