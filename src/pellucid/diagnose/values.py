"""What is known of tensors while a run is watched: their values, the leaves that want gradients, the models."""

import ast
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from pellucid.core import aliasing
from pellucid.core.aliasing import tick
from pellucid.core.provenance import Place, here
from pellucid.core.tensor import DeadEnd, Leaf, Tensor
from pellucid.diagnose.events import (
    Backward,
    Crash,
    Event,
    ModuleCall,
    Operation,
    OptimizerInfo,
    Parameter,
    Pass,
    Stay,
    Value,
    key_of,
)

ndarray, reference = np.ndarray, weakref.ref
LATEST = 2  # passes whose operations are remembered by their places and inputs: a step may have two


class Values:
    """The tensors of a run: what each is, where it came from, and what it is called."""

    def __init__(self, on_pass: Callable[[Pass], None] = lambda done: None) -> None:
        self.on_pass = on_pass  # called with every finished pass, before its arrays are let go
        self.on_call: Callable[[], None] | None = None  # called whenever a model is
        self.open = Pass(0)
        self.loop: list[Event] = []
        self.parameters: dict[int, Parameter] = {}  # by the id of the tensor
        self.optimizers: list[OptimizerInfo] = []
        self.made_at: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()  # modules
        self.routes: weakref.WeakKeyDictionary[Any, tuple[Place, ...]] = weakref.WeakKeyDictionary()  # to that line
        self.models: list[Any] = []  # outermost modules that were called, weak references
        self.crash: Crash | None = None
        self.running: ModuleCall | None = None
        self.asked_for: set[Parameter] = set()  # gradients of these were asked for with autograd.grad
        self.handmade: set[Parameter] = set()  # their gradients were written by hand: `p.grad = ...`, `copy_`
        self.roots: list[tuple[weakref.ref[Tensor], Backward]] = []  # what backward was called on
        self.results: list[tuple[weakref.ref[Tensor], Place, int]] = []  # of whole models: the call, and its pass
        self._known: dict[int, tuple[weakref.ref[Tensor], Value]] = {}
        self._lines: dict[tuple[int, int], Place] = {}  # by code object and offset
        self._written_nodes: dict[Any, Operation] = {}  # nodes that tensors got by writes in this pass
        self._by_array: dict[int, Value] = {}  # results of this pass, by the identity of their arrays
        self._pass_ticks = [0]  # the tick at which each pass began
        self.departed_numbers: dict[Operation, float] = {}  # the numbers with which values left the graph in this pass
        self._departed: dict[float, Operation] = {}  # Python numbers that left the graph in this pass
        self._arrays_departed: dict[int, tuple[Any, Operation]] = {}  # NumPy arrays that did, by their memory
        self._written: dict[int, tuple[weakref.ref[np.ndarray], Place]] = {}  # writes to tensors not yet known
        self._places: dict[int, tuple[weakref.ref[Tensor], tuple[Place, ...]]] = {}  # the lines that made tensors
        self._now = 0  # the number of the latest event
        self._named: tuple[int, ...] = ()  # what was known when parameters were named last
        self._held = 0
        self._latest: deque[tuple[int, list[Operation]]] = deque(maxlen=LATEST)
        self._reaches_back = True  # this pass took up a graph of an earlier one, or one that nobody saw being made
        self._edges_before = 0  # gradients that had passed in this pass when backward began
        self._inside_step = False

    # --- questions

    def created(self, module: Any) -> Place | None:
        """The user's line that made a module."""
        return self.made_at.get(module)

    def layer_made(self, operation: Operation) -> Place | None:
        """Where the layer of ours was made whose function an operation is; None for a function the user called."""
        layer = None if operation.module is None else operation.module.module
        own = layer is not None and type(layer).__module__.startswith("pellucid.nn.modules.")
        return self.created(layer) if own else None

    def place_of(self, code: CodeType, lasti: int) -> Place:
        """A place of the user's code, the same one every time."""
        place = self._lines.get((id(code), lasti))
        if place is None:
            place = self._lines[id(code), lasti] = Place(code, lasti)
        return place

    # --- values

    def value_of(self, tensor: Tensor) -> Value:
        """What is known of a tensor; it becomes known if it was not."""
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            value = known[1]
            if value.array is not None or not isinstance(tensor.array, ndarray):
                return value
            return self._known_again(tensor, value)
        same = self._by_array.get(id(tensor.array)) if tensor.node is None and type(tensor) is Tensor else None
        if same is not None and same.array is tensor.array:  # max(dim) looks for its indices in the bare values
            self._known[id(tensor)] = (weakref.ref(tensor), same)
            return same
        value = self._new(tensor, self._link(tensor))
        value.parameter = self.parameter_of(tensor)
        self._reaches_back |= value.requires_grad and value.parameter is None
        return value

    def value_ends(self, tensor: Tensor) -> None:
        """Whether a parameter wants gradients is about to change: what takes it next takes another value."""
        self._known.pop(id(tensor), None)
        self._by_array.pop(id(tensor.array), None)

    def _known_again(self, tensor: Tensor, old: Value) -> Value:
        """A value of an earlier pass that is used again: a parameter, a state that is carried along, data."""
        value = self._new(tensor, None)
        value.parameter, value.born = old.parameter or self.parameter_of(tensor), old.born
        value.made_at, value.spoiled = old.made_at, old.spoiled
        if value.requires_grad and value.parameter is None:
            self._reaches_back, value.stays = True, self._stay_of(old)
        return value

    def _stay_of(self, old: Value) -> Stay:
        """What the latest passes did with a value that this one takes up again."""
        stay = old.stays or Stay(set(), 0)
        for number, operations in self._latest:
            stay.taken_at.update(key_of(operation.place) for operation in operations if old in operation.inputs)
            if number == old.born and old.made_at is not None:
                made = key_of(old.made_at)
                stay.siblings = sum(key_of(operation.place) == made for operation in operations)
        return stay

    def _new(self, tensor: Tensor, maker: Operation | None) -> Value:
        array, number = tensor.array, self.open.number
        graph = tensor.node is not None and type(tensor.node) is not DeadEnd
        made_at = None if maker is None else maker.place
        if type(array) is ndarray:
            value = Value(array.shape, array.dtype, array, graph, maker, None, number, made_at)
        else:  # a kind of array that a transform works with has no numbers to look at
            numbers = array if isinstance(array, ndarray) else None
            value = Value(tuple(array.shape), np.dtype(array.dtype), numbers, graph, maker, None, number, made_at)
        self._known[id(tensor)] = (reference(tensor), value)
        return value

    def _link(self, tensor: Tensor) -> Operation | None:
        """The way out of the graph through which a new tensor's numbers came, if they can be recognised."""
        array = tensor.array
        if tensor.node is not None or not isinstance(array, np.ndarray):
            return None
        if array.size == 1 and array.dtype.kind == "f":
            return self._departed.get(float(array.reshape(-1)[0]))
        known = self._arrays_departed.get(memory_of(array))
        return None if known is None else known[1]

    def parameter_of(self, tensor: Tensor, place: Place | None = None) -> Parameter | None:
        """The entry of a leaf that wants gradients (or is a module's parameter); None for other tensors."""
        known = self.parameters.get(id(tensor))
        if known is not None and known.tensor() is tensor:
            return known
        node = tensor.node
        own = getattr(tensor, "_is_param", False) or type(tensor).__name__ == "Parameter"
        if not own and (not isinstance(node, Leaf) or type(node) is DeadEnd):
            return None
        route = self._route_of(tensor) or (node.place if isinstance(node, Leaf) else place or here(),)
        shape = tuple(tensor.array.shape)
        new = Parameter(
            given_name(route) or f"tensor of shape {shape}", shape, route[0], self._count(), weakref.ref(tensor),
            is_module_parameter=own, born=node.born if isinstance(node, Leaf) else tick(), route=route,
        )  # fmt: skip
        owner = owner_of(tensor.array)
        written = self._written.pop(id(owner), None)
        if written is not None and written[0]() is owner:
            new.written_at = written[1]
        self.parameters[id(tensor)] = new
        return new

    def placed(self, tensor: Tensor, route: tuple[Place, ...]) -> None:
        """A tensor that is a leaf, or may become one, is made here."""
        self._places[id(tensor)] = (weakref.ref(tensor), route)
        known = self.parameters.get(id(tensor))
        if known is not None and known.tensor() is tensor:  # nn.Parameter sets its flag before it is complete
            known.created, known.route = route[0], route

    def becomes_leaf(self, tensor: Tensor, route: tuple[Place, ...]) -> None:
        """A result without a graph is to be a leaf from here on; made in this function, the same lines led there."""
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            self.open.begun[known[1]] = known[0]
        made = self._route_of(tensor)
        if len(made) == 1 and made[0].code is route[0].code:
            self.placed(tensor, (made[0], *route[1:]))

    def _route_of(self, tensor: Tensor) -> tuple[Place, ...]:
        """The line that made a tensor without a graph and the lines that led there, as far as they are known."""
        reference, route = self._places.get(id(tensor), (None, ()))
        if reference is not None and reference() is tensor:
            return route
        known = self._known.get(id(tensor))
        made_at = known[1].made_at if known is not None and known[0]() is tensor else None
        return () if made_at is None else (made_at,)

    def name_parameters(self, model: Any) -> None:
        """Call the parameters of a model by their names in it."""
        for name, module, tensor in _named_tensors(model):
            parameter = self.parameter_of(tensor, self.created(module))
            if parameter is not None:
                parameter.name, parameter.module = name, weakref.ref(module)

    def name_in_whole_models(self) -> None:
        """Call parameters by their names in the largest module around them: its methods may call its parts only."""
        parts = {part for module in self.made_at for part in module._modules.values()}
        for model in [module for module in self.made_at if module not in parts and not of_library(module)]:
            for name, _, tensor in _named_tensors(model):
                known = self.parameters.get(id(tensor))
                if known is not None and known.tensor() is tensor:
                    known.name = name
        self._tell_apart([each for known in self.models if (each := known()) is not None and each not in parts])

    def _tell_apart(self, models: list[Any]) -> None:
        """Put what a model is called before names that several models have: the `0.weight` of a GAN's two networks."""
        count = Counter(parameter.name for parameter in self.parameters.values())
        for model in models:
            called = given_name(self.routes.get(model, ()))
            own = {id(tensor) for _, _, tensor in _named_tensors(model)} if called else ()
            for parameter in [self.parameters[key] for key in own if key in self.parameters]:
                if count[parameter.name] > 1 and parameter.is_module_parameter:
                    parameter.name = f"{called}.{parameter.name}"

    def _count(self) -> int:
        self._now += 1
        return self._now


def of_library(module: Any) -> bool:
    """Whether a module's class is one of ours: a container has no names for what is in it."""
    return type(module).__module__.partition(".")[0] == "pellucid"


def _named_tensors(model: Any) -> Iterator[tuple[str, Any, Tensor]]:
    """The parameters of a model: the name in it, the module each belongs to, and the tensor."""
    for path, module in model.named_modules():
        for name, tensor in module._parameters.items():
            if tensor is not None:
                yield f"{path}.{name}" if path else name, module, tensor


def memory_of(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def owner_of(array: Any) -> Any:
    """The array whose memory an array looks at, which may be itself."""
    return aliasing.owner_of(array) if isinstance(array, np.ndarray) else array


def given_name(route: tuple[Place, ...]) -> str:
    """The name that a tensor gets where it is made; of one that a function returns at once, where that is called."""
    return next((name for _, name in names_along(route)), "")


def names_along(route: tuple[Place, ...]) -> Iterator[tuple[Place, str]]:
    """The lines that led to a tensor, without those that only return it, and the name that each gives it."""
    for place in route:
        statement = statement_on(place.source)
        if not isinstance(statement, ast.Return):
            yield place, _target(statement)


def name_on(line: str) -> str:
    """The name that a line gives to what it makes: `w` for `w = torch.zeros(3)` and for `"w": torch.zeros(3),`.

    >>> name_on("self.w = zeros(3)"), name_on("'w': zeros(3),"), name_on("p['w'] = zeros(3)"), name_on("zeros(3)")
    ('w', 'w', "p['w']", '')
    """
    return _target(statement_on(line))


def statement_on(line: str) -> ast.stmt | None:
    """The statement on a line, if it stands there alone; of an entry of a dictionary, as one by itself."""
    for source in (line, f"{{{line}}}"):
        try:
            return ast.parse(source).body[0]
        except (SyntaxError, IndexError, ValueError):
            continue
    return None


def _target(statement: ast.stmt | None) -> str:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Constant):
        return ""  # a loop fills a list: all would have one name
    if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        return ast.unparse(target).removeprefix("self.")
    entry = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(entry, ast.Dict) and len(entry.keys) == 1 and isinstance(entry.keys[0], ast.Constant):
        return str(entry.keys[0].value)
    return ""
