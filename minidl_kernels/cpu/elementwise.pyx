"""Elementwise kernels of the CPU: one function per entry of scalar.h, and the few that are not.

For every unary op NAME there is NAME(x) and NAME_grad(g, s), where s is what the gradient needs
(UNARY[NAME] says "x" or "y"); for every binary op NAME(a, b) with NumPy broadcasting over arrays
and numbers, and NAME_grad(g, a, b, need), whose gradients have the shapes of a and b.

>>> import numpy as np
>>> relu(np.array([-1, 2], np.float32))
array([0., 2.], dtype=float32)
"""

cimport numpy as cnp
from cpython.mem cimport PyMem_Malloc
from cpython.object cimport PyObject
from libc.string cimport strcmp
from minidl_kernels.cpu.memory cimport empty, empty_like, f32, ptr
from minidl_kernels.cpu.threads cimport Task, even_grain, run

import numpy as np

cnp.import_array()

cdef extern from "broadcast.h" nogil:
    """
    static const ElementwiseTable *ew_pick(void) { return MINIDL_PICK(minidl_elementwise); }
    """
    const ElementwiseTable *ew_pick() noexcept

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        const char *ml_name
        void *ml_meth
        int ml_flags
        const char *ml_doc
    int METH_O, METH_FASTCALL
    object PyCFunction_NewEx(PyMethodDef *definition, object self, object module)
    bint PyFloat_CheckExact(object)
    bint PyLong_CheckExact(object)
    double PyLong_AsDouble(object) noexcept
    PyObject *PyErr_Occurred() noexcept
    void PyErr_Clear() noexcept
    double PyFloat_AS_DOUBLE(object)

cdef const ElementwiseTable *K = ew_pick()


cdef int execute(Job *job, ew_row row, cnp.ndarray out) except -1:
    """Run a job whose operands are set."""
    job.table = K
    job.row = row
    job.out = ptr(out)
    return run(<Task>ew_piece, job, job.size, (even_grain(job.size, EW_GRAIN) + 63) // 64 * 64)


# ---- operands that broadcast ----

cdef int widen(Operands *o, cnp.ndarray x, str kernel) except -1:
    """Stretch the common shape by that of x."""
    cdef int n = cnp.PyArray_NDIM(x), d, k
    cdef const Py_ssize_t *dims = <const Py_ssize_t*>cnp.PyArray_DIMS(x)
    for k in range(max(n - o.ndim, 0), n):
        d = k + o.ndim - n
        if dims[k] != o.shape[d] and dims[k] != 1 and o.shape[d] != 1:
            raise ValueError(f"{kernel}: shapes {common_shape(o)} and {shape_of(x)} do not "
                             f"broadcast: axis {k - n} has {o.shape[d]} and {dims[k]} entries")
    if n > o.ndim:                          # line the old shape up with the last axes
        for d in range(n - 1, -1, -1):
            k = d - n + o.ndim
            o.shape[d] = o.shape[k] if k >= 0 else 1
        o.ndim = n
    for k in range(n):
        if dims[k] != 1:
            o.shape[k + o.ndim - n] = dims[k]
    return 0


cdef cnp.ndarray put_array(Operands *o, cnp.ndarray x, str kernel):
    """Add a contiguous array; returns it for the caller to hold while the job runs."""
    widen(o, x, kernel)
    o.ndims[o.count] = cnp.PyArray_NDIM(x)
    o.shapes[o.count] = <const Py_ssize_t*>cnp.PyArray_DIMS(x)
    o.job.operand[o.count] = cnp.PyArray_DATA(x)
    o.count += 1
    return x


cdef cnp.ndarray put(Operands *o, object x, str kernel):
    """Add a float32 array, or a number, for which None is returned."""
    if cnp.PyArray_Check(x):
        return put_array(o, f32(x, kernel), kernel)
    o.value[o.count] = <float>number(x, kernel)
    o.ndims[o.count] = 0
    o.job.operand[o.count] = &o.value[o.count]
    o.count += 1
    return None


cdef cnp.ndarray compute(Operands *o, ew_row row):
    """The result of a row kernel as a new array of the common shape."""
    cdef cnp.ndarray out = empty(o.ndim, <cnp.npy_intp*>o.shape)
    ew_broadcast(&o.job, o.ndim, o.shape, o.count, o.ndims, o.shapes)
    execute(&o.job, row, out)
    return out


cdef int accumulate(Operands *o, ew_row row, cnp.ndarray out, str kernel) except -1:
    """The same into an array that is there and has that shape."""
    expect(o, out, kernel)
    ew_broadcast(&o.job, o.ndim, o.shape, o.count, o.ndims, o.shapes)
    return execute(&o.job, row, out)


cdef int expect(const Operands *o, cnp.ndarray g, str kernel) except -1:
    """g must have exactly the common shape."""
    cdef int d
    cdef bint same = cnp.PyArray_NDIM(g) == o.ndim
    for d in range(o.ndim if same else 0):
        same = same and cnp.PyArray_DIM(g, d) == o.shape[d]
    if not same:
        raise ValueError(f"{kernel}: got an array of shape {shape_of(g)} where the operands "
                         f"broadcast to {common_shape(o)}")
    return 0


cdef tuple common_shape(const Operands *o):
    return tuple([o.shape[d] for d in range(o.ndim)])


cdef tuple shape_of(cnp.ndarray x):
    return tuple([cnp.PyArray_DIM(x, d) for d in range(cnp.PyArray_NDIM(x))])


cdef double number(object x, str kernel) except? -1.0:
    if PyFloat_CheckExact(x):
        return PyFloat_AS_DOUBLE(x)
    if isinstance(x, (int, float)) or isinstance(x, (np.number, np.bool_)):
        try:
            return float(x)
        except OverflowError:
            raise OverflowError(f"{kernel}: the number {x} is too large for a float") from None
    raise TypeError(f"{kernel}: expected a float32 array or a number, got {type(x).__name__}")


cdef bint single(object x, float *value) noexcept:
    """Is x one float: a Python number or a 0-d array?"""
    if PyLong_CheckExact(x):
        value[0] = <float>PyLong_AsDouble(x)
        if PyErr_Occurred() == NULL:
            return True
        PyErr_Clear()                       # too large: number() says so
        return False
    if PyFloat_CheckExact(x):
        value[0] = <float>PyFloat_AS_DOUBLE(x)
        return True
    if ready(x) and cnp.PyArray_NDIM(<cnp.ndarray>x) == 0:
        value[0] = ptr(<cnp.ndarray>x)[0]
        return True
    return False


# ---- the kernels of the table ----

cdef class UnaryKernel:
    cdef cnp.ndarray forward(self, object x):
        cdef cnp.ndarray a = f32(x, self.name), out = empty_like(a)
        cdef Job job
        ew_flat(&job, 1, cnp.PyArray_SIZE(a), 0)
        job.kernel.unary = self.entry.forward
        job.operand[0] = ptr(a)
        execute(&job, ew_unary_row, out)
        return out

    cdef cnp.ndarray grad(self, object g, object s):
        cdef cnp.ndarray dy = f32(g, self.grad_name), saved = f32(s, self.grad_name), out
        cdef Job job
        if not cnp.PyArray_SAMESHAPE(dy, saved):
            raise ValueError(f"{self.grad_name}: g has shape {shape_of(dy)} and {self.saves} "
                             f"{shape_of(saved)}, expected the same")
        out = empty_like(dy)
        ew_flat(&job, 2, cnp.PyArray_SIZE(dy), 0)
        job.kernel.unary_grad = self.entry.grad
        job.operand[0] = ptr(dy)
        job.operand[1] = ptr(saved)
        execute(&job, ew_unary_grad_row, out)
        return out


cdef class BinaryKernel:
    cdef cnp.ndarray forward(self, object a, object b):
        cdef Job job
        cdef cnp.ndarray out
        cdef float value
        if ready(a) and ready(b) and cnp.PyArray_SAMESHAPE(<cnp.ndarray>a, <cnp.ndarray>b):
            ew_flat(&job, 2, cnp.PyArray_SIZE(<cnp.ndarray>a), 0)
            job.operand[0] = ptr(<cnp.ndarray>a)
            job.operand[1] = ptr(<cnp.ndarray>b)
        elif ready(a) and single(b, &value):
            if self.powers is not None and value in self.powers:
                return (<UnaryKernel>self.powers[value]).forward(a)
            ew_flat(&job, 2, cnp.PyArray_SIZE(<cnp.ndarray>a), 2)
            job.operand[0] = ptr(<cnp.ndarray>a)
            job.operand[1] = &value
        else:
            return self.stretched(a, b)
        out = empty_like(<cnp.ndarray>a)
        job.kernel.binary = self.entry.forward
        execute(&job, ew_binary_row, out)
        return out

    cdef cnp.ndarray stretched(self, object a, object b):
        cdef Operands o
        cdef cnp.ndarray x, y
        o.ndim = o.count = 0
        x = put(&o, a, self.name)
        y = put(&o, b, self.name)
        if x is None and y is None:
            raise TypeError(f"{self.name}: expected at least one float32 array, got two numbers")
        o.job.kernel.binary = self.entry.forward
        return compute(&o, ew_binary_row)

    cdef tuple grad(self, object g, object a, object b, object need):
        cdef Operands o
        cdef cnp.ndarray dy = f32(g, self.grad_name), x, y
        cdef bint need_a = need[0], need_b = need[1]
        cdef UnaryKernel power
        cdef float value
        o.ndim = o.count = 0
        x = put(&o, a, self.grad_name)
        y = put(&o, b, self.grad_name)
        expect(&o, dy, self.grad_name)
        put_array(&o, dy, self.grad_name)
        if self.powers is not None and not need_b and ready(a) and single(b, &value):
            power = self.powers.get(value)
            if power is not None and power.saves == "x":
                return power.grad(dy, a), None
        return (side(&o, x, dy, self.entry.da_formula, self.entry.da) if need_a else None,
                side(&o, y, dy, self.entry.db_formula, self.entry.db) if need_b else None)


cdef object side(Operands *o, cnp.ndarray operand, cnp.ndarray dy, const char *formula,
                 ew_binary_grad kernel):
    """The gradient of one operand, summed to its shape; None for a number."""
    if operand is None:
        return None
    if strcmp(formula, b"g") != 0:
        o.job.kernel.binary_grad = kernel
        dy = compute(o, ew_binary_grad_row)
    return sum_to_shape(dy, cnp.PyArray_NDIM(operand), cnp.PyArray_DIMS(operand))


cdef object call_unary(object self, object x):
    return (<UnaryKernel>self).forward(x)


cdef object call_unary_grad(object self, PyObject **args, Py_ssize_t count):
    check_count((<UnaryKernel>self).grad_name, count, 2)
    return (<UnaryKernel>self).grad(<object>args[0], <object>args[1])


cdef object call_binary(object self, PyObject **args, Py_ssize_t count):
    check_count((<BinaryKernel>self).name, count, 2)
    return (<BinaryKernel>self).forward(<object>args[0], <object>args[1])


cdef object call_binary_grad(object self, PyObject **args, Py_ssize_t count):
    check_count((<BinaryKernel>self).grad_name, count, 4)
    return (<BinaryKernel>self).grad(<object>args[0], <object>args[1], <object>args[2],
                                     <object>args[3])


cdef inline int check_count(str name, Py_ssize_t count, int expected) except -1:
    if count != expected:
        raise TypeError(f"{name}: expected {expected} arguments, got {count}")
    return 0


_texts = []  # what the function definitions point at


cdef object function(object self, str name, str signature, str doc, void *call, int flags):
    """A built-in function that calls `call` with `self`: the cheapest call Python has."""
    cdef PyMethodDef *definition = <PyMethodDef*>PyMem_Malloc(sizeof(PyMethodDef))
    if definition == NULL:
        raise MemoryError("elementwise: no memory for a function definition")
    texts = (name.encode(), f"{name}({signature}, /)\n--\n\n{doc}".encode())
    _texts.append(texts)
    definition.ml_name = <bytes>texts[0]
    definition.ml_doc = <bytes>texts[1]
    definition.ml_meth = call
    definition.ml_flags = flags
    return PyCFunction_NewEx(definition, self, __name__)


def _functions():
    """Every function of the table by name, and what each unary gradient needs."""
    cdef UnaryKernel u
    cdef BinaryKernel b
    cdef const EwUnary *unary = K.unary
    cdef const EwBinary *binary = K.binary
    found, saves, names = {}, {}, []
    while unary.name != NULL:
        u = UnaryKernel.__new__(UnaryKernel)
        u.entry = unary
        u.name, u.saves = unary.name.decode(), unary.saves.decode()
        u.grad_name = u.name + "_grad"
        found[u.name] = function(u, u.name, "x", f"{u.name} of x, element by element.",
                                 <void*>call_unary, METH_O)
        found[u.grad_name] = function(u, u.grad_name, f"g, {u.saves}",
                                      f"The gradient of y = {u.name}(x), from g and {u.saves}.",
                                      <void*>call_unary_grad, METH_FASTCALL)
        saves[u.name] = u.saves
        unary += 1
    while binary.name != NULL:
        b = BinaryKernel.__new__(BinaryKernel)
        b.entry = binary
        b.name = binary.name.decode()
        b.grad_name = b.name + "_grad"
        found[b.name] = function(b, b.name, "a, b", f"{b.name} of a and b with broadcasting.",
                                 <void*>call_binary, METH_FASTCALL)
        found[b.grad_name] = function(b, b.grad_name, "g, a, b, need",
                                      f"(da, db) of {b.name}(a, b); None where need is False.",
                                      <void*>call_binary_grad, METH_FASTCALL)
        names.append(b.name)
        binary += 1
    return found, saves, tuple(names)


_table, UNARY, BINARY = _functions()
globals().update(_table)
# Powers with a formula of their own, which is faster and exact.
(<BinaryKernel>_table["pow"].__self__).powers = {
    power: _table[name].__self__
    for power, name in ((2.0, "square"), (3.0, "cube"), (0.5, "sqrt"), (-0.5, "rsqrt"),
                        (-1.0, "reciprocal"))}
__all__ = [*_table, "UNARY", "BINARY", "sum_to"]


# ---- sums over broadcast axes ----

cdef cnp.ndarray sum_middle(cnp.ndarray x, Py_ssize_t outer, Py_ssize_t length, Py_ssize_t inner):
    """(outer, inner) sums of a contiguous (outer, length, inner) array."""
    cdef SumJob job
    cdef cnp.npy_intp shape[3]
    cdef Py_ssize_t tasks, work
    cdef cnp.ndarray out
    if outer == 0 or inner == 0:            # no sums to make, and nothing to divide the work by
        shape[0], shape[1], shape[2] = outer, 1, inner
        return empty(3, shape)
    job.table = K
    job.x = ptr(x)
    job.outer, job.length, job.inner = outer, length, inner
    tasks = ew_sum_plan(&job)
    shape[0], shape[1], shape[2] = outer, job.chunks, inner
    out = empty(3, shape)
    job.out = ptr(out)
    work = max(job.chunk * job.width, <Py_ssize_t>1)
    run(<Task>ew_sum_piece, &job, tasks, max(EW_GRAIN // work, <Py_ssize_t>1))
    return out if job.chunks == 1 else sum_middle(out, outer, job.chunks, inner)


cdef cnp.ndarray sum_to_shape(cnp.ndarray g, int ndim, const cnp.npy_intp *shape):
    """g summed over the axes that broadcasting `shape` to g's shape has stretched."""
    cdef int n = cnp.PyArray_NDIM(g), d
    cdef cnp.npy_intp *dims = cnp.PyArray_DIMS(g)
    cdef cnp.npy_intp target[EW_MAX_NDIM]
    cdef cnp.PyArray_Dims result
    cdef Py_ssize_t outer, length = 1, inner = 1
    cdef cnp.ndarray x = g
    cdef bint stretched, pending = False
    for d in range(n - 1, -1, -1):          # runs of stretched axes, the last run first
        target[d] = shape[d - n + ndim] if d >= n - ndim else 1
        stretched = target[d] != dims[d]
        if pending and not stretched and dims[d] != 1:
            outer = 1
            for k in range(d + 1):
                outer *= dims[k]
            x = sum_middle(x, outer, length, inner)
            length, pending = 1, False
        if stretched:
            length *= dims[d]
            pending = True
        elif dims[d] != 1:
            inner *= dims[d]
    if pending:
        x = sum_middle(x, 1, length, inner)
    if x is g and n == ndim:
        return g
    result.ptr, result.len = <cnp.npy_intp*>shape, ndim
    return cnp.PyArray_Newshape(x, &result, cnp.NPY_CORDER)


def sum_to(g, shape):
    """g summed back to `shape`, which must broadcast to g's shape; g itself when it is the same.

    >>> import numpy as np
    >>> sum_to(np.ones((4, 3), np.float32), (3,))
    array([4., 4., 4.], dtype=float32)
    """
    cdef cnp.ndarray x = f32(g, "sum_to")
    cdef cnp.npy_intp dims[EW_MAX_NDIM]
    cdef tuple wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    cdef int n = cnp.PyArray_NDIM(x), ndim = <int>len(wanted), d
    cdef bint fits = ndim <= n
    for d in range(ndim if fits else 0):
        dims[d] = wanted[d]
        fits = fits and (dims[d] == cnp.PyArray_DIM(x, n - ndim + d) or dims[d] == 1)
    if not fits:
        raise ValueError(f"sum_to: shape {wanted} does not broadcast to g's shape {shape_of(x)}")
    return sum_to_shape(x, ndim, dims)
