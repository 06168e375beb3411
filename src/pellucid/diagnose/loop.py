"""The ledger of a training loop: calls of backward(), steps of optimizers and writes by hand, gradients cleared."""

import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import isfinite, nan, prod, sqrt
from typing import Any

import numpy as np

from pellucid.core import aliasing
from pellucid.core.aliasing import tick
from pellucid.core.backward import oldest_first
from pellucid.core.provenance import Place, here
from pellucid.core.tensor import Leaf, Node, Tensor
from pellucid.core.views import current_node
from pellucid.diagnose.events import (
    Backward,
    Cleared,
    Event,
    LeftOut,
    OptimizerInfo,
    Parameter,
    Pass,
    Update,
    Value,
    is_finite,
    norm_of,
)
from pellucid.diagnose.values import Values, given_name, memory_of, owner_of

REMEMBERED = 1000  # gradient norms kept of one parameter
TIDYING = 8  # passes after which entries of tensors that are gone are dropped
SCALING = frozenset(("mul", "div", "mul_number", "div_number"))


class Loop(Values):
    """What the training loop did, event by event."""

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

    def step_began(self) -> int:
        """The number of the first pass of the step that is running.

        Where an optimizer steps, calls of autograd.grad without an update after them are parts of a step, as in the
        inner loop of meta-learning.
        """
        for event in reversed(self.loop if self.optimizers else ()):
            if isinstance(event, Update):
                return event.number
            if isinstance(event, Backward) and not event.asked and event is not self.open.backward:
                return event.number + 1
        return 0 if self.optimizers else self.open.number

    def survivors(self, before: int) -> Iterator[Value]:
        """The results of passes before this one that somebody still holds, each with its graph."""
        for reference, value in self._known.values():
            if value.requires_grad and value.made_at is not None and value.born < before:
                tensor = reference()
                if tensor is not None and tensor.node is not None and not isinstance(tensor.node, Leaf):
                    yield value

    def parameters_of(self, value: Value) -> set[Parameter]:
        """The parameters that a value was computed from, by the graph of the tensor that still has it."""
        tensor = next((kept() for kept, known in self._known.values() if known is value), None)
        graph = [] if tensor is None else oldest_first(_node_of(tensor))
        leaves = [leaf for node in graph if isinstance(node, Leaf) and (leaf := node.tensor()) is not None]
        return {parameter for leaf in leaves if (parameter := self.parameter_of(leaf)) is not None}

    # --- backward()

    def begin_backward(self, root: Tensor, retain_graph: bool) -> Backward:
        """`backward()` is called."""
        value, array = self.value_of(root), root.array
        graph = oldest_first(_node_of(root)) if self._reaches_back else []
        inner = [each for each in graph if not isinstance(each, Leaf)]
        began = bisect_right(self._pass_ticks, inner[0].born) - 1 if inner else self.open.number
        loss = _sum_of(array) / self.open.scale if isinstance(array, np.ndarray) else nan
        held = frozenset(p for p, tensor in self._alive() if _has_gradient(tensor))
        event = Backward(
            here(), self._count(), self.open.number, loss, tuple(array.shape), value, len(graph),
            self.open.number - began, held, retain_graph=retain_graph, inside_step=self._inside_step,
        )  # fmt: skip
        self.open.backward = event
        self._edges_before = len(self.open.edges)
        self.loop.append(event)
        self.roots += [(kept, event) for kept in (weakref.ref(root), *self._before_scaling(value))]
        return event

    def _before_scaling(self, root: Value) -> "list[weakref.ref[Tensor]]":
        """The loss of which backward gets a multiple: `(loss / 4).backward()`, `scaler.scale(loss).backward()`."""
        maker = root.maker
        if maker is None or maker.op not in SCALING:
            return []
        computed = [value for value in maker.inputs if value.requires_grad and value.maker is not None]
        return [kept for kept, value in self._known.values() if value in computed and value.born == root.born]

    def end_backward(
        self, event: Backward, error: BaseException | None, returned: "dict[Parameter, Any] | None" = None
    ) -> None:
        """`backward()` has returned or raised: the pass is complete. `autograd.grad` has returned the gradients."""
        event.error = error
        own = self.open.edges[self._edges_before :]  # those before it are of autograd.grad within the forward
        event.reached = reached = frozenset(self.leaves_in(own).values())
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
        event.gradient_norm = sqrt(squares)
        if error is None:
            self.close_pass()

    def leaves_in(self, edges: "list[tuple[Node, Any, Node, Any]]") -> dict[Node, Parameter]:
        """The leaves that gradients went to."""
        leaves = dict.fromkeys([parent for _, _, parent, _ in edges if isinstance(parent, Leaf)])
        alive = [(leaf, tensor) for leaf in leaves if (tensor := leaf.tensor()) is not None]
        known = [(leaf, self.parameter_of(tensor)) for leaf, tensor in alive]
        return {leaf: parameter for leaf, parameter in known if parameter is not None}

    def close_pass(self) -> None:
        """Show the pass to the rules, let its arrays go and begin the next one."""
        done = self.open
        try:
            self.on_pass(done)  # may end the run
        finally:
            self._begin_pass(done)

    def _begin_pass(self, done: Pass) -> None:
        done.forget()
        self._latest.append((done.number, done.operations))
        self.open = Pass(done.number + 1)
        self._pass_ticks.append(tick())
        self._written_nodes.clear()
        self._by_array.clear()
        self._departed.clear()
        self.departed_numbers.clear()
        self._arrays_departed.clear()
        self._reaches_back = False
        self._held = 0
        self.roots = [(root, event) for root, event in self.roots if root() is not None]
        self.results = [entry for entry in self.results if entry[0]() is not None]
        if done.number % TIDYING == 0:
            self._known = {key: entry for key, entry in self._known.items() if entry[0]() is not None}
            self._places = {key: entry for key, entry in self._places.items() if entry[0]() is not None}
            self._written = {key: entry for key, entry in self._written.items() if entry[0]() is not None}

    def _alive(self) -> Iterator[tuple[Parameter, Tensor]]:
        for parameter in list(self.parameters.values()):
            tensor = parameter.tensor()
            if tensor is not None:
                yield parameter, tensor

    # --- steps

    def optimizer_of(self, optimizer: Any, place: Place, late: bool = False) -> OptimizerInfo:
        """The entry of an optimizer, brought up to date with the parameters it holds.

        In a notebook it may have been made in an earlier cell, before the doctor came (`late`): then its steps stand
        for the line that made it.
        """
        info = next((known for known in self.optimizers if known.optimizer() is optimizer), None)
        if info is None:
            info = OptimizerInfo(weakref.ref(optimizer), type(optimizer).__name__, place, self._count(), late=late)
            info.rate = float(optimizer.param_groups[0].get("lr", 0.0)) if optimizer.param_groups else 0.0
            info.keeps = [module for module in self.made_at if any(True for _ in module.parameters())]
            self.optimizers.append(info)
        tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        identities = [id(tensor) for tensor in tensors]
        if identities != info.seen:
            info.seen = identities
            self._take_hold(info, tensors)
        return info

    def _take_hold(self, info: OptimizerInfo, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            parameter = self.parameter_of(tensor) or self._held_leaf(tensor)
            if parameter not in info.parameters:
                info.parameters.append(parameter)
                info.keeps.append(tensor)
                parameter.optimizers.append(info)

    def _held_leaf(self, tensor: Tensor) -> Parameter:
        """An optimizer holds a tensor that wants no gradient."""
        shape = tuple(tensor.array.shape)
        route = self._route_of(tensor) or (here(),)
        name = given_name(route) or f"tensor of shape {shape}"
        self.parameters[id(tensor)] = Parameter(
            name, shape, route[0], self._count(), weakref.ref(tensor), route=route
        )  # fmt: skip
        return self.parameters[id(tensor)]

    def before_step(self, info: OptimizerInfo) -> dict[Parameter, Any]:
        """An optimizer is about to step: copies of what it may change."""
        self._inside_step = True
        self.handmade.update(self._written_gradients(info))
        if info.late and not info.steps:
            info.place = here()
        return {p: t.array.copy() for p in info.parameters if (t := p.tensor()) is not None}

    def _written_gradients(self, info: OptimizerInfo) -> Iterator[Parameter]:
        """The parameters whose gradient was written by hand: copied over theirs, or written after it was cleared."""
        cleared: set[Parameter] = set()
        for event in reversed(self.loop):
            if isinstance(event, Backward) and not event.asked:
                break
            if isinstance(event, Cleared):
                cleared |= event.parameters
        for parameter in info.parameters:
            tensor = parameter.tensor()
            if tensor is not None and tensor._grad is not None:
                write = aliasing.write_to(tensor._grad.array)
                copied = write is not None and write.operation == "copy_"
                if copied or (parameter in cleared and _has_gradient(tensor)):
                    yield parameter

    def after_step(self, info: OptimizerInfo, before: dict[Parameter, Any], rate: float) -> None:
        """An optimizer has stepped."""
        self._inside_step = False
        info.steps += 1
        self.loop.append(self._update(info, before, rate))

    def scaled(self, scale: float) -> None:
        """A GradScaler has multiplied a loss."""
        self.open.scale = scale

    def left_out(self, optimizer: Any) -> None:
        """A GradScaler has left out a step, as gradients are not finite."""
        info = self.optimizer_of(optimizer, here(), late=True)
        info.steps += 1
        self.note(LeftOut, info)

    def _update(self, info: OptimizerInfo | None, before: dict[Parameter, Any], rate: float) -> Update:
        changed, with_gradient, largest, change, total, finite = set(), set(), 0.0, 0.0, 0.0, True
        for parameter, old in before.items():
            tensor = parameter.tensor()
            if tensor is None:
                continue
            if tensor._grad is not None:
                with_gradient.add(parameter)
            size = norm_of(old)
            moved = norm_of(tensor.array - old) if tensor.array.shape == old.shape else float("inf")
            finite = finite and (isfinite(size + moved) or is_finite(tensor.array))
            total, change = total + size * size, change + moved * moved
            if moved:
                changed.add(parameter)
                largest = max(largest, moved / (size + 1e-12))
        ratio = sqrt(change) / (sqrt(total) + 1e-12)
        return Update(
            here(), self._count(), self.open.number, info, frozenset(changed), frozenset(with_gradient), ratio, largest,
            rate, sqrt(total), finite,
        )  # fmt: skip

    def _note_initialisation(self, target: Tensor) -> None:
        """Remember who wrote to a parameter last before it was trained."""
        if not isinstance(target.array, np.ndarray):
            return
        parameter = self._owner(target)
        if parameter is None:
            owner = owner_of(target.array)
            self._written[id(owner)] = (weakref.ref(owner), here())
        elif not parameter.reached:
            parameter.written_at = here()

    def _note_update_by_hand(self, target: Tensor, steps: bool = True) -> None:
        """A write to the memory of a parameter without an optimizer is a step, too; `p.data = ...` is one.

        It is none, and applies no gradient, where the numbers written are what another network computed.
        """
        parameter = self._owner(target) if isinstance(target.array, np.ndarray) else None
        if parameter is None:
            return
        given = parameter.last_reached >= 0 and parameter.last_reached == self.open.number - 1  # by autograd.grad
        gradient = steps and (given or parameter.tensor()._grad is not None)
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
        owner, start = owner_of(target.array), memory_of(target.array)
        for parameter, tensor in self._alive():
            array = tensor.array
            if not isinstance(array, np.ndarray) or owner_of(array) is not owner:  # quicker than an address to ask for
                continue
            if memory_of(array) <= start < memory_of(array) + max(array.nbytes, 1):
                return parameter
        return None

    def owners_of_gradient(self, target: Tensor) -> list[Tensor]:
        """The parameters whose whole gradient is in a tensor's memory: `p.grad`, `p.grad.data`, not `p.grad[0]`."""
        memory, size = owner_of(target.array), prod(target.array.shape)
        held = [(tensor, grad.array) for _, tensor in self._alive() if (grad := tensor._grad) is not None]
        return [tensor for tensor, array in held if owner_of(array) is memory and prod(array.shape) <= size]

    def cleared(self, tensors: Sequence[Tensor], how: str) -> None:
        """Gradients are about to be forgotten."""
        found = frozenset(p for tensor in tensors if (p := self.parameter_of(tensor)) is not None)
        self.note(Cleared, how, found)

    def note(self, kind: type[Event], *details: Any) -> None:
        """Something happened in the loop."""
        self.loop.append(kind(here(), self._count(), self.open.number, *details))


def _node_of(root: Tensor) -> list[Node]:
    """The node of a tensor as it is now, if it has one."""
    node = current_node(root)
    return [] if node is None else [node]


def _sum_of(array: np.ndarray) -> float:
    """The loss itself, mostly."""
    return float(np.real(array.item() if array.size == 1 else np.add.reduce(array, axis=None)))


def _has_gradient(tensor: Tensor) -> bool:
    grad = tensor._grad
    return grad is not None and isinstance(grad.array, np.ndarray) and bool(grad.array.any())
