"""Membership, combinations and places: isin, combinations, unravel_index, nonzero_static."""

import itertools
from math import comb, prod
from operator import index as as_int
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.kinds import plain
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import expect, name_of, number, refusal
from pellucid.ops.create import check_room, made
from pellucid.ops.flat_index import index_row
from pellucid.ops.operation import COMPOSED, call, operation


def _isin(a: ndarray, b: ndarray, unique: bool, invert: bool) -> ndarray:
    if a.dtype.kind == "V":  # NumPy does not sort bfloat16
        a, b = a.astype(np.float32), b.astype(np.float32)
    return np.isin(a, b, unique, invert)


isin_row = bind(constant("isin", _isin, 2, dtypes="promote"))


@operation(
    samples=lambda draw: [
        call(draw.integers(5, high=6), draw.integers(3, high=6)), call(draw.integers(2, 3), 1),
        call(2, draw.integers(4)), call(draw.integers(4), draw.integers(2, 2), invert=True), call(draw(3), draw(2)),
        call(draw.integers(3), draw.integers(0)), call(draw.integers(), draw.integers(3), assume_unique=True),
    ],
    methods=(),
)  # fmt: skip
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Whether each element is one of the test elements (or, inverted, none of them).

    >>> import pellucid as torch
    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 3]))
    tensor([False,  True,  True])
    """
    given = [value for value in (elements, test_elements) if isinstance(value, Tensor)]
    if not given:
        raise refusal(TypeError, "isin() received two numbers; one of them must be a Tensor")
    for value in given:
        known = value.array.dtype.kind not in "bc"
        expect(known, f"Unsupported input type encountered for isin(): {name_of(value)}")
    truth = isinstance(elements, bool) or isinstance(test_elements, bool)
    expect(not truth, "Unsupported input type encountered for isin(): Bool")
    return isin_row(elements, test_elements, bool(assume_unique and len(given) == 2), bool(invert))


@operation(
    samples=lambda draw: [
        call(draw(4)), call(draw(3), 3), call(draw(3), 2, True), call(draw(4), r=1), call(draw(2), 3), call(draw(0)),
        call(draw(3), 0), call(draw.integers(4), with_replacement=True),
    ],
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All ways to take r elements of a vector, one per row, in order; each once, or (with replacement) repeatedly.

    >>> import pellucid as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    expect(input.ndim == 1, f"Expect a 1D vector, but got shape {list(input.shape)}")
    expect(r >= 0, f"Expect a non-negative number, but got {r}")
    if r == 0:
        return made(np.empty(0, plain(input.array.dtype)))
    n = input.shape[0]
    many = (comb(n + r - 1, r) if n else 0) if with_replacement else comb(n, r)
    check_room("combinations", (many, r), np.dtype(np.int64))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.fromiter(itertools.chain.from_iterable(choose(range(n), r)), np.int64, many * r).reshape(many, r)
    return index_row(input, wrap(places), (0,))


@operation(
    samples=lambda draw: [
        call(draw.integers(3, high=6), (2, 3)), call(draw.integers(high=6), (2, 3)), call(draw.integers(3), ()),
        call(draw.integers(4, high=24), [2, 3, 4]), call(draw.integers(0), (2,)), call(draw.integers(2, 2, high=9), 9),
    ],
    methods=(),
)  # fmt: skip
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The coordinates, one tensor per dimension, of elements that are given by their number in a tensor of a shape.

    >>> import pellucid as torch
    >>> torch.unravel_index(torch.tensor([1, 5]), (2, 3))
    (tensor([0, 1]), tensor([1, 2]))
    """
    if not isinstance(indices, Tensor) or indices.array.dtype.kind not in "iu":
        shown = indices.dtype if isinstance(indices, Tensor) else type(indices).__name__  # type: ignore[attr-defined]
        raise refusal(TypeError, f"expected 'indices' to be integer dtype, but got {shown}")
    shape = [number(size) for size in shape] if isinstance(shape, (tuple, list)) else number(shape)
    if not isinstance(shape, (int, list)):
        raise refusal(TypeError, f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = tuple(shape) if isinstance(shape, list) else (shape,)
    for size in sizes:
        if not isinstance(size, int):
            raise refusal(TypeError, f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(n < 0 for n in sizes):
        raise refusal(ValueError, f"'shape' cannot have negative values, but got {sizes}")
    numbers = indices.to(dtypes.int64)  # type: ignore[attr-defined]
    return tuple(numbers // prod(sizes[i + 1 :]) % n for i, n in enumerate(sizes))


def _nonzero(a: ndarray, size: int, fill_value: int) -> ndarray:
    places = np.argwhere(a)[:size] if a.ndim else np.zeros((min(size, int(bool(a))), 0), np.int64)
    out = np.full((size, a.ndim), fill_value, np.int64)
    out[: len(places)] = places
    return out


nonzero_static_row = bind(constant("nonzero_static", _nonzero, 1))


@operation(
    samples=lambda draw: [
        call(draw.integers(5), size=3),
        call(draw.mask(2, 3), size=8, fill_value=-7),
        call(draw.integers(), size=2),
        call(draw(2, 2), size=0),
        call(draw.mask(0), size=2),
        call(draw.integers(2, 3), size=1),
    ],
)
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The indices of the first elements that are not zero: always `size` rows, the rest filled up.

    >>> import pellucid as torch
    >>> torch.nonzero_static(torch.tensor([0, 3, 4]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    expect(size >= 0, "nonzero_static: 'size' must be an non-negative integer")
    check_room("nonzero_static", (size, max(input.ndim, 1)), np.dtype(np.int64))
    return nonzero_static_row(input, as_int(size), as_int(fill_value))
