"""The ledger of what happened to gradients outside the graph: what left it, what came back in, when they were filled
and cleared. An operation that stays in the graph writes nothing here; `pellucid.why` reads it.

A value that leaves the graph (detach, item, a comparison, an operation under no_grad) carries no graph. To connect a
parameter without gradient to the line that cut it off, the ledger notes the leaves that the lost node depended on, as
the numbers of their birth: no node and no array is kept alive by it.
"""

import weakref
from collections import deque
from types import CodeType
from typing import Any

from pellucid.core.aliasing import tick
from pellucid.core.modes import Region
from pellucid.core.provenance import Place, getframe, here, outside
from pellucid.core.tensor import Cut, Node

# How many nodes a walk to the leaves may visit. Numbers (`item`) leave every step, mostly for a log: 1 µs is enough.
MANY, FEW = 1000, 5
OUTWARD = frozenset(("numpy", "item", "tolist", "float()", "int()", "complex()"))  # to where no tensor remains
WATCHED = 12  # operations of one no_grad block that are noted (2 µs each); those after run at full speed

DEPARTURES: deque[Cut] = deque(maxlen=256)  # values that left the graph
REGIONS: deque[Region] = deque(maxlen=64)  # no_grad blocks that swallowed a graph
JOINS: deque[tuple[Cut | Region, int]] = deque(maxlen=256)  # cuts whose value took part in a graph again
REACH: dict[int, tuple[int, ...]] = {}  # the leaves of nodes that were walked from before, by number of birth

# The latest backwards: the node each started from, that node's number, when it ended, the leaves it filled. A plain
# tuple: a named one costs 0.3 µs more, at every backward.
RUNS: deque[tuple["weakref.ref[Node]", int, int, list[int]]] = deque(maxlen=16)


# Gradients forgotten: of one tensor, or of all that an optimizer or a module holds; the user's code and offset that did
# it, when, and how. A plain tuple, as above.
CLEARINGS: deque[tuple["weakref.ref[Any]", CodeType, int, int, str]] = deque(maxlen=256)


def departed(by: str, nodes: "tuple[Node, ...]", limit: int = MANY) -> Cut:
    """Note that a value made of these nodes leaves the graph at the user's line."""
    cut = Cut(by, here(), nodes[0].name())
    cut.behind = nodes[0].born
    for node in nodes:
        leaves = leaves_of(node, limit)
        if leaves is None:
            cut.origin = weakref.ref(node)
        else:
            cut.leaves = cut.leaves + leaves if cut.leaves else leaves
    DEPARTURES.append(cut)
    return cut


def departed_further(by: str, before: Cut) -> None:
    """Note that a value which was cut off already leaves for Python or NumPy: `.detach().numpy()`."""
    cut = Cut(by, here(), before.source)
    cut.leaves, cut.origin, cut.behind = before.leaves, before.origin, before.behind
    DEPARTURES.append(cut)


def last_outward() -> Cut | None:
    """The latest value that left for Python or NumPy since the latest backward: what was made of it has no graph."""
    since = RUNS[-1][2] if RUNS else 0
    for cut in reversed(DEPARTURES):
        if cut.born < since:
            return None
        if cut.by in OUTWARD:
            return cut
    return None


def crossed(region: Region, by: str, nodes: "tuple[Node, ...]") -> None:
    """Note that an operation under no_grad took values that have a graph, and gave one that has none."""
    leaves: list[int] = []
    for node in nodes:
        if node.inputs:
            leaves.extend(leaves_of(node, MANY) or ())
        else:
            leaves.append(node.born)
    crossings = region.crossings
    if not crossings:
        REGIONS.append(region)
    frame = outside(getframe(1))
    crossings.append((by, frame.f_code, frame.f_lasti, tick(), leaves))
    region.open = len(crossings) < WATCHED


def cuts_of(region: Region) -> list[Cut]:
    """What was noted of a no_grad block, as cuts."""
    cuts = []
    for by, code, lasti, born, leaves in region.crossings:
        cut = Cut(by, Place(code, lasti))
        cut.born, cut.leaves = born, tuple(leaves)
        cuts.append(cut)
    return cuts


def joins(cut: Any) -> None:
    """Note that a value which was cut off takes part in a graph again: in the node that is born next."""
    if cut is None or cut.frozen:
        return
    mark = cut if type(cut) is Cut else cut.region  # a Mode may hold more than the ledger wants to keep
    if mark is not None:
        JOINS.append((mark, tick()))


def cleared(owner: Any, how: str) -> None:
    """Note that the gradients of a tensor, an optimizer's or a module's parameters are forgotten."""
    frame = outside(getframe(2))
    CLEARINGS.append((weakref.ref(owner), frame.f_code, frame.f_lasti, tick(), how))


def leaves_of(node: Node, limit: int) -> tuple[int, ...] | None:
    """The leaves a node depends on, by number of birth; None when the graph is too large to look.

    What earlier walks found is used again, so that masks and metrics at every layer cost one walk together.
    """
    inputs = node.inputs
    if not inputs:
        return (node.born,)
    known = REACH.get(node.born)
    if known is not None:
        return known
    found: list[int] = []
    seen, stack = {node}, [inputs]
    while stack:
        for parent in stack.pop():
            if parent is None or parent in seen:
                continue
            seen.add(parent)
            inputs = parent.inputs
            if not inputs:
                found.append(parent.born)
            elif parent.born in REACH:
                found.extend(REACH[parent.born])
            else:
                stack.append(inputs)
        if len(seen) > limit:
            return None
    if len(REACH) >= 256:
        REACH.clear()
    leaves = REACH[node.born] = tuple(set(found))
    return leaves
