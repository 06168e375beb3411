"""Sampling at places that a grid names, between the elements.

Each output element is a weighted sum of a few input elements, its taps: 2 per dimension for linear interpolation, 4
for cubic. Which ones is a matter of integers; the weights are ordinary functions of the grid. What is left are three
rows, linear in each tensor, that are each other's derivatives.

A tap outside takes a zero that stands behind the elements, not an element of the border times 0, which might be NaN.
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.along import bare
from pellucid.ops.arguments import Shape, expect, name_of, refusal, refuse
from pellucid.ops.join import stack
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.select import where
from pellucid.ops.shape import reshape

# --- weighted sums of elements: a (..., C, *plane), index and weights (..., K, *sizes), result (..., C, *sizes)


def _flat(x: ndarray, rank: int) -> ndarray:
    """(everything before, K or C, the plane as one dimension)."""
    lead, inner = x.shape[: x.ndim - rank - 1], x.shape[x.ndim - rank :]
    return x.reshape(math.prod(lead), x.shape[x.ndim - rank - 1], math.prod(inner))


def _rows(x: ndarray, rank: int) -> ndarray:
    """One row of channels (or of taps) per element: they are taken together, which is four times as quick."""
    flat = _flat(x, rank)
    return flat.transpose(0, 2, 1).reshape(flat.shape[0] * flat.shape[2], flat.shape[1])


def _inputs(a: ndarray, rank: int) -> ndarray:
    """The rows of an input, and one of zeros for the taps that are outside."""
    flat = _flat(a, rank)
    rows = np.zeros((flat.shape[0] * flat.shape[2] + 1, flat.shape[1]), a.dtype)
    rows[:-1].reshape(flat.shape[0], flat.shape[2], flat.shape[1])[...] = flat.transpose(0, 2, 1)
    return rows


def _planes(rows: ndarray, shape: Shape) -> ndarray:
    """The inverse of `_rows`, for a flat shape."""
    lead, channels, size = shape
    return np.ascontiguousarray(rows.reshape(lead, size, channels).transpose(0, 2, 1))


def _numbers(index: ndarray, rank: int, size: int) -> ndarray:
    """Which row of the input each tap of each output element takes; the last one, of zeros, if it is outside."""
    flat = _flat(index, rank)
    numbers = flat + (np.arange(len(flat)) * size)[:, None, None]
    return _rows(np.where(flat < 0, len(flat) * size, numbers), 1)


def _matrix(index: ndarray, weights: ndarray, rank: int, size: int) -> Any:
    """The taps as a sparse matrix from the rows of the input, and zeros, to those of the output."""
    from scipy.sparse import csr_array  # late: few programs sample, and all of nn would take 0.05 s longer to load

    numbers = _numbers(index, rank, size)
    count, taps = numbers.shape
    ends = np.arange(0, numbers.size + 1, max(taps, 1))[: count + 1]
    samples = math.prod(index.shape[: index.ndim - rank - 1])
    return csr_array((_rows(weights, rank).reshape(-1), numbers.reshape(-1), ends), (count, samples * size + 1))


def _sample(a: ndarray, index: ndarray, weights: ndarray, rank: int) -> ndarray:
    size, sizes = math.prod(a.shape[a.ndim - rank :]), index.shape[index.ndim - rank :]
    rows = _matrix(index, weights, rank, size) @ _inputs(a, rank)
    lead = a.shape[: a.ndim - rank]
    return _planes(rows, (math.prod(lead[:-1]), lead[-1], math.prod(sizes))).reshape(*lead, *sizes)


def _spread(g: ndarray, index: ndarray, weights: ndarray, plane: Shape) -> ndarray:
    rank, size = len(plane), math.prod(plane)
    rows = (_matrix(index, weights, rank, size).T @ _rows(g, rank))[:-1]
    lead = g.shape[: g.ndim - rank]
    return _planes(rows, (math.prod(lead[:-1]), lead[-1], size)).reshape(*lead, *plane)


def _weigh(g: ndarray, a: ndarray, index: ndarray, rank: int) -> ndarray:
    outputs, inputs = _rows(g, rank), _inputs(a, rank)
    numbers = _numbers(index, rank, math.prod(a.shape[a.ndim - rank :]))
    products = [np.einsum("lc,lc->l", outputs, inputs.take(column, 0)) for column in numbers.T]
    flat = _flat(index, rank)
    return _planes(np.stack(products, 1), flat.shape).reshape(index.shape)


def _sampling(name: str, grad_name: str) -> Any:
    return bind(
        multilinear(
            name, _sample, lambda g, b, c, a_shape, rank: spread_row(g, b, c, tuple(a_shape[len(a_shape) - rank :])),
            None, lambda g, a, b, rank: weigh_row(g, a, b, rank),
            grad_name=grad_name, batch=lambda op, *how: op(*how),
        )
    )  # fmt: skip


SAMPLE = {rank: _sampling(f"grid_sampler_{rank}d", f"GridSampler{rank}DBackward0") for rank in (2, 3)}
spread_row = bind(
    multilinear(
        "grid_sampler_spread", _spread, lambda g, b, c, plane: SAMPLE[len(plane)](g, b, c, len(plane)),
        None, lambda g, a, b, plane: weigh_row(a, g, b, len(plane)), batch=lambda op, *how: op(*how),
    )
)  # fmt: skip
weigh_row = bind(
    multilinear(
        "grid_sampler_weigh", _weigh, lambda g, b, c, rank: SAMPLE[rank](b, c, g, rank),
        lambda g, a, c, b_shape, rank: spread_row(a, c, g, tuple(b_shape[len(b_shape) - rank :])), None,
        batch=lambda op, *how: op(*how),
    )
)  # fmt: skip


# --- coordinates

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
OUTSIDE = -(1 << 31)  # the place of a tap that is outside; its number in the plane is negative, whatever the others are


def _unnormalised(coordinate: Any, size: int, align_corners: bool) -> Any:
    """From -1 ... 1 to numbers of elements."""
    return (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2


def _inside(coordinate: Any, size: int, padding: int, align_corners: bool) -> Any:
    """What the padding mode makes of coordinates outside; on the border itself PyTorch lets no gradient pass."""
    if padding == REFLECTION:
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        coordinate = _reflected(coordinate, low, high)
    if padding != ZEROS:
        last = float(size - 1)
        coordinate = where(coordinate > 0, where(coordinate < last, coordinate, last), 0.0)
    return coordinate


def _reflected(coordinate: Any, low: float, high: float) -> Any:
    span = high - low
    if not span:
        return coordinate * 0
    distance = coordinate - low
    distance = where(distance < 0, -distance, distance)
    rest = distance.fmod(span)
    turns: Any = bare(distance)
    odd = (turns / span).floor().fmod(2) == 1
    return where(odd, span - rest, rest) + low


def _between(place: Any, size: int) -> Any:
    """Whether a place exists."""
    return (place >= 0) & (place < size)


def _cubic_weights(t: Any) -> list[Any]:
    """Of the elements at -1, 0, 1, 2 from the one before: Keys' kernel with slope -3/4."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _taps(coordinate: Any, size: int, mode: int, padding: int, align_corners: bool) -> tuple[Any, Any]:
    """The places along one dimension and their weights: (N, taps, *sizes) each."""
    x = _unnormalised(coordinate, size, align_corners)
    if mode != CUBIC:
        x = _inside(x, size, padding, align_corners)
    first = bare(x).round() if mode == NEAREST else bare(x).floor()
    if mode == NEAREST:
        places, weights = [first], [where(_between(first, size), x.round() - first + 1, 0.0)]
    elif mode == LINEAR:
        places, weights = [first, first + 1], [first + 1 - x, x - first]
    else:
        places = [_inside(first + k, size, padding, align_corners) for k in range(-1, 3)]
        weights = _cubic_weights(x - first)
    exist = [_between(place, size) for place in places]
    if coordinate.ndim == 4:  # in volumes PyTorch skips what is outside, NaN too; in planes NaN times 0 is NaN
        weights = [where(here, w, 0.0) for here, w in zip(exist, weights, strict=True)]
    return stack([where(here, place.long(), OUTSIDE) for here, place in zip(exist, places, strict=True)], 1), stack(
        weights, 1
    )


def _product(first: Any, second: Any, rank: int) -> tuple[Any, Any, Shape]:
    """What broadcasts to all pairs of taps of two dimensions, and the shape with the pairs as one dimension."""
    shape = tuple(first.shape)
    batch, sizes = shape[: len(shape) - rank - 1], shape[len(shape) - rank :]
    left = reshape(first, (*batch, shape[-rank - 1], 1, *sizes))
    right = reshape(second, (*batch, 1, second.shape[-rank - 1], *sizes))
    return left, right, (*batch, shape[-rank - 1] * second.shape[-rank - 1], *sizes)


def _sampled(input: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    rank = input.ndim - 2
    index: Any = None
    weights: Any = None
    for axis in range(rank):  # the grid names the last dimension first
        size = input.shape[2 + axis]
        place, weight = _taps(grid[..., rank - 1 - axis], size, mode, padding, align_corners)
        if index is None:
            index, weights = place, weight
            continue
        left, right, shape = _product(index, place, rank)
        index = reshape(left * size + right, shape)
        left, right, shape = _product(weights, weight, rank)
        weights = reshape(left * right, shape)
    if input.dtype.itemsize > 2:
        return SAMPLE[rank](input, index, weights, rank)
    return SAMPLE[rank](input.float(), index, weights.float(), rank).to(input.dtype)


# --- the public functions


def _check(input: Any, grid: Any, rank: int, mode: int) -> None:
    shape, places = tuple(input.shape), tuple(grid.shape)
    both = f"but got input with sizes {list(shape)} and grid with sizes {list(places)}"
    fits = len(shape) == len(places) == rank + 2
    what = f"expected {rank + 2}D input and grid with same number of dimensions"
    expect(fits, f"grid_sampler(): {what}, {both}")
    expect(shape[0] == places[0], f"grid_sampler(): expected grid and input to have same batch size, {both}")
    expect(places[-1] == rank, f"grid_sampler(): expected grid to have size {rank} in last dimension, {both}")
    expect(0 not in shape[2:], f"grid_sampler(): expected input to have non-empty spatial dimensions, {both}")
    expect(rank == 2 or mode != CUBIC, "grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype != grid.dtype:
        what = f"expected scalar type {name_of(input)} but found {name_of(grid)}"
        raise refusal(RuntimeError, f"grid_sampler(): {what}", try_="grid.to(input.dtype)")
    refuse(input, "biuc", "\"grid_sampler\" not implemented for '{}'", NotImplementedError)


def _sampler(rank: int, input: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    _check(input, grid, rank, mode)
    return _sampled(input, grid, mode, padding, align_corners)


def _samples(rank: int, *options: Any) -> Any:
    shape, out = (3, 4, 2)[:rank], (2, 3, 2)[:rank]

    def samples(draw: Draw) -> list[Sample]:
        def grid(n: int = 1) -> Any:
            return draw(n, *out, rank, low=-1.6, high=1.6)

        return [call(draw(1 + k % 2, 2, *shape), grid(1 + k % 2), *option) for k, option in enumerate(options)]

    return samples


NUMBERED = [(0, 0, False), (0, 1, True), (0, 2, False), (1, 2, True)]


@operation(samples=_samples(2, *NUMBERED, (2, 0, False), (2, 2, True)), methods=())
def grid_sampler_2d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Sample (N, C, H, W) at the places of a grid (N, H', W', 2); the modes are numbers, in grid_sample they are words.

    >>> import pellucid as torch
    >>> torch.grid_sampler_2d(torch.tensor([[[[1.0, 3.0]]]]), torch.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[2.]]]])
    """
    return _sampler(2, input, grid, interpolation_mode, padding_mode, align_corners)


@operation(samples=_samples(3, *NUMBERED), methods=())
def grid_sampler_3d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Sample (N, C, D, H, W) at the places of a grid (N, D', H', W', 3).

    >>> import pellucid as torch
    >>> torch.grid_sampler_3d(torch.tensor([[[[[1.0, 3.0]]]]]), torch.zeros(1, 1, 1, 1, 3), 0, 0, True)
    tensor([[[[[2.]]]]])
    """
    return _sampler(3, input, grid, interpolation_mode, padding_mode, align_corners)


@operation(samples=_samples(2, (0, 0, False), (2, 1, True)), methods=())
def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Sample two or three dimensions at the places of a grid; the modes are numbers, in grid_sample they are words.

    >>> import pellucid as torch
    >>> torch.grid_sampler(torch.tensor([[[[1.0, 3.0]]]]), torch.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[2.]]]])
    """
    return _sampler(3 if input.ndim == 5 else 2, input, grid, interpolation_mode, padding_mode, align_corners)


MODES = {"bilinear": LINEAR, "nearest": NEAREST, "bicubic": CUBIC}
PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}


@operation(
    samples=_samples(
        2, ("bilinear", "zeros", False), ("bilinear", "border", True), ("nearest", "reflection", False),
        ("bicubic", "border", False),
    ),
    module="torch.nn.functional",
)  # fmt: skip
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Sample a tensor at the places of a grid: -1 and 1 are its edges, the last dimension comes first.

    Modes: bilinear, nearest, bicubic; outside there are zeros, the border's elements, or a reflection.

    >>> import pellucid as torch
    >>> picture = torch.tensor([[[[1.0, 3.0]]]])
    >>> torch.nn.functional.grid_sample(picture, torch.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[2.]]]])
    """
    if mode not in MODES:
        what = f"expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        raise ValueError(f"nn.functional.grid_sample(): {what}")
    if padding_mode not in PADDINGS:
        what = f"expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        raise ValueError(f"nn.functional.grid_sample(): {what}")
    return grid_sampler(input, grid, MODES[mode], PADDINGS[padding_mode], bool(align_corners))
