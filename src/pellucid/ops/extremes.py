"""The largest and the smallest element, and where it is.

Over several dimensions equal extremes share the gradient evenly; along one dimension it goes to the element whose
index is returned (both as in PyTorch).
"""

from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.primitive import constant, general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.along import bare, handed_out, kept, line_samples, picker
from pellucid.ops.arguments import axis_of, means_all, refusal, refuse, shifted
from pellucid.ops.expand import expand_row
from pellucid.ops.formats import settled
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import add_reduce, back, behind_batch, nonempty_samples, normal, sum_all_row, sum_row
from pellucid.ops.select import keep, maximum, minimum

maximum_reduce, minimum_reduce = np.maximum.reduce, np.minimum.reduce


# --- over several dimensions: equal extremes share


def _ties(a: np.ndarray, y: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, Any]:
    """Which elements equal the extreme (NaNs equal each other here), and how many they are, the reduced axes kept."""
    extreme = y.reshape(kept(a.shape, axes))
    mask = a == extreme
    count = add_reduce(mask, axes, None, None, True)
    if not count.all():  # NaN is the extreme, and equals nothing
        mask = mask | ((a != a) & (extreme != extreme))
        count = add_reduce(mask, axes, None, None, True)
    return mask, count


def _shares(a: np.ndarray, y: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Which part of the gradient each element gets: 1 / (number of equal extremes) or 0."""
    return np.true_divide(*_ties(a, y, axes)).astype(a.dtype, copy=False)


def _owners(a: np.ndarray, y: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Which elements the result is one of, and how many they are: an array like the result."""
    mask, count = _ties(a, y, axes)
    return mask, count.reshape(y.shape).astype(a.dtype)


shares_row = bind(constant("shares", _shares, 2, batch=lambda op, a, y, axes: op(a, y, shifted(axes))))
owners_row = bind(constant("owners", _owners, 2, outputs=2, batch=lambda op, a, y, axes: op(a, y, shifted(axes))))


def _all_axes(a: Any) -> tuple[int, ...]:
    return tuple(range(a.ndim))


def _push(t: Any, a: Any, y: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The mean tangent of those that equal the result; the others have no part in it, even if theirs is NaN."""
    mask, count = owners_row(a, y, axes)
    return sum_row(keep(t, mask), axes, keepdim) / count


def _extreme(name: str, reduce: Any, lower: str) -> Any:
    """The row of amax or amin."""
    return bind(
        general(
            name, lambda a, axes, keepdim: settled(reduce(a, axes, None, None, keepdim)),
            lambda g, a, y, axes, keepdim: back(g, tuple(a.shape), axes, keepdim) * shares_row(a, y, axes),
            jvp=lambda tangents, y, inputs, params: _push(tangents[0], inputs[0], y, *params),
            dtypes="equal", lower=lower,
            batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
        )
    )  # fmt: skip


amax_row = _extreme("amax", maximum_reduce, "reduce.fmax")
amin_row = _extreme("amin", minimum_reduce, "reduce.fmin")


def _one_of_all_back(g: Any, a: Any, y: Any) -> Any:
    """Those that equal the result share its gradient; the others have no part in it, even if it is NaN."""
    mask, count = owners_row(a, y, _all_axes(a))
    return keep(expand_row(g / count, tuple(a.shape)), mask)


def one_of_all(name: str, forward: Any, **columns: Any) -> Any:
    """A row (a) whose result is one of all elements; those that equal it share its gradient."""
    return bind(
        general(
            name, forward, _one_of_all_back,
            jvp=lambda tangents, y, inputs, params: sum_all_row(
                tangents[0] * shares_row(inputs[0], y, _all_axes(inputs[0]))
            ),
            dtypes="equal", **columns,
        )
    )  # fmt: skip


def _extreme_of_all(name: str, reduce: Any, row: Any, grad_name: str) -> Any:
    """The row of max() or min() over everything: without params, for the hot path."""
    return one_of_all(
        name, lambda a: reduce(a, None), lower=lambda a: row(a, _all_axes(a), False), grad_name=grad_name,
        batch=lambda op, a: row(a, behind_batch(a), False),
    )  # fmt: skip


max_all_row = _extreme_of_all("max_all", maximum_reduce, amax_row, "MaxBackward1")
min_all_row = _extreme_of_all("min_all", minimum_reduce, amin_row, "MinBackward1")


def _aminmax_back(g: Any, a: Any, y: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    total = None
    for gradient, extreme in zip(g, y, strict=True):
        if gradient is not None:
            term = back(gradient, tuple(a.shape), axes, keepdim) * shares_row(a, extreme, axes)
            total = term if total is None else total + term
    return (total,)


aminmax_row = bind(
    general(
        "aminmax", lambda a, *how: (amin_row.primitive.forward(a, *how), amax_row.primitive.forward(a, *how)), None,
        pullback=_aminmax_back,
        jvp=lambda tangents, y, inputs, params: tuple(_push(tangents[0], inputs[0], each, *params) for each in y),
        outputs=2, dtypes="equal", batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip


def refuse_empty(input: Any, dim: Any, axes: tuple[int, ...], name: str) -> None:
    """There is no extreme of nothing."""
    if input.array.size:
        return
    if means_all(dim):
        error: type[Exception] = IndexError if name.startswith("arg") else RuntimeError
        what = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
        raise refusal(error, f"{what} Specify the reduction dim with the 'dim' argument.")
    for axis in axes:
        if input.array.shape[axis] == 0:
            what = f"{name}(): Expected reduction dim {axis} to have non-zero size."
            raise refusal(IndexError, what, f"the shape is {tuple(input.array.shape)}")


def _over(input: Any, dim: Any, keepdim: bool, row: Any, name: str) -> Any:
    refuse(input, "c", f"\"{name[1:]}_values_cpu\" not implemented for '{{}}'", NotImplementedError)
    axes = normal(dim, input.ndim)
    refuse_empty(input, dim, axes, name)
    return row(input, axes, keepdim)


@operation(samples=lambda draw: [*nonempty_samples(draw), call(draw(2, 0), 0)])
def amax(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The largest element, of all or along dimensions; equal ones share the gradient.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 2.0], [4.0, 3.0]]).amax(1)
    tensor([2., 4.])
    """
    return _over(input, dim, keepdim, amax_row, "amax")


@operation(samples=lambda draw: [*nonempty_samples(draw), call(draw(2, 0), 0)])
def amin(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The smallest element, of all or along dimensions; equal ones share the gradient.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 2.0], [4.0, 3.0]]).amin(1)
    tensor([1., 3.])
    """
    return _over(input, dim, keepdim, amin_row, "amin")


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2, 3), dim=0), call(draw(2, 3), dim=-1, keepdim=True), call(draw()),
        call(draw(2, 3, 4), dim=1), call(draw(), dim=0), call(draw(5)), call(draw(3, 2).mT, dim=1),
        call(draw(2, 3), dim=-2), call(draw(1, 1), dim=1, keepdim=True),
    ]
)  # fmt: skip
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element at once.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).aminmax()
    torch.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))
    """
    refuse(input, "c", "\"aminmax_cpu\" not implemented for '{}'", NotImplementedError)
    axes = normal(None if dim is None else axis_of(dim, input.ndim), input.ndim)
    if dim is None and not input.array.size:
        what = "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        raise refusal(RuntimeError, what)
    refuse_empty(input, dim, axes, "aminmax")
    return return_types.aminmax(*aminmax_row(input, axes, keepdim))


# --- along one dimension, with the index


def _index_of(name: str) -> Any:
    """Where the extreme is: along an axis, or (axis None) in the flattened array."""

    def forward(a: np.ndarray, axis: int | None, keepdim: bool) -> Any:
        wide = a.astype(np.float32) if a.dtype.kind == "V" else a  # bfloat16 knows no argmax
        if axis is None or not a.ndim:
            return np.asarray(getattr(wide, name)()).reshape((1,) * a.ndim if keepdim else ())
        return getattr(wide, name)(axis, None, keepdims=keepdim)

    return forward


def _batched_index(op: Any, a: Any, axis: int | None, keepdim: bool) -> Any:
    if axis is not None:
        return op(a, axis + 1, keepdim)
    flat = op(a.reshape((a.shape[0], -1)), 1, False)
    return flat.reshape((a.shape[0], *(1,) * (a.ndim - 1))) if keepdim else flat


argmax_row = bind(constant("argmax", _index_of("argmax"), 1, batch=_batched_index))
argmin_row = bind(constant("argmin", _index_of("argmin"), 1, batch=_batched_index))
max_row = picker("max_dim", "MaxBackward0")
min_row = picker("min_dim", "MinBackward0")


def index_samples(draw: Draw) -> list[Sample]:
    """Everything, or along one dimension."""
    return [
        call(draw(2, 3)), call(draw(5)), call(draw()), call(draw(2, 3), 1, True), call(draw(2, 3), dim=0, keepdim=True),
        *line_samples(draw),
    ]  # fmt: skip


def _index(input: Any, dim: Any, keepdim: bool, row: Any, name: str) -> Any:
    refuse(input, "b", f"{name}(): does not support bool input")
    refuse(input, "c", f"{name}(): does not support complex input")
    axis = None if dim is None else axis_of(dim, input.ndim)
    refuse_empty(input, dim, () if axis is None else (axis,), name)
    return row(input, axis, keepdim)


@operation(samples=index_samples)
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Where the largest element is (the first of equals), in the flattened tensor or along a dimension.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 3.0], [4.0, 2.0]]).argmax(1)
    tensor([1, 0])
    """
    return _index(input, dim, keepdim, argmax_row, "argmax")


@operation(samples=index_samples)
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Where the smallest element is (the first of equals), in the flattened tensor or along a dimension.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 3.0], [4.0, 2.0]]).argmin(1)
    tensor([0, 1])
    """
    return _index(input, dim, keepdim, argmin_row, "argmin")


def _all_of(input: Any, row: Any, name: str) -> Any:
    array = input.array
    if not array.size:
        refuse_empty(input, None, (), name)
    if array.dtype.kind == "c":
        refuse(input, "c", f"\"{name}_all\" not implemented for '{{}}'", NotImplementedError)
    return row(input)


def _along(input: Any, dim: int, keepdim: bool, rows: tuple[Any, Any], result: Any) -> Any:
    name = result.__name__
    refuse(input, "c", f"{name}(): does not support complex input")
    axis = axis_of(dim, input.ndim)
    refuse_empty(input, dim, (axis,) if input.ndim else (), name)
    where, pick = rows
    index = where(bare(input), axis, keepdim)
    return handed_out(result, input, pick(input, index, axis, keepdim), index)


@operation(
    samples=lambda draw: [*index_samples(draw), call(draw(2, 3), draw(3)), call(draw(2, 1), other=draw(3))],
    out="alone",
    tensors=1,
)
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element of all; along a dimension, with its index; or of two tensors, elementwise.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 3.0], [4.0, 2.0]]).max(1)
    torch.return_types.max(
    values=tensor([3., 4.]),
    indices=tensor([1, 0]))
    """
    if dim is None and other is None:
        return _all_of(input, max_all_row, "max")
    if other is not None or isinstance(dim, Tensor):
        return maximum(input, dim if other is None else other)
    return _along(input, dim, keepdim, (argmax_row, max_row), return_types.max)


@operation(
    samples=lambda draw: [*index_samples(draw), call(draw(2, 3), draw(3)), call(draw(2, 1), other=draw(3))],
    out="alone",
    tensors=1,
)
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element of all; along a dimension, with its index; or of two tensors, elementwise.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).min()
    tensor(1.)
    """
    if dim is None and other is None:
        return _all_of(input, min_all_row, "min")
    if other is not None or isinstance(dim, Tensor):
        return minimum(input, dim if other is None else other)
    return _along(input, dim, keepdim, (argmin_row, min_row), return_types.min)
