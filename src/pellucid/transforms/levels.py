"""Levels: which call of which transform an array belongs to.

Every call of `jvp`, `vmap` or `dual_level` takes the next number. An inner call begins later, so it has the higher
level; of several kinds of array in one operation the highest acts first. Two calls never share a level, so the
tangent of one can never be taken for the tangent of another (perturbation confusion).

A walk outside a level meets arrays of that level: those that were saved while the transform ran. A gradient that
enters the level on such a walk is marked `adjoint`, and so is all that is computed from it; where it leaves the level
again it must be brought back to an ordinary array. A walk inside the level has no such mark, and its gradients stay.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from pellucid.core.aliasing import owner_of
from pellucid.core.inplace import copied
from pellucid.core.kinds import Kind, layers, memory_of
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_array, shares_memory
from pellucid.errors import explain

_levels = count(1)


def next_level() -> int:
    """The level of one more call of a transform."""
    return next(_levels)


def layer(value: Any, level: int) -> Any:
    """The part of an array (or of a tensor's array) that belongs to a level; None if nothing does."""
    return layers(current_array(value) if isinstance(value, Tensor) else value).get(level)


def entered_from_outside(g: Any, level: int) -> bool:
    """Whether a gradient came into a level on a walk outside of it."""
    part = layer(g, level)
    return part is not None and part.adjoint


def belongs(array: Any, level: int) -> bool:
    """Whether an array is, on the outside, of this level."""
    return isinstance(array, Kind) and array.level == level


def apart(y: Any, *sources: Any) -> Any:
    """What an operation made of some arrays, in memory of its own: a later write to it must not reach them."""
    owners = {id(owner_of(array)) for source in sources for array in memory_of(source)}
    shared = any(id(owner_of(array)) in owners for array in memory_of(y))
    return copied(y) if shared else y


def looks_at(p: Primitive, results: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether results look at the memory of the input, as those of views and splits do, unless they had to copy."""
    if not (p.view or not p.outputs):
        return False
    return all(result is None or shares_memory(result, inputs[0]) for result in results)


class Roots:
    """The tensors of one call's level whose memory goes out of it, each with what it is outside.

    Several outputs that look at one tensor inside look at one tensor outside.
    """

    def __init__(self, way_out: Callable[[Tensor], Tensor]) -> None:
        self._way_out = way_out
        self._known: dict[int, tuple[Tensor, Tensor]] = {}  # by id of the tensor, which is kept for that

    def of(self, base: Tensor) -> Tensor:
        """What a tensor of the level is outside."""
        if id(base) not in self._known:
            self._known[id(base)] = (base, self._way_out(base))
        return self._known[id(base)][1]


def check_room(value: Any, level: int, name: str) -> None:
    """Refuse to write a value with a batch of its own into a tensor of a level outside of it."""
    for above, kind in layers(value).items():
        if above > level and not kind.spreads:
            raise RuntimeError(
                explain(
                    f"{name}: a value of an inner vmap cannot be written into a tensor of an outer level",
                    str(here()),
                    "the tensor has room for one value, the inner vmap has one per example",
                    "use the out-of-place form inside the inner function",
                )
            )
