"""The trace of a run: an observer of operations and gradients, over a ledger of what the training loop did (loop.py).

The instruments (instruments.py) tell it what happens outside of operations: calls of modules and losses, `backward()`,
steps of optimizers, ways out of the graph.
"""

import weakref
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import numpy as np

from pellucid.core.modes import MODE, is_grad_enabled
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import Place, getframe, here, outside
from pellucid.core.tensor import PICK, Leaf, Node, Tensor, picked_from
from pellucid.diagnose.events import (
    FLOAT,
    ORDER,
    SMALL,
    Flow,
    LossCall,
    ModuleCall,
    Operation,
    Pass,
    Value,
    all_measured,
    is_finite,
)
from pellucid.diagnose.loop import Loop
from pellucid.diagnose.tapping import route_here
from pellucid.diagnose.values import memory_of

ndarray = np.ndarray
HELD_BYTES = 1 << 29  # arrays held for the rules within one pass; beyond that the oldest go first


class Trace(Loop):
    """Everything the rules may ask about a run."""

    # --- the observer: operations and gradients

    def operation(
        self, p: Primitive, tensors: Sequence[Tensor], params: tuple[Any, ...], outs: Sequence[Tensor]
    ) -> None:
        """An operation has run."""
        node = outs[0].node
        if node is not None and node.primitive is p:  # the engine has looked for the user's line already
            place = self.place_of(node.code, node.lasti)
        else:
            frame = outside(getframe(1))
            place = self.place_of(frame.f_code, frame.f_lasti)
        operation = self._operation(p.name, place, tuple(map(self.value_of, tensors)), params)
        operation.primitive = p
        self._note_results(operation, outs)
        if not self.open.number and self.running is None and node is None:
            self.placed(outs[0], route_here())  # before training begins: it may become a leaf

    def _operation(self, op: str, place: Place, inputs: tuple[Value, ...], params: tuple[Any, ...]) -> Operation:
        self._now = order = self._now + 1
        operation = Operation(op, place, inputs, params, (), order, self.running)
        mode = MODE.get()
        if mode is not None and not mode.grad:
            operation.grad_mode, operation.switched_off_by, operation.entered = False, mode.by, mode.entered
            if any(value.requires_grad for value in inputs):  # else nothing is cut off here
                operation.within = _line_within(mode.entered)
        done = self.open
        done.operations.append(operation)
        for value in inputs:
            parameter = value.parameter
            if parameter is not None and parameter.last_used != done.number:
                parameter.used += 1
                parameter.last_used = done.number
        return operation

    def _note_results(self, operation: Operation, outs: Sequence[Tensor]) -> None:
        """What came out, and whether it is finite; the arrays that wait for the rules stay within a bound."""
        outputs = []
        for out in outs:
            value = self._new(out, operation)
            outputs.append(value)
            if out.node is not None:
                operation.node = picked_from(out.node)
            array = value.array
            self._by_array[id(array)] = value
            if array is not None:
                self._held += array.nbytes
                if array.dtype is FLOAT and 0 < array.size <= SMALL:
                    self.open.unchecked.append(value)
                elif not ((array.base is not None and _is_finite_view(array, operation)) or is_finite(array)):
                    operation.finite = False
        operation.outputs = tuple(outputs)
        if not operation.finite and operation.spoils():
            self.open.bad.append(operation)
        if self._held > HELD_BYTES:
            self._drop_oldest()

    def before_write(self) -> None:
        """A tensor is about to be written to: what has been computed so far has to be checked before."""
        self.check_numbers(self.open)

    def check_numbers(self, done: Pass) -> None:
        """See whether small results are finite: together, as most of them are and each call of NumPy takes its time."""
        waiting, done.unchecked = done.unchecked, []
        if not waiting or is_finite(np.concatenate([value.array for value in waiting], axis=None)):
            return
        makers = dict.fromkeys(value.maker for value in waiting if value.maker and not is_finite(value.array))
        for operation in makers:
            operation.finite = False
        spoiling = [operation for operation in makers if operation not in done.bad and operation.spoils()]
        done.bad = sorted([*done.bad, *spoiling], key=ORDER)

    def _drop_oldest(self) -> None:
        self.check_numbers(self.open)
        for operation in self.open.operations[: len(self.open.operations) // 2]:
            for value in operation.outputs:
                value.array = None
        self._held //= 2

    def gradient(self, node: Node, g: Any, parent: Node, d: Any) -> None:
        """A gradient went from one node to another: what it means is worked out when somebody asks."""
        self.open.edges.append((node, g, parent, d))

    def measure(self, done: Pass) -> None:
        """Make a pass that has just ended ready for rules: most passes of a long run go without."""
        self.check_numbers(done)
        edges = [edge for edge in done.edges if edge[0].primitive is not PICK]  # it only picks one of several results
        gradients = [*[arriving for _, arriving, _, _ in edges], *[passed_on for _, _, _, passed_on in edges]]
        sizes, leaves = all_measured(gradients), self.leaves_in(edges)
        made_by = {operation.node: operation for operation in done.operations} | self._written_nodes
        for node, g, parent, d in edges:
            operation = made_by.get(node)
            place = node.place if operation is None else operation.place
            target = made_by.get(picked_from(parent) if parent.primitive is PICK else parent)
            into = None if target is not None else leaves.get(parent)
            gradient = d if type(d) is ndarray else getattr(d, "array", d)
            name, (incoming, wide), (outgoing, narrow) = node.primitive.name, sizes[id(g)], sizes[id(d)]
            flow = Flow(operation, name, place, into, target, g, gradient, incoming, wide, outgoing, narrow)
            done.flows.append(flow)
            if not isfinite(outgoing) and isfinite(incoming) and not is_finite(gradient):
                done.bad_gradients.append(flow)

    def write(self, target: Tensor, name: str) -> None:
        """A tensor was written to in place."""
        if self._inside_step:
            return
        operations = self.open.operations
        just_now = bool(operations) and operations[-1].order == self._now
        if just_now:
            self._forget_replay(target)
        result = operations[-1] if operations and just_now else None
        known = self._known.get(id(target))
        old = known[1] if known is not None and known[0]() is target else None
        self._note_initialisation(target)
        if target.node is None or not is_grad_enabled():  # else it is a part of the graph
            self._note_update_by_hand(target, steps=result is None or not _copies(result))
        if result is not None:
            if result.node is not None:
                self._written_nodes[result.node] = result
            result.written_to = old or self.value_of(target)
            value = self._new(target, result)
            value.requires_grad, value.parameter = target.node is not None, self.parameter_of(target)
            self._by_array[id(value.array)] = value
            result.outputs = (*result.outputs, value)
            self._note_written(result, target)
            if target.window is not None:
                self._write_through(target.window.base, result)

    def _forget_replay(self, target: Tensor) -> None:
        """After a write through a view the engine takes the view anew from its base: nothing that the user called."""
        operations, steps = self.open.operations, () if target.window is None else target.window.steps
        last = operations[-len(steps) :] if steps else []
        replayed = [step.name for step, _ in steps] == [operation.op for operation in last]
        if replayed and last and last[0].inputs[0].maker is None and last[0].inputs[0].parameter is None:
            del operations[-len(steps) :]

    def _write_through(self, base: Tensor, result: Operation) -> None:
        """A part of a tensor was written: the whole is made of what it was and of that part."""
        before = self.value_of(base)
        written = self._operation("write", result.place, (before, result.output), ())
        written.outputs = (self._new(base, written),)
        self._note_written(written, base)

    def _note_written(self, operation: Operation, target: Tensor) -> None:
        """The node that a tensor has after a write was made by an operation that may have one of its own, too."""
        if target.node is not None and not isinstance(target.node, Leaf):
            operation.node = picked_from(target.node)
            self._written_nodes[operation.node] = operation

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
            self.check_numbers(self.open)  # what shares its memory may be written to from outside
            self._arrays_departed[memory_of(result)] = (result, operation)
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
            if self.on_call is not None:
                self.on_call()
            self._note_model(module)
        frame, inputs = outside(getframe(1)), tuple(map(self.value_of, tensors))
        place = self.place_of(frame.f_code, frame.f_lasti)
        call = ModuleCall(module, place, outer, module.training, is_grad_enabled(), self._count(), inputs)
        self.open.calls.append(call)
        self.running = call
        return call

    def leave(self, call: ModuleCall, tensors: Sequence[Tensor]) -> None:
        """A module's call has ended."""
        call.outputs = tuple(map(self.value_of, tensors))
        self.running = call.parent
        if call.parent is None:
            kept = [weakref.ref(tensor) for tensor in tensors if tensor.node is not None]
            self.results += [(reference, call.place, self.open.number) for reference in kept]

    def _note_model(self, model: Any) -> None:
        if not any(known() is model for known in self.models):
            self.models.append(weakref.ref(model))
        known = (id(model), len(self.made_at), len(self.parameters))
        if known != self._named:  # new modules or parameters since: in most passes there are none
            self.name_parameters(model)
            self._named = (id(model), len(self.made_at), len(self.parameters))

    def lost(self, name: str, given: dict[str, Any], first: str) -> LossCall:
        """A loss function is called with these arguments, the first of which has this name."""
        known = {key: self.value_of(thing) if isinstance(thing, Tensor) else thing for key, thing in given.items()}
        values = [known.pop(key, None) for key in (first, "target" if "target" in known else "targets")]
        of_tensors = [value if isinstance(value, Value) else None for value in values]
        call = LossCall(name, here(), of_tensors[0], of_tensors[1], known, self._count(), module=self.running)
        self.open.losses.append(call)
        return call


def _copies(operation: Operation) -> bool:
    """Whether a write puts in what is there already, as load_state_dict does: no gradient is applied by it."""
    return operation.op == "replace" and operation.inputs[1].maker is None


def _is_finite_view(array: ndarray, operation: Operation) -> bool:
    """Whether a result looks at the memory of an operand that is known to be finite."""
    operand = operation.inputs[0] if operation.inputs else None
    maker = None if operand is None else operand.maker
    if maker is None or maker.primitive is None or not maker.finite:
        return False  # of what comes from elsewhere nobody has looked at the numbers
    known = operand.array  # type: ignore[union-attr]
    if known is None or known.size <= SMALL:  # it waits to be looked at itself
        return False
    return array.base is known or array.base is known.base


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
