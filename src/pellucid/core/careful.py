"""The door out of the hot path: everything rare about running an operation.

Here dtypes meet, Python numbers and NumPy arrays become tensors, half precision is computed in float32, other
kinds of array (Dual, Batched, Traced) take over, modes and observers have their say, and failures are explained.
"""

import opcode
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, modes
from pellucid.core.attention import HALVES, attend, explained
from pellucid.core.departures import crossed, departed, joins
from pellucid.core.exposure import ALERT
from pellucid.core.keep import keeper
from pellucid.core.kinds import Kind, layers, plain
from pellucid.core.modes import Mode
from pellucid.core.packing import note_exposed, pack
from pellucid.core.primitive import BOUND, TABLE, Primitive, as_written, conjugated
from pellucid.core.provenance import Place, getframe, here, outside
from pellucid.core.tensor import Node, Tensor, View, pick, wrap
from pellucid.core.views import Steps, current_array, current_node, lead_nowhere, looking, lost, shares_memory, view_of
from pellucid.errors import explain

FLOAT32 = np.dtype(np.float32)
FLOATS = frozenset((FLOAT32, np.dtype(np.float64)))


# torch.add(2, 3) is a tensor, as in PyTorch.
OF_NUMBERS = frozenset(("add", "sub", "mul", "div", "div_floor", "div_trunc", "floor_divide"))


def _of_numbers(p: Primitive, inputs: Sequence[Any]) -> bool:
    return p.name in OF_NUMBERS and all(isinstance(value, (int, float, complex)) for value in inputs)


def carefully(p: Primitive, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Run one operation with all the attention the hot path does not have."""
    mode = modes.MODE.get() or modes.NORMAL
    if mode.only_watched and (ready := as_they_are(p, inputs)) is not None:
        operation = BOUND[p.name]
        modes.MODE.set(mode.beneath)  # the hot path costs a third of what follows here
        try:
            result = operation(*ready, *params) if p.rules else operation(ready, *params)  # no rules: variadic
        finally:
            modes.MODE.set(mode)
        mode.tell(p, ready, params, result if p.outputs != 1 else (result,))
        return result
    if not any(isinstance(value, Tensor) for value in inputs) and not _of_numbers(p, inputs):
        return on_arrays(p, tuple(inputs), params)
    if mode.autocast is not None:
        inputs = mode.autocast.cast(p, inputs)
    if declined(inputs):
        return NotImplemented
    if p.name in BY_NUMBER and (found := half_and_number(p, inputs)) is not None:
        return BOUND[f"{p.name}_number"](*found)
    tensors = met(p, inputs)
    arrays = tuple(current_array(tensor) for tensor in tensors)
    if mode.grad and any(isinstance(array, Kind) for array in arrays):
        tensors = admitted(tensors, arrays)
        arrays = tuple(tensor.array for tensor in tensors)
    result = compute(p, arrays, params)
    results = tuple(result) if p.outputs != 1 else (result,)
    numbers = [a for a, v in zip(arrays, inputs, strict=True) if not isinstance(v, Tensor)] if mode.saved_hooks else ()
    node = recorded(p, tensors, arrays, result, params, mode, numbers)
    outs = tuple(_output(p, tensors, node, (i, len(results)), y, params, mode) for i, y in enumerate(results))
    attend(p, tensors, params, outs, mode)
    return outs if p.outputs != 1 else outs[0]


BY_NUMBER = frozenset(("mul", "div"))  # rows that have another, `mul_number`, for halves and a number
WITH_ROUNDED_NUMBERS = frozenset(("pow_number", "pow_of_number"))  # where PyTorch makes the number a half first


def half_and_number(p: Primitive, inputs: Sequence[Any]) -> tuple[Tensor, float] | None:
    """A tensor in half precision times a number: the number does not become a half, as 65536 and 1e-8 would be none.

    So it is in PyTorch, also for a number in a tensor that comes second; a number that is added is rounded before.
    """
    one, two = inputs
    if isinstance(two, Tensor) and p.name == "mul" and type(one) in (int, float):
        one, two = two, one
    if not isinstance(one, Tensor) or one.array.dtype.itemsize != 2 or plain(one.array.dtype) not in HALVES:
        return None
    if isinstance(two, Tensor) and type(two.array) is np.ndarray and two.array.size == 1:
        array, rank = two.array, one.array.ndim
        real = array.dtype in FLOATS and not array.ndim and rank and current_node(two) is None
        if real or (array.dtype.kind in "iu" and array.ndim <= rank):
            two = array.item()
    return (one, two) if type(two) in (int, float) else None


OURS = (Tensor, int, float, complex, np.ndarray, np.generic, Kind)
OPERATORS = frozenset(opcode.opmap[name] for name in ("BINARY_OP", "COMPARE_OP"))


def declined(inputs: Sequence[Any]) -> bool:
    """Whether an operator met a stranger: Python then asks the stranger's class. Functions refuse strangers."""
    if len(inputs) != 2 or all(isinstance(value, OURS) for value in inputs):
        return False
    return by_operator()


def by_operator() -> bool:
    """Whether the user's line calls by an operator, as `x + y` does and `torch.add(x, y)` does not."""
    frame = outside(getframe(1))
    return frame.f_code.co_code[frame.f_lasti] in OPERATORS


def as_they_are(p: Primitive, inputs: Sequence[Any]) -> Sequence[Tensor] | None:
    """The inputs as tensors if the hot path takes them without a cast: floats of one dtype, or any where any will do.

    As there, the identity of the dtype tells other kinds of array apart.
    """
    dtype = None
    for value in inputs:
        if isinstance(value, Tensor):
            kind = value.array.dtype
            if kind is not dtype:
                if type(value.array) is not np.ndarray:
                    return None
                if p.dtypes != "any" and (dtype is not None or kind not in FLOATS):
                    return None
                dtype = kind
        elif dtype is not None and p.elementwise and p.dtypes != "any" and type(value) in (float, int):
            return as_they_are(p, [v if isinstance(v, Tensor) else wrap(np.asarray(v, dtype)) for v in inputs])
        else:
            return None
    return None if dtype is None else inputs


def on_arrays(p: Primitive, inputs: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Inside a rule: no tensors, only arrays of some kind (and perhaps NumPy's scalars or numbers)."""
    if any(isinstance(value, Kind) for value in inputs):
        return compute(p, tuple(_as_array(value, inputs) for value in inputs), params)
    if any(isinstance(value, (np.ndarray, np.generic)) for value in inputs):
        tracer = modes.current().tracer
        if tracer is not None:
            return tracer.forward(p, inputs, params)
        arrays = tuple(np.asarray(value) for value in inputs)
        return p.forward(arrays, *params) if p.variadic else p.forward(*arrays, *params)
    bad = next(value for value in inputs)
    raise TypeError(
        explain(
            f"{as_written(p.name)}(): argument 'input' (position 1) must be Tensor, not {type(bad).__name__}",
            here().text,
            try_="wrap it with torch.tensor(...)",
        )
    )


def _as_array(value: Any, among: tuple[Any, ...]) -> Any:
    """A Python number beside arrays takes their dtype."""
    if isinstance(value, (Kind, np.ndarray, np.generic)):
        return value if isinstance(value, Kind) else np.asanyarray(value)
    return np.asarray(value, dtypes.promote(among) if isinstance(value, (bool, int, float, complex)) else None)


# --- kinds meet


def admitted(tensors: Sequence[Tensor], arrays: Sequence[Any]) -> list[Tensor]:
    """The tensors, those with history taken into every level that one of the arrays belongs to, lowest first.

    Without this step backward could not know that a gradient of that level must leave it again: summed over the
    batch, or without its tangent.
    """
    levels = {level: kind for array in arrays for level, kind in layers(array).items()}
    result = []
    for tensor in tensors:
        missing = sorted(levels.keys() - layers(tensor.array).keys()) if current_node(tensor) is not None else ()
        for level in missing:
            tensor = levels[level].admit(tensor)
        result.append(tensor)
    return result


# --- dtypes meet


def met(p: Primitive, inputs: Sequence[Any]) -> list[Tensor]:
    """The inputs as tensors, of one dtype where the row wants that."""
    if p.dtypes == "any":
        return [as_tensor(value) for value in inputs]
    operands = [value.array if isinstance(value, Tensor) else value for value in inputs]
    if p.dtypes == "equal":
        tensors = [as_tensor(value) for value in inputs]
        _refuse_mixture(p, tensors)
        return tensors
    if p.dtypes == "numbers":
        _refuse_truth(operands)
    try:
        target = dtypes.promote(operands)
    except TypeError:
        _refuse_strangers(p, inputs)
        raise
    if p.dtypes == "float" and target.kind in "biu":
        target = dtypes.default_float()
    return [_as(value, target) for value in inputs]


def _refuse_strangers(p: Primitive, inputs: Sequence[Any]) -> None:
    """Name the argument that is neither a tensor nor a number."""
    for i, value in enumerate(inputs):
        if not isinstance(value, OURS):
            argument = f"argument '{'other' if i else 'input'}' (position {i + 1})"
            what = f"{as_written(p.name)}(): {argument} must be Tensor, not {type(value).__name__}"
            raise TypeError(explain(what, here().text, try_="wrap it with torch.tensor(...)")) from None


def _as(value: Any, target: np.dtype) -> Tensor:
    if isinstance(value, Tensor):
        source = value.array.dtype
        if source == target:
            return value
        cast: Tensor = BOUND["cast"](value, target, plain(source))
        return cast
    if target.kind in "iu" and isinstance(value, int):  # PyTorch wraps a number around where NumPy refuses it
        value = np.asarray(value).astype(target)
    return wrap(np.asarray(value, target))


def _refuse_mixture(p: Primitive, tensors: Sequence[Tensor]) -> None:
    found = {plain(t.array.dtype) for t in tensors}
    if len(found) > 1:
        names = " and ".join(str(dtypes.from_numpy_dtype(t.array.dtype)) for t in tensors)
        raise RuntimeError(
            explain(
                f"{p.name}: expected inputs of the same dtype, got {names}",
                here().text,
                try_="convert one of them, e.g. x.to(other.dtype)",
            )
        )


def _refuse_truth(operands: Sequence[Any]) -> None:
    """PyTorch subtracts no truth values."""
    kinds = [np.dtype(value.dtype).kind if hasattr(value, "dtype") else type(value) for value in operands]
    found = [kind in ("b", bool) for kind in kinds]
    if any(found):
        what = "two bool tensors" if all(found) else "a bool tensor"
        raise RuntimeError(
            explain(
                f"Subtraction, the `-` operator, with {what} is not supported",
                here().text,
                try_="to invert a mask use ~ or logical_not(); otherwise ^, logical_xor(), or .int()",
            )
        )


def as_tensor(value: Any) -> Tensor:
    """A tensor of whatever an operation was given."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (int, float, complex, bool, np.ndarray, np.generic)):
        return Tensor.from_data(value)
    raise TypeError(
        explain(
            f"expected a Tensor, got {type(value).__name__}",
            here().text,
            try_="wrap it with torch.tensor(...)",
        )
    )


# --- compute


def compute(p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Run a row's forward on arrays of any kind and dtype."""
    kinds = [array for array in arrays if isinstance(array, Kind)]
    if p.boundary:  # a way in or out of one level: only the levels above it see an operation, the others pass
        kinds = [kind for kind in kinds if kind.level > params[-1]]
    if kinds:
        return max(kinds, key=lambda kind: kind.level).apply(p, arrays, params)
    if p.boundary:
        y = p.forward(*arrays, *params)
        return np.asarray(y) if isinstance(y, np.generic) else y  # a sum leaves a scalar, which is a number to Python
    tracer = modes.current().tracer
    return computed(p, arrays, params) if tracer is None else tracer.compute(p, arrays, params)


def computed(p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Run a row's forward on ndarrays of any dtype."""
    try:
        if p.dtypes != "any" and arrays:
            dtype = arrays[0].dtype
            if dtype in HALVES:
                return in_float32(p, arrays, params)
            if dtype.itemsize == 1 and dtype in dtypes.FLOAT8:
                _refuse_float8(p, dtype)
                return in_float32(p, arrays, params)
        y = p.forward(arrays, *params) if p.variadic else p.forward(*arrays, *params)
    except Exception as error:
        raise explained(p, arrays, params, error) from None
    return tuple(np.asarray(part) for part in y) if p.outputs != 1 else np.asarray(y)


def in_float32(p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Numbers are stored in 16 bits (or 8, see OF_FLOAT8) and computed in 32, as PyTorch does on the CPU."""
    half = arrays[0].dtype
    wide = tuple(array.astype(FLOAT32) if array.dtype in HALVES or array.dtype == half else array for array in arrays)
    if p.name in WITH_ROUNDED_NUMBERS:
        params = tuple(float(half.type(value)) if type(value) is float else value for value in params)
    if p.name in IN_HALVES:
        return _narrow(IN_HALVES[p.name](half, *wide, *params), half)
    y = p.forward(wide, *params) if p.variadic else p.forward(*wide, *params)
    if p.outputs != 1:
        return tuple(_narrow(part, half) for part in y)
    return _narrow(y, half)


# The rows in which PyTorch rounds on the way in half precision: forward(half, *arrays, *params), of float32 arrays.
IN_HALVES: dict[str, Callable[..., Any]] = {}


def rounded(y: Any, half: np.dtype) -> Any:
    """Float32 numbers as half precision holds them."""
    return _narrow(y, half).astype(FLOAT32)


def _narrow(y: Any, half: np.dtype) -> Any:
    y = np.asarray(y)
    if y.dtype != FLOAT32:
        return y
    return y.astype(half) if half.itemsize == 2 else dtypes.astype(y, half)


def _refuse_float8(p: Primitive, dtype: np.dtype) -> None:
    """Eight bits are for storing: PyTorch computes with them only what OF_FLOAT8 names."""
    if p.name not in OF_FLOAT8:
        kind = dtypes.from_numpy_dtype(dtype)
        raise NotImplementedError(
            explain(
                f"\"{as_written(p.name)}\" not implemented for '{dtypes.scalar_name(kind)}'",
                here().text,
                "floats of eight bits store numbers, nothing is computed in them",
                "compute in a wider type: x.to(torch.float32)",
            )
        )


OF_FLOAT8 = frozenset(("abs", "bmm", "cat", "eq", "matmul", "mm", "ne", "stack"))


# --- record


def recorded(
    p: Primitive,
    tensors: Sequence[Tensor],
    arrays: tuple[Any, ...],
    y: Any,
    params: tuple[Any, ...],
    mode: Mode,
    numbers: Sequence[Any],
) -> Node | None:
    """The node of a call, or None when nothing about it is differentiable or recording is off."""
    if not mode.grad:
        return None
    rules = (True,) * len(tensors) if p.pullback is not None else p.rules
    parents = tuple(None if rule is None else current_node(t) for t, rule in zip(tensors, rules, strict=True))
    if all(parent is None for parent in parents):
        return None
    for tensor, parent in zip(tensors, parents, strict=True):
        if parent is None and tensor.cut is not None:
            rejoin(p, tensor)
    complex_numbers = any(np.dtype(array.dtype).kind == "c" for array in arrays)
    row = conjugated(p) if complex_numbers and TABLE.get(p.name) is p else p  # a custom function does it itself
    keep = kept_by(p, tuple(parent is not None for parent in parents))
    inputs = (arrays,) if p.variadic else arrays
    node = new_node(row, parents, keep(y, *inputs, params), None if p.outputs != 1 else tuple(y.shape), here())
    watch_saved(node, mode, numbers)
    return node


def watch_saved(node: Node, mode: Mode, numbers: Sequence[Any] = ()) -> None:
    """Have an eye on what a new node keeps: memory that NumPy shares, and saved-tensor hooks."""
    if mode.saved_hooks:
        pack(node, *mode.saved_hooks[-1], numbers)
    elif ALERT:
        note_exposed(node)


kept_by: Any = lru_cache(maxsize=4096)(keeper)


def new_node(
    p: Primitive,
    parents: tuple[Node | None, ...],
    saved: Any,
    shape: tuple[int, ...] | None,
    at: FrameType | Place,
    kind: type[Node] = Node,
) -> Node:
    """A node made outside the two hottest paths."""
    node: Node = object.__new__(kind)
    node.primitive, node.inputs, node.saved, node.shape = p, parents, saved, shape
    node.stretched = True
    node.born = aliasing.tick()
    node.code, node.lasti = (at.code, at.lasti) if type(at) is Place else (at.f_code, at.f_lasti)  # type: ignore[union-attr]
    node.extra = None
    return node


def _output(
    p: Primitive,
    tensors: Sequence[Tensor],
    node: Node | None,
    which: tuple[int, int],
    y: Any,
    params: tuple[Any, ...],
    mode: Mode,
) -> Tensor:
    """Wrap one result (`which` of how many); a view also remembers what it looks at."""
    out = joined(p, tensors, node, which, y, mode)
    if p.view and shares_memory(y, tensors[0].array):
        several = MULTI_VIEW.format(p.name) if p.outputs != 1 else ""
        as_view(out, view_of(tensors[0], p, (*tensors[1:], *params), several), mode)
    return out


def as_view(out: Tensor, view: View, mode: Mode) -> Tensor:
    """Let a tensor know what it looks at, unless it was made for inference; one made under no_grad leads nowhere."""
    if mode.inference and out.cut is mode and not modes.MOVED_ANYWAY.get():
        return out
    out.window = view
    if not mode.grad:
        view.forbids = view.forbids or made_under(mode)
        lead_nowhere(out)
    return out


def seen_from(out: Tensor, base: Tensor, steps: Steps, forbids: str, before: View | None = None) -> Tensor:
    """Let a tensor that came out of a transform know that it looks at a base, if it does.

    `before` is a view of the base that this one goes on from: if the base has left the memory of that, it has left the
    memory of this one.
    """
    memory = before.base_array if before is not None and lost(before) else base.array
    if not shares_memory(out.array, memory):
        return out
    view = looking(base, steps, forbids)
    view.base_array = memory
    return as_view(out, view, modes.current())


def joined(
    p: Primitive,
    tensors: Sequence[Tensor],
    node: Node | None,
    which: tuple[int, int],
    y: Any,
    mode: Mode = modes.NORMAL,
) -> Tensor:
    """Wrap one result, joined to the graph if it is differentiable, else marked with what cut it off."""
    if node is None or y.dtype.kind in "biu":
        return wrap(y, None, _why_cut(p, tensors, mode))
    return wrap(y, node if p.outputs == 1 else pick(node, *which, tuple(y.shape)))


def made_under(mode: Mode) -> str:
    """Why a view that was made while nothing was recorded cannot be written to later."""
    return f"A view was created in {'inference' if mode.inference else 'no_grad'} mode and is being modified inplace"


MULTI_VIEW = "This view is the output of a function that returns multiple views: it is one of those that {} returned"


def _why_cut(p: Primitive, tensors: Sequence[Tensor], mode: Mode) -> Any:
    sources = tuple([tensor.node for tensor in tensors if tensor.node is not None])
    region = mode.region
    if region is not None and region.open and sources:
        crossed(region, p.name, sources)
    if mode.inference:
        if not p.view or any(isinstance(tensor.cut, Mode) and tensor.cut.inference for tensor in tensors):
            return mode
        mode = mode.beyond  # a view of an ordinary tensor is one too
    if not sources:
        cuts = [tensor.cut if p.view else tensor.cut.beyond for tensor in tensors if tensor.cut is not None]
        return cuts[0] if cuts else None
    return departed(p.name, sources) if mode.grad else mode


def cut_off(p: Primitive, inputs: Sequence[Any], out: Tensor) -> Tensor:
    """The result of an operation without derivative (a comparison): it has no history, and can tell why."""
    out.node = None
    out.cut = _why_cut(p, [value for value in inputs if isinstance(value, Tensor)], modes.current())
    return out


def rejoin(p: Primitive, tensor: Tensor) -> None:
    """A tensor that was cut off takes part in a graph again; one made under inference_mode cannot be saved for that."""
    joins(tensor.cut)
    if isinstance(tensor.cut, Mode) and tensor.cut.inference:
        made = tensor.cut.entered
        raise RuntimeError(
            explain(
                f"{p.name}: inference tensors cannot be saved for backward",
                here().text,
                f"the tensor was made inside inference_mode() entered at {made.text if made else 'an unknown line'}",
                "use no_grad() there instead, or tensor.clone() here to get a normal tensor",
            )
        )
