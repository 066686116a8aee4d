# Part of _core.pyx: the engine that walks the graph backwards.

cdef class Capture:
    """Where the gradients that autograd.grad asked for are collected."""
    cdef dict places                    # id(leaf tensor or node) -> index
    cdef list grads


cdef object add_arrays(object a, object b):
    return backend_of(a).add(a, b)


cdef object backend_of(object array):
    if cnp.PyArray_Check(array):
        return HOST if cnp.PyArray_TYPE(<cnp.ndarray>array) == cnp.NPY_FLOAT32 else EXACT
    return array.backend


cdef int deliver(Node node, object g) except -1:
    """Add g to a node's gradient: borrow the first, sum the second afresh, then add in place."""
    if node.grad is None:
        node.grad = g
        node.owned = False
    elif not node.owned:
        node.grad = add_arrays(node.grad, g)
        node.owned = True
    else:
        backend_of(node.grad).add_(node.grad, g)
    return 0


cdef bint stealable(cnp.ndarray g):
    """Nobody else sees this array's memory: refs are the vjp's tuple and the caller's variable.

    A reshaped result shows an array that nobody else has.
    """
    cdef PyObject *base = g.base
    if Py_REFCNT(g) > 2 or not cnp.PyArray_ISCARRAY(g) or base == NULL:
        return False
    if cnp.PyArray_Check(<object>base) and Py_REFCNT(<object>base) == 1 \
            and cnp.PyArray_SIZE(<cnp.ndarray>base) == cnp.PyArray_SIZE(g):
        base = (<cnp.ndarray>base).base
    return base != NULL and isinstance(<object>base, Block) and Py_REFCNT(<object>base) == 1


cdef bint stealable_on_device(object g):
    """The same of a device's array: its block has no other array over it."""
    cdef object block = g.block
    return Py_REFCNT(g) <= 2 and Py_REFCNT(block) == 2 and g.contiguous


cdef int deliver_leaf(Tensor leaf, object g, dict hooked) except -1:
    """Add g to a leaf's .grad; with hooks it waits in `hooked` until the sum is complete."""
    cdef Tensor total
    if leaf.hooks:
        key = id(leaf)
        before = hooked.get(key)
        hooked[key] = (leaf, g if before is None else add_arrays(before[1], g))
        return 0
    if leaf._grad is None:
        # g itself is never assigned to here: that would make Cython hold one more reference to it.
        if stealable(<cnp.ndarray>g) if cnp.PyArray_Check(g) else stealable_on_device(g):
            leaf._grad = wrap(g)
        else:
            leaf._grad = wrap(backend_of(g).copy(g))
        return 0
    total = leaf._grad
    backend_of(total.array).add_(total.array, g)
    return 0


cdef object call_hooks(list hooks, object g):
    cdef Tensor t = wrap(g)
    for hook in list(hooks):
        result = hook(t)
        if result is not None:
            if not isinstance(result, Tensor) or (<Tensor>result).array.shape != g.shape:
                raise errors.GradientError("a hook must return None or a tensor of the gradient's "
                                           f"shape {g.shape}")
            t = result
    return t.array


cdef object first_gradient(Tensor root, object gradient):
    """The gradient to start from: given, or 1 for a single element."""
    if gradient is None:
        if root.array.size != 1:
            raise errors.GradientError("backward: a gradient can be left out only for a tensor of "
                                       f"one element, this one has shape {root.array.shape}; call "
                                       ".sum() first or pass gradient=")
        return backend_of(root.array).ones(root.array.shape, root.array.dtype)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"backward: gradient must be a tensor, got {type(gradient).__name__}")
    if (<Tensor>gradient).array.shape != root.array.shape:
        raise errors.ShapeError(f"backward: gradient has shape {(<Tensor>gradient).array.shape}, "
                                f"the tensor {root.array.shape}")
    g = (<Tensor>gradient).array
    return g if g.dtype == root.array.dtype else g.astype(root.array.dtype)


cdef int count_consumers(list roots) except -1:
    """Set .pending of every reachable node to the number of edges that will deliver to it."""
    global _run
    cdef Node node
    cdef object parent
    cdef list stack = []
    _run += 1
    for node in roots:
        if node.run != _run:
            node.run = _run
            node.pending = 0
            stack.append(node)
    while stack:
        node = <Node>stack.pop()
        if node.parents is None:
            continue
        for parent in node.parents:
            if isinstance(parent, Node):
                if (<Node>parent).run != _run:
                    (<Node>parent).run = _run
                    (<Node>parent).pending = 0
                    (<Node>parent).grad = None
                    stack.append(parent)
                (<Node>parent).pending += 1
    return 0


def run_backward(list tensors, list gradients, bint retain, inputs, bint accumulate):
    """The engine: pop a node whose gradient is complete, call its vjp, deliver to its parents.

    With `inputs`, return their gradients as raw arrays (None where unused) unless `accumulate`.
    """
    cdef Capture capture = None
    cdef list ready = [], roots = []
    cdef dict hooked = {}
    cdef Tensor t
    cdef Node node
    if inputs is not None:
        capture = start_capture(inputs)
    for t in tensors:
        if isinstance(t, Tensor):
            keep_up(t)
        if not isinstance(t, Tensor) or not t._requires_grad:
            raise errors.GradientError("backward: this tensor does not require a gradient and was "
                                       "not computed from one that does")
        if t.node is not None:
            roots.append(t.node)
    count_consumers(roots)
    for node in roots:
        node.grad = None
    for t, gradient in zip(tensors, gradients):
        g = first_gradient(t, gradient)
        if t.node is not None:
            deliver(t.node, g)
        elif capture is None or id(t) in capture.places:
            deliver_to_leaf(t, g, hooked, capture)
    for node in roots:
        if node.pending == 0 and node not in ready:
            ready.append(node)
    g = None
    while ready:
        process(<Node>ready.pop(), ready, hooked, capture, retain)
    for t, g in hooked.values():
        finish_hooked(t, g)
    if capture is None:
        return None
    if accumulate:
        for t, g in zip(inputs, capture.grads):
            if g is not None:
                if t._grad is None:
                    t._grad = wrap(backend_of(g).copy(g))
                else:
                    backend_of(g).add_(t._grad.array, g)
        return None
    return capture.grads


cdef int finish_hooked(Tensor leaf, object g) except -1:
    cdef list hooks = leaf.hooks
    g = call_hooks(hooks, g)
    leaf.hooks = None
    try:
        deliver_leaf(leaf, backend_of(g).copy(g), {})
    finally:
        leaf.hooks = hooks
    return 0


cdef Capture start_capture(inputs):
    cdef Capture capture = Capture()
    cdef Tensor t
    capture.places = {}
    capture.grads = [None] * len(inputs)
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            raise errors.GradientError(f"grad: input {i} does not require a gradient")
        t = x
        key = id(t) if t.node is None else id(t.node)
        capture.places.setdefault(key, []).append(i)
    return capture


cdef int keep(Capture capture, object key, object g) except -1:
    for i in capture.places[key]:
        before = capture.grads[i]
        capture.grads[i] = g if before is None else add_arrays(before, g)
    return 0


cdef int deliver_to_leaf(Tensor leaf, object g, dict hooked, Capture capture) except -1:
    if capture is None:
        deliver_leaf(leaf, g, hooked)
    elif id(leaf) in capture.places:
        keep(capture, id(leaf), call_hooks(leaf.hooks, g) if leaf.hooks else g)
    return 0


cdef int process(Node node, list ready, dict hooked, Capture capture, bint retain) except -1:
    """Pass the complete gradient of one node on to its parents."""
    cdef object g = node.grad, grads = None, parent
    cdef Py_ssize_t i, n
    cdef tuple parents
    cdef Node up
    node.grad = None
    if g is not None and (node.hooks is not None or node.retained is not None):
        g = observe(node, g)
    if g is not None and capture is not None and id(node) in capture.places:
        keep(capture, id(node), g)
    if node.slot >= 0:
        up = <Node>node.parents[0]
        if g is not None:
            if up.grad is None:
                up.grad = [None] * up.outputs
            up.grad[node.slot] = g
        up.pending -= 1
        if up.pending == 0:
            ready.append(up)
        return 0
    if node.vjp is None:
        raise errors.GradientError(
            f"backward: the graph of this {node.name} has been freed by an earlier backward(); "
            "pass retain_graph=True there to go through it twice")
    if g is not None:
        if node.epoch != _epoch:
            node.check_saved()
        if node.outputs:
            g = tuple(g)
        if _profile is None:
            grads = node.vjp(g, node.need)
        else:
            grads = _profile(node.name + " backward", node.vjp, (g, node.need))
        g = None
        if type(grads) is not tuple:
            grads = (grads,)
    parents = node.parents
    n = len(<tuple>grads) if grads is not None else 0
    if not retain:
        node.vjp = None
        node.parents = None
    for i in range(len(parents)):
        parent = parents[i]
        if parent is None:
            continue
        g = (<tuple>grads)[i] if i < n else None
        if g is not None and not cnp.PyArray_Check(g) and isinstance(g, np.generic):
            g = np.asarray(g)           # NumPy makes scalars of 0-d results
        if isinstance(parent, Node):
            up = <Node>parent
            if g is not None:
                deliver(up, g)
            up.pending -= 1
            if up.pending == 0:
                ready.append(up)
        elif g is not None:
            deliver_to_leaf(<Tensor>parent, g, hooked, capture)
    return 0


cdef object observe(Node node, object g):
    """Run a node's hooks and fill .grad of tensors that asked for it."""
    cdef Tensor t
    if node.hooks:
        g = call_hooks(node.hooks, g)
    if node.retained is not None:
        for reference in node.retained:
            t = reference()
            if t is not None:
                t._grad = wrap(backend_of(g).copy(g) if t._grad is None
                               else add_arrays(t._grad.array, g))
    return g
