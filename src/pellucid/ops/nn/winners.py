"""Which element of each window is the largest, and the rows that pick elements by such an index.

An index is PyTorch's: the number of an element within its plane (the last dimensions of the input, flattened). Of
equal elements the first wins; NaN wins over everything, the last NaN over the others.

The largest is found by a tournament, one dimension after the other from the last to the first. `code` numbers the
elements of a window in reading order, so a later element that wins always has the larger code, and
`maximum(code, wins * challenger)` keeps the winner's without a branch (masked copies are 30 times as slow).
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.attention import HALVES
from pellucid.core.primitive import constant, multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import Shape
from pellucid.ops.formats import in_format
from pellucid.ops.layout import strided
from pellucid.ops.nn import winner_loops
from pellucid.ops.nn.windows import Windows, last, overlap, uneven_places

# --- regular windows


class Tournament:
    """The tournament of all windows at once.

    The input is taken apart into phases, the elements 0, s, 2s, ... along each dimension of stride s, then 1, s + 1,
    ... Each is one flat array, padded, in which the element at any position of a window is found a fixed number of
    places further on. So every comparison is one pass over contiguous memory (the places where a window would run
    over the edge of its plane are computed along and left out at the end).
    """

    def __init__(self, a: ndarray, windows: Windows, careful: bool) -> None:
        self.a, self.windows, self.careful = a, windows, careful
        reach = zip(windows.kernel, windows.dilation, windows.stride, windows.sizes, strict=True)
        self.grid = tuple(o + (k - 1) * d // s for k, d, s, o in reach)
        self.lead = a.shape[: a.ndim - windows.rank]
        self.code = np.min_scalar_type(math.prod(windows.kernel) - 1)

    def play(self) -> tuple[ndarray, ndarray]:
        """The largest element of each window, and its code; `careful` lets NaN win."""
        best, code = self.among(0, ())
        shape = (math.prod(self.lead), *self.windows.sizes)
        steps = [math.prod(self.grid[axis:]) for axis in range(len(self.grid) + 1)]
        result = [strided(x, shape, tuple(step * x.itemsize for step in steps)) for x in (best, code)]
        return result[0], result[1]

    def among(self, axis: int, phases: Shape) -> tuple[ndarray, Any]:
        """The winner among the positions along this dimension and the later ones, given the phases of the earlier."""
        if axis == self.windows.rank:
            return self.phase(phases), 0
        step, width = math.prod(self.grid[axis + 1 :]), math.prod(self.windows.kernel[axis + 1 :])
        known: dict[int, tuple[ndarray, Any]] = {}
        best: Any = None
        code: Any = None
        for position in range(self.windows.kernel[axis]):
            places, phase = divmod(position * self.windows.dilation[axis], self.windows.stride[axis])
            if phase not in known:
                known[phase] = self.among(axis + 1, (*phases, phase))
            value, inner = (x[places * step :] if isinstance(x, ndarray) else x for x in known[phase])
            if best is None:
                best, code = value, inner if isinstance(inner, ndarray) else np.zeros(value.size, self.code)
            else:
                best, code = challenge(best, code, value, position * width + inner, self.careful)
        return best, code

    def phase(self, phases: Shape) -> ndarray:
        """The elements at these offsets modulo the strides, padded with the lowest number, flat."""
        windows, a = self.windows, self.a
        inside, source = [], []
        for axis, (phase, count) in enumerate(zip(phases, self.grid, strict=True)):
            size = a.shape[axis - windows.rank]
            target, taken = overlap(phase - windows.padding[axis], windows.stride[axis], count, size)
            inside.append(target)
            source.append(taken)
        part = a[last(*source)]
        if part.shape == (*self.lead, *self.grid):
            return part.reshape(-1)
        whole = np.full((*self.lead, *self.grid), lowest(a.dtype), a.dtype)
        whole[last(*inside)] = part
        return whole.reshape(-1)


def challenge(best: ndarray, code: ndarray, value: ndarray, number: Any, careful: bool) -> tuple[ndarray, ndarray]:
    """Let the next elements challenge the best so far; arrays may grow shorter, the ends are not needed."""
    best, code = best[: value.size], code[: value.size]
    wins = value > best
    if careful:
        wins |= value != value
    return np.maximum(best, value), np.maximum(code, np.multiply(wins.view(np.uint8), number, dtype=code.dtype))


def lowest(dtype: np.dtype) -> float:
    """The number that loses against every other."""
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


def has_nan(a: ndarray) -> bool:
    """Whether there is a NaN, in one quick pass."""
    return a.dtype.kind == "f" and a.size > 0 and bool(np.isnan(np.maximum.reduce(a, None)))


def _window_index(a: ndarray, windows: Windows) -> ndarray:
    """The index of the largest element in each window."""
    found = winner_loops.indices(a, windows)
    if found is not None:
        return found
    plane = a.shape[a.ndim - windows.rank :]
    offsets = [np.arange(k) * d for k, d in zip(windows.kernel, windows.dilation, strict=True)]
    starts = [np.arange(o) * s - p for o, s, p in zip(windows.sizes, windows.stride, windows.padding, strict=True)]
    best, code = _best_of_tiles(a, windows) or _best_of_all(a, windows)
    index = flat(offsets, plane).reshape(-1).take(code)
    index += flat(starts, plane)
    if any(windows.padding) and best.size and np.minimum.reduce(best, None) == lowest(a.dtype):
        _leave_padding(index, code, starts, windows, plane)
    return index.reshape(a.shape[: a.ndim - windows.rank] + windows.sizes)


def _best_of_all(a: ndarray, windows: Windows) -> tuple[ndarray, ndarray]:
    best, code = Tournament(a, windows, False).play()
    return Tournament(a, windows, True).play() if has_nan(best) else (best, code)


def _best_of_tiles(a: ndarray, windows: Windows) -> tuple[ndarray, ndarray] | None:
    """Large windows side by side: argmax is quicker from 64 elements on (64: 1.5 ms to 3.1, 1024: 0.1 to 24)."""
    tiled = windows.kernel == windows.stride and not any(windows.padding) and set(windows.dilation) == {1}
    if not tiled or math.prod(windows.kernel) < 64 or has_nan(a):
        return None
    rank, planes = windows.rank, math.prod(a.shape[: a.ndim - windows.rank])
    pairs = list(zip(windows.sizes, windows.kernel, strict=True))
    covered = a[last(*(slice(o * k) for o, k in pairs))]
    split = covered.reshape(planes, *(n for pair in pairs for n in pair))
    tiles = split.transpose(0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2)).reshape(planes, *windows.sizes, -1)
    return tiles, tiles.argmax(-1)


def _leave_padding(index: ndarray, code: ndarray, starts: list[ndarray], windows: Windows, plane: Shape) -> None:
    """Where nothing is larger than the padding, the first element inside counts as the winner."""
    inside = [
        np.minimum(np.where(start < 0, start % d, start), n - 1)
        for start, d, n in zip(starts, windows.dilation, plane, strict=True)
    ]
    first = np.broadcast_to(flat(inside, plane), index.shape)
    nobody = code == 0
    index[nobody] = first[nobody]


def flat(coordinates: list[ndarray], plane: Shape) -> ndarray:
    """The flat numbers of a grid of coordinates, one vector per dimension.

    >>> flat([np.array([0, 1]), np.array([2])], (2, 3))
    array([[2],
           [5]])
    """
    total: Any = 0
    for axis, vector in enumerate(coordinates):
        step = math.prod(plane[axis + 1 :])
        total = total + (vector * step).reshape(-1, *(1,) * (len(plane) - 1 - axis))
    return np.asarray(total)


def _with_batch(op: Any, a: Any, *params: Any) -> Any:
    """Windows lie in the last dimensions: further ones in front change nothing."""
    return op(a, *params)


window_index_row = bind(constant("window_index", _window_index, 1, dtypes="equal", batch=_with_batch))


# --- windows of uneven sizes


def _uneven_index(a: ndarray, sizes: Shape) -> ndarray:
    """The index of the largest element, where windows of uneven sizes cover the planes."""
    rank = len(sizes)
    plane = a.shape[a.ndim - rank :]
    careful = has_nan(a)
    best, index = a, np.zeros((), np.int64)
    for axis in range(rank - 1, -1, -1):
        places = uneven_places(plane[axis], sizes[axis])
        best, index = _one_dimension(best, index, axis - rank, places, math.prod(plane[axis + 1 :]), careful)
    return index


def _one_dimension(
    a: ndarray, index: ndarray, axis: int, places: ndarray, step: int, careful: bool
) -> tuple[ndarray, ndarray]:
    """The winners along one dimension, of windows whose first places, second places ... are listed."""
    best: Any = None
    total: Any = None
    for taken in places:
        value = a.take(taken, axis)
        along = (taken * step).reshape(-1, *(1,) * (-axis - 1))
        number = np.broadcast_to(along + (index.take(taken, axis) if index.ndim else index), value.shape)
        if best is None:
            best, total = value, number
            continue
        wins = value > best
        if careful:
            wins |= value != value
        best, total = np.maximum(best, value), np.maximum(total, wins * number)
    return best, total


uneven_index_row = bind(constant("uneven_index", _uneven_index, 1, dtypes="equal", batch=_with_batch))


# --- picking by an index


def flat_places(index: ndarray, size: int, rank: int) -> ndarray:
    """Where the elements lie in the flattened input of planes of this size."""
    lead, inner = index.shape[: index.ndim - rank], index.shape[index.ndim - rank :]
    planes = math.prod(lead)
    return (index.reshape(planes, math.prod(inner)) + (np.arange(planes) * size)[:, None]).reshape(-1)


def pick(a: ndarray, index: ndarray, rank: int) -> ndarray:
    """The elements that an index names within each plane."""
    size = math.prod(a.shape[a.ndim - rank :])
    found = winner_loops.picked(a, index, size, math.prod(index.shape[index.ndim - rank :]))
    if found is not None:
        return found
    return a.reshape(-1).take(flat_places(index, size, rank)).reshape(index.shape)


def spread(g: ndarray, index: ndarray, plane: Shape) -> ndarray:
    """Zeros, with every element added at the place of its plane that the index names; halves in float32."""
    rank = len(plane)
    lead = g.shape[: g.ndim - rank]
    wide = np.dtype(np.float32) if g.dtype in HALVES else g.dtype
    out = np.zeros((*lead, *plane), wide)
    if winner_loops.spread_into(out, g, index, math.prod(plane), math.prod(g.shape[g.ndim - rank :])):
        return out
    np.add.at(out.reshape(-1), flat_places(index, math.prod(plane), rank), g.reshape(-1).astype(wide, copy=False))
    return out.astype(g.dtype, copy=False)


def picking(name: str, grad_name: str) -> Any:
    """A row (a, index, rank): the elements that the index names within each plane of `rank` dimensions."""
    return bind(
        multilinear(
            name, in_format(pick), lambda g, b, a_shape, rank: spread_row(g, b, a_shape[len(a_shape) - rank :]), None,
            grad_name=grad_name, batch=lambda op, a, index, rank: op(a, index, rank),
        )
    )  # fmt: skip


spread_row = bind(
    multilinear(
        "spread_over_planes", spread, lambda g, b, plane: pick_row(g, b, len(plane)), None,
        batch=lambda op, g, index, plane: op(g, index, plane),
    )
)  # fmt: skip
pick_row = picking("pick_from_planes", "PickFromPlanesBackward0")
