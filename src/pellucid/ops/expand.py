"""Expand: dimensions of size 1 repeated without copying, and the shapes that tensors have together.

The result is a view with strides of zero. Its gradient needs no rule: the walk sums what was broadcast.
"""

from itertools import combinations
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.backward import expands_to
from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import Shape, refusal, sizes_of
from pellucid.ops.layout import strided
from pellucid.ops.operation import Draw, Sample, broadcast_hint, call, operation
from pellucid.ops.shape import aligned


def broadcast(a: ndarray, shape: Shape) -> ndarray:
    """A writable zero-stride view: np.broadcast_to costs three times as much and is read-only."""
    if a.size == 1 and a.ndim <= len(shape):
        return ndarray(shape, a.dtype, a, 0, (0,) * len(shape))
    if a.shape == shape:
        return a[...]
    if not expands_to(a.shape, shape):
        raise cannot_expand(a.shape, shape)
    return strided(a, shape, _expanded_strides(a, shape, len(shape) - a.ndim))


def _expanded_strides(a: ndarray, shape: Shape, extra: int) -> tuple[int, ...]:
    kept = zip(a.strides, a.shape, shape[extra:], strict=True)
    return (0,) * extra + tuple(stride if n == m else 0 for stride, n, m in kept)


def cannot_expand(shape: Shape, target: Shape) -> Exception:
    """Why a shape cannot be expanded to another, in PyTorch's words."""
    extra = len(target) - len(shape)
    if extra < 0:
        return refusal(
            RuntimeError,
            f"expand: the number of sizes provided ({len(target)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(shape)}). Target sizes: {list(target)}. Tensor sizes: {list(shape)}",
        )
    dim = max(i for i, (n, m) in enumerate(zip(shape, target[extra:], strict=True)) if n not in (1, m))
    return refusal(
        RuntimeError,
        f"The expanded size of the tensor ({target[dim + extra]}) must match the existing size ({shape[dim]}) at "
        f"non-singleton dimension {dim + extra}.  Target sizes: {list(target)}.  Tensor sizes: {list(shape)}",
        "only a dimension of size 1 can be expanded",
        "unsqueeze or transpose it so that the sizes match or are 1",
    )


expand_row = bind(
    multilinear(
        "expand", broadcast,
        lambda g, shape: g,  # the walk sums a broadcast gradient back by itself
        view=True, lower="view",
        batch=lambda op, a, shape: op(aligned(a, len(shape)), (a.shape[0], *shape)),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(1, 3), 2, 3), call(draw(1, 3), (2, -1)), call(draw(3), 2, 3), call(draw(), 2, 2), call(draw(1), 0),
        call(draw(2, 1), 2, 4), call(draw(2, 3), -1, -1), call(draw(1, 1), 3, 2, 4), call(draw(3), 3), call(draw(), ()),
    ],
    reference="",
)  # fmt: skip
def expand(input: Any, *sizes: Any, size: Any = None, implicit: bool = False) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size.

    >>> import pellucid as torch
    >>> torch.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    sizes, shape = sizes_of(sizes if size is None else (size,)), tuple(input.shape)
    extra = len(sizes) - len(shape)
    if -1 in sizes:
        if -1 in sizes[: max(extra, 0)]:
            raise refusal(
                RuntimeError,
                f"expand: The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension "
                f"{sizes.index(-1)}",
            )
        sizes = tuple(shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(sizes))
    if any(n < 0 for n in sizes):
        raise refusal(RuntimeError, f"expand: sizes must be non-negative or -1, got {list(sizes)}")
    return expand_row(input, sizes)


def _other_size_samples(draw: Draw) -> list[Sample]:
    pairs = [
        ((1, 3), (2, 3)), ((), (2,)), ((3,), (2, 3)), ((2, 1), (2, 4)), ((2, 3), (2, 3)), ((1,), (0,)), ((), ()),
        ((1, 1), (3, 2, 4)), ((0,), (2, 0)), ((2, 1, 1), (2, 3, 4)),
    ]  # fmt: skip
    return [call(draw(*shape), draw(*size)) for shape, size in pairs]


@operation(samples=_other_size_samples, reference="")
def expand_as(input: Any, other: Any) -> Any:
    """Expand a tensor to the shape of another.

    >>> import pellucid as torch
    >>> torch.zeros(1, 2).expand_as(torch.ones(3, 2)).shape
    torch.Size([3, 2])
    """
    return expand_row(input, tuple(other.shape))


@operation(
    samples=lambda draw: [
        call(draw(1, 3), (2, 3)), call(draw(), (2,)), call(draw(3), (2, 3)), call(draw(2), (2,)), call(draw(1), (0,)),
        call(draw(), ()), call(draw(2, 1), (2, 4)), call(draw(1, 1), [3, 2, 4]), call(draw(0), (2, 0)),
        call(draw(3, 2).mT, (2, 2, 3)),
    ],
)  # fmt: skip
def broadcast_to(input: Any, *sizes: Any, size: Any = None) -> Any:
    """Expand a tensor to a shape.

    >>> import pellucid as torch
    >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, *sizes, size=size)


@operation(
    samples=lambda draw: [
        call(draw(2, 1), draw(3)), call(draw(), draw(2)), call(draw(2, 3)), call(draw(0), draw(1)),
        call(draw(2, 1, 3), draw(4, 1)), call(draw(), draw()), call(draw(3), draw(2, 3), draw(2, 1)),
        call(draw(2, 3), draw(2, 3)), call(draw(1), draw(1)), call(draw(0, 1), draw(1, 3)),
    ],
    methods=(),
)  # fmt: skip
def broadcast_tensors(*tensors: Any) -> Any:
    """Expand tensors to their common shape.

    >>> import pellucid as torch
    >>> [x.shape for x in torch.broadcast_tensors(torch.zeros(2, 1), torch.zeros(3))]
    [torch.Size([2, 3]), torch.Size([2, 3])]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*(tuple(x.shape) for x in tensors))
    return tuple(x if tuple(x.shape) == tuple(shape) else expand_row(x, tuple(shape)) for x in tensors)


def broadcast_shapes(*shapes: Any) -> dtypes.Size:
    """The shape that tensors of these shapes have together.

    >>> import pellucid as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    for shape in shapes:
        if not isinstance(shape, (int, tuple, list, dtypes.Size)):
            raise refusal(RuntimeError, f"Input shapes should be ints, or tuples or lists of ints, got {shape!r}")
    if any(n < 0 for shape in shapes for n in ((shape,) if isinstance(shape, int) else shape)):
        raise refusal(ValueError, "Attempting to broadcast a dimension with negative length!")
    try:
        return dtypes.Size(np.broadcast_shapes(*(s if isinstance(s, int) else tuple(s) for s in shapes)))
    except ValueError:
        pairs = combinations([(s,) if isinstance(s, int) else tuple(s) for s in shapes], 2)
        why, way = next(hint for pair in pairs if (hint := broadcast_hint(list(pair), ()))[0])
        what = f"Shape mismatch: objects cannot be broadcast to a single shape: {list(shapes)}"
        raise refusal(RuntimeError, what, why, way) from None
