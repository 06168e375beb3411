"""What a trace is made of: values, the operations between them, and what happens in the training loop.

One *pass* is everything up to the end of a `backward()`: a forward computation and its gradients. While a pass is
open its values still have their arrays; the rules look at it just before they are let go.
"""

import math
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy as np

from pellucid.core.aliasing import tick
from pellucid.core.function import no_forward
from pellucid.core.primitive import Primitive, as_written
from pellucid.core.provenance import Place
from pellucid.diagnose.finding import Spot

ORDER = attrgetter("order")
FLOAT = np.dtype(np.float32)
ASSIGNED = re.compile(r"(?<![\w.])([\w.]++) = ")
SMALL = 2048  # elements of an array that is measured together with others
ndarray, isfinite, sqrt = np.ndarray, math.isfinite, math.sqrt  # asked for with every operation


@dataclass(slots=True, eq=False)
class Value:
    """One tensor between two writes to it."""

    shape: tuple[int, ...]
    dtype: np.dtype
    array: Any  # an ndarray while its pass is open, then None
    requires_grad: bool
    maker: "Operation | None" = None  # None: it came from outside, or is a leaf
    parameter: "Parameter | None" = None  # the leaf that wants a gradient whose value this is
    born: int = 0  # the number of the pass in which it was first seen
    made_at: Place | None = None  # the line of its maker; stays when the pass is over
    spoiled: Any = None  # the root of its bad numbers (bad_numbers.py), when an earlier pass made them
    stays: "Stay | None" = None  # of a value of an earlier pass

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def floating(self) -> bool:
        return self.dtype.kind in "fcV"


@dataclass(slots=True)
class Stay:
    """What earlier passes did with a value that is taken up again with its graph."""

    taken_at: set[tuple[int, int]]  # the places of the operations that took it: see `key_of`
    siblings: int  # how often its line ran in the pass that made it


@dataclass(slots=True, eq=False)
class Operation:
    """One operation that ran, in forward: a row of the table, or a way out of the graph such as `detach`."""

    op: str  # the row's name; detach, data, tensor, item, numpy, tolist, float ... for the ways out
    place: Place
    inputs: tuple[Value, ...]
    params: tuple[Any, ...]
    outputs: tuple[Value, ...]
    order: int
    module: "ModuleCall | None"  # the innermost module that was running
    grad_mode: bool = True
    switched_off_by: str = ""  # no_grad, inference_mode, set_grad_enabled
    entered: Place | None = None  # where that was entered
    within: Place | None = None  # the line that led here, in the function where that was entered
    primitive: Primitive | None = None
    node: Any = None  # while the pass is open
    finite: bool = True  # of all outputs
    leaves_graph: bool = False  # a way out: detach, item ...
    written_to: Value | None = None  # the value an in-place operation replaced

    @property
    def spot(self) -> Spot:
        return Spot.of(self.place)

    @property
    def name(self) -> str:
        """Its name as users write it: `sum`, not `sum_all`."""
        return as_written(self.op)

    @property
    def output(self) -> Value:
        return self.outputs[0]

    @property
    def recorded(self) -> bool:
        """Whether gradients can pass through it."""
        outputs = self.outputs  # rules ask often, and mostly the first one tells
        return bool(outputs) and (outputs[0].requires_grad or any(value.requires_grad for value in outputs[1:]))

    @property
    def own(self) -> bool:
        """Whether it is a function of the script's own: a subclass of autograd.Function."""
        return self.primitive is not None and self.primitive.forward is no_forward

    @property
    def cuts(self) -> bool:
        """Whether something that wants gradients goes in and nothing that does comes out."""
        return any(value.requires_grad for value in self.inputs) and not self.recorded

    def spoils(self) -> bool:
        """Whether bad numbers begin here: Inf or NaN made of finite numbers, or NaN made of numbers without NaN."""
        if all(is_finite(value.array) for value in self.inputs):
            return True
        return any(has_nan(v.array) for v in self.outputs) and not any(has_nan(v.array) for v in self.inputs)


@dataclass(slots=True, eq=False)
class ModuleCall:
    """One call of a module: what went in, what came out, where the user's code called it."""

    module: Any
    place: Place
    parent: "ModuleCall | None"
    training: bool
    grad_mode: bool
    order: int
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()

    @property
    def spot(self) -> Spot:
        return Spot.of(self.place)

    @property
    def path(self) -> str:
        """The name from the outermost module: "encoder.fc1"; "" for the outermost itself."""
        outer = self.parent
        if outer is None:
            return ""
        for name, child in outer.module.named_modules():
            if child is self.module:
                return f"{outer.path}.{name}" if outer.path and name else name or outer.path
        return type(self.module).__name__


@dataclass(slots=True, eq=False)
class LossCall:
    """One call of a loss function of nn.functional, directly or through its layer."""

    name: str  # cross_entropy, mse_loss ...
    place: Place
    input: Value | None
    target: Value | None  # what is called so: the third argument of a loss of pairs, none of a triplet
    options: dict[str, Any]  # the other arguments, by name; tensors as their values
    order: int
    result: Value | None = None  # None: it raised
    module: ModuleCall | None = None

    @property
    def spot(self) -> Spot:
        return Spot.of(self.place)

    @property
    def values(self) -> list[Value]:
        """The tensors among its arguments."""
        return [each for each in (self.input, self.target, *self.options.values()) if isinstance(each, Value)]


@dataclass(slots=True, eq=False)
class Flow:
    """The gradient that one operation passed on to one of its inputs in backward.

    They are there in passes that the rules look at: see `Trace.measure`.
    """

    operation: Operation | None  # None: the operation ran in an earlier pass
    op: str
    place: Place
    into: "Parameter | None"  # the leaf it went to, if it was one
    target: Operation | None  # the operation it went to, if not
    arriving: Any  # the array that came in (for several results, a list), while the pass is open
    gradient: Any  # the array that went out, while the pass is open
    incoming: float  # the norm of the gradient that came in
    incoming_size: int
    outgoing: float  # the norm of the gradient that went to this input
    outgoing_size: int

    @property
    def name(self) -> str:
        """The operation's name as users write it."""
        return as_written(self.op)


@dataclass(slots=True, eq=False)
class Parameter:
    """A leaf that wants, or wanted, gradients: what is known of it over the whole run."""

    name: str
    shape: tuple[int, ...]
    created: Place
    order: int  # when it was first seen
    born: int = field(default_factory=tick, kw_only=True)  # when it was made, in ticks of the engine
    tensor: Any  # a weak reference
    module: Any = None  # the module it belongs to, if any
    is_module_parameter: bool = False
    optimizers: list["OptimizerInfo"] = field(default_factory=list)
    used: int = 0  # passes in which an operation took it
    last_used: int = -1  # the number of the last such pass
    reached: int = 0  # passes whose backward gave it a gradient
    last_reached: int = -1  # the number of the last such pass
    frozen_at: Place | None = None  # where requires_grad was set to False, the last time
    frozen_order: int = 0  # when that was
    gradient_norms: list[float] = field(default_factory=list)  # per pass that reached it, the first thousand
    written_at: Place | None = None  # where it was last written to by hand before it first got a gradient
    route: tuple[Place, ...] = ()  # the lines that led to its making, the innermost first, if they were noted

    @property
    def spot(self) -> Spot:
        return Spot.of(self.created)


@dataclass(slots=True, eq=False)
class OptimizerInfo:
    """An optimizer: where it was made, what it holds, what its steps did."""

    optimizer: Any  # a weak reference
    kind: str  # SGD, Adam ...
    place: Place
    order: int
    parameters: list[Parameter] = field(default_factory=list)
    steps: int = 0  # made, or left out by a GradScaler
    rate: float = 0.0  # the learning rate it was made with
    born: int = field(default_factory=tick)  # when it was made, in ticks of the engine
    late: bool = False  # it was made before the doctor came: its place is that of its first use
    keeps: list[Any] = field(default_factory=list)  # tensors and modules that shall be there when the script has ended
    seen: list[int] = field(default_factory=list)  # the identities of what it held when it was looked at last

    @property
    def spot(self) -> Spot:
        return Spot.of(self.place)

    @property
    def called(self) -> str:
        """The variable that it is given where it is made, for a fix; "optimizer" if it is given none there."""
        assigned = ASSIGNED.match(self.spot.code)
        return "optimizer" if assigned is None else assigned[1]


# --- the training loop: kept for the whole run


@dataclass(slots=True, eq=False)
class Event:
    """Something that happened in the loop."""

    place: Place
    order: int
    number: int  # of the pass that was open

    @property
    def spot(self) -> Spot:
        return Spot.of(self.place)


@dataclass(slots=True, eq=False)
class Backward(Event):
    """A call of `backward()`: its root, its graph, and the gradients that were there already."""

    loss: float  # the value of a scalar root; the sum of another
    shape: tuple[int, ...]
    root: Value
    nodes: int  # the size of the graph, in the first pass and wherever it reaches back; else 0
    oldest: int  # passes ago that the oldest operation in the graph ran
    held: frozenset[Parameter]  # the parameters whose .grad was not None and not zero before
    reached: frozenset[Parameter] = frozenset()  # the parameters that got a gradient
    gradient_norm: float = 0.0  # of all parameters' .grad afterwards
    retain_graph: bool = False
    inside_step: bool = False  # called by the closure of a step, as LBFGS does
    asked: bool = False  # a call of autograd.grad: whether it ends a step, only an update afterwards tells
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class Update(Event):
    """A step of an optimizer, or a write to parameters by hand (optimizer None)."""

    optimizer: OptimizerInfo | None
    changed: frozenset[Parameter]  # the parameters whose values changed
    with_gradient: frozenset[Parameter]  # the parameters that had a .grad
    ratio: float  # the norm of the change against the norm of the parameters
    largest: float  # the largest such ratio of one parameter
    rate: float  # the learning rate of the first group
    parameter_norm: float
    finite: bool  # whether all parameters are finite afterwards


@dataclass(slots=True, eq=False)
class LeftOut(Event):
    """A step that a GradScaler has left out."""

    optimizer: OptimizerInfo


@dataclass(slots=True, eq=False)
class Cleared(Event):
    """Gradients were forgotten: `zero_grad()`, `p.grad = None`, `p.grad.zero_()`."""

    how: str
    parameters: frozenset[Parameter]


@dataclass(slots=True, eq=False)
class Replaced(Event):
    """A member of a module, a parameter or a module itself, gave way to another one."""

    name: str
    old: frozenset[Parameter]
    new: frozenset[Parameter]


@dataclass(slots=True, eq=False)
class ModeSwitch(Event):
    """`model.train()` or `model.eval()`."""

    module: Any
    training: bool


@dataclass(slots=True, eq=False)
class Scheduled(Event):
    """A step of a learning rate scheduler."""

    before: float
    after: float


@dataclass(slots=True, eq=False)
class Crash:
    """The exception that ended the run, and the user's line it left from."""

    error: BaseException
    spot: Spot
    in_backward: bool

    @property
    def said(self) -> str:
        """The exception's message; one that cannot be turned into text says nothing."""
        try:
            return str(self.error)
        except Exception:  # whatever the script's own __str__ raises
            return ""


class Pass:
    """A forward computation and its backward, with everything that was seen on the way."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.operations: list[Operation] = []
        self.calls: list[ModuleCall] = []
        self.losses: list[LossCall] = []
        self.edges: list[tuple[Any, Any, Any, Any]] = []  # a node, what came in, the node it passed on to, and what
        self.flows: list[Flow] = []  # the same for rules, once they look
        self.arrivals: list[tuple[int, Value]] = []  # tensors made of numbers whose origin is unknown, and when
        self.begun: dict[Value, Any] = {}  # results that were made leaves since, and weak references to their tensors
        self.differentiated: list[Value] = []  # of what autograd.grad gave derivatives that can be differentiated
        self.backward: Backward | None = None  # None: the run ended before
        self.unchecked: list[Value] = []  # small results of which nobody knows yet if they are finite
        self.bad: list[Operation] = []  # operations in which bad numbers begin, in their order
        self.shared: dict[Any, Any] = {}  # what rules have measured for each other: see `once` of measures.py
        self.bad_gradients: list[Flow] = []  # gradients that are not finite though the one coming in was
        self.scale = 1.0  # by which a GradScaler has multiplied the loss

    @property
    def scaled_out_of_range(self) -> bool:
        """Whether a GradScaler's scale has made numbers infinite: all bad ones begin in half precision.

        The scaler then leaves the step out and scales less; nothing is wrong with the program. Ask after `measure`.
        """
        forward = [op.output.dtype for op in self.bad if op.recorded]
        begin = [*forward, *[getattr(flow.gradient, "dtype", None) for flow in self.bad_gradients]]
        return self.scale > 1.0 and bool(begin) and all(dtype == np.float16 for dtype in begin)

    @cached_property
    def uses(self) -> dict[Value, list[Operation]]:
        """The operations that took each value; ask when the pass is complete."""
        found: dict[Value, list[Operation]] = {}
        for operation in self.operations:
            for value in operation.inputs:
                found.setdefault(value, []).append(operation)
        return found

    @cached_property
    def leaves(self) -> "dict[Value, list[Operation]]":
        """The parameters among the values that were taken, and the operations that took them."""
        return {value: users for value, users in self.uses.items() if value.parameter is not None}

    @cached_property
    def _by_name(self) -> dict[str, list[Operation]]:
        found: dict[str, list[Operation]] = {}
        for operation in self.operations:
            found.setdefault(operation.op, []).append(operation)
        return found

    @property
    def names(self) -> Iterable[str]:
        """The names of the operations that ran."""
        return self._by_name

    def of(self, names: Container[str]) -> list[Operation]:
        """The operations with these names, in their order."""
        found = [operations for name, operations in self._by_name.items() if name in names]
        return found[0] if len(found) == 1 else sorted(chain.from_iterable(found), key=ORDER)

    @cached_property
    def toward_loss(self) -> set[Operation]:
        """The operations that had a part in the loss by value, whether gradients pass through them or not."""
        found: set[Operation] = set()
        stack = [self.backward.root] if self.backward is not None else []
        while stack:
            value = stack.pop()
            maker = value.maker
            initialises = value.parameter is not None and maker is not None and maker.written_to is not None
            if maker is not None and maker not in found and not initialises:  # a leaf begins with what is written to it
                found.add(maker)
                stack.extend(maker.inputs)
        return found

    def outermost(self) -> list[ModuleCall]:
        """The calls of whole models: those that no other module made."""
        return [call for call in self.calls if call.parent is None]

    def forget(self) -> None:
        """Let the arrays and the graph go: what the rules needed of them they have seen."""
        for operation in self.operations:
            operation.node = None
            for value in operation.outputs:
                value.array = value.maker = None  # the chain of makers would keep every earlier pass
            for value in operation.inputs:
                if value.array is not None or value.maker is not None:  # most are results, and forgotten already
                    value.array = value.maker = None
        self.unchecked.clear()
        self.edges.clear()
        self.begun.clear()
        self.differentiated.clear()
        for flow in self.flows:
            flow.arriving = flow.gradient = None


def key_of(place: Place) -> tuple[int, int]:
    """A place as a key that costs nothing: a Place itself would look up its line for that."""
    return id(place.code), place.lasti


def is_finite(array: Any) -> bool:
    """Whether an array has no NaN and no Inf; arrays of other kinds count as finite."""
    if type(array) is ndarray and array.dtype is FLOAT:
        flat = array.ravel()
        if isfinite(flat.dot(flat)):
            return True
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fcV":
        return True
    if array.dtype.kind == "V" or array.dtype.itemsize == 2:
        array = array.astype(np.float32)
    if array.dtype.kind == "f":  # one pass of BLAS, which warns of nothing; np.errstate would take longer than that
        flat = array.reshape(-1)
        if math.isfinite(flat.dot(flat)):
            return True
    return bool(np.isfinite(array).all())


def has_nan(array: Any) -> bool:
    """Whether an array has a NaN."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fcV":
        return False
    wide = array.astype(np.float32) if array.dtype.kind == "V" else array
    return bool(np.isnan(wide).any())


def all_measured(gradients: list[Any]) -> dict[int, tuple[float, int]]:
    """The norm and the size of each gradient, by its identity: what one operation passes on arrives at another.

    Small ones are measured together: one by one, the calls of NumPy would take most of the time.
    """
    small, several, found = [], [], {}
    for g in dict(zip(map(id, gradients), gradients, strict=True)).values():
        if type(g) is ndarray and g.dtype is FLOAT and 0 < g.size <= SMALL:
            small.append(g)
        elif isinstance(g, list):  # of an operation with several results
            several.append(g)
        else:
            found[id(g)] = _measured(g)
    if small:
        numbers, starts = end_to_end(small, np.float64)  # in which no square of theirs is out of range
        norms = np.sqrt(np.add.reduceat(numbers * numbers, starts)).tolist()
        found.update({id(g): (norm, g.size) for g, norm in zip(small, norms, strict=True)})
    for parts in several:
        known = [found.get(id(part)) or _measured(part) for part in parts if part is not None]
        found[id(parts)] = math.hypot(*[norm for norm, _ in known]), sum(size for _, size in known)
    return found


def end_to_end(arrays: list[np.ndarray], dtype: Any = None) -> tuple[np.ndarray, list[int]]:
    """The elements of arrays that are not empty, all in a row, and where each array begins: for `reduceat`."""
    starts = [0, *accumulate([array.size for array in arrays[:-1]])]
    return np.concatenate(arrays, axis=None, dtype=dtype), starts


def _measured(g: Any) -> tuple[float, int]:
    """The norm and the size of a gradient, also of the kinds of arrays that a transform works with."""
    if type(g) is ndarray:
        return norm_of(g), g.size
    array = getattr(g, "array", g)
    return norm_of(array), math.prod(getattr(array, "shape", None) or ())  # 1 for a number


def norm_of(array: Any) -> float:
    """The Euclidean norm of an array, without overflow in the squares."""
    if type(array) is ndarray and array.dtype is FLOAT:
        flat = array.ravel()
        squared = flat.dot(flat)
        if 1e-30 < squared < 1e38:
            return sqrt(squared)
        if not flat.any():
            return 0.0
    elif not isinstance(array, (np.ndarray, np.generic)) or array.dtype.kind not in "fcVbiu" or not array.size:
        return 0.0
    flat = np.asarray(array).reshape(-1)
    with np.errstate(all="ignore"):
        wide = np.abs(flat).astype(np.float64) if flat.dtype.kind == "c" else flat.astype(np.float64)
        return float(np.sqrt(np.dot(wide, wide)))
