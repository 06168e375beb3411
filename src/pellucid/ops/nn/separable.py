"""Linear maps that act on each dimension alone: padding by reflection, interpolation, uneven averages.

Along one dimension, every element of the result is a weighted sum of a few elements of the input, its taps. A map is
described by a `Map` (its kind, sizes and settings); `taps` works it out once. The adjoint of such a map is such a map
again, with the taps listed by input instead of by output, so one row is its own derivative.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.formats import in_format
from pellucid.ops.nn.windows import last


class Map(NamedTuple):
    """A linear map along one dimension from n elements to m; the adjoint of one leads from m to n."""

    kind: str
    n: int
    m: int
    settings: tuple[Any, ...] = ()
    adjoint: bool = False

    @property
    def source(self) -> int:
        return self.m if self.adjoint else self.n

    @property
    def target(self) -> int:
        return self.n if self.adjoint else self.m


class Tap(NamedTuple):
    """The first (second, ...) input elements that the output elements take."""

    outputs: Any  # which output elements have such a tap: a slice or an array
    places: ndarray  # which input element each of them takes
    weights: ndarray | None  # and with what weight; None: 1


# kind -> (n, m, *settings) -> places and weights, each (taps, outputs); a place n stands for no tap
KINDS: dict[str, Callable[..., tuple[ndarray, ndarray | None]]] = {}


def kind_of_map(name: str) -> Callable[[Any], Any]:
    """Name a function that gives the taps of a kind of map."""

    def enlist(function: Any) -> Any:
        KINDS[name] = function
        return function

    return enlist


@lru_cache(maxsize=256)
def pairs(map: Map) -> tuple[ndarray, ndarray, ndarray | None]:
    """Which output element takes which input element, and with what weight, in the order of the outputs."""
    places, weights = KINDS[map.kind](map.n, map.m, *map.settings)
    outputs = np.broadcast_to(np.arange(map.m), places.shape)
    known = places.reshape(-1) < map.n
    first, second = outputs.reshape(-1)[known], places.reshape(-1)[known]
    if map.adjoint:
        first, second = second, first
    order = np.argsort(first, kind="stable")
    return first[order], second[order], None if weights is None else weights.reshape(-1)[known][order]


@lru_cache(maxsize=256)
def taps(map: Map) -> list[Tap]:
    """The taps of a map, worked out once: the first of every output element, the second of those that have one, ..."""
    outputs, places, weights = pairs(map)
    counts = np.bincount(outputs, minlength=map.target)
    starts = np.cumsum(counts) - counts
    result = []
    for k in range(int(counts.max(initial=0))):
        having = np.flatnonzero(counts > k)
        chosen = starts[having] + k
        result.append(Tap(_as_slice(having), places[chosen], None if weights is None else weights[chosen]))
    return result


def _as_slice(numbers: ndarray) -> Any:
    """Neighbouring numbers as a slice, which NumPy is much quicker with."""
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first + 1 == len(numbers) else numbers


def _along(a: ndarray, axis: int, map: Map) -> ndarray:
    """Apply a map along one axis, counted from the end."""
    total: Any = None
    whole = slice(0, map.target)
    for outputs, places, weights in taps(map):
        term = a.take(places, axis)
        if weights is not None:
            term *= weights.astype(a.dtype).reshape(-1, *(1,) * (-axis - 1))
        if total is None and isinstance(outputs, slice) and outputs == whole:
            total = term
            continue
        if total is None:
            total = _zeros(a, axis, map.target)
        total[last(outputs, *(slice(None),) * (-axis - 1))] += term
    return _zeros(a, axis, map.target) if total is None else total  # type: ignore[no-any-return]


def _zeros(a: ndarray, axis: int, size: int) -> ndarray:
    return np.zeros((*a.shape[:axis], size, *a.shape[a.ndim + axis + 1 :]), a.dtype)


def apply(a: ndarray, maps: tuple[Map | None, ...]) -> ndarray:
    """Apply one map to each of the last dimensions, in the order that makes least work."""
    if not any(maps):
        return a.copy()  # a result has memory of its own
    for i in sorted(range(len(maps)), key=lambda i: _turn(maps[i], i)):
        map = maps[i]
        if map is not None:
            a = _along(a, i - len(maps), map)
    return a


def _turn(map: Map | None, axis: int) -> tuple[float, int]:
    """What shrinks most comes first; the last dimension, whose elements lie singly, is done while there are few."""
    growth = 1.0 if map is None else map.target / max(map.source, 1)
    return growth, axis if growth < 1 else -axis


def transposed(maps: tuple[Map | None, ...]) -> tuple[Map | None, ...]:
    """The adjoint maps."""
    return tuple(None if map is None else map._replace(adjoint=not map.adjoint) for map in maps)


def separable(name: str, grad_name: str) -> Any:
    """A row (a, maps) that applies a map to each of the last dimensions."""
    return bind(
        multilinear(
            name, in_format(apply), lambda g, maps: resample_row(g, transposed(maps)),
            grad_name=grad_name, dtypes="equal", batch=lambda op, a, maps: op(a, maps),
        )
    )  # fmt: skip


resample_row = separable("resample", "ResampleBackward0")
