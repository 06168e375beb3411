"""In-place operations and what they do to history.

An in-place operation computes its functional form, writes the result into the tensor's memory, and gives the tensor
the result's node. On a view the write also goes into the history of the base: the base becomes "its old self with
this part replaced" (`write_view`), and every view of it renews its history from there when next used.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import setitem
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, modes
from pellucid.core.careful import admitted, new_node
from pellucid.core.commit import Call, together, undoing
from pellucid.core.keep import keeper
from pellucid.core.kinds import Kind, bare, memory_of, with_room
from pellucid.core.modes import Mode
from pellucid.core.packing import note_exposed
from pellucid.core.primitive import BOUND, TABLE
from pellucid.core.provenance import here, warn
from pellucid.core.tensor import Leaf, Node, Tensor, View, wrap
from pellucid.core.views import (
    Steps,
    current_array,
    current_node,
    follow,
    looked_up,
    looking,
    lost,
    replay,
    way_in,
    way_out,
)
from pellucid.errors import explain

Operation = Callable[..., Any]


def in_place(operation: Operation, name: str) -> Operation:
    """The in-place form of an operation: `add` becomes `add_`.

    >>> import pellucid
    >>> x = pellucid.zeros(2)
    >>> x.add_(1) is x
    True
    """
    ufunc = operation.primitive.forward if hasattr(operation, "primitive") else None
    fast = ufunc if isinstance(ufunc, np.ufunc) and ufunc.nout == 1 else None

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self, name)
        for value in args:
            if isinstance(value, Tensor) and (value.window is not None or self.window is not None):
                check_apart(self, value, name)
        if fast is not None and not kwargs and _written_directly(fast, self, args, name):
            return self
        mode = modes.MODE.get()
        if mode is None or not mode.saved_hooks:
            result = operation(self, *args, **kwargs)
            return result if result is NotImplemented else overwrite(self, result, name)
        source = wrap(copied(current_array(self)), current_node(self))
        args = tuple(source if value is self else value for value in args)
        return overwrite(self, operation(source, *args, **kwargs), name)  # saved-tensor hooks see what will stay

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of `{operation.__name__}`: writes the result into the tensor and returns it."
    return method


def _written_directly(ufunc: np.ufunc, target: Tensor, args: tuple[Any, ...], name: str) -> bool:
    """Let NumPy write straight into the tensor, when nothing is recorded and no dtype changes."""
    mode = modes.MODE.get()
    array = target.array
    if type(array) is not np.ndarray or not (array.dtype in FLOATS or (ufunc in WHOLE and array.dtype.kind in "iu")):
        return False
    if mode is not None and (mode.listeners or mode.anomaly or mode.tracer is not None):
        return False
    recording = (mode is None or mode.grad) and target.node is not None
    operands = [array]
    for value in args:
        if isinstance(value, Tensor):
            recording = recording or ((mode is None or mode.grad) and value.node is not None)
            value = value.array
            if type(value) is not np.ndarray or value.dtype != array.dtype:
                return False
        elif type(value) is not int and (type(value) is not float or array.dtype.kind != "f"):
            return False
        operands.append(value)
    if recording or len(operands) != ufunc.nin:
        return False
    for value in operands:  # of the same shape, or one number that is repeated and brings no axes of its own
        other = isinstance(value, np.ndarray) and value.shape != array.shape
        if other and (value.size != 1 or value.ndim > array.ndim):
            return False
    try:
        ufunc(*operands, out=array)
    except OverflowError:  # a number beyond the range of the integers: PyTorch takes it modulo their range
        return False
    note_written(target, array, name)
    return True


FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
WHOLE = frozenset((np.add, np.subtract, np.multiply))  # of integers they make integers


def check_writable(target: Tensor, name: str, alike: bool = False) -> None:
    """Refuse an in-place operation that autograd could not follow, before anything is changed.

    What writes to all elements `alike` may write to elements that share their memory.
    """
    check_memory(target, name, alike)
    if not modes.current().grad:
        return
    node = current_node(target)
    if target.window is not None:
        check_view(target, name)
        for way in ways_out(target):
            check_writable(way(target), name, alike)
    if isinstance(node, Leaf):
        raise RuntimeError(
            explain(
                f"{name}: a leaf Variable that requires grad is being used in an in-place operation",
                str(here()),
                "its gradient would belong to a value that no longer exists",
                "wrap the update in `with torch.no_grad():`, or use the out-of-place form",
            )
        )


def check_memory(target: Tensor, name: str, alike: bool = False) -> None:
    """Refuse to write to memory that cannot be written to, whether or not anything is recorded."""
    if isinstance(target.cut, Mode) and target.cut.inference and not modes.current().inference:
        raise RuntimeError(
            explain(
                f"{name}: inplace update to an inference tensor outside inference_mode is not allowed",
                str(here()),
                try_="clone() it first",
            )
        )
    for array in memory_of(current_array(target)):
        _check_memory(target, array, name, alike)


def _check_memory(target: Tensor, array: np.ndarray, name: str, alike: bool) -> None:
    """Refuse to write to memory that is read-only, or to an element of it twice."""
    if not array.flags.writeable:
        raise RuntimeError(
            explain(
                f"{name}: the tensor's memory is read-only",
                str(here()),
                "it shares the memory of a NumPy array that is marked as not writeable",
                "clone() it first",
            )
        )
    if not alike and 0 in array.strides and array.size and _overlaps(array):
        raise RuntimeError(
            explain(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location",
                str(here()),
                f"{name} would write to a tensor of shape {tuple(target.array.shape)} that was expanded and shares its "
                "elements",
                "clone() it before the operation",
            )
        )


def _overlaps(array: np.ndarray) -> bool:
    return any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))


def check_apart(target: Tensor, source: Tensor, name: str) -> None:
    """Refuse to read from memory that is partly that written to: what was read would depend on the order."""
    a, b = target.array, source.array
    if not (type(a) is type(b) is np.ndarray and a.flags.forc and b.flags.forc and np.may_share_memory(a, b)):
        return
    if a.ctypes.data != b.ctypes.data or a.strides != b.strides or a.size != b.size:
        raise RuntimeError(
            explain(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location",
                str(here()),
                f"{name} would read from elements that it has written to already",
                "clone() one of the tensors before the operation",
            )
        )


def check_view(target: Tensor, name: str, recorded: bool = False) -> None:
    """Refuse an in-place operation on a view whose base could not follow; `recorded`: by what is written it would."""
    view = target.window
    assert view is not None
    if lost(view):
        if recorded or target.node is not None:
            raise RuntimeError(
                explain(
                    f"{name}: this view cannot be modified in place while gradients are recorded",
                    str(here()),
                    "the tensor it was a view of has been given other memory since, e.g. by `.data = ...`, so that no "
                    "tensor is left whose history could tell other views of the old memory",
                    "clone() it first, or use the out-of-place form",
                )
            )
        return
    if view.forbids and (recorded or view.base.node is not None or target.node is not None):
        raise RuntimeError(
            explain(
                f"{name}: this view cannot be modified in place while gradients are recorded",
                str(here()),
                view.forbids,
                "clone() it first, or use the out-of-place form",
            )
        )
    if isinstance(view.base.node, Leaf):
        raise RuntimeError(
            explain(
                f"{name}: a view of a leaf Variable that requires grad is being used in an in-place operation",
                str(here()),
                "its gradient would belong to a value that no longer exists",
                "wrap the update in `with torch.no_grad():`, or change a clone()",
            )
        )


def overwrite(target: Tensor, result: Tensor, name: str) -> Tensor:
    """Write the result of an operation into a tensor's memory and give the tensor its history."""
    _check_fits(target, result, name)
    result = _cast(result, target)
    mode = modes.current()
    if mode.grad and isinstance(target.array, Kind):
        (result,) = admitted([result], [current_array(target)])
    node = result.node if mode.grad else None
    if node is not None:
        if target.window is not None:
            check_view(target, name, recorded=True)
        _protect(node, target, result)
    for observer in mode.listeners:
        if hasattr(observer, "before_write"):
            observer.before_write()
    write(target, result.array, name)
    if mode.grad:
        if node is not None:
            node.born = aliasing.tick()  # younger than the write: what it kept of the result is the new value
            if aliasing.EXPOSED and node.primitive.keeps:
                note_exposed(node)
        rebase(target, node, result)
    for observer in mode.listeners:
        observer.write(target, name)
    return target


def computed_into(
    out: Any, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, name: str = ""
) -> Any:
    """Call an operation and write what it returns into the tensors of `out=`, one or several.

    As in PyTorch nothing is recorded, and an output of another shape is given the result's shape. Which dtypes it may
    have is the operation's affair: its `out_rule` is one of OUT_RULES.
    """
    name = name or operation.__name__
    rule = getattr(operation, "out_rule", "cast")
    outs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if modes.current().grad and any(value.requires_grad for value in _tensors_of((outs, args, kwargs))):
        raise RuntimeError(
            explain(
                f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
                "arguments requires grad",
                str(here()),
                "writing into given memory leaves no graph",
                "call it without out=, or inside `with torch.no_grad():`",
            )
        )
    if any(isinstance(value.array, Kind) and value.array.spreads for value in _tensors_of((outs, args, kwargs))):
        raise NotImplementedError(
            explain(
                f"Trying to use forward AD with {name} that does not support it because it is an out= function",
                str(here()),
                try_="call it without out=",
            )
        )
    for value in _tensors_of(args):
        for target in _tensors_of(outs):
            check_apart(target, value, name)
    kwargs = kwargs or {}
    if rule == "own" and isinstance(out, Tensor) and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": dtypes.from_numpy_dtype(out.array.dtype)}
    result = operation(*args, **kwargs)
    if rule == "alone":
        rule = "cast" if isinstance(result, Tensor) else "exact"
    write_out(outs, result if isinstance(result, (tuple, list)) else (result,), name, rule)
    if not isinstance(result, tuple):
        return out
    return type(result)(*outs) if hasattr(result, "_fields") else outs


def _tensors_of(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_of(part)


# Which dtype an output may have for a result of another, as PyTorch's kernels have it. "own": the operation computes in
# the output's dtype, so that its result has that dtype already. "alone" (max, min): "cast", but "exact" for a pair.
# "join" (cat, stack): "cast", with another exception.
OUT_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "cast": dtypes.can_cast,
    "join": dtypes.can_cast,
    "exact": lambda result, out: result is out,
    "own": lambda result, out: result is out,
    "real": lambda result, out: dtypes.can_cast(result, out) and not out.is_complex,
    "floating": lambda result, out: out.is_complex or out.is_floating_point,
    "any": lambda result, out: True,
}


def write_out(outs: Sequence[Tensor], results: Sequence[Tensor], name: str, rule: str = "cast") -> None:
    """Write results into tensors that the user brought: everything is checked before anything is written."""
    if len(outs) != len(results) or not all(isinstance(out, Tensor) for out in outs):
        given = ", ".join(type(out).__name__ for out in outs)
        raise TypeError(f"{name}(): argument 'out' must be {len(results)} Tensor(s), not ({given})")
    for out, result in zip(outs, results, strict=True):
        check_writable(out, name)
        _check_output(out, result, name, rule)
    for out, result in zip(outs, results, strict=True):
        if tuple(out.array.shape) == tuple(result.array.shape):
            overwrite(out, _cast(result, out), name)
        else:
            _reshape_out(out, result)


def _check_output(out: Tensor, result: Tensor, name: str, rule: str) -> None:
    """Refuse an output whose dtype the operation does not write to."""
    source, goal = (dtypes.from_numpy_dtype(t.array.dtype) for t in (result, out))
    if rule == "cast":
        _check_castable(out, result, name)
    elif rule == "join" and not dtypes.can_cast(source, goal):
        what = f"{name}(): input types can't be cast to the desired output type {dtypes.scalar_name(goal)}"
        raise TypeError(explain(what, str(here()), try_=f"give it an `out` of dtype {source}, or convert the inputs"))
    elif not OUT_RULES[rule](source, goal):
        raise RuntimeError(
            explain(
                f"{name}(): Expected out tensor to have dtype {dtypes.scalar_name(source)}, but got "
                f"{dtypes.scalar_name(goal)} instead",
                str(here()),
                "this operation writes its result as it is, without a conversion",
                f"give it an `out` of dtype {source}, or convert the result: result.to({goal})",
            )
        )


def _cast(result: Tensor, like: Tensor) -> Tensor:
    if result.array.dtype == like.array.dtype:
        return result
    cast: Tensor = BOUND["cast"](result, dtypes.as_numpy_dtype(like.array.dtype), result.array.dtype)
    return cast


def _reshape_out(out: Tensor, result: Tensor) -> None:
    """Give an output the shape and the values of a result; one that held values is probably a mistake."""
    if out.array.size:
        warn(
            f"An output with one or more elements was resized since it had shape {list(out.array.shape)}, which does "
            f"not match the required output shape {list(result.array.shape)}. Resize it to zero elements first, "
            "`t.resize_(0)`, if that is meant."
        )
    out.array, out.window = result.array.astype(out.array.dtype), None


def _check_fits(target: Tensor, result: Tensor, name: str) -> None:
    if tuple(result.array.shape) != tuple(target.array.shape):
        raise RuntimeError(
            explain(
                f"{name}: output with shape {list(target.array.shape)} doesn't match the broadcast shape "
                f"{list(result.array.shape)}",
                str(here()),
                "an in-place operation cannot change the shape of its tensor",
                "use the out-of-place form",
            )
        )
    _check_castable(target, result, name)


def _check_castable(target: Tensor, result: Tensor, name: str) -> None:
    source, goal = (dtypes.from_numpy_dtype(t.array.dtype) for t in (result, target))
    if not dtypes.can_cast(source, goal):
        raise RuntimeError(
            explain(
                f"{name}: result type {dtypes.scalar_name(source)} can't be cast to the desired output type "
                f"{dtypes.scalar_name(goal)}",
                str(here()),
                try_="use the out-of-place form, or convert the tensor first",
            )
        )


def write(target: Tensor, value: Any, name: str) -> None:
    """Put a value into the memory of a tensor."""
    array, value = current_array(target), bare(value)
    if isinstance(value, Kind):
        if isinstance(array, np.ndarray) and not value.spreads:
            raise no_room(value, name)
        if with_room(array, value) is not array:
            if outward := ways_out(target):
                for way in outward:
                    write(way(target), way(wrap(value)).array, name)
                return
            array = _make_room(target, value)
    write_part(array, value, name, partial(note_written, target))


def write_part(array: Any, value: Any, name: str, note: Callable[[np.ndarray, str], None]) -> None:
    """Write a value into the memory of an array, and `note` that."""
    if isinstance(array, Kind):
        array.overwrite(value, name, note)
    elif isinstance(value, Kind):
        raise no_room(value, name)
    else:
        np.copyto(array, value, casting="unsafe")
        note(array, name)


def no_room(value: Kind, name: str) -> Exception:
    """Why a value of a transformed function cannot be written to memory that was there before."""
    return RuntimeError(
        explain(
            f"{name}: a {type(value).__name__} value cannot be written into an ordinary tensor",
            str(here()),
            "the tensor was made without regard to the transformed function's input and has no room for it",
            "use the out-of-place form, or make the tensor from the input, e.g. zeros_like(x) or x.clone()",
        )
    )


def _make_room(target: Tensor, value: Kind) -> Any:
    """Give a tensor, and what it is a view of, room for what a value carries beside its elements: tangents."""
    view = target.window
    base = target if view is None else view.base
    base.array = with_room(base.array, value)
    if view is not None:
        target.array, view.base_array = looked_up(base.array, view.steps), base.array
    return target.array


def note_written(target: Tensor, array: np.ndarray, name: str) -> None:
    """Note a write to a tensor's memory: by way of `.data` it is one to a part, which PyTorch does not count."""
    owner = target if target.window is None else target.window.base
    (aliasing.note_part if getattr(owner, "_aside", False) else aliasing.note_write)(array, name)


# --- many tensors at once, outside of any graph


def write_all(
    targets: Sequence[Tensor], prepare: Callable[[], list[Call]], one_by_one: Callable[[], None],
    read: Sequence[Tensor] = (), back: Sequence[Call] = (),
) -> None:  # fmt: skip
    """Write to tensors, to all of them or to none.

    `prepare` gives the calls for plain memory that nobody watches. Otherwise `one_by_one` writes, by operations that
    those who watch can see, and if it does not come to its end, the old values are put `back`.

    >>> import pellucid as torch
    >>> x, y = torch.ones(2), torch.ones(2)
    >>> with torch.autograd.set_detect_anomaly(True):
    ...     try:
    ...         write_all([x, y], list, lambda: (x.zero_(), 1 / 0))
    ...     except ZeroDivisionError:
    ...         print(x)
    tensor([1., 1.])
    """
    if is_plain([*targets, *read]):
        together(prepare())
        return
    undo = undoing([*as_they_are(targets), *back])
    try:
        modes.apart(_unrecorded, one_by_one)
    except BaseException:
        undo()
        raise


def _unrecorded(write: Callable[[], None]) -> None:
    with modes.recording(False):
        write()


def is_plain(tensors: Iterable[Tensor]) -> bool:
    """Whether tensors are plain memory that nobody watches: then it can be written to without them."""
    mode = modes.MODE.get()
    if mode is not None and (mode.observers or mode.anomaly or mode.tracer is not None):
        return False
    return all(type(tensor.array) is np.ndarray for tensor in tensors)


def scaling(tensors: Sequence[Tensor], factor: float, name: str) -> list[Call]:
    """The calls that multiply plain tensors by a number, for `together`; everything is checked, noted and allocated."""
    calls: list[Call] = []
    for tensor in tensors:
        check_memory(tensor, name)
        array = tensor.array
        if array.dtype in FLOATS:
            calls.append((np.multiply, array, factor, array))
        else:  # halves are multiplied as float32
            calls.append((setitem, array, ..., BOUND["mul"](wrap(array), factor).array.astype(array.dtype)))
    note_together(tensors, name)
    return calls


def copying(targets: Sequence[Tensor], sources: Sequence[Any], name: str) -> list[Call]:
    """The calls that write the values of some plain tensors into others, for `together`; prepared in the same way."""
    calls: list[Call] = []
    for target, source in zip(targets, sources, strict=True):
        check_memory(target, name)
        array = source.array if isinstance(source, Tensor) else np.asarray(source)
        value = array.astype(target.array.dtype, copy=np.may_share_memory(array, target.array))
        calls.append((setitem, target.array, ..., np.broadcast_to(value, target.array.shape)))
    note_together(targets, name)
    return calls


def note_together(tensors: Iterable[Tensor], name: str) -> None:
    """Tell the ledger of writes that are about to happen."""
    for tensor in tensors:
        note_written(tensor, tensor.array, name)


def as_they_are(tensors: Iterable[Tensor]) -> list[Call]:
    """The calls that give tensors back the values they have now; other kinds of array are replaced, never written."""
    arrays = [tensor.array for tensor in tensors if isinstance(tensor.array, np.ndarray)]
    return [(setitem, array, ..., array.copy()) for array in arrays]


def _protect(node: Node, target: Tensor, result: Tensor) -> None:
    """Before the write: what the node kept of the old value becomes a copy, of the new value the tensor itself."""
    if node.primitive.keeps:
        node.saved = _protected(node.saved, target.array, result.array)


def _protected(value: Any, old: Any, new: Any) -> Any:
    if type(value) is tuple:
        return tuple(_protected(part, old, new) for part in value)
    if value is new and isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        return old
    shared = any(np.may_share_memory(mine, theirs) for mine in memory_of(value) for theirs in memory_of(old))
    return copied(value) if shared else value


def copied(array: Any) -> Any:
    """An array of the same kind in memory of its own."""
    return array.copy() if isinstance(array, np.ndarray) else BOUND["clone"](array, "K")


def ways_out(target: Tensor) -> tuple[Callable[[Tensor], Tensor], ...]:
    """Of a view from inside a transform at a tensor outside: how to get from what is seen inside to what is outside."""
    array = target.array
    if isinstance(array, Kind) and way_in(target, array.level)[1] is not None:
        return array.ways_out()
    return ()


def rebase(target: Tensor, node: Node | None, result: Tensor) -> None:
    """Give a tensor that was written its new history; through a view, give it to the base."""
    view = target.window
    if view is None:
        follow(target, node)
        target.cut = result.cut
        return
    if lost(view) or (node is None and current_node(view.base) is None and type(view) is View):
        return
    written = wrap(target.array, node)
    at = way_out(view.steps)
    if outward := ways_out(target):
        for way in outward:
            rebase(way(target), way(written).node, result)
    elif at is not None:
        inside = _seen(view, view.steps[:at])
        if view.steps[at + 1 :]:
            written = _with_part(_seen(view, view.steps[: at + 1]), written, view.steps[at + 1 :])
        rebase(inside, inside.array.back_in(view.steps[at][0], written, inside).node, result)
    else:
        base = view.base
        follow(base, _with_part(base, written, view.steps).node)
        base.cut = None
    follow(target, replay(view.base, view.steps).node)
    view.renew(view.base)


def _seen(view: View, steps: Steps) -> Tensor:
    """A tensor that looks at the base of a view, by some of its steps."""
    base = view.base
    if not steps:
        return base
    tensor = replay(base, steps)
    tensor.window = looking(base, steps, view.forbids)
    return tensor


def _with_part(whole: Tensor, part: Tensor, steps: Steps) -> Tensor:
    """A tensor in whose memory a part was written, with the history of that."""
    p = TABLE["write_view"]
    parents = current_node(whole), part.node
    keep = keeper(p, (parents[0] is not None, parents[1] is not None))
    saved = keep(whole.array, whole.array, part.array, (steps,))
    return wrap(whole.array, new_node(p, parents, saved, tuple(whole.array.shape), here()))
