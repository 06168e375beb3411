"""The backward pass one step at a time: `for step in pellucid.backward_steps(loss): print(step)`.

The numbers are those of `loss.backward()`, bit for bit: the same rules in the same order, hooks included. The graph
is left as it was, and nothing is written to `.grad` unless `commit()` is called.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import copy_context
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from pellucid.core.aliasing import tick
from pellucid.core.backward import (
    LISTENERS,
    SELECTIVE,
    announced,
    arrived,
    commit,
    fold,
    oldest_first,
    pulled,
    seeds_of,
)
from pellucid.core.departures import RUNS
from pellucid.core.hooks import Watch, tell_backward
from pellucid.core.keep import arguments
from pellucid.core.kinds import Kind
from pellucid.core.modes import current
from pellucid.core.provenance import getframe, here, outside
from pellucid.core.saved import saved_values
from pellucid.core.tensor import ACCUMULATE, PICK, Leaf, Node, Tensor
from pellucid.diagnose.naming import Names
from pellucid.diagnose.pulling import refuse_freed
from pellucid.diagnose.step import Gradients, Step
from pellucid.errors import a_kind, explain

__all__ = ["BackwardSteps", "backward_steps"]

ndarray = np.ndarray


def backward_steps(
    loss: Tensor, gradient: Tensor | None = None, break_on: Callable[[Step], Any] | None = None
) -> "BackwardSteps":
    """Iterate over the backward pass of a loss, newest operation first.

    With `break_on` the iteration runs on until a step for which it is true, as a debugger does with a conditional
    breakpoint; the steps in between are computed but not handed out.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> loss = y + x
    >>> steps = torch.backward_steps(loss)
    >>> for step in steps:
    ...     print(step.op, [(name, g.item()) for name, g in step.outgoing])
    add [('y', 1.0), ('x', 1.0)]
    mul [('x', 3.0), ('x', 3.0)]
    >>> steps.grads[x]
    tensor(7.)
    """
    return BackwardSteps(loss, gradient, break_on, Names(outside(getframe(1))))


class BackwardSteps(Iterator[Step]):
    """A backward pass that waits before each step; `grads` holds what has arrived at the leaves so far.

    Each step runs under the modes (anomaly detection, observers) that were in force when this was made.
    """

    def __init__(
        self, loss: Tensor, gradient: Tensor | None, break_on: Callable[[Step], Any] | None, names: Names
    ) -> None:
        if not isinstance(loss, Tensor):
            raise TypeError(f"backward_steps takes a tensor, not {a_kind(loss)}")
        if isinstance(loss.array, Kind):
            raise RuntimeError("backward_steps needs values: call it outside of vmap, grad and other transforms")
        self.break_on = break_on
        self.done = 0  # steps taken so far, handed out or not
        self._names = names
        self._open: dict[Node, Any] = seeds_of([loss], [gradient], False)  # gradients that wait at their nodes
        (root,) = self._open
        self._start, self._given = root, (loss, gradient)
        self._root = names.of(root) or "loss"
        order = oldest_first([root])
        refuse_freed(order, "backward_steps")
        self._landed: dict[Node, Any] = {}
        self._ours: set[Node] = set()  # nodes whose gradient is a sum: the walk adds further ones in place there
        self._frontier = [(-node.born, node) for node in self._open if _runs(node)]
        heapify(self._frontier)
        self._committed = False
        self._stack = ExitStack()
        self._context = copy_context()  # so that what a walk switches on does not leak out between the steps
        self._context.run(self._prepare)

    def _prepare(self) -> None:
        SELECTIVE.set(True)  # a reentrant checkpoint would fill the .grad of its leaves: it refuses
        self._watch = Watch.under(current())
        if LISTENERS:
            self._stack.enter_context(announced(self._open, None))

    # --- walking

    def __next__(self) -> Step:
        while self._frontier:
            step = self._context.run(self._advance)
            if step is not None and (self.break_on is None or self.break_on(step)):
                return step
        self.close()
        raise StopIteration

    def _advance(self) -> Step | None:
        """Take the newest node that a gradient waits at; None when it has nothing to show (a leaf, a pick)."""
        node = self._frontier[0][1]
        before = self._open[node]
        g, going = self._pull(node, before)
        heappop(self._frontier)  # only now: a step that failed can be tried again
        del self._open[node]
        if isinstance(node, Leaf):
            return None
        sent = [(parent, d, self._add(parent, d)) for parent, d in going]
        self.done += node.primitive is not PICK
        return None if node.primitive is PICK else Step(node, g, sent, self._names, self._root)

    def _pull(self, node: Node, g: Any) -> tuple[Any, list[tuple[Node, Any]]]:
        """The gradient of a node after its hooks, and what it sends to each input: just as the walk computes it."""
        p = node.primitive
        if self._watch is None and node.extra is None and p.pullback is None:
            going = list(_straight(node, g))
        else:
            g = arrived(node, g, False, None, self._landed)
            if p is ACCUMULATE:
                return g, []
            edges, parents, values = pulled(node, g, saved_values(node, g), False, None, self._watch)
            going = [(parents[i], values[i]) for i, _, _ in edges]
        return g, [(parent, d if d.shape == parent.shape else fold(d, parent.shape, node)) for parent, d in going]

    def _add(self, parent: Node, d: Any) -> Any:
        """Add a gradient to what waits at a node; the sum is a new array, so that earlier steps keep theirs."""
        before = self._open.get(parent)
        if before is None:
            total = d
            if _runs(parent):
                heappush(self._frontier, (-parent.born, parent))
        elif parent in self._ours and type(d) is ndarray:
            total = np.add(before, d, np.empty_like(before))
        else:
            total = before + d
            if type(total) is ndarray:
                self._ours.add(parent)
        self._open[parent] = total
        return total

    # --- the result

    @property
    def grads(self) -> Gradients:
        """The gradients that have arrived at the leaves (and at tensors that retain theirs) so far."""
        resting = {node: g for node, g in self._open.items() if node.primitive is ACCUMULATE}
        return Gradients({**self._landed, **resting}, self._names)

    def finish(self) -> Gradients:
        """Take all steps that are left, without stopping, and return the gradients."""
        while self._frontier:
            self._context.run(self._advance)
        self.close()
        return self.grads

    def commit(self) -> None:
        """Finish, and add the gradients to `.grad` as `loss.backward()` would."""
        if self._committed:
            raise RuntimeError(
                explain(
                    "commit() was called before on these steps",
                    str(here()),
                    "the gradients would be added to .grad twice",
                    "make new steps with backward_steps(loss)",
                )
            )
        landed = dict(self.finish().by_node)
        self._committed = True
        root, (loss, gradient) = self._start, self._given
        RUNS.append((weakref.ref(root), root.born, tick(), [node.born for node in landed]))
        commit(landed, False)
        tell_backward([loss], [gradient], False, False)

    def close(self) -> None:
        """End the walk for hooks that watch several tensors."""
        self._context.run(self._stack.close)

    def __del__(self) -> None:
        if hasattr(self, "_context"):
            self.close()

    def __repr__(self) -> str:
        state = f"next: {self._frontier[0][1].primitive.name}" if self._frontier else "finished"
        return f"<backward_steps of {self._root}: {self.done} steps taken, {state}>"


def _runs(node: Node) -> bool:
    """Whether a gradient that arrives at a node has further to go, or hooks to meet."""
    return node.primitive is not ACCUMULATE or node.extra is not None


def _straight(node: Node, g: Any) -> Iterator[tuple[Node, Any]]:
    """Each rule once, as in core/backward.py: where g is a NumPy scalar, saved numbers are scalars too."""
    p, saved = node.primitive, saved_values(node)
    scalar = p.elementwise and isinstance(g, np.generic)
    for i, rule, arity in p.edges:
        parent = node.inputs[i]
        if parent is None:
            continue
        values = arguments(p, saved, i)
        if scalar and arity == 1 and type(values[0]) is ndarray:
            values = (values[0][()],)
        yield parent, rule(g, *values)
