"""The trace of a run: an observer of operations and gradients, and a ledger of what the training loop did.

The instruments (instruments.py) tell it what happens outside of operations: calls of modules and losses, `backward()`,
steps of optimizers, ways out of the graph.
"""

import ast
import linecache
import math
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.aliasing import tick
from pellucid.core.backward import oldest_first
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import Place, getframe, here, outside
from pellucid.core.tensor import PICK, Leaf, Node, Tensor
from pellucid.core.views import current_node
from pellucid.diagnose.events import (
    Backward,
    Cleared,
    Crash,
    Event,
    Flow,
    LossCall,
    ModuleCall,
    Operation,
    OptimizerInfo,
    Parameter,
    Pass,
    Update,
    Value,
    is_finite,
    norm_of,
)

REMEMBERED = 1000  # gradient norms kept of one parameter
HELD_BYTES = 1 << 29  # arrays held for the rules within one pass; beyond that the oldest go first


class Trace:
    """Everything the rules may ask about a run."""

    def __init__(self, on_pass: Callable[[Pass], None] = lambda done: None) -> None:
        self.on_pass = on_pass  # called with every finished pass, before its arrays are let go
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
        self.roots: list[tuple[weakref.ref[Tensor], Backward]] = []  # what backward was called on
        self._known: dict[int, tuple[weakref.ref[Tensor], Value]] = {}
        self._by_node: dict[int, Operation] = {}
        self._by_array: dict[int, Value] = {}  # results of this pass, by the identity of their arrays
        self._pass_ticks = [0]  # the tick at which each pass began
        self.departed_numbers: dict[Operation, float] = {}  # the numbers with which values left the graph in this pass
        self._departed: dict[float, Operation] = {}  # Python numbers that left the graph in this pass
        self._arrays_departed: dict[int, tuple[Any, Operation]] = {}  # NumPy arrays that did, by their memory
        self._written: dict[int, tuple[weakref.ref[Tensor], Place]] = {}  # writes to tensors not yet known
        self._places: dict[int, tuple[weakref.ref[Tensor], Place]] = {}  # where tensors without a graph were made
        self._now = 0  # the number of the latest event
        self._incoming: tuple[Any, float, int] = (None, 0.0, 0)  # the gradient measured last, its norm and size
        self._named: tuple[int, ...] = ()  # what was known when parameters were named last
        self._held = 0
        self._inside_step = False

    # --- questions

    @property
    def backwards(self) -> list[Backward]:
        """All calls of backward, in their order."""
        return [event for event in self.loop if isinstance(event, Backward)]

    @property
    def updates(self) -> list[Update]:
        """All steps of optimizers and writes by hand, in their order."""
        return [event for event in self.loop if isinstance(event, Update)]

    @property
    def losses(self) -> list[float]:
        """The values that backward was called on."""
        return [event.loss for event in self.backwards if event.error is None]

    def created(self, module: Any) -> Place | None:
        """The user's line that made a module."""
        return self.made_at.get(module)

    # --- values

    def value_of(self, tensor: Tensor) -> Value:
        """What is known of a tensor; it becomes known if it was not."""
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            value = known[1]
            if value.array is None and isinstance(tensor.array, np.ndarray):
                value = self._known_again(tensor, value)
            return value
        same = self._by_array.get(id(tensor.array)) if tensor.node is None and type(tensor) is Tensor else None
        if same is not None and same.array is tensor.array:  # max(dim) looks for its indices in the bare values
            self._known[id(tensor)] = (weakref.ref(tensor), same)
            return same
        value = self._new(tensor, self._link(tensor))
        value.parameter = self.parameter_of(tensor)
        return value

    def _known_again(self, tensor: Tensor, old: Value) -> Value:
        """A value of an earlier pass that is used again: a parameter, a state that is carried along, data."""
        value = self._new(tensor, None)
        value.parameter, value.born = old.parameter or self.parameter_of(tensor), old.born
        value.made_at = old.made_at
        return value

    def _new(self, tensor: Tensor, maker: Operation | None) -> Value:
        array = tensor.array
        value = Value(
            tuple(np.shape(array)), np.dtype(array.dtype), array if isinstance(array, np.ndarray) else None,
            tensor.node is not None, maker, born=self.open.number, made_at=None if maker is None else maker.place,
        )  # fmt: skip
        self._known[id(tensor)] = (weakref.ref(tensor), value)
        return value

    def _link(self, tensor: Tensor) -> Operation | None:
        """The way out of the graph through which a new tensor's numbers came, if they can be recognised."""
        array = tensor.array
        if tensor.node is not None or not isinstance(array, np.ndarray):
            return None
        if array.size == 1 and array.dtype.kind == "f":
            return self._departed.get(float(array.reshape(-1)[0]))
        known = self._arrays_departed.get(_memory(array))
        return None if known is None else known[1]

    def parameter_of(self, tensor: Tensor, place: Place | None = None) -> Parameter | None:
        """The entry of a leaf that wants gradients (or is a module's parameter); None for other tensors."""
        known = self.parameters.get(id(tensor))
        if known is not None and known.tensor() is tensor:
            return known
        node = tensor.node
        own = getattr(tensor, "_is_param", False) or type(tensor).__name__ == "Parameter"
        if not isinstance(node, Leaf) and not own:
            return None
        created = node.place if isinstance(node, Leaf) else self._place_of(tensor) or place or here()
        shape = tuple(np.shape(tensor.array))
        new = Parameter(
            _assigned_name(created) or f"tensor of shape {shape}", shape, created, self._count(), weakref.ref(tensor),
            is_module_parameter=own, born=node.born if isinstance(node, Leaf) else tick(),
        )  # fmt: skip
        written = self._written.pop(id(tensor), None)
        if written is not None and written[0]() is tensor:
            new.written_at = written[1]
        self.parameters[id(tensor)] = new
        return new

    def placed(self, tensor: Tensor, place: Place) -> None:
        """A tensor that wants no gradient is made here."""
        self._places[id(tensor)] = (weakref.ref(tensor), place)

    def _place_of(self, tensor: Tensor) -> Place | None:
        """The line that made a tensor without a graph, if it is known."""
        reference, place = self._places.get(id(tensor), (None, None))
        if reference is not None and reference() is tensor:
            return place
        known = self._known.get(id(tensor))
        maker = known[1].maker if known is not None and known[0]() is tensor else None
        return None if maker is None else maker.place

    def name_parameters(self, model: Any) -> None:
        """Call the parameters of a model by their names in it."""
        for path, module in model.named_modules():
            for name, tensor in module._parameters.items():
                if tensor is not None:
                    parameter = self.parameter_of(tensor, self.created(module))
                    if parameter is not None:
                        parameter.name = f"{path}.{name}" if path else name
                        parameter.module = weakref.ref(module)

    # --- the observer: operations and gradients

    def operation(
        self, p: Primitive, tensors: Sequence[Tensor], params: tuple[Any, ...], outs: Sequence[Tensor]
    ) -> None:
        """An operation has run."""
        frame = outside(getframe(1))
        inputs = tuple([self.value_of(tensor) for tensor in tensors])
        operation = self._operation(p.name, Place(frame.f_code, frame.f_lasti), inputs, params)
        operation.primitive = p
        operation.outputs = tuple([self._new(out, operation) for out in outs])
        for value in operation.outputs:
            self._by_array[id(value.array)] = value
        self._note_node(operation, outs)
        self._note_numbers(operation)

    def _operation(self, op: str, place: Place, inputs: tuple[Value, ...], params: tuple[Any, ...]) -> Operation:
        mode = modes.current()
        operation = Operation(
            op, place, inputs, params, (), self._count(), self.running, mode.grad, mode.by if not mode.grad else "",
            mode.entered if not mode.grad else None, None if mode.grad else _line_within(mode.entered),
        )  # fmt: skip
        self.open.operations.append(operation)
        for value in inputs:
            if value.parameter is not None and value.parameter.last_used != self.open.number:
                value.parameter.used += 1
                value.parameter.last_used = self.open.number
        return operation

    def _note_node(self, operation: Operation, outs: Sequence[Tensor]) -> None:
        for out in outs:
            node = out.node
            if node is not None:
                self._by_node[id(node)] = operation
                operation.node = node
                if node.primitive is PICK and node.inputs[0] is not None:
                    operation.node = node.inputs[0]
                    self._by_node[id(node.inputs[0])] = operation

    def _note_numbers(self, operation: Operation) -> None:
        """Whether its results are finite; the arrays that wait for the rules stay within a bound."""
        for value in operation.outputs:
            if value.array is not None:
                self._held += value.array.nbytes
                operation.finite = operation.finite and is_finite(value.array)
        if not operation.finite and operation.spoils():
            self.open.bad.append(operation)
        if self._held > HELD_BYTES:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        for operation in self.open.operations[: len(self.open.operations) // 2]:
            for value in operation.outputs:
                value.array = None
        self._held //= 2

    def gradient(self, node: Node, g: Any, parent: Node, d: Any) -> None:
        """A gradient went from one node to another."""
        array = getattr(d, "array", d)
        operation = self._by_node.get(id(node))
        if self._incoming[0] is not g:  # one node passes the same gradient to several inputs
            self._incoming = (g, *_measured(g))
        _, incoming, size = self._incoming
        tensor = parent.tensor() if isinstance(parent, Leaf) else None
        flow = Flow(
            operation, node.primitive.name, node.place, incoming, norm_of(array), size, int(np.size(array)),
            None if tensor is None else self.parameter_of(tensor),
            None if isinstance(parent, Leaf) else self._by_node.get(id(parent)), array,
        )  # fmt: skip
        self.open.flows.append(flow)
        if not math.isfinite(flow.outgoing) and math.isfinite(incoming) and not is_finite(array):
            self.open.bad_gradients.append(flow)

    def write(self, target: Tensor, name: str) -> None:
        """A tensor was written to in place."""
        if self._inside_step:
            return
        operations = self.open.operations
        result = operations[-1] if operations and operations[-1].order == self._now else None  # it has just run
        known = self._known.get(id(target))
        old = known[1] if known is not None and known[0]() is target else None
        self._note_initialisation(target)
        self._note_update_by_hand(target)
        if result is not None:
            result.written_to = old or self.value_of(target)
            value = self._new(target, result)
            value.requires_grad, value.parameter = target.node is not None, self.parameter_of(target)
            self._by_array[id(value.array)] = value
            result.outputs = (*result.outputs, value)
            self._note_node(result, (target,))
            if target.window is not None:
                self._write_through(target.window.base, result)

    def _count(self) -> int:
        self._now += 1
        return self._now

    def _write_through(self, base: Tensor, result: Operation) -> None:
        """A part of a tensor was written: the whole is made of what it was and of that part."""
        before = self.value_of(base)
        written = self._operation("write", result.place, (before, result.output), ())
        written.outputs = (self._new(base, written),)
        self._note_node(written, (base,))

    # --- the loop

    def begin_backward(self, root: Tensor, retain_graph: bool) -> Backward:
        """`backward()` is called."""
        node = current_node(root)
        graph = oldest_first([node]) if node is not None else []
        inner = [each for each in graph if not isinstance(each, Leaf)]
        began = bisect_right(self._pass_ticks, inner[0].born) - 1 if inner else self.open.number
        array = root.array
        loss = float(np.real(np.add.reduce(array, axis=None))) if isinstance(array, np.ndarray) else float("nan")
        held = frozenset(p for p, tensor in self._alive() if _has_gradient(tensor))
        event = Backward(
            here(), self._count(), self.open.number, loss, tuple(np.shape(array)), self.value_of(root), len(graph),
            self.open.number - began, held, retain_graph=retain_graph, inside_step=self._inside_step,
        )  # fmt: skip
        self.open.backward = event
        self.loop.append(event)
        self.roots.append((weakref.ref(root), event))
        return event

    def end_backward(
        self, event: Backward, error: BaseException | None, returned: "dict[Parameter, Any] | None" = None
    ) -> None:
        """`backward()` has returned or raised: the pass is complete. `autograd.grad` has returned the gradients."""
        event.error = error
        reached = {flow.into for flow in self.open.flows if flow.into is not None}
        event.reached = frozenset(reached)
        for parameter in reached:
            parameter.reached += 1
            parameter.last_reached = event.number
        squares = 0.0
        for parameter, tensor in self._alive():
            gradient = tensor._grad if returned is None else returned.get(parameter)
            if gradient is not None:
                norm = norm_of(gradient.array)
                squares += norm * norm
                if parameter in reached and len(parameter.gradient_norms) < REMEMBERED:
                    parameter.gradient_norms.append(norm)
        event.gradient_norm = float(np.sqrt(squares))
        if error is None:
            self.close_pass()

    def close_pass(self) -> None:
        """Show the pass to the rules, let its arrays go and begin the next one."""
        done = self.open
        try:
            self.on_pass(done)  # may end the run
        finally:
            self._begin_pass(done)

    def _begin_pass(self, done: Pass) -> None:
        done.forget()
        self.open = Pass(done.number + 1)
        self._pass_ticks.append(tick())
        self._by_node.clear()
        self._by_array.clear()
        self._departed.clear()
        self.departed_numbers.clear()
        self._arrays_departed.clear()
        self._held, self._incoming = 0, (None, 0.0, 0)
        self.roots = [(root, event) for root, event in self.roots if root() is not None]
        self._known = {key: entry for key, entry in self._known.items() if entry[0]() is not None}
        self._places = {key: entry for key, entry in self._places.items() if entry[0]() is not None}
        self._written = {key: entry for key, entry in self._written.items() if entry[0]() is not None}

    def _alive(self) -> Iterator[tuple[Parameter, Tensor]]:
        for parameter in list(self.parameters.values()):
            tensor = parameter.tensor()
            if tensor is not None:
                yield parameter, tensor

    def optimizer_of(self, optimizer: Any, place: Place) -> OptimizerInfo:
        """The entry of an optimizer, brought up to date with the parameters it holds."""
        info = next((known for known in self.optimizers if known.optimizer() is optimizer), None)
        if info is None:
            info = OptimizerInfo(weakref.ref(optimizer), type(optimizer).__name__, place, self._count())
            info.rate = float(optimizer.param_groups[0].get("lr", 0.0)) if optimizer.param_groups else 0.0
            info.keeps = [module for module in self.made_at if any(True for _ in module.parameters())]
            self.optimizers.append(info)
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                parameter = self.parameter_of(tensor) or self._held_leaf(tensor)
                if parameter not in info.parameters:
                    info.parameters.append(parameter)
                    info.keeps.append(tensor)
                    parameter.optimizers.append(info)
        return info

    def _held_leaf(self, tensor: Tensor) -> Parameter:
        """An optimizer holds a tensor that wants no gradient."""
        shape = tuple(np.shape(tensor.array))
        place = self._place_of(tensor) or here()
        name = _assigned_name(place) or f"tensor of shape {shape}"
        self.parameters[id(tensor)] = Parameter(name, shape, place, self._count(), weakref.ref(tensor))
        return self.parameters[id(tensor)]

    def before_step(self, info: OptimizerInfo) -> dict[Parameter, Any]:
        """An optimizer is about to step: copies of what it may change."""
        self._inside_step = True
        return {p: t.array.copy() for p in info.parameters if (t := p.tensor()) is not None}

    def after_step(self, info: OptimizerInfo, before: dict[Parameter, Any], rate: float) -> None:
        """An optimizer has stepped."""
        self._inside_step = False
        info.steps += 1
        self.loop.append(self._update(info, before, rate))

    def _update(self, info: OptimizerInfo | None, before: dict[Parameter, Any], rate: float) -> Update:
        changed, with_gradient, largest, change, total, finite = set(), set(), 0.0, 0.0, 0.0, True
        for parameter, old in before.items():
            tensor = parameter.tensor()
            if tensor is None:
                continue
            if tensor._grad is not None:
                with_gradient.add(parameter)
            size = norm_of(old)
            moved = norm_of(tensor.array - old) if np.shape(tensor.array) == np.shape(old) else float("inf")
            finite = finite and is_finite(tensor.array)
            total, change = total + size * size, change + moved * moved
            if moved:
                changed.add(parameter)
                largest = max(largest, moved / (size + 1e-12))
        ratio = float(np.sqrt(change) / (np.sqrt(total) + 1e-12))
        return Update(
            here(), self._count(), self.open.number, info, frozenset(changed), frozenset(with_gradient), ratio, largest,
            rate, float(np.sqrt(total)), finite,
        )  # fmt: skip

    def _note_initialisation(self, target: Tensor) -> None:
        """Remember who wrote to a parameter last before it was trained."""
        parameter = self._owner(target) if isinstance(target.array, np.ndarray) else None
        if parameter is None:
            self._written[id(target)] = (weakref.ref(target), here())
        elif not parameter.reached:
            parameter.written_at = here()

    def _note_update_by_hand(self, target: Tensor) -> None:
        """A write to the memory of a parameter without an optimizer is a step, too."""
        recorded = modes.current().grad and target.node is not None
        if recorded or not isinstance(target.array, np.ndarray):
            return
        parameter = self._owner(target)
        if parameter is None:
            return
        given = parameter.last_reached >= 0 and parameter.last_reached == self.open.number - 1  # by autograd.grad
        gradient = given or parameter.tensor()._grad is not None
        last = self.loop[-1] if self.loop else None
        if isinstance(last, Update) and last.optimizer is None and last.number == self.open.number:
            last.changed |= {parameter}
            last.with_gradient |= {parameter} if gradient else frozenset()
            return
        with_gradient = frozenset({parameter}) if gradient else frozenset()
        update = Update(
            here(), self._count(), self.open.number, None, frozenset({parameter}), with_gradient, 0.0, 0.0, 0.0,
            norm_of(target.array), is_finite(target.array),
        )  # fmt: skip
        self.loop.append(update)

    def _owner(self, target: Tensor) -> Parameter | None:
        """The parameter whose memory a tensor looks at."""
        start = _memory(target.array)
        for parameter, tensor in self._alive():
            array = tensor.array
            if isinstance(array, np.ndarray) and _memory(array) <= start < _memory(array) + max(array.nbytes, 1):
                return parameter
        return None

    def cleared(self, tensors: Sequence[Tensor], how: str) -> None:
        """Gradients are about to be forgotten."""
        found = frozenset(p for tensor in tensors if (p := self.parameter_of(tensor)) is not None)
        self.note(Cleared, how, found)

    # --- ways out of the graph, modules, losses

    def departed(self, tensor: Tensor, how: str, result: Any = None) -> Operation:
        """A value has left the graph: as another tensor, as numbers, or as an array."""
        operation = self._operation(how, here(), (self.value_of(tensor),), ())
        operation.leaves_graph = True
        if isinstance(result, Tensor):
            operation.outputs = (self._new(result, operation),)
        elif isinstance(result, (float, int)) and not isinstance(result, bool):
            self._note_number(result, operation)
        elif isinstance(result, np.ndarray):
            self._arrays_departed[_memory(result)] = (result, operation)
        elif isinstance(result, list):
            for number in _numbers(result):
                self._note_number(number, operation)
        return operation

    def _note_number(self, number: float, operation: Operation) -> None:
        """A number that left the graph is known again when it comes back, unless it is one that anybody may write."""
        if round(number, 3) != number:
            self._departed[float(np.float32(number))] = self._departed[float(number)] = operation
            self.departed_numbers[operation] = float(number)

    def drawn(self, sources: Sequence[Tensor], how: str, result: Tensor) -> None:
        """Random numbers were drawn with the help of tensors."""
        operation = self._operation(how, here(), tuple(self.value_of(source) for source in sources), ())
        operation.grad_mode, operation.switched_off_by = True, ""  # the sampler's own no_grad is not the user's
        operation.outputs = (self._new(result, operation),)

    def rebuilt(self, sources: Sequence[Tensor], how: str, result: Tensor) -> None:
        """A tensor was built of the numbers of others."""
        operation = self._operation(how, here(), tuple(self.value_of(source) for source in sources), ())
        operation.leaves_graph = True
        operation.outputs = (self._new(result, operation),)
        operation.output.parameter = self.parameter_of(result)

    def enter(self, module: Any, tensors: Sequence[Tensor]) -> ModuleCall:
        """A module is called."""
        outer = self.running
        if outer is None:
            self._note_model(module)
        call = ModuleCall(
            module, _path_to(module, outer), here(), outer, module.training, modes.current().grad, self._count(),
            tuple(self.value_of(tensor) for tensor in tensors),
        )  # fmt: skip
        self.open.calls.append(call)
        self.running = call
        return call

    def leave(self, call: ModuleCall, tensors: Sequence[Tensor]) -> None:
        """A module's call has ended."""
        call.outputs = tuple(self.value_of(tensor) for tensor in tensors)
        self.running = call.parent

    def _note_model(self, model: Any) -> None:
        if not any(known() is model for known in self.models):
            self.models.append(weakref.ref(model))
        known = (id(model), len(self.made_at), len(self.parameters))
        if known != self._named:  # new modules or parameters since: in most passes there are none
            self.name_parameters(model)
            self._named = (id(model), len(self.made_at), len(self.parameters))

    def lost(self, name: str, tensors: Sequence[Any], options: dict[str, Any]) -> LossCall:
        """A loss function is called."""
        values = [self.value_of(t) if isinstance(t, Tensor) else None for t in (*tensors, None, None)]
        call = LossCall(name, here(), values[0], values[1], options, self._count(), module=self.running)
        self.open.losses.append(call)
        return call

    def note(self, kind: type[Event], *details: Any) -> None:
        """Something happened in the loop."""
        self.loop.append(kind(here(), self._count(), self.open.number, *details))


def _line_within(entered: Place | None) -> Place | None:
    """The line that is running in the function that switched gradients off; in a decorated function, its own line."""
    inner, frame = None, getframe(2)
    while entered is not None and frame is not None:
        if frame.f_code is entered.code:
            found = frame if inner is None or frame.f_lasti != entered.lasti else inner
            return Place(found.f_code, found.f_lasti)
        if frame is outside(frame):
            inner = frame
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _measured(g: Any) -> tuple[float, int]:
    """The norm and the size of a gradient, or of several that belong to one operation."""
    parts: list[Any] = g if isinstance(g, list) else [g]
    coming = [getattr(part, "array", part) for part in parts if part is not None]
    return math.hypot(*map(norm_of, coming)), sum(int(np.size(part)) for part in coming)


def _memory(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _has_gradient(tensor: Tensor) -> bool:
    grad = tensor._grad
    return grad is not None and isinstance(grad.array, np.ndarray) and bool(grad.array.any())


def _numbers(nested: Any, limit: int = 1000) -> Iterator[float]:
    """The numbers in nested lists, the first ones."""
    stack = [nested]
    while stack and limit:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, (int, float)):
            limit -= 1
            yield item


def _path_to(module: Any, outer: ModuleCall | None) -> str:
    """The name of a module from the outermost one that is running."""
    if outer is None:
        return ""
    for name, child in outer.module.named_modules():
        if child is module:
            return f"{outer.path}.{name}" if outer.path and name else name or outer.path
    return type(module).__name__


def _assigned_name(place: Place) -> str:
    """The name that the line which made a tensor gives it: `w` for `w = torch.zeros(3, requires_grad=True)`."""
    text = linecache.getline(place.filename, place.line).strip()
    try:
        statement = ast.parse(text).body[0]
    except (SyntaxError, IndexError, ValueError):
        return ""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Name, ast.Attribute)):
        return ast.unparse(statement.targets[0]).removeprefix("self.")
    return ""
