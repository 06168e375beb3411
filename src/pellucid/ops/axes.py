"""The order of dimensions, and of elements along them: permute, transpose, movedim, flip, roll, rot90.

Reordering dimensions gives a view; reordering elements gives a copy. The derivative of each is its inverse.
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Operators
from pellucid.ops.arguments import ALL, Axes, Row, axes_of, axis_of, refusal, shifted, sizes_of
from pellucid.ops.formats import in_format, in_order
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.shape import reshape_row, reshaped_in_place
from pellucid.ops.slicing import alias_row


def inverse(axes: Axes) -> Axes:
    """The permutation that undoes another.

    >>> inverse((2, 0, 1))
    (1, 2, 0)
    """
    back = [0] * len(axes)
    for new, old in enumerate(axes):
        back[old] = new
    return tuple(back)


def permuting(name: str) -> Row:
    """A row (a, axes): axis i of the result is axis axes[i] of the input."""
    return bind(
        multilinear(
            name, lambda a, axes: a.transpose(axes), lambda g, axes: permute_row(g, inverse(axes)),
            view=True, lower="view", batch=lambda op, a, axes: op(a, (0, *shifted(axes))),
        )
    )  # fmt: skip


permute_row = permuting("permute")
transpose_row = permuting("transpose")
t_row = permuting("t")


@operation(
    samples=lambda draw: [
        call(draw(2, 3, 4), (2, 0, 1)), call(draw(2, 3), (1, 0)), call(draw(2, 3, 4), (-1, 0, 1)), call(draw(), ()),
        call(draw(3), (0,)), call(draw(2, 0), (1, 0)), call(draw(2, 3, 1, 2), (3, 1, 0, 2)), call(draw(2, 3), (0, 1)),
        call(draw(3, 2).mT, [1, 0]), call(draw(1, 1, 3), (2, -2, 0)),
    ],
)  # fmt: skip
def permute(input: Any, *axes: Any, dims: Any = None) -> Any:
    """The dimensions in another order.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
    torch.Size([4, 2, 3])
    """
    order = sizes_of(axes if dims is None else (dims,))
    if len(order) != input.ndim:
        raise refusal(
            RuntimeError,
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}",
        )
    if len({axis % (input.ndim or 1) for axis in order}) < len(order):
        raise refusal(RuntimeError, "permute(): duplicate dims are not allowed.", f"got {tuple(order)}")
    return permute_row(input, axes_of(order, input.ndim))


@operation(
    samples=lambda draw: [
        call(draw(2, 3, 4), 0, 2), call(draw(2, 3), 0, 1), call(draw(2, 3), -1, -2), call(draw(3), 0, 0),
        call(draw(), 0, -1), call(draw(2, 0, 3), 1, 2), call(draw(2, 3, 4), 1, 1), call(draw(1, 2, 3, 4), 1, 3),
        call(draw(3, 2).mT, 0, 1), call(draw(0), -1, 0),
    ],
    aliases=("swapaxes", "swapdims"),
)  # fmt: skip
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Swap two dimensions.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).transpose(0, 1).shape
    torch.Size([3, 2])
    """
    ndim = input.ndim
    first, second = axis_of(dim0, ndim), axis_of(dim1, ndim)
    axes = list(range(ndim))
    if ndim:
        axes[first], axes[second] = second, first
    return transpose_row(input, tuple(axes))


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(3)), call(draw()), call(draw(0, 2)), call(draw(1, 1)), call(draw(0)),
        call(draw(2, 1)), call(draw(3, 3)), call(draw(3, 2).mT), call(draw(1)),
    ],
)  # fmt: skip
def t(input: Any) -> Any:
    """The transpose of a matrix; a vector stays as it is.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2]]).t()
    tensor([[1],
            [2]])
    """
    if input.ndim > 2:
        raise refusal(
            RuntimeError,
            f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D",
            try_="x.mT transposes the last two dimensions of any tensor",
        )
    return t_row(input, tuple(reversed(range(input.ndim))))


def _move_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 3, 4), 0, 2), call(draw(2, 3, 4), (0, 1), (2, 0)), call(draw(2, 3), -1, 0), call(draw(3), 0, 0),
        call(draw(2, 3, 4), 2, 0), call(draw(2, 0), 0, 1), call(draw(2, 3, 4), (2, 0), (0, 1)),
        call(draw(2, 3, 4), 1, -1), call(draw(1, 2, 3, 4), [1, 3], [0, 2]), call(draw(3, 2).mT, 0, -1),
        call(draw(), 0, 0),
    ]  # fmt: skip


@operation(samples=_move_samples, aliases=("moveaxis",))
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to other places; the rest keep their order.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3, 4).movedim(0, -1).shape
    torch.Size([3, 4, 2])
    """
    ndim = input.ndim
    if not ndim:
        return alias_row(input, (...,))
    given = {"source": list(sizes_of((source,))), "destination": list(sizes_of((destination,)))}
    sources, goals = ([axis_of(dim, ndim) for dim in dims] for dims in given.values())
    if len(sources) != len(goals):
        raise refusal(
            RuntimeError,
            f"movedim: Invalid source or destination dims: source ({given['source']} dims) should contain the same "
            f"number of dims as destination ({given['destination']} dims)",
        )
    for name, axes in (("source", sources), ("destination", goals)):
        if len(set(axes)) < len(axes):
            raise refusal(RuntimeError, f"movedim: repeated dim in `{name}` ({given[name]})")
    order = [i for i in range(ndim) if i not in sources]
    for goal, origin in sorted(zip(goals, sources, strict=True)):
        order.insert(goal, origin)
    return permute_row(input, tuple(order))


def _reversed(input: Any) -> Any:
    """The dimensions in the opposite order."""
    return permute_row(input, tuple(reversed(range(input.ndim))))


def matrix_transpose(input: Any) -> Any:
    """The last two dimensions swapped.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2], [3, 4]]).mT
    tensor([[1, 3],
            [2, 4]])
    >>> torch.ones(5, 2, 3).mT.shape
    torch.Size([5, 3, 2])
    """
    if input.ndim < 2:
        raise refusal(
            RuntimeError,
            f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor.",
        )
    return transpose(input, -2, -1)


def _conjugated(input: Any) -> Any:
    return input.conj() if np.dtype(getattr(input, "array", input).dtype).kind == "c" else input


def _hermitian(input: Any) -> Any:
    """The conjugate transpose of a matrix.

    >>> import pellucid as torch
    >>> torch.tensor([[1 + 2j, 3j]]).H
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    if input.ndim not in (0, 2):
        raise refusal(RuntimeError, f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor.")
    return _conjugated(transpose(input, 0, -1) if input.ndim else input)


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2, 3, 4)), call(draw.complex(2, 3)), call(draw(2, 0, 1)), call(draw(1, 1)),
        call(draw(0, 2)), call(draw.complex(2, 2, 3)), call(draw.complex(1, 1)), call(draw(3, 2).mT),
        call(draw(4, 1, 2, 3)),
    ],
)  # fmt: skip
def adjoint(input: Any) -> Any:
    """The conjugate transpose of every matrix: the last two dimensions swapped, complex numbers conjugated.

    >>> import pellucid as torch
    >>> torch.zeros(5, 2, 3).adjoint().shape
    torch.Size([5, 3, 2])
    """
    return _conjugated(matrix_transpose(input))


for _name, _function in (("T", _reversed), ("mT", matrix_transpose), ("H", _hermitian), ("mH", adjoint)):
    setattr(Operators, _name, property(_function))
for _name in ("transpose", "swapaxes", "swapdims"):
    reshaped_in_place(transpose, f"{_name}_")
reshaped_in_place(t, "t_")


# --- the order of elements along dimensions: flip, rot90, roll


def _flip(a: ndarray, axes: Axes) -> ndarray:
    return a[tuple(slice(None, None, -1) if i in axes else ALL for i in range(a.ndim))].copy()


flip_row = bind(
    multilinear(
        "flip", in_format(_flip), lambda g, axes: flip_row(g, axes),
        batch=lambda op, a, axes: op(a, shifted(axes)),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3), (0,)), call(draw(2, 3), (0, 1)), call(draw(2, 3), (-1,)), call(draw(4), (0,)),
        call(draw(2, 0), (1,)), call(draw(2, 3, 4), (0, 2)), call(draw(2), ()), call(draw(1, 3), [1]),
        call(draw(3, 2).mT, (0,)), call(draw(), ()),
    ],
)  # fmt: skip
def flip(input: Any, *axes: Any, dims: Any = None) -> Any:
    """Reverse the order of the elements along dimensions.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2, 3]).flip(0)
    tensor([3, 2, 1])
    """
    if dims is None and not axes:
        raise refusal(TypeError, "flip() missing 1 required positional argument: 'dims'", try_="x.flip(0)")
    return flip_row(input, axes_of(sizes_of(axes if dims is None else (dims,)), input.ndim))


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2, 3, 2)), call(draw(1, 1)), call(draw(2, 0)), call(draw(1, 4)), call(draw(4, 1)),
        call(draw(0, 3)), call(draw(2, 2, 2, 2)), call(draw(3, 2).mT), call(draw.complex(2, 2)),
    ],
)  # fmt: skip
def fliplr(input: Any) -> Any:
    """Reverse every row: flip along dimension 1.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2]]).fliplr()
    tensor([[2, 1]])
    """
    if input.ndim < 2:
        raise refusal(RuntimeError, f"fliplr: Input must be >= 2-d, got {input.ndim}-d")
    return flip_row(input, (1,))


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2)), call(draw(1, 1)), call(draw(0, 2)), call(draw(3)), call(draw(0)),
        call(draw(2, 3, 2)), call(draw(4, 1)), call(draw(3, 2).mT), call(draw.complex(3)),
    ],
)  # fmt: skip
def flipud(input: Any) -> Any:
    """Reverse the order of the rows: flip along dimension 0.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2]).flipud()
    tensor([2, 1])
    """
    if input.ndim < 1:
        raise refusal(RuntimeError, f"flipud: Input must be >= 1-d, got {input.ndim}-d")
    return flip_row(input, (0,))


rot90_row = bind(
    multilinear(
        "rot90", lambda a, k, axes: np.rot90(a, k, axes).copy("K"), lambda g, k, axes: rot90_row(g, -k, axes),
        batch=lambda op, a, k, axes: op(a, k, shifted(axes)),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2, 3), 2), call(draw(2, 3), -1), call(draw(2, 3, 4), 1, (0, 2)),
        call(draw(2, 3), 4), call(draw(2, 0)), call(draw(2, 3), 3, (1, 0)), call(draw(2, 3, 4), 2, (1, -1)),
        call(draw(1, 1)), call(draw(3, 2).mT, 1, [0, 1]),
    ],
)  # fmt: skip
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turn by 90 degrees k times, from the first of two dimensions towards the second.

    >>> import pellucid as torch
    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise refusal(RuntimeError, f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise refusal(RuntimeError, f"expected total dims >= 2, but got total dims = {input.ndim}")
    if dims[0] == dims[1]:
        raise refusal(RuntimeError, f"expected rotation dims to be different, but got {dims[0]} and {dims[1]}")
    return rot90_row(input, int(k), axes_of(tuple(dims), input.ndim))


def _roll(a: ndarray, shifts: Axes, axes: Axes) -> ndarray:
    if not axes:
        return _roll(a.reshape(-1), shifts, (0,) * len(shifts)).reshape(a.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        cut = -shift % a.shape[axis] if a.shape[axis] else 0
        before = (ALL,) * axis
        a = np.concatenate((a[(*before, slice(cut, None))], a[(*before, slice(0, cut))]), axis)
    return a


def _roll_batch(op: Row, a: Any, shifts: Axes, axes: Axes) -> Any:
    if axes:
        return op(a, shifts, shifted(axes))
    flat = reshape_row(a, (a.shape[0], math.prod(a.shape[1:])))
    return reshape_row(op(flat, shifts, (1,) * len(shifts)), tuple(a.shape))


# no axes: the tensor is rolled as if it were flat
roll_row = bind(
    multilinear(
        "roll", in_format(in_order(_roll)), lambda g, shifts, axes: roll_row(g, tuple(-n for n in shifts), axes),
        batch=_roll_batch,
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(4), 1), call(draw(2, 3), 1), call(draw(2, 3), 1, 0), call(draw(2, 3), (1, -1), (0, 1)),
        call(draw(2, 3), -4, -1), call(draw(0), 1), call(draw(2, 3), 2, 1), call(draw(3), 0, 0),
        call(draw(2, 3), (1, 1), (1, 1)), call(draw(2, 2, 2), 3),
    ]
)  # fmt: skip
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Shift elements along dimensions; what leaves at the end comes back at the beginning.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2, 3, 4]).roll(1)
    tensor([4, 1, 2, 3])
    """
    moves = sizes_of((shifts,))
    dims = () if dims is None else sizes_of((dims,))
    if not moves:
        raise refusal(RuntimeError, "`shifts` required")
    if len(moves) != (len(dims) or 1):
        raise refusal(RuntimeError, f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(dims)}")
    return roll_row(input, moves, tuple(axis_of(d, input.ndim) for d in dims))
