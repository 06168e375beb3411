"""The eager hot path: a row of the table becomes a fast function.

An operation on float32 or float64 tensors runs straight through one closure: unwrap, NumPy, new Tensor, new Node.
Everything rare goes out through one door, `carefully`: other dtypes and their promotion, Python numbers, other
kinds of array, modes, observers, errors. The identity test of the dtype guards that door (other kinds of array
answer an equal but not identical dtype), so that the straight way stays short: about 0.75 µs over NumPy, with the
user's line kept.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.core import careful
from pellucid.core.aliasing import owner_of, tick
from pellucid.core.attention import explained
from pellucid.core.careful import cut_off, rejoin
from pellucid.core.departures import crossed, joins
from pellucid.core.exposure import ALERT, DUE, HANDED_OUT, note_kept, rest
from pellucid.core.inplace import computed_into
from pellucid.core.keep import keeper
from pellucid.core.large import LARGE
from pellucid.core.modes import LOGGED, MODE, NORMAL, Log
from pellucid.core.packing import note_exposed
from pellucid.core.primitive import BOUND, Primitive, kept_names, takes_params
from pellucid.core.provenance import getframe, outside
from pellucid.core.tensor import PICK, Node, Operators, Tensor, wrap
from pellucid.core.views import current_node, view_of

ndarray = np.ndarray
generic = np.generic  # NumPy's scalars: what its operators make of 0-d arrays
asarray = np.asarray
new = object.__new__
mode_in_force = MODE.get
carefully = careful.carefully

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = frozenset((F32, F64))
PLAIN = frozenset(np.dtype(kind) for kind in "fd?bBhilqHIL")  # all but halves and complex numbers
NUMBERS = frozenset((float, int, bool))
NOTHING = (None, None)  # what a row of two inputs keeps whose rules ask for nothing, such as add

Operation = Callable[..., Any]

small: Any = None  # the shape that came last and was no large array's: asking for its size takes 30 ns
caller: Any = None  # the user's code that called last: recognising it again is ten times faster than looking


def bind(primitive: Primitive, *methods: str) -> Operation:
    """Make the function of a row, and attach it as a method under the given names.

    >>> from pellucid.core.primitive import BOUND
    >>> BOUND["mul"].__name__
    'mul'
    """
    operation = _binder(primitive)(primitive)
    operation.__name__ = operation.__qualname__ = primitive.name
    operation.primitive = primitive  # type: ignore[attr-defined]
    BOUND[primitive.name] = operation
    for method in methods:
        attach(method, operation)
    return operation


def _binder(p: Primitive) -> Callable[[Primitive], Operation]:
    """The closure that fits a row: the two hot ones take no params."""
    if p.pullback is None and p.outputs == 1 and len(p.rules) == 3 and all(p.rules) and not (p.boundary or p.view):
        return _ternary
    if p.pullback is not None or p.outputs != 1 or len(p.rules) > 2 or p.boundary:
        return _any
    if p.view or (len(p.rules) == 1 and takes_params(p)):
        return _unary_with_params
    if len(p.rules) == 1:
        return _unary
    constant_input = None in p.rules and any(p.rules)
    return _any if takes_params(p) or constant_input else _binary


def tensor_of(other: Any, array: Any) -> Tensor:
    """The second input as observers are told of it: a number is the tensor that it stands for."""
    return other if isinstance(other, Tensor) else wrap(array)


def attach(method: str, operation: Operation) -> None:
    """Make a function a method of tensors and of every other kind of array; operators get their reflected form."""
    setattr(Operators, method, operation)
    if method in REFLECTED:
        setattr(Operators, method.replace("__", "__r", 1), _reflect(operation))


REFLECTED = {f"__{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")} | {
    f"__{name}__" for name in ("and", "or", "xor", "lshift", "rshift")
}


def _reflect(operation: Operation) -> Operation:
    def reflected(other: Any, input: Any) -> Any:
        return operation(input, other)

    return reflected


def _unary(p: Primitive) -> Operation:
    """One tensor in, one out: a hot path."""
    forward = p.forward
    keep = keeper(p, (True,))
    flat = not any(p.rules)

    def operation(input: Any, *, out: Any = None) -> Any:
        global caller
        if out is not None:
            return computed_into(out, operation, (input,))
        if not isinstance(input, Tensor):
            if type(input) is ndarray:  # inside a rule
                return forward(input)
            return forward(asarray(input)) if isinstance(input, generic) else carefully(p, (input,), ())
        x = input.array
        dtype = x.dtype
        mode = mode_in_force()
        if dtype is not F32 and dtype is not F64:
            return carefully(p, (input,), ())
        if mode is not None and mode.attentive and (flat or not mode.told):
            return carefully(p, (input,), ())
        try:
            y = forward(x)
        except Exception as error:
            raise explained(p, (x,), (), error) from None
        if type(y) is not ndarray:
            y = asarray(y)
        made = new(Tensor)
        made.array, made._grad, made.window = y, None, None
        parent = input.node if input.window is None else current_node(input)
        if parent is None or (mode is not None and not mode.told):
            made.node = None
            if mode is None or (parent is None and not mode.inference):
                made.cut = cut_beyond(input)
            else:
                made.cut = mode
                if parent is not None and mode.region is not None and mode.region.open:
                    crossed(mode.region, p.name, (parent,))
            if mode is not None and mode.told:
                mode.tell(p, (input,), (), (made,))
            return made
        if flat:
            return cut_off(p, (input,), made)
        made.cut = None
        node = made.node = Node()
        node.primitive, node.inputs, node.extra = p, (parent,), None
        node.saved = keep(y, x, ())
        node.shape, node.stretched, node.born = y.shape, False, tick()
        frame = getframe(1)
        code = frame.f_code
        if code is not caller:
            frame = outside(frame)
            code = caller = frame.f_code
        node.code, node.lasti = code, frame.f_lasti
        if ALERT and (x.base is not None or HANDED_OUT or DUE):
            note_exposed(node)
        if mode is not None:
            log = mode.log
            if log and parent.born in log and len(log) < LOGGED:
                log[node.born], log.last = (p, (), node), made
            else:
                mode.tell(p, (input,), (), (made,))
        return made

    return operation


def _binary(p: Primitive) -> Operation:
    """Two tensors (or a tensor and a number) in, one out: a hot path."""
    forward = p.forward
    keep_both, keep_first, keep_second = (keeper(p, needs) for needs in ((True, True), (True, False), (False, True)))
    flat, keeps = not any(p.rules), any(arity for _, _, arity in p.edges)
    swapped = [kept_names(rule) for rule in p.rules] == [("b",), ("a",)]  # a product: a keeper's call takes 40 ns
    other_shape = not p.elementwise  # a matrix product: the result's shape does not follow by broadcasting
    numbers = NUMBERS - {bool} if p.dtypes == "numbers" else NUMBERS
    many, operate_on_many = (LARGE, _binary(p.large)) if p.large is not None else (sys.maxsize, None)

    def operation(input: Any, other: Any, *, out: Any = None) -> Any:
        global caller, small
        if out is not None:
            return computed_into(out, operation, (input, other))
        if not isinstance(input, Tensor):
            if type(input) is ndarray and type(other) is ndarray:
                return forward(input, other)
            return carefully(p, (input, other), ())
        x = input.array
        dtype = x.dtype
        mode = mode_in_force()
        if dtype is not F32 and dtype is not F64:
            return carefully(p, (input, other), ())
        if mode is not None and mode.attentive and (flat or not mode.told):
            return carefully(p, (input, other), ())
        first = input.node if input.window is None else current_node(input)
        if first is None or first.shape is not small:
            size = x.size
            if size >= many:
                return operate_on_many(input, other)  # type: ignore[misc]
            if first is not None and size < LARGE:
                small = first.shape
        if isinstance(other, Tensor):
            z = other.array
            if z.dtype is not dtype:
                return carefully(p, (input, other), ())
            second = other.node if other.window is None else current_node(other)
        elif type(other) in numbers:
            z = (NUMBERS32 if dtype is F32 else NUMBERS64).get(other)
            if z is None:
                z = number(other, dtype)
            second = None
        else:
            return carefully(p, (input, other), ())
        try:
            y = forward(x, z)
        except Exception as error:
            raise explained(p, (x, z), (), error) from None
        if type(y) is not ndarray:
            y = asarray(y)
        made = new(Tensor)
        made.array, made._grad, made.window = y, None, None
        if mode is not None and not mode.told:
            made.node, made.cut = None, mode
            if mode.region is not None and mode.region.open and (first is not None or second is not None):
                crossed(mode.region, p.name, tuple([node for node in (first, second) if node is not None]))
            return made
        if flat:
            return cut_off(p, (input, other), made)
        if first is None:
            if second is None:
                made.node, made.cut = None, cut_beyond(input) or cut_beyond(other)
                if mode is not None:
                    mode.tell(p, (input, tensor_of(other, z)), (), (made,))
                return made
            keep, shape = keep_second, second.shape
            stretched = other_shape or x.shape != shape
            if input.cut is not None:
                rejoin(p, input)
        else:
            shape = first.shape  # a node knows its shape: asking the array costs 45 ns each time
            if second is not None:
                keep, stretched = keep_both, other_shape or second.shape != shape
            else:
                keep, stretched = keep_first, other_shape or (type(other) not in NUMBERS and z.shape != shape)
                if type(other) not in NUMBERS and other.cut is not None:
                    rejoin(p, other)
        made.cut = None
        node = made.node = Node()
        node.primitive, node.inputs, node.extra = p, (first, second), None
        if not keeps:
            node.saved = NOTHING
        elif swapped and keep is keep_both:
            node.saved = (z, x)
        else:
            node.saved = keep(y, x, z, ())
        node.shape, node.stretched, node.born = y.shape if stretched else shape, stretched, tick()
        frame = getframe(1)
        code = frame.f_code
        if code is not caller:
            frame = outside(frame)
            code = caller = frame.f_code
        node.code, node.lasti = code, frame.f_lasti
        if ALERT and keeps and not (DUE and rest(node.born)):  # as note_exposed, whose call would take 0.3 µs
            if z.base is not None or (HANDED_OUT and id(z) in HANDED_OUT):
                note_kept(z, node.born)
            if x.base is not None or (HANDED_OUT and id(x) in HANDED_OUT):
                note_kept(x, node.born)
        if mode is not None:
            log = mode.log
            if log and first and second and first.born in log and second.born in log and len(log) < LOGGED:
                log[node.born], log.last = (p, (), node), made
            else:
                mode.tell(p, (input, tensor_of(other, z)), (), (made,))
        return made

    return operation


def _unary_with_params(p: Primitive) -> Operation:
    """One tensor and the row's params in, one tensor out: reductions and views.

    A view remembers whose memory it shares, so that it can renew its history when that memory is changed.
    """
    forward, view, any_dtype, flat, keeps = p.forward, p.view, p.dtypes == "any", not any(p.rules), p.keeps
    keep = keeper(p, (True,))

    def operation(input: Any, *params: Any, out: Any = None) -> Any:
        if out is not None:
            return computed_into(out, operation, (input, *params))
        if not isinstance(input, Tensor):
            if type(input) is ndarray:  # inside a rule
                return forward(input, *params)
            return forward(asarray(input), *params) if isinstance(input, generic) else carefully(p, (input,), params)
        x = input.array
        dtype = x.dtype
        mode = mode_in_force()
        if not (dtype is F32 or dtype is F64 or (any_dtype and type(x) is ndarray)):
            return carefully(p, (input,), params)
        if mode is not None and (mode.attentive or view) and not mode.told:
            return carefully(p, (input,), params)
        try:
            y = forward(x, *params)
        except Exception as error:
            raise explained(p, (x,), params, error) from None
        if type(y) is not ndarray:
            y = asarray(y)
        made = new(Tensor)
        made.array, made.node, made._grad, made.window, made.cut = y, None, None, None, None
        parent = input.node if input.window is None else current_node(input)
        if parent is None or (mode is not None and not mode.told):
            cut = input.cut if view or input.cut is None else input.cut.beyond
            made.cut = cut if mode is None or (parent is None and not mode.inference) else mode
            if mode is not None and parent is not None and mode.region is not None and mode.region.open:
                crossed(mode.region, p.name, (parent,))
        elif flat or y.dtype.kind in "biu":
            cut_off(p, (input,), made)
        else:
            node = made.node = Node()
            node.primitive, node.inputs, node.saved, node.extra = p, (parent,), keep(y, x, params), None
            node.shape, node.stretched, node.born = y.shape, True, tick()
            frame = outside(getframe(1))
            node.code, node.lasti = frame.f_code, frame.f_lasti
            if ALERT and keeps:
                note_exposed(node)
        if view:
            base = y.base
            if base is not None and (base is x or base is x.base or owner_of(y) is owner_of(x)):
                made.window = view_of(input, p, params)
        if mode is not None and mode.told:
            log = mode.log
            if log and made.node and parent.born in log and len(log) < LOGGED:  # type: ignore[union-attr]
                log[node.born], log.last = (p, params, node), made
            else:
                mode.tell(p, (input,), params, (made,))
        return made

    return operation


def _ternary(p: Primitive) -> Operation:
    """Three tensors and the row's params in, one tensor out: linear layers and convolutions with a bias.

    Only the straight way is here, and all else takes that of `_any`: 2.2 µs over NumPy for a linear layer, not 3.8.
    """
    forward, otherwise = p.forward, _any(p)
    keepers: dict[tuple[bool, ...], Any] = {}

    def operation(first: Any, second: Any, third: Any, *params: Any) -> Any:
        if not (isinstance(first, Tensor) and isinstance(second, Tensor) and isinstance(third, Tensor)):
            return otherwise(first, second, third, *params)
        a, b, c = first.array, second.array, third.array
        dtype, mode = a.dtype, mode_in_force()
        if (
            (dtype is not F32 and dtype is not F64) or b.dtype is not dtype or c.dtype is not dtype
            or (mode is not None and not mode.told)
            or not (first.cut is None is second.cut is third.cut)
        ):  # fmt: skip
            return otherwise(first, second, third, *params)
        i = first.node if first.window is None else current_node(first)
        j = second.node if second.window is None else current_node(second)
        k = third.node if third.window is None else current_node(third)
        if i is None is j is k:
            return otherwise(first, second, third, *params)
        try:
            y = forward(a, b, c, *params)
        except Exception as error:
            raise explained(p, (a, b, c), params, error) from None
        if type(y) is not ndarray:
            y = asarray(y)
        needs = (i is not None, j is not None, k is not None)
        keep = keepers.get(needs)
        if keep is None:
            keep = keepers[needs] = keeper(p, needs)
        made = new(Tensor)
        made.array, made._grad, made.window, made.cut = y, None, None, None
        node = made.node = Node()
        node.primitive, node.inputs, node.saved, node.extra = p, (i, j, k), keep(y, a, b, c, params), None
        node.shape, node.stretched, node.born = y.shape, True, tick()
        frame = outside(getframe(1))
        node.code, node.lasti = frame.f_code, frame.f_lasti
        if ALERT:
            note_exposed(node)
        if mode is not None:
            log = mode.log
            if log and i and j and k and i.born in log and j.born in log and k.born in log and len(log) < LOGGED:
                log[node.born], log.last = (p, params, node), made
            else:
                mode.tell(p, (first, second, third), params, (made,))
        return made

    return operation


def _any(p: Primitive) -> Operation:
    """Everything else: inputs and params, three inputs and more, a sequence of inputs, several results."""
    arity, variadic, forward = len(p.rules), p.variadic, p.forward
    any_dtype, single, careful_only = p.dtypes == "any", p.outputs == 1, p.boundary or p.view
    constant_inputs = () if p.pullback is not None else tuple(i for i, rule in enumerate(p.rules) if rule is None)
    keepers: dict[tuple[bool, ...], Any] = {}

    def operation(*arguments: Any, out: Any = None) -> Any:
        if out is not None:
            return computed_into(out, operation, arguments)
        if variadic:
            inputs, params = arguments[0], arguments[1:]
        else:
            inputs, params = arguments[:arity], arguments[arity:]
        mode = mode_in_force()
        if careful_only or (mode is not None and mode.attentive and not mode.told):
            return elsewhere(inputs, params)
        arrays, parents, cuts, dtype = [], [], [], None
        for value in inputs:
            if not isinstance(value, Tensor):
                return elsewhere(inputs, params)
            x = value.array
            kind = x.dtype
            if kind is not dtype:
                if type(x) is not ndarray or not (kind in PLAIN if any_dtype else dtype is None and kind in FLOATS):
                    return elsewhere(inputs, params)
                dtype = kind
            node = value.node if value.window is None else current_node(value)
            if node is None and value.cut is not None:
                if value.cut.inference:
                    return elsewhere(inputs, params)
                cuts.append(value.cut)
            arrays.append(x)
            parents.append(node)
        given = (tuple(arrays),) if variadic else arrays
        try:
            y: Any = forward(*given, *params)
        except Exception as error:
            raise explained(p, tuple(arrays), params, error) from None
        if single:
            if type(y) is not ndarray:
                y = asarray(y)
        else:
            y = tuple([part if type(part) is ndarray else asarray(part) for part in y])
        for i in constant_inputs:
            parents[i] = None
        needs = tuple([parent is not None for parent in parents])
        if (mode is not None and not mode.told) or True not in needs:
            result = unrecorded(inputs, y, NORMAL if mode is None or mode.told else mode)
            if mode is not None and mode.told:
                mode.tell(p, inputs, params, (result,) if single else result)
            return result
        keep = keepers.get(needs)
        if keep is None:
            keep = keepers[needs] = keeper(p, needs)
        for cut in cuts:  # before the node is born: the ledger knows it by that
            joins(cut)
        node = Node()
        node.primitive, node.inputs, node.saved, node.extra = p, tuple(parents), keep(y, *given, params), None
        node.shape, node.stretched, node.born = y.shape if single else None, True, tick()
        frame = outside(getframe(1))
        node.code, node.lasti = frame.f_code, frame.f_lasti
        if ALERT:
            note_exposed(node)
        if not single:
            result = picked(inputs, node, y)
        elif y.dtype.kind not in "biu":
            result = wrap(y, node)
        else:
            result = careful.joined(p, inputs, node, (0, 1), y)
        if mode is not None:
            results = (result,) if single else result
            if mode.log is None or not _left_a_line(mode.log, p, params, node, results):
                mode.tell(p, inputs, params, results)
        return result

    def picked(inputs: Any, node: Node, y: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """Each of several results with the node that picks it, as `careful.joined` but in half the time."""
        made, ways = [], (node,)
        for i, part in enumerate(y):
            if part.dtype.kind in "biu":
                made.append(careful.joined(p, inputs, node, (i, len(y)), part))
                continue
            pick = Node()
            pick.primitive, pick.inputs, pick.saved, pick.extra = PICK, ways, ((i, len(y)),), None
            pick.shape, pick.stretched, pick.born = part.shape, False, tick()
            pick.code, pick.lasti = node.code, node.lasti
            made.append(wrap(part, pick))
        return tuple(made)

    def unrecorded(inputs: Any, y: Any, mode: Any) -> Any:
        """The results of a call that no gradient will come back through."""
        if single:
            return careful.joined(p, inputs, None, (0, 1), y, mode)
        return tuple([careful.joined(p, inputs, None, (i, len(y)), part, mode) for i, part in enumerate(y)])

    def elsewhere(inputs: Any, params: tuple[Any, ...]) -> Any:
        """Arrays inside a rule are computed at once; all that is rare takes the careful way."""
        for value in inputs:
            if type(value) is not ndarray:
                return carefully(p, tuple(inputs), params)
        return forward(tuple(inputs), *params) if variadic else forward(*inputs, *params)

    return operation


def _left_a_line(log: Log, p: Primitive, params: tuple[Any, ...], node: Node, results: tuple[Tensor, ...]) -> bool:
    """Put an operation into a log if that knows all of its inputs (but one that follows from the others)."""
    for parent in node.inputs[:-1] if p.half else node.inputs:
        if parent is None or parent.born not in log:
            return False
    if len(log) >= LOGGED or None in [result.node for result in results]:
        return False
    keys = [result.node.born for result in results]  # type: ignore[union-attr]
    log.update(dict.fromkeys(keys))
    log[keys[0]], log.last = (p, params, node, keys), results[0]
    return True


def cut_beyond(input: Any) -> Any:
    """Why a result computed from this input has no graph, if something cut the input off."""
    cut = getattr(input, "cut", None)
    return None if cut is None else cut.beyond


NUMBERS32: dict[Any, Any] = {}
NUMBERS64: dict[Any, Any] = {}


def number(value: float, dtype: np.dtype) -> Any:
    """A Python number as a 0-d array of a tensor's dtype: NumPy multiplies by that twice as fast (0.44 : 0.82 µs).

    Remembered, except 0.0 (which equals -0.0 as a key); the memory is bounded.
    """
    array = asarray(value, dtype)
    array.flags.writeable = False
    cache = NUMBERS32 if dtype is F32 else NUMBERS64
    if value != 0:
        if len(cache) >= 4096:
            cache.clear()
        cache[value] = array
    return array
