"""Tracer and Traced: run a function once and write down what it does.

While a capture runs, every tensor holds a `Traced` array. It is an ndarray: it has the values, shares memory and
makes views as always, so the engine, its rules, the walk and in-place operations run unchanged and compute the same
bits. It differs in one thing: NumPy asks it before doing anything with it (`__array_ufunc__`,
`__array_function__`), and the rows of the table ask the tracer (`careful.compute`, `careful.on_arrays`). Both ways
lead to `Tracer.call`, which computes on plain arrays and emits one instruction.

An array is known by its memory: a view that NumPy made without asking is found again by looking up who owns it.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.compiler.parts import Constant, Instruction, Ref, Value, ValueUse
from pellucid.compiler.trees import leaves, mapped
from pellucid.core import aliasing, backward, careful, modes
from pellucid.core.kinds import Kind
from pellucid.core.primitive import TABLE, Primitive
from pellucid.core.provenance import Place, here, outside
from pellucid.core.tensor import Node, Tensor
from pellucid.errors import CaptureError, explain
from pellucid.ops.streams import default_generator


class Traced(np.ndarray):
    """An ndarray that tells the tracer what is done with it."""

    __slots__ = ("number", "plain")

    number: int | None  # its value in the program; None: not asked for yet
    plain: np.ndarray | None  # the same memory as an ordinary array

    def __array_finalize__(self, source: Any) -> None:
        self.number = self.plain = None

    @property
    def value(self) -> np.ndarray:
        """The same memory as an ordinary ndarray."""
        if self.plain is None:
            self.plain = np.asarray(self)
        return self.plain

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, Tensor) for value in inputs):
            return NotImplemented
        tracer = modes.current().tracer
        if tracer is None:
            return getattr(ufunc, method)(*stripped(inputs), **stripped(kwargs))
        return tracer.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        tracer = modes.current().tracer
        if tracer is None:
            return function(*stripped(args), **stripped(kwargs))
        return tracer.function(function, args, kwargs)

    def __repr__(self) -> str:
        return f"Traced(v{self.number}, {self.value!r})"


def stripped(tree: Any) -> Any:
    """The same arguments with ordinary arrays."""
    return mapped(lambda leaf: leaf.value if isinstance(leaf, Traced) else leaf, tree)


def _recorded_method(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def recorded(self: Traced, *args: Any, **kwargs: Any) -> Any:
        tracer = modes.current().tracer
        if tracer is None:
            return method(self.value, *stripped(args), **stripped(kwargs))
        return tracer.call(name.strip("_"), method, (self, *args), kwargs)

    return recorded


def _changing_method(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def changed(self: Traced, *args: Any, **kwargs: Any) -> None:
        tracer = modes.current().tracer
        if tracer is None:
            method(self.value, *stripped(args), **stripped(kwargs))
        else:
            tracer.change(name.strip("_"), method, self, args, kwargs)

    return changed


def _value_method(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def looked_at(self: Traced, *args: Any, **kwargs: Any) -> Any:
        tracer = modes.current().tracer
        array = self.value if tracer is None else tracer.concrete(self, f"{name.strip('_')}()")
        return method(array, *args, **kwargs)

    return looked_at


# Methods that NumPy runs without asking. Reductions and operators are not here: they are ufuncs and ask.
for _name in (
    "__getitem__", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "conj", "conjugate", "copy",
    "cumprod", "cumsum", "diagonal", "dot", "flatten", "ravel", "repeat", "reshape", "round", "searchsorted",
    "squeeze", "swapaxes", "take", "trace", "transpose", "view",
):  # fmt: skip
    setattr(Traced, _name, _recorded_method(_name))
for _name in ("__setitem__", "fill", "partition", "put", "sort"):
    setattr(Traced, _name, _changing_method(_name))
for _name in ("__bool__", "__complex__", "__float__", "__index__", "__int__", "item", "nonzero", "tobytes", "tolist"):
    setattr(Traced, _name, _value_method(_name))

# NumPy's functions that look at shapes and dtypes only: they need no instruction.
ABOUT_FORM = frozenset(
    (
        np.can_cast, np.empty_like, np.iscomplexobj, np.isrealobj, np.may_share_memory, np.ndim, np.ones_like,
        np.result_type, np.shape, np.shares_memory, np.size, np.zeros_like,
    )
)  # fmt: skip
# Operations of ours that look at the place of the elements in memory, not at the elements.
ABOUT_MEMORY = frozenset(("as_strided", "data_ptr()", "is_contiguous()", "storage_offset()", "stride()"))
# The shape of their result depends on values: NumPy's functions, and rows of ours.
SHAPED_BY_VALUES = frozenset((np.argwhere, np.compress, np.extract, np.flatnonzero, np.nonzero, np.unique))
ROWS_SHAPED_BY_VALUES = frozenset(("index_mask", "masked_select", "nonzero"))


NOTHING: dict[str, Any] = {}


class Block:
    """A piece of memory and what the tracer knows of it."""

    __slots__ = ("before", "dynamic", "owner", "root", "written")

    def __init__(self, owner: np.ndarray, root: Traced, dynamic: bool) -> None:
        self.owner = owner  # kept, so that its id stays its own
        self.root = root
        self.dynamic = dynamic  # its values may differ from call to call
        self.written = False
        self.before: np.ndarray | None = None  # of a constant that is written to: the values it started with


class Origin:
    """A tensor that was there before the capture."""

    __slots__ = ("array", "grad", "tensor", "traced")

    def __init__(self, tensor: Tensor, traced: Traced) -> None:
        self.tensor, self.traced = tensor, traced
        self.array, self.grad = tensor.array, tensor._grad


class Tracer:
    """Writes a program down while a function runs; `modes.Mode.tracer` while it does."""

    def __init__(self, on_value_use: str) -> None:
        self.on_value_use = on_value_use
        self.born = aliasing.tick()
        self.random = random_state()
        self.instructions: list[Instruction] = []
        self.value_uses: list[ValueUse] = []
        self.values: list[Value] = []
        self.used: list[tuple[Value, Origin]] = []  # references in the order in which they were met
        self.constants: list[tuple[Value, Traced]] = []
        self.origins: dict[int, Origin] = {}  # by id of the Traced array
        self.starts: dict[int, Origin] = {}  # by id of the tensor, which the Origin keeps alive
        self.known: dict[int, Traced] = {}  # by id of the plain array, which the Traced keeps alive
        self.blocks: dict[int, Block] = {}  # by id of the owner of the memory
        self.reset: set[int] = set()  # tensors whose .grad was assigned before it was used
        self.rows = {p.forward: p for p in TABLE.values() if isinstance(p.forward, np.ufunc)}

    # --- what the engine asks

    def lift(self, tensor: Tensor) -> None:
        """Let a tensor hold a Traced array from now on."""
        if type(tensor.array) is np.ndarray:
            tensor.array = self.traced(tensor.array)

    def compute(self, p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run a row on the arrays of tensors."""
        if p.name in ROWS_SHAPED_BY_VALUES and self.any_dynamic(arrays):
            self.value_use(f"{p.name} (the shape of its result)")
        kernel = _wide(p) if careful.of_halves(p, arrays) else p.forward
        args = (tuple(arrays), *params) if p.variadic else (*arrays, *params)

        def run(*_: Any) -> Any:
            return careful.computed(p, tuple(self.plain(array) for array in arrays), stripped(params))

        return self.call(p.name, kernel, args, {}, run=run, several=p.outputs != 1, primitive=p)

    def forward(self, p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run a row inside a rule, on bare arrays and numbers."""
        arrays = tuple(array if isinstance(array, np.ndarray) else np.asarray(array) for array in arrays)
        args = (arrays, *params) if p.variadic else (*arrays, *params)
        return self.call(p.name, p.forward, args, {}, several=p.outputs != 1, primitive=p)

    def concrete(self, array: Any, what: str) -> np.ndarray:
        """The values behind an array, for Python code that looks at them: noted, and by default refused."""
        if isinstance(array, Kind):
            return array.concrete(what)
        if not isinstance(array, Traced):
            return array  # type: ignore[no-any-return]
        if self.block_of(array).dynamic and what not in ABOUT_MEMORY:
            self.value_use(what)
        return array.value

    def grad_assigned(self, tensor: Tensor) -> None:
        """A `.grad` is being set by hand; if it is still the one from before, that one does not matter any more."""
        origin = self.starts.get(id(tensor))
        if origin is not None and tensor._grad is origin.grad:
            self.reset.add(id(tensor))

    def value_use(self, what: str) -> None:
        """Note that Python looked at a value."""
        use = ValueUse(what, here())
        self.value_uses.append(use)
        if self.on_value_use == "raise":
            raise CaptureError(
                explain(
                    f"{what}: Python looks at a value while the function is captured",
                    str(use.place),
                    "a program is one straight path: what Python does with the value would be fixed in it, "
                    "also for inputs for which it is wrong",
                    "use tensor operations (torch.where instead of `if`), move the line out of the function, "
                    'or capture(..., on_value_use="allow") if the path is the same for all inputs',
                )
            )
        if self.on_value_use == "warn":
            text = f"{what} at {use.place.text}: the captured program keeps to this path"
            warnings.warn(text, UserWarning, stacklevel=2)

    # --- what NumPy asks

    def ufunc(self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator or ufunc on a Traced array, perhaps one that writes into `out`."""
        out = kwargs.pop("out", None)
        if method == "at":
            return self.change(f"np.{ufunc.__name__}.at", ufunc.at, inputs[0], inputs[1:])
        row = self.rows.get(ufunc) if method == "__call__" and not kwargs else None
        name = row.name if row is not None else f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        if out is not None and kwargs.get("where", True) is not True:
            kwargs["out"] = tuple(self.call("copy", np.ndarray.copy, (target,), {}) for target in out)
        kernel = ufunc if method == "__call__" else getattr(ufunc, method)
        made = self.call(name, kernel, inputs, kwargs, several=ufunc.nout > 1, primitive=row)
        if out is None:
            return made
        for target, value in zip(out, made if ufunc.nout > 1 else (made,), strict=True):
            self.write(target, value)
        return out if ufunc.nout > 1 else out[0]

    def function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of NumPy's functions on a Traced array."""
        if function is np.copyto:
            return self.write(*args[:2], *((kwargs["where"],) if "where" in kwargs else ()))
        if function in ABOUT_FORM:
            return function(*stripped(args), **stripped(kwargs))
        name = f"np.{function.__name__}"
        if function in SHAPED_BY_VALUES:
            self.value_use(name)
        made = function(*stripped(args), **stripped(kwargs))
        several = isinstance(made, (tuple, list))
        if not all(isinstance(part, (np.ndarray, np.generic)) for part in (made if several else (made,))):
            self.value_use(name)
            return made
        return self.call(name, function, args, kwargs, run=lambda *_, **__: made, several=several)

    # --- instructions

    def call(
        self, op: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *,
        run: Callable[..., Any] | None = None, several: bool = False, primitive: Primitive | None = None,
    ) -> Any:  # fmt: skip
        """Compute on plain arrays and emit one instruction; the results are Traced."""
        written_args, written_kwargs = mapped(self.named, (args, kwargs))
        with modes.switched(tracer=None):
            made = (run or kernel)(*mapped(self.plain, args), **mapped(self.plain, kwargs))
        dynamic = self.any_dynamic((args, kwargs))
        results = [self.result(np.asarray(part), dynamic) for part in (made if several else (made,))]
        outputs = tuple(self.values[result.number] for result in results)  # type: ignore[index]
        self.emit(op, kernel, written_args, written_kwargs, outputs, several, primitive)
        return tuple(results) if several else results[0]

    def write(self, target: Any, *value: Any) -> None:
        """Overwrite the memory of an array, perhaps only where a mask is true."""
        self.change("write", overwritten, target, value)

    def draw(self, kernel: Callable[..., Any], target: Any, *args: Any) -> None:
        """Fill an array with random numbers, here and at every replay."""
        self.check_random()
        self.change("random", kernel, target, args)
        self.block_of(self.traced(target)).dynamic = True
        self.random = random_state()

    def check_random(self) -> None:
        """Notice numbers that were drawn in a way that cannot be drawn again."""
        state = random_state()
        if state != self.random:
            self.random = state
            self.value_use("random numbers")

    def change(
        self, op: str, kernel: Callable[..., Any], target: Any, args: tuple[Any, ...], kwargs: Any = NOTHING
    ) -> None:
        """Let a kernel change its first argument in place."""
        ref, (written_args, written_kwargs) = self.named(target), mapped(self.named, (args, dict(kwargs)))
        block = self.block_of(self.traced(target))
        if block.before is None and block.root.number is not None and self.is_constant(block.root):
            block.before = block.root.value.copy(order="K")
        block.written = True
        block.dynamic = block.dynamic or self.any_dynamic(args)
        with modes.switched(tracer=None):
            kernel(self.plain(target), *mapped(self.plain, args), **mapped(self.plain, dict(kwargs)))
        self.emit(op, kernel, (ref, *written_args), written_kwargs, (), False, writes=ref)

    def emit(
        self, op: str, kernel: Callable[..., Any], args: Any, kwargs: Any, outputs: tuple[Value, ...], several: bool,
        primitive: Primitive | None = None, writes: Ref | None = None,
    ) -> None:  # fmt: skip
        phase, place = self.where()
        self.instructions.append(
            Instruction(op, kernel, args, kwargs, outputs, several, place, phase, primitive, writes)
        )

    def where(self) -> tuple[str, Place]:
        """The phase, and the user's line; inside the walk, the line of the operation whose rule is running."""
        frame, place, backwards = sys._getframe(1), None, False
        limit = outside(frame)
        while frame is not None and frame is not limit:
            if frame.f_code is backward.walk.__code__ and place is None and "node" in frame.f_locals:
                node = frame.f_locals["node"]
                self.refuse_old(node)
                place = node.place
            backwards = backwards or frame.f_code.co_filename == backward.__file__
            frame = frame.f_back  # type: ignore[assignment]
        before = self.instructions[-1].phase if self.instructions else "forward"
        phase = "backward" if backwards else "forward" if before == "forward" else "after backward"
        return phase, place or Place(limit.f_code, limit.f_lasti)

    def refuse_old(self, node: Node) -> None:
        """A graph recorded before the capture keeps values of that time, which a replay could not renew."""
        if node.born < self.born and node.primitive.keeps:
            raise CaptureError(
                explain(
                    f"backward reaches {node.name()}, which was recorded before the capture",
                    str(node.place),
                    "it keeps values of that time, which a replay could not renew",
                    "compute it inside the captured function, or use its detach()",
                )
            )

    # --- arrays and their numbers

    def named(self, leaf: Any) -> Any:
        """An argument as an instruction holds it."""
        return Ref(self.number(leaf)) if isinstance(leaf, np.ndarray) else leaf

    def plain(self, leaf: Any) -> Any:
        """An argument as a kernel takes it."""
        return leaf.value if isinstance(leaf, Traced) else leaf

    def number(self, array: np.ndarray) -> int:
        """The number of an array, which it gets when first asked for."""
        traced = self.traced(array)
        if traced.number is None:
            self.used.append((self.new_value(traced), self.origins[id(traced)]))
        assert traced.number is not None
        return traced.number

    def traced(self, array: np.ndarray) -> Traced:
        """The Traced array that stands for an array."""
        if isinstance(array, Traced) and (array.number is not None or id(array) in self.origins):
            return array
        known = self.known.get(id(array))
        if known is not None:
            return known
        block = self.blocks.get(id(aliasing.owner_of(array)))
        lost = isinstance(array, Traced) if block is None else block.dynamic and not isinstance(array, Traced)
        if lost:  # somebody computes on plain arrays and could leave the program without a word
            what = "an array lost its trace inside Pellucid: np.asarray there should be np.asanyarray"
            raise CaptureError(explain(what, str(here())))
        return self.constant(array) if block is None else self.looked_up(array, block)

    def looked_up(self, array: np.ndarray, block: Block) -> Traced:
        """A view that NumPy made without asking: the same look at the memory, from the root of the block."""
        root = block.root.value
        low, high = np.lib.array_utils.byte_bounds(root)
        first, last = np.lib.array_utils.byte_bounds(array)
        if first < low or last > high:
            raise CaptureError(explain("an array reaches beyond the memory of the tensor it shares", str(here())))
        offset = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        made: Traced = self.call(
            "look", look, (block.root, offset, array.shape, array.strides, array.dtype, root.strides), {}
        )
        plain = array.value if isinstance(array, Traced) else array
        self.known[id(plain)] = made
        made.plain = plain  # the very object, so that its id stays its own
        return made

    def constant(self, array: np.ndarray) -> Traced:
        """An array that the function made itself, by way of the memory that it owns."""
        self.check_random()
        owner = aliasing.owner_of(array)
        root = self.enter(owner, dynamic=False)
        self.constants.append((self.new_value(root), root))
        return root if owner is array else self.traced(array)

    def result(self, array: np.ndarray, dynamic: bool) -> Traced:
        traced = self.enter(array, dynamic)
        self.new_value(traced)
        return traced

    def enter(self, array: np.ndarray, dynamic: bool) -> Traced:
        """Make the Traced array of a plain one and remember its memory."""
        traced = array.view(Traced)
        traced.plain = array
        self.known[id(array)] = traced
        owner = aliasing.owner_of(array)
        if id(owner) not in self.blocks:
            self.blocks[id(owner)] = Block(owner, traced, dynamic)
        return traced

    def new_value(self, traced: Traced) -> Value:
        traced.number = len(self.values)
        value = Value(traced.number, traced.shape, traced.dtype)
        self.values.append(value)
        return value

    def block_of(self, traced: Traced) -> Block:
        return self.blocks[id(aliasing.owner_of(traced.value))]

    def any_dynamic(self, tree: Any) -> bool:
        arrays = (leaf for _, leaf in leaves(tree) if isinstance(leaf, np.ndarray))
        return any(self.block_of(self.traced(array)).dynamic for array in arrays)

    def is_constant(self, root: Traced) -> bool:
        return any(traced is root for _, traced in self.constants)

    # --- the beginning and the end

    def adopt(self, tensors: Sequence[Tensor]) -> None:
        """Let every tensor that is there hold a Traced array; it gets a number when it is used."""
        for tensor in tensors:
            if type(getattr(tensor, "array", None)) is np.ndarray:  # a tensor may be in the making
                traced = self.enter(tensor.array, dynamic=True)
                self.origins[id(traced)] = self.starts[id(tensor)] = Origin(tensor, traced)
                tensor.array = traced

    def own_number(self, array: np.ndarray) -> int:
        """The number of an array that leaves the program; a constant leaves as a copy."""
        traced = self.traced(array)
        if any(value.number == self.block_of(traced).root.number for value, _ in self.constants):
            traced = self.call("copy", np.ndarray.copy, (traced,), {})
        return self.number(traced)

    def constants_used(self, results: Sequence[Any]) -> list[Constant]:
        """The constants that an instruction takes or the program returns, with the values they start from."""
        used = {number for instruction in self.instructions for number in instruction.inputs}
        used |= {ref.number for ref in results if isinstance(ref, Ref)}
        return [self._starting(value, traced) for value, traced in self.constants if value.number in used]

    def _starting(self, value: Value, root: Traced) -> Constant:
        block = self.block_of(root)
        return Constant(value, root.value if block.before is None else block.before, block.written)

    def written(self) -> frozenset[int]:
        """The numbers of the values from outside and the constants whose memory was written to."""
        roots = [origin.traced for origin in self.origins.values()] + [traced for _, traced in self.constants]
        return frozenset(root.number for root in roots if root.number is not None and self.block_of(root).written)


def _wide(p: Primitive) -> Callable[..., Any]:
    """The kernel of a row for half precision: computed in float32."""
    if p not in WIDE:

        def wide(*args: Any) -> Any:
            split = 1 if p.variadic else len(p.rules)
            return careful.in_float32(p, args[0] if p.variadic else args[:split], args[split:])

        WIDE[p] = wide
    return WIDE[p]


WIDE: dict[Primitive, Callable[..., Any]] = {}


def random_state() -> bytes:
    """Where the default generator is in its stream."""
    state: bytes = default_generator.get_state().array.tobytes()
    return state


def overwritten(target: np.ndarray, value: Any, where: Any = True) -> None:
    """The kernel of a write."""
    np.copyto(target, value, casting="unsafe", where=where)


def look(root: np.ndarray, offset: int, shape: Any, strides: Any, dtype: np.dtype, captured: Any) -> np.ndarray:
    """The kernel of a view that is known by its place in memory only."""
    if root.strides != captured:
        raise CaptureError(f"cannot replay: an array has strides {root.strides}, captured was {captured}")
    interface = dict(root.__array_interface__)
    interface["data"] = (interface["data"][0] + offset, interface["data"][1])
    interface["shape"], interface["strides"] = tuple(shape), tuple(strides)
    interface["typestr"], interface["descr"] = dtype.str, dtype.descr
    view = np.asarray(_Window(interface, root))
    return view if view.dtype == dtype else view.view(dtype)


class _Window:
    """What NumPy needs to look at memory, and the array that keeps it alive."""

    def __init__(self, interface: dict[str, Any], base: np.ndarray) -> None:
        self.__array_interface__ = interface
        self.base = base


def released(node: Node) -> None:
    """Give a node ordinary arrays to keep."""
    saved = getattr(node, "saved", None)
    if type(saved) is tuple and any(isinstance(leaf, Traced) for _, leaf in leaves(saved)):
        node.saved = stripped(saved)
