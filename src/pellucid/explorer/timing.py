"""How long the operations take: forward when they are run again on the recorded values, backward in the walk itself."""

from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.primitive import BOUND, TABLE
from pellucid.core.tensor import Node, wrap
from pellucid.diagnose.steps import BackwardSteps
from pellucid.explorer.graph import Item
from pellucid.explorer.program import called

__all__ = ["TimedSteps", "time_forward"]

TURNS = 3  # of which the shortest counts: what else the machine does only makes it longer
SECONDS = 0.5  # for all operations together; the rest of a large graph is run once, or stays without


class TimedSteps(BackwardSteps):
    """A backward pass that notes for how many nanoseconds the rules of each node run.

    Our own rules are run again to find the shortest time; a user's rules and hooks never are.
    """

    def __init__(self, *args: Any) -> None:
        self.spent: dict[Node, int] = {}
        self._end = perf_counter_ns() + int(SECONDS * 1e9)
        super().__init__(*args)

    def _pull(self, node: Node, g: Any) -> tuple[Any, list[tuple[Node, Any]]]:
        start = perf_counter_ns()
        found = super()._pull(node, g)
        self.spent[node] = perf_counter_ns() - start
        if node.extra is None and self._watch is None and TABLE.get(node.primitive.name) is node.primitive:
            for _ in range(TURNS - 1):
                start = perf_counter_ns()
                if start > self._end:
                    break
                super()._pull(node, g)
                self.spent[node] = min(self.spent[node], perf_counter_ns() - start)
        return found


def time_forward(items: Iterable[Item]) -> None:
    """Run each operation again, by itself and without recording; nothing else of the graph is touched."""
    end = perf_counter_ns() + int(SECONDS * 1e9)
    with modes.switched(grad=False, observers=(), anomaly=False), np.errstate(all="ignore"):
        for item in items:
            if perf_counter_ns() > end:
                return
            if item.row in BOUND and item.inputs:
                item.took = _shortest(item, [_given(item, slot) for slot in range(len(item.inputs))])


def _given(item: Item, slot: int) -> Any:
    source = item.inputs[slot]
    if source is None:
        return item.hidden.get(slot)
    if not isinstance(source, Item):
        return source
    return None if source.value is None else wrap(np.asarray(source.value))


def _shortest(item: Item, given: list[Any]) -> int | None:
    turns = []
    if any(each is None for each in given):
        return None
    try:
        for _ in range(TURNS):
            start = perf_counter_ns()
            called(item.row, given, item.arguments)
            turns.append(perf_counter_ns() - start)
    except Exception:  # a row may take params that nobody kept: then it stays without a time
        return None
    return min(turns)
