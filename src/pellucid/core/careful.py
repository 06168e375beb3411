"""The door out of the hot path: everything rare about running an operation.

Here dtypes meet, Python numbers and NumPy arrays become tensors, half precision is computed in float32, other
kinds of array (Dual, Batched, Traced) take over, modes and observers have their say, and failures are explained.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, modes
from pellucid.core.keep import keeper
from pellucid.core.modes import Mode
from pellucid.core.primitive import BOUND, Primitive
from pellucid.core.provenance import Place, here
from pellucid.core.tensor import Cut, Node, Operators, Tensor, View, extra_of, pick, wrap
from pellucid.errors import AnomalyError, explain

HALVES = frozenset((np.dtype(np.float16), dtypes.bfloat16.numpy))
FLOAT32 = np.dtype(np.float32)


class Kind(Operators):
    """An array that is not an ndarray: it decides itself what an operation on it means.

    A kind sets `level`, `shape` and `dtype` (an equal but not identical copy of NumPy's, see `foreign`), and
    `apply(primitive, arrays, params)`; of several kinds in one call the one of the highest level acts first.
    """

    __slots__ = ()
    __array_ufunc__ = None  # ndarray * kind asks the kind's own operators

    level: int
    shape: tuple[int, ...]
    dtype: Any
    spreads = False  # whether an ordinary tensor may become of this kind by an in-place operation

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def apply(self, p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run an operation of which this is one of the inputs."""
        raise NotImplementedError

    def layers(self) -> dict[int, "Kind"]:
        """This array and the kinds inside it, by level."""
        return {self.level: self}

    def admit(self, tensor: Tensor) -> Tensor:
        """Take a tensor with history from outside into this level, by a step that backward can undo."""
        return tensor

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Run a custom function of which this is one of the inputs: (context, outputs), or None to run its forward."""
        return None

    def overwrite(self, value: Any, name: str) -> Any:
        """What a tensor that holds this array holds after the in-place operation `name`."""
        return value

    def detached(self) -> Any:
        """The array without what differentiates it."""
        return self

    def concrete(self, what: str) -> np.ndarray:
        """The values as an ndarray, for Python code that looks at them; `what` is the operation that does."""
        raise RuntimeError(
            explain(
                f"{what} needs the values of a {type(self).__name__} array, which has none of its own",
                str(here()),
                "inside a transformed function a tensor stands for many values, or for values not known yet",
                "use tensor operations instead, e.g. torch.where instead of `if`",
            )
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} array has no values of its own to give to NumPy")

    def __array_function__(self, function: Any, *_: Any) -> Any:
        raise TypeError(f"np.{function.__name__} does not take a {type(self).__name__} array")


@lru_cache(maxsize=64)
def foreign(dtype: np.dtype) -> np.dtype:
    """A dtype equal to NumPy's but not the same object, so that the hot path's identity test sends kinds here."""
    return np.dtype(dtype, metadata={"pellucid": "kind"})


def plain(dtype: np.dtype) -> np.dtype:
    """NumPy's own object for a dtype (unpickled arrays and kinds carry copies of it)."""
    return dtypes.from_numpy_dtype(dtype).numpy


def carefully(p: Primitive, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Run one operation with all the attention the hot path does not have."""
    if not any(isinstance(value, Tensor) for value in inputs):
        return on_arrays(p, tuple(inputs), params)
    mode = modes.current()
    tensors = met(p, inputs)
    arrays = tuple(current_array(tensor) for tensor in tensors)
    if mode.grad and any(isinstance(array, Kind) for array in arrays):
        tensors = admitted(tensors, arrays)
        arrays = tuple(tensor.array for tensor in tensors)
    result = compute(p, arrays, params)
    results = tuple(result) if p.outputs != 1 else (result,)
    node = recorded(p, tensors, arrays, result, params, mode)
    outs = tuple(_output(p, tensors, node, (i, len(results)), y, params, mode) for i, y in enumerate(results))
    attend(p, tensors, params, outs, mode)
    return outs if p.outputs != 1 else outs[0]


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
            f"{p.name}: argument must be a Tensor, not {type(bad).__name__}",
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


def layers(array: Any) -> dict[int, Kind]:
    """The kinds an array is made of, by level; an ndarray has none."""
    return array.layers() if isinstance(array, Kind) else {}


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
    target = dtypes.promote(operands)
    if p.dtypes == "float" and target.kind in "biu":
        target = dtypes.default_float()
    return [_as(value, target) for value in inputs]


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
        return p.forward(*arrays, *params)
    tracer = modes.current().tracer
    return computed(p, arrays, params) if tracer is None else tracer.compute(p, arrays, params)


def computed(p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Run a row's forward on ndarrays of any dtype."""
    try:
        if p.dtypes != "any" and arrays and arrays[0].dtype in HALVES:
            return in_float32(p, arrays, params)
        y = p.forward(arrays, *params) if p.variadic else p.forward(*arrays, *params)
    except Exception as error:
        raise explained(p, arrays, params, error) from None
    return tuple(np.asarray(part) for part in y) if p.outputs != 1 else np.asarray(y)


def in_float32(p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Half precision is stored in 16 bits and computed in 32, as PyTorch does on the CPU."""
    half = arrays[0].dtype
    wide = tuple(array.astype(FLOAT32) if array.dtype in HALVES else array for array in arrays)
    y = p.forward(wide, *params) if p.variadic else p.forward(*wide, *params)
    if p.outputs != 1:
        return tuple(_narrow(part, half) for part in y)
    return _narrow(y, half)


def _narrow(y: Any, half: np.dtype) -> Any:
    y = np.asarray(y)
    return y.astype(half) if y.dtype == FLOAT32 else y


# --- record


def recorded(
    p: Primitive,
    tensors: Sequence[Tensor],
    arrays: tuple[Any, ...],
    y: Any,
    params: tuple[Any, ...],
    mode: Mode,
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
            refuse_inference(p, tensor)
    complex_numbers = any(np.dtype(array.dtype).kind == "c" for array in arrays)
    row = p.conjugated if complex_numbers and p.conjugated is not None else p
    keep = kept_by(p, tuple(parent is not None for parent in parents))
    inputs = (arrays,) if p.variadic else arrays
    node = new_node(row, parents, keep(y, *inputs, params), None if p.outputs != 1 else tuple(y.shape), here())
    watch_saved(node, mode)
    return node


def watch_saved(node: Node, mode: Mode) -> None:
    """Have an eye on what a new node keeps: fingerprints of exposed memory, and saved-tensor hooks."""
    if mode.saved_hooks:
        pack(node, *mode.saved_hooks[-1])
    elif aliasing.EXPOSED:
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
    node.code = at.code if isinstance(at, Place) else at.f_code
    node.lasti = at.lasti if isinstance(at, Place) else at.f_lasti
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
    if p.view and not mode.inference and _shares_memory(y, tensors[0].array):
        forbids = "" if mode.grad else "it was made under no_grad"
        out.window = view_of(tensors[0], p, params, forbids or (MULTI_VIEW.format(p.name) if p.outputs != 1 else ""))
    return out


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


MULTI_VIEW = "it is one of several views that {} returned"


def _shares_memory(y: Any, x: Any) -> bool:
    if isinstance(y, np.ndarray) and isinstance(x, np.ndarray):
        return y.base is not None and aliasing.owner_of(y) is aliasing.owner_of(x)
    return isinstance(y, Kind)


def view_of(input: Tensor, p: Primitive, params: tuple[Any, ...], forbids: str = "") -> View:
    """The view that a step from `input` makes: from the same base, one step further."""
    before = input.window
    if before is None:
        return View(input, ((p, params),), forbids)
    return View(before.base, (*before.steps, (p, params)), before.forbids or forbids)


def _why_cut(p: Primitive, tensors: Sequence[Tensor], mode: Mode) -> Any:
    if mode.inference:
        return mode
    sources = [tensor for tensor in tensors if tensor.node is not None]
    if not sources:
        cuts = [tensor.cut if p.view else tensor.cut.beyond for tensor in tensors if tensor.cut is not None]
        return cuts[0] if cuts else None
    if not mode.grad:
        return mode
    node = sources[0].node
    return Cut(p.name, here(), "" if node is None else node.name())


def cut_off(p: Primitive, inputs: Sequence[Any], out: Tensor) -> Tensor:
    """The result of an operation without derivative (a comparison): it has no history, and can tell why."""
    out.node = None
    out.cut = _why_cut(p, [value for value in inputs if isinstance(value, Tensor)], modes.current())
    return out


def refuse_inference(p: Primitive, tensor: Tensor) -> None:
    """A tensor made under inference_mode cannot be saved for backward."""
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


# --- views


def current_node(tensor: Tensor) -> Node | None:
    """The node of a tensor; a view whose base was changed in place gets its history anew from the base."""
    view = tensor.window
    if view is None or (
        view.base.node is view.base_node
        and (view.base.array is view.base_array or isinstance(tensor.array, np.ndarray))
    ):
        return tensor.node
    _refresh(tensor, view)
    return tensor.node


def current_array(tensor: Tensor) -> Any:
    """The array of a tensor; a view over a kind of array is taken anew from its base (kinds are immutable)."""
    view = tensor.window
    if view is not None and view.base.array is not view.base_array and isinstance(view.base.array, Kind):
        _refresh(tensor, view)
    mode = modes.MODE.get()
    if mode is not None and mode.tracer is not None:
        mode.tracer.lift(tensor)
    return tensor.array


def _refresh(tensor: Tensor, view: View) -> None:
    base = view.base
    if isinstance(tensor.array, np.ndarray) and isinstance(base.array, np.ndarray):
        write = aliasing.write_to(tensor.array)
        if write is None or write.tick < view.born:  # the base changed by requires_grad_, not by a write
            return
    if view.forbids and current_node(base) is not None:
        raise RuntimeError(
            explain(
                "a view was used whose base or another view of its base has been modified inplace",
                str(here()),
                view.forbids,
                "clone() the view when it is made, or change the base by an out-of-place operation",
            )
        )
    with modes.switched(grad=True, inference=False, anomaly=False, saved_hooks=(), observers=()):
        replayed = wrap(base.array, current_node(base))
        for p, params in view.steps:
            replayed = BOUND[p.name](replayed, *params)
    tensor.array, tensor.node = replayed.array, replayed.node
    view.base_node, view.base_array, view.born = base.node, base.array, aliasing.tick()


# --- saved values that need watching


def kept_arrays(saved: Any) -> list[np.ndarray]:
    """Every ndarray among the arguments that a node keeps for its rules."""
    if isinstance(saved, np.ndarray):
        return [saved]
    if isinstance(saved, (tuple, list)):
        return [array for part in saved for array in kept_arrays(part)]
    return []


def note_exposed(node: Node) -> None:
    """Take fingerprints of kept arrays whose memory a NumPy array outside shares."""
    for array in kept_arrays(node.saved):
        if aliasing.is_exposed(array):
            extra_of(node).fingerprints.append((array, aliasing.fingerprint(array)))


class Packed:
    """A kept value that a saved-tensor hook has put somewhere else."""

    __slots__ = ("unpack", "value")

    def __init__(self, value: Any, unpack: Any) -> None:
        self.value = value
        self.unpack = unpack


# The node whose values are being packed: checkpointing notes the operation that would have kept them.
PACKING: ContextVar[Node | None] = ContextVar("pellucid_packing", default=None)


def pack(node: Node, pack_hook: Any, unpack_hook: Any) -> None:
    """Hand every kept array to the user's pack hook."""
    token = PACKING.set(node)
    try:
        node.saved = packed_value(node.saved, pack_hook, unpack_hook)
    finally:
        PACKING.reset(token)
    extra_of(node).unpack = unpack_hook


def packed_value(value: Any, pack_hook: Any, unpack_hook: Any) -> Any:
    """A value with every array in it packed."""
    if isinstance(value, (np.ndarray, Kind)):
        with modes.switched(grad=False, saved_hooks=()):
            return Packed(pack_hook(wrap(value)), unpack_hook)
    return tuple(packed_value(v, pack_hook, unpack_hook) for v in value) if type(value) is tuple else value


def unpacked(value: Any) -> Any:
    """The kept values again, fetched through the user's unpack hook where one was set."""
    if isinstance(value, Packed):
        with modes.switched(grad=False, saved_hooks=()):
            tensor = value.unpack(value.value)
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a saved-tensor unpack hook must return a Tensor, not {type(tensor).__name__}")
        return tensor.array
    return tuple(unpacked(v) for v in value) if type(value) is tuple else value


# --- attention: anomaly mode and observers


def attend(
    p: Primitive, tensors: Sequence[Tensor], params: tuple[Any, ...], outs: Sequence[Tensor], mode: Mode
) -> None:
    """Let anomaly mode and the observers look at an operation that has just run."""
    if mode.anomaly and mode.check_nan:
        for out in outs:
            check_forward(p, tensors, out)
    for observer in mode.observers:
        observer.operation(p, tensors, params, outs)


def check_forward(p: Primitive, tensors: Sequence[Tensor], out: Tensor) -> None:
    """Anomaly mode: complain about a NaN or Inf that this operation made out of finite inputs."""
    bad = first_bad(out.array)
    if bad is None or any(first_bad(t.array, bad[0]) is not None for t in tensors):
        return
    label, index = bad
    shapes = ", ".join(str(tuple(t.array.shape)) for t in tensors)
    values = ", ".join(_value_at(t.array, index, out.array.shape) for t in tensors)
    raise AnomalyError(
        explain(
            f"{p.name} returned {label} at index {index}",
            str(here()),
            f"inputs of shape {shapes}; the input there was {values}",
            "look at the values that reach this line: the first bad number is made here",
        )
    )


def first_bad(array: Any, label: str | None = None) -> tuple[str, tuple[int, ...]] | None:
    """The first NaN or Inf of an array: its name and index."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fcV":
        return None
    values = array.astype(np.float32) if array.dtype in HALVES else np.asarray(array)
    for name, test in (("NaN", np.isnan), ("Inf", np.isinf)):
        if label in (None, name):
            found = test(values)
            if found.any():
                return name, tuple(int(i) for i in np.unravel_index(int(found.argmax()), found.shape))
    return None


def _value_at(array: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    try:
        return f"{np.broadcast_to(array, shape)[index]:.6g}"
    except (ValueError, TypeError, IndexError):
        return "…"


# --- failures


def explained(p: Primitive, arrays: Sequence[Any], params: tuple[Any, ...], error: Exception) -> Exception:
    """An error of NumPy's as one of ours: the operation, the shapes and dtypes, the user's line, a way out."""
    if isinstance(error, (MemoryError, RuntimeError)) or getattr(error, "explained", False):
        return error  # a forward's own RuntimeError explains itself already, and so does any error so marked
    shapes = [tuple(array.shape) for array in arrays]
    described = " and ".join(
        f"{shape} {dtypes.from_numpy_dtype(a.dtype)}" for shape, a in zip(shapes, arrays, strict=True)
    )
    why, try_ = p.hint(shapes, params) if p.hint is not None else (str(error), None)
    kind = IndexError if isinstance(error, IndexError) else RuntimeError
    return kind(explain(f"{p.name}: cannot take {described}", str(here()), why, try_))
