"""Levels: which call of which transform an array belongs to.

Every call of `jvp`, `vmap` or `dual_level` takes the next number. An inner call begins later, so it has the higher
level; of several kinds of array in one operation the highest acts first. Two calls never share a level, so the
tangent of one can never be taken for the tangent of another (perturbation confusion).

A walk outside a level meets arrays of that level: those that were saved while the transform ran. A gradient that
enters the level on such a walk is marked `adjoint`, and so is all that is computed from it; where it leaves the level
again it must be brought back to an ordinary array. A walk inside the level has no such mark, and its gradients stay.
"""

from itertools import count
from typing import Any

import numpy as np

from pellucid.core.inplace import check_writable, overwrite
from pellucid.core.kinds import Kind, layers
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_array
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


def owned(value: Any) -> Any:
    """An array that later writes to its source do not reach: ndarrays are copied, kinds are never written."""
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def write_back(input: Tensor, result: Tensor) -> None:
    """Give the input of a transformed function what the function wrote to it in place, with its history."""
    check_writable(input, WRITTEN)
    overwrite(input, result, WRITTEN)


WRITTEN = "a write to an input of a transformed function"


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
