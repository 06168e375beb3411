"""In-place operations and what they do to history.

An in-place operation computes its functional form, writes the result into the tensor's memory, and gives the tensor
the result's node. On a view the write also goes into the history of the base: the base becomes "its old self with
this part replaced" (`write_view`), and every view of it renews its history from there when next used.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, modes
from pellucid.core.careful import admitted, new_node
from pellucid.core.keep import keeper
from pellucid.core.kinds import Kind
from pellucid.core.modes import Mode
from pellucid.core.primitive import BOUND, TABLE
from pellucid.core.provenance import here, warn
from pellucid.core.tensor import Cut, Leaf, Node, Tensor, wrap
from pellucid.core.views import current_array, current_node, follow, replay
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
        source = wrap(np.array(self.array) if isinstance(self.array, np.ndarray) else self.array, current_node(self))
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
    if any(isinstance(v, np.ndarray) and v.shape != array.shape and v.size != 1 for v in operands):
        return False
    try:
        ufunc(*operands, out=array)
    except OverflowError:  # a number beyond the range of the integers: PyTorch takes it modulo their range
        return False
    aliasing.note_write(array, name)
    return True


FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
WHOLE = frozenset((np.add, np.subtract, np.multiply))  # of integers they make integers


def check_writable(target: Tensor, name: str, alike: bool = False) -> None:
    """Refuse an in-place operation that autograd could not follow, before anything is changed.

    What writes to all elements `alike` may write to elements that share their memory.
    """
    mode = modes.current()
    if isinstance(target.cut, Mode) and target.cut.inference and not mode.inference:
        raise RuntimeError(
            explain(
                f"{name}: inplace update to an inference tensor outside inference_mode is not allowed",
                str(here()),
                try_="clone() it first",
            )
        )
    array = target.array
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise RuntimeError(
            explain(
                f"{name}: the tensor's memory is read-only",
                str(here()),
                "it shares the memory of a NumPy array that is marked as not writeable",
                "clone() it first",
            )
        )
    if not alike and isinstance(array, np.ndarray) and 0 in array.strides and array.size and _overlaps(array):
        raise RuntimeError(
            explain(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location",
                str(here()),
                f"{name} would write to a tensor of shape {array.shape} that was expanded and shares its elements",
                "clone() it before the operation",
            )
        )
    if not mode.grad:
        return
    node = current_node(target)
    if target.window is not None:
        check_view(target, name)
    if isinstance(node, Leaf):
        raise RuntimeError(
            explain(
                f"{name}: a leaf Variable that requires grad is being used in an in-place operation",
                str(here()),
                "its gradient would belong to a value that no longer exists",
                "wrap the update in `with torch.no_grad():`, or use the out-of-place form",
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
    """Put a value into the memory of a tensor; other kinds of array are replaced, also in the base of a view."""
    array = current_array(target)
    if isinstance(array, Kind) or isinstance(value, Kind):
        if isinstance(array, np.ndarray) and not value.spreads:
            raise RuntimeError(
                explain(
                    f"{name}: a {type(value).__name__} value cannot be written into an ordinary tensor",
                    str(here()),
                    "the tensor was made without regard to the transformed function's input and has no room for it",
                    "use the out-of-place form, or make the tensor from the input, e.g. zeros_like(x) or x.clone()",
                )
            )
        target.array = (value if isinstance(array, np.ndarray) else array).overwrite(value, name)
        view = target.window
        if view is not None:
            view.base.array = view.base_array = BOUND["write_view"](view.base.array, target.array, view.steps)
        return
    np.copyto(array, value, casting="unsafe")
    note_written(target, array, name)


def note_written(target: Tensor, array: np.ndarray, name: str) -> None:
    """Note a write to a tensor's memory: by way of `.data` it is one to a part, which PyTorch does not count."""
    cut = (target if target.window is None else target.window.base).cut
    by_data = type(cut) is Cut and cut.by == "data"
    (aliasing.note_part if by_data else aliasing.note_write)(array, name)


def _protect(node: Node, target: Tensor, result: Tensor) -> None:
    """Before the write: what the node kept of the old value becomes a copy, of the new value the tensor itself."""
    if node.primitive.keeps:
        node.saved = _protected(node.saved, target.array, result.array)


def _protected(value: Any, old: Any, new: Any) -> Any:
    if isinstance(old, np.ndarray) and isinstance(value, np.ndarray):
        if value is new:
            return old
        return value.copy() if np.may_share_memory(value, old) else value
    return tuple(_protected(part, old, new) for part in value) if type(value) is tuple else value


def rebase(target: Tensor, node: Node | None, result: Tensor) -> None:
    """Give a tensor that was written its new history; through a view, give it to the base."""
    view = target.window
    if view is None:
        follow(target, node)
        target.cut = result.cut
        return
    base = view.base
    parent = current_node(base)
    if node is None and parent is None:
        return
    p = TABLE["write_view"]
    steps = view.steps
    keep = keeper(p, (parent is not None, node is not None))
    saved = keep(base.array, base.array, target.array, (steps,))
    follow(base, new_node(p, (parent, node), saved, tuple(base.array.shape), here()))
    base.cut = None
    follow(target, replay(base, steps).node)
    view.base_node, view.born = base.node, aliasing.tick()
