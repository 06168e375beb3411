"""Shape operations: the same elements, seen differently. Most are views; their derivatives undo the step.

Rows that do the same and differ in name only (PyTorch names a node after the call that made it) are made by one
function: `reshaping`, `permuting`, `indexing`.
"""

import math
from collections.abc import Callable, Sequence
from operator import index as as_int
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, modes
from pellucid.core.attributes import concrete
from pellucid.core.careful import Kind, plain
from pellucid.core.inplace import check_writable
from pellucid.core.primitive import BOUND, Primitive, constant, general, multilinear
from pellucid.core.provenance import here
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Leaf, Operators, Tensor, wrap
from pellucid.errors import explain
from pellucid.ops.operation import Draw, Sample, call, operation, publish

Axes = tuple[int, ...]
Shape = tuple[int, ...]
Row = Callable[..., Any]
ndarray = np.ndarray
ALL = slice(None)
INTEGERS = frozenset((int,))


def refusal(kind: type[Exception], what: str, why: str | None = None, try_: str | None = None) -> Exception:
    """An error with the user's line; a row's forward may raise it and it passes through as it is."""
    error = kind(explain(what, str(here()), why, try_))
    error.explained = True  # type: ignore[attr-defined]
    return error


def axis_of(dim: Any, ndim: int) -> int:
    """A dimension as a non-negative int; a 0-d tensor counts as one of a single dimension.

    >>> axis_of(-1, 3)
    2
    """
    axis = as_int(dim)
    span = ndim or 1
    if not -span <= axis < span:
        raise refusal(
            IndexError,
            f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {axis})",
            f"the tensor has {ndim} dimensions",
        )
    return axis % span


def axes_of(dims: Any, ndim: int) -> Axes:
    """One or several dimensions as non-negative ints, each at most once."""
    axes = tuple(axis_of(d, ndim) for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    if len(set(axes)) != len(axes):
        twice = next(axis for axis in axes if axes.count(axis) > 1)
        raise refusal(RuntimeError, f"dim {twice} appears multiple times in {dims}")
    return axes


def sizes_of(sizes: Any) -> Shape:
    """Sizes given as `(2, 3)` or as `2, 3`: a tuple of ints.

    >>> sizes_of(((2, 3),)), sizes_of((2, 3))
    ((2, 3), (2, 3))
    """
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    return tuple(map(as_int, sizes))


# --- expand


def strided(a: ndarray, shape: Shape, strides: tuple[int, ...]) -> ndarray:
    """A view that begins where a does, with strides (in bytes) at will.

    np.lib.stride_tricks.as_strided forgets whose memory it is, and costs more.
    """
    if a.flags.c_contiguous:
        return ndarray(shape, a.dtype, a, 0, strides)
    owner = aliasing.owner_of(a)
    memory = owner.ravel("K")
    if not np.may_share_memory(memory, owner):  # foreign memory with gaps
        return np.lib.stride_tricks.as_strided(a, shape, strides)
    return ndarray(shape, a.dtype, memory, _address(a) - _address(owner), strides)


def _address(a: ndarray) -> int:
    return int(a.__array_interface__["data"][0])


def _broadcast(a: ndarray, shape: Shape) -> ndarray:
    """A writable zero-stride view: np.broadcast_to costs three times as much and is read-only."""
    if a.size == 1 and a.ndim <= len(shape):
        return ndarray(shape, a.dtype, a, 0, (0,) * len(shape))
    if a.shape == shape:
        return a[...]
    extra = len(shape) - a.ndim
    if extra < 0 or any(n not in (1, m) for n, m in zip(a.shape, shape[extra:], strict=True)):
        raise _cannot_expand(a.shape, shape)
    return strided(a, shape, _expanded_strides(a, shape, extra))


def _expanded_strides(a: ndarray, shape: Shape, extra: int) -> tuple[int, ...]:
    kept = zip(a.strides, a.shape, shape[extra:], strict=True)
    return (0,) * extra + tuple(stride if n == m else 0 for stride, n, m in kept)


def _cannot_expand(shape: Shape, target: Shape) -> Exception:
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
        "expand", _broadcast,
        lambda g, shape: g,  # the walk sums a broadcast gradient back by itself
        view=True, lower="view",
        batch=lambda op, a, shape: op(_align(a, len(shape)), (a.shape[0], *shape)),
    )
)  # fmt: skip


def _align(a: Any, rank: int) -> Any:
    """Put size-1 axes behind the batch axis so that a has `rank` logical axes."""
    return reshape_row(a, (a.shape[0], *(1,) * (rank + 1 - a.ndim), *a.shape[1:])) if a.ndim < rank + 1 else a


# --- reshape and its kin: the same elements in the same order


def _reshape(a: ndarray, shape: Shape) -> ndarray:
    try:
        return a.reshape(shape)
    except ValueError:
        _resolved(shape, a.size)  # says what is wrong
        raise


def reshaping(name: str, grad_name: str) -> Row:
    """A row (a, shape) that keeps the order of the elements; a view whenever the strides allow it."""
    return bind(
        multilinear(
            name, _reshape, lambda g, a_shape, shape: reshape_row(g, a_shape),
            view=True, lower="view", grad_name=grad_name,
            batch=lambda op, a, shape: op(a, (a.shape[0], *shape)),
        )
    )  # fmt: skip


reshape_row = reshaping("reshape", "ViewBackward0")
unsafe_view_row = reshaping("unsafe_view", "UnsafeViewBackward0")  # after a copy: the result owns its memory
unsqueeze_row = reshaping("unsqueeze", "UnsqueezeBackward0")
SQUEEZE_ROWS = tuple(reshaping(f"squeeze{form}", f"SqueezeBackward{form}") for form in range(3))


# --- permute and its kin


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
            view=True, lower="view", batch=lambda op, a, axes: op(a, (0, *(i + 1 for i in axes))),
        )
    )  # fmt: skip


permute_row = permuting("permute")
transpose_row = permuting("transpose")
t_row = permuting("t")


# --- basic indexing: slices, integers, None and Ellipsis, as NumPy understands them


def _look_up(a: ndarray, index: Any) -> ndarray:
    try:
        return a[index]
    except IndexError as error:
        raise out_of_range(a.shape, index, error) from None


def out_of_range(shape: Shape, index: Any, error: Exception) -> Exception:
    """NumPy's complaint about an index in PyTorch's words."""
    what = str(error)
    if "too many indices" in what:
        what = f"too many indices for tensor of dimension {len(shape)}"
        if not shape:
            what = "invalid index of a 0-dim tensor. Use `tensor.item()` to convert it to a number"
    return refusal(IndexError, what.replace("for axis", "for dimension"), f"the tensor has shape {shape}")


def indexing(name: str, grad_name: str) -> Row:
    """A row (a, index) for one basic index, a tuple with an Ellipsis in it (without one NumPy copies a 0-d result)."""
    return bind(
        multilinear(
            name, _look_up, lambda g, a_shape, index: unslice_row(g, a_shape, index),
            view=True, lower="view", grad_name=grad_name, batch=lambda op, a, index: op(a, (ALL, *index)),
        )
    )  # fmt: skip


slice_row = indexing("slice", "SliceBackward0")
select_row = indexing("select", "SelectBackward0")
newaxis_row = indexing("newaxis", "UnsqueezeBackward0")  # unsqueeze among other indices
alias_row = indexing("alias", "AliasBackward0")


def _unslice(g: ndarray, shape: Shape, index: Any) -> ndarray:
    out = np.zeros(shape, g.dtype)
    out[index] = g
    return out


unslice_row = bind(
    multilinear(
        "unslice", _unslice, lambda g, shape, index: slice_row(g, index),
        batch=lambda op, g, shape, index: op(g, (g.shape[0], *shape), (ALL, *index)),
    )
)  # fmt: skip


# --- what an in-place operation on a view does to the base: the base with this part replaced


def jointly_linear(name: str, forward: Row, *rules: Any, **columns: Any) -> Primitive:
    """A row linear in all its differentiable inputs together, such as "a with a part replaced by b"."""

    def jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
        pushed = zip(rules, tangents, inputs, strict=True)
        return BOUND[name](
            *(x if rule is None else zeros_like_row(x) if t is None else t for rule, t, x in pushed), *params
        )

    return general(name, forward, *rules, jvp=jvp, **columns)


zeros_like_row = bind(constant("zeros_like", np.zeros_like, 1, batch=lambda op, a: op(a)))


def _write_view(a: ndarray, b: ndarray, steps: Any) -> ndarray:
    out = a.copy()
    part = _look(out, steps)
    if aliasing.owner_of(part) is out:
        part[...] = b
    else:  # in this layout a step had to copy: ask the steps where each element comes from
        places = _look(np.arange(a.size).reshape(a.shape), steps)
        out.reshape(-1)[places] = b
    return out


def _look(g: Any, steps: Any) -> Any:
    for step, params in steps:
        g = BOUND[step.name](g, *params)
    return g


write_view_row = bind(
    jointly_linear(
        "write_view", _write_view,
        lambda g, b_shape, steps: write_view_row(g, zeros_like_row(_look(g, steps)), steps),
        lambda g, steps: _look(g, steps),
        grad_name="CopySlices",
    )
)  # fmt: skip


# --- copies and casts


def _astype(a: ndarray, dtype: np.dtype, source: np.dtype) -> ndarray:
    return (a.real if a.dtype.kind == "c" and dtype.kind != "c" else a).astype(dtype)


cast_row = bind(
    multilinear(
        "cast", _astype, lambda g, dtype, source: cast_row(g, source, dtype),
        grad_name="ToCopyBackward0", batch=lambda op, a, dtype, source: op(a, dtype, source),
    )
)  # fmt: skip
# order: "K" keeps the strides of a dense tensor, "C" makes it contiguous
clone_row = bind(
    multilinear(
        "clone", lambda a, order: a.copy(order), lambda g, order: g, batch=lambda op, a, order: op(a, order)
    )
)


# --- reshape, view, flatten, squeeze


def _resolved(sizes: Shape, count: int) -> Shape:
    """Sizes with the -1 worked out."""
    known = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) > 1:
        raise refusal(RuntimeError, "only one dimension can be inferred")
    if any(n < -1 for n in sizes):
        raise refusal(RuntimeError, f"invalid shape dimension {min(sizes)}")
    if -1 in sizes:
        if known == 0 and count == 0:
            raise refusal(
                RuntimeError,
                f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified dimension "
                "size -1 can be any value and is ambiguous",
            )
        missing = count // known if known and count % known == 0 else -1
        sizes = tuple(missing if n == -1 else n for n in sizes)
    if math.prod(sizes) != count or -1 in sizes:
        raise refusal(RuntimeError, f"shape '{list(sizes)}' is invalid for input of size {count}")
    return sizes


def _requested(input: Any, shape: tuple[Any, ...]) -> Shape:
    """The sizes that a call of reshape or view asks for; NumPy finds out whether known sizes fit."""
    sizes = shape[0] if len(shape) == 1 and type(shape[0]) is tuple else shape
    if not INTEGERS.issuperset(map(type, sizes)):
        sizes = sizes_of(shape)
    return _resolved(sizes, math.prod(input.shape)) if -1 in sizes else sizes


def _shape_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 3), (3, 2)), call(draw(2, 3), (-1,)), call(draw(), (1, 1)), call(draw(6), (2, -1)),
        call(draw(2, 0), (0, 5)), call(draw(1), ()), call(draw(2, 3, 4), (6, 4)), call(draw(2, 3, 4), (2, 12)),
        call(draw(4), (4,)), call(draw(0), (3, 0)),
    ]  # fmt: skip


def reshape(input: Any, *shape: Any) -> Any:
    """The same elements in another shape; one size may be -1. A view if possible, else a copy.

    >>> import pellucid as torch
    >>> torch.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    sizes = _requested(input, shape)
    array = getattr(input, "array", None)
    if isinstance(array, ndarray) and not array.flags.c_contiguous and not _is_view(array, sizes):
        return unsafe_view_row(clone_row(input, "C"), sizes)
    return reshape_row(input, sizes)


def _is_view(array: ndarray, sizes: Shape) -> bool:
    """Whether a reshape can be had without a copy."""
    return array.size == 0 or np.may_share_memory(array.reshape(sizes), array)


publish(reshape, samples=_shape_samples)


@operation(samples=_shape_samples, reference="", name="view")
def view(input: Any, *shape: Any) -> Any:
    """The same memory in another shape, or (given a dtype) read as elements of another type.

    >>> import pellucid as torch
    >>> torch.arange(4).view(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if len(shape) == 1 and isinstance(shape[0], dtypes.dtype):
        return _reinterpret(input, shape[0].numpy)
    sizes = _requested(input, shape)
    array = getattr(input, "array", None)
    if isinstance(array, ndarray) and not array.flags.c_contiguous and not _is_view(array, sizes):
        raise refusal(
            RuntimeError,
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead.",
            f"shape {array.shape} with strides {stride(input)} cannot become {sizes} without a copy",
            "x.reshape(...), or x.contiguous().view(...)",
        )
    return reshape_row(input, sizes)


reinterpret_row = bind(constant("view_dtype", lambda a, dtype: a.view(dtype), 1, view=True))


def _reinterpret(input: Any, dtype: np.dtype) -> Any:
    source = np.dtype(input.array.dtype)
    if source.itemsize != dtype.itemsize and (not input.ndim or stride(input)[-1] != 1):
        raise refusal(RuntimeError, "self.stride(-1) must be 1 to view the tensor as a dtype of another size")
    if input.ndim and input.shape[-1] * source.itemsize % dtype.itemsize:
        raise refusal(
            RuntimeError,
            f"self.size(-1) must be divisible by {dtype.itemsize // source.itemsize} to view {source} as {dtype}",
        )
    return input[...] if source == dtype else reinterpret_row(input, dtype)


@operation(samples=lambda draw: [call(draw(2, 3), draw(3, 2)), call(draw(1), draw())], reference="")
def view_as(input: Any, other: Any) -> Any:
    """View a tensor in the shape of another.

    >>> import pellucid as torch
    >>> torch.zeros(4).view_as(torch.ones(2, 2)).shape
    torch.Size([2, 2])
    """
    return view(input, tuple(other.shape))


@operation(samples=lambda draw: [call(draw(2, 3), draw(3, 2)), call(draw(1), draw())], reference="")
def reshape_as(input: Any, other: Any) -> Any:
    """Reshape a tensor to the shape of another.

    >>> import pellucid as torch
    >>> torch.zeros(4).reshape_as(torch.ones(2, 2)).shape
    torch.Size([2, 2])
    """
    return reshape(input, tuple(other.shape))


@operation(
    samples=lambda draw: [
        call(draw(2, 3, 4)), call(draw(2, 3, 4), 1), call(draw(2, 3, 4), 0, 1), call(draw()), call(draw(3)),
        call(draw(2, 3), start_dim=-1), call(draw(2, 0, 3)), call(draw(2, 3, 4), -2, -1), call(draw(1, 1)),
        call(draw(2, 3, 4), end_dim=0),
    ]
)  # fmt: skip
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Make one dimension of several neighbouring ones.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    shape = tuple(input.shape)
    start, end = axis_of(start_dim, len(shape)), axis_of(end_dim, len(shape))
    if start > end:
        raise refusal(RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim")
    if shape and start == end:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@operation(samples=lambda draw: [call(draw(2, 3)), call(draw()), call(draw(3)), call(draw(2, 0)), call(draw(2, 1, 2))])
def ravel(input: Any) -> Any:
    """All elements in one dimension.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).ravel().shape
    torch.Size([6])
    """
    return reshape(input, -1) if math.prod(input.shape) else reshape(input, 0)


@operation(
    samples=lambda draw: [
        call(draw(6), 0, (2, 3)), call(draw(2, 6), 1, (3, -1)), call(draw(6, 2), -2, (6, 1)), call(draw(4), 0, [2, 2])
    ]
)
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several.

    >>> import pellucid as torch
    >>> torch.zeros(2, 6).unflatten(1, (3, 2)).shape
    torch.Size([2, 3, 2])
    """
    shape = tuple(input.shape)
    axis = axis_of(dim, len(shape))
    try:
        inner = _resolved(sizes_of((tuple(sizes),)), shape[axis])
    except RuntimeError:
        raise refusal(
            RuntimeError,
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({shape[axis]}) "
            "in the input tensor",
        ) from None
    return reshape(input, (*shape[:axis], *inner, *shape[axis + 1 :]))


@operation(
    samples=lambda draw: [
        call(draw(1, 3, 1)), call(draw(1, 3, 1), 0), call(draw(1, 3, 1), -1), call(draw(1, 3, 1), 1), call(draw()),
        call(draw(), 0), call(draw(1, 3, 1), (0, 2)), call(draw(2, 3)), call(draw(1, 0)), call(draw(1, 1)),
    ]
)  # fmt: skip
def squeeze(input: Any, dim: Any = None) -> Any:
    """Leave out dimensions of size 1: all of them, or those named.

    >>> import pellucid as torch
    >>> torch.zeros(1, 3, 1).squeeze(0).shape
    torch.Size([3, 1])
    """
    shape = tuple(input.shape)
    axes = range(len(shape)) if dim is None else axes_of(dim, len(shape))
    row = SQUEEZE_ROWS[0 if dim is None else 2 if isinstance(dim, (tuple, list)) else 1]
    return row(input, tuple(n for i, n in enumerate(shape) if n != 1 or i not in axes))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), 0), call(draw(2, 3), 1), call(draw(2, 3), -1), call(draw(2, 3), -3), call(draw(), 0),
        call(draw(0), 0), call(draw(3), 1), call(draw(), -1), call(draw(2, 1, 2), 2), call(draw(1), 0),
    ]
)  # fmt: skip
def unsqueeze(input: Any, dim: int) -> Any:
    """Put in a dimension of size 1.

    >>> import pellucid as torch
    >>> torch.zeros(3).unsqueeze(0).shape
    torch.Size([1, 3])
    """
    shape = tuple(input.shape)
    axis = axis_of(dim, len(shape) + 1)
    return unsqueeze_row(input, (*shape[:axis], 1, *shape[axis:]))


# --- expand


@operation(
    samples=lambda draw: [
        call(draw(1, 3), 2, 3), call(draw(1, 3), (2, -1)), call(draw(3), 2, 3), call(draw(), 2, 2), call(draw(1), 0),
        call(draw(2, 1), 2, 4), call(draw(2, 3), -1, -1), call(draw(1, 1), 3, 2, 4), call(draw(3), 3), call(draw(), ()),
    ],
    reference="",
)  # fmt: skip
def expand(input: Any, *sizes: Any) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size.

    >>> import pellucid as torch
    >>> torch.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    sizes, shape = sizes_of(sizes), tuple(input.shape)
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


@operation(samples=lambda draw: [call(draw(1, 3), draw(2, 3)), call(draw(), draw(2))], reference="")
def expand_as(input: Any, other: Any) -> Any:
    """Expand a tensor to the shape of another.

    >>> import pellucid as torch
    >>> torch.zeros(1, 2).expand_as(torch.ones(3, 2)).shape
    torch.Size([3, 2])
    """
    return expand_row(input, tuple(other.shape))


@operation(
    samples=lambda draw: [call(draw(1, 3), (2, 3)), call(draw(), (2,)), call(draw(3), (2, 3)), call(draw(2), (2,))]
)
def broadcast_to(input: Any, size: Any) -> Any:
    """Expand a tensor to a shape.

    >>> import pellucid as torch
    >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(input, tuple(size))


@operation(
    samples=lambda draw: [call(draw(2, 1), draw(3)), call(draw(), draw(2)), call(draw(2, 3)), call(draw(0), draw(1))],
    methods=(),
)
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
    try:
        return dtypes.Size(np.broadcast_shapes(*(s if isinstance(s, int) else tuple(s) for s in shapes)))
    except ValueError:
        raise refusal(
            RuntimeError, f"Shape mismatch: objects cannot be broadcast to a single shape: {list(shapes)}"
        ) from None


# --- permute


@operation(
    samples=lambda draw: [
        call(draw(2, 3, 4), (2, 0, 1)), call(draw(2, 3), (1, 0)), call(draw(2, 3, 4), (-1, 0, 1)), call(draw(), ()),
        call(draw(3), (0,)), call(draw(2, 0), (1, 0)), call(draw(2, 3, 1, 2), (3, 1, 0, 2)), call(draw(2, 3), (0, 1)),
    ]
)  # fmt: skip
def permute(input: Any, *dims: Any) -> Any:
    """The dimensions in another order.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
    torch.Size([4, 2, 3])
    """
    order = sizes_of(dims)
    if len(order) != input.ndim:
        raise refusal(
            RuntimeError,
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}",
        )
    return permute_row(input, axes_of(order, input.ndim))


@operation(
    samples=lambda draw: [
        call(draw(2, 3, 4), 0, 2), call(draw(2, 3), 0, 1), call(draw(2, 3), -1, -2), call(draw(3), 0, 0),
        call(draw(), 0, -1), call(draw(2, 0, 3), 1, 2), call(draw(2, 3, 4), 1, 1), call(draw(1, 2, 3, 4), 1, 3),
    ],
    aliases=("swapaxes", "swapdims"),
)  # fmt: skip
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Swap two dimensions.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).transpose(0, 1).shape
    torch.Size([3, 2])
    """
    ndim = len(input.shape)
    first, second = axis_of(dim0, ndim), axis_of(dim1, ndim)
    axes = list(range(ndim))
    if ndim:
        axes[first], axes[second] = second, first
    return transpose_row(input, tuple(axes))


@operation(samples=lambda draw: [call(draw(2, 3)), call(draw(3)), call(draw()), call(draw(0, 2)), call(draw(1, 1))])
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
        call(draw(2, 3, 4), 2, 0), call(draw(2, 0), 0, 1),
    ]  # fmt: skip


@operation(samples=_move_samples, aliases=("moveaxis",))
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to other places; the rest keep their order.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3, 4).movedim(0, -1).shape
    torch.Size([3, 4, 2])
    """
    ndim = input.ndim
    sources, goals = axes_of(source, ndim), axes_of(destination, ndim)
    if len(sources) != len(goals):
        raise refusal(
            RuntimeError,
            f"movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of "
            f"dims as destination ({destination} dims)",
        )
    order = [i for i in range(ndim) if i not in sources]
    for goal, origin in sorted(zip(goals, sources, strict=True)):
        order.insert(goal, origin)
    return permute_row(input, tuple(order))


def _reversed(input: Any) -> Any:
    """The dimensions in the opposite order."""
    return permute_row(input, tuple(reversed(range(input.ndim))))


def _matrix_transpose(input: Any) -> Any:
    """The last two dimensions swapped."""
    if input.ndim < 2:
        raise refusal(
            RuntimeError,
            f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor.",
        )
    return transpose(input, -2, -1)


def _conjugated(input: Any) -> Any:
    return input.conj() if np.dtype(getattr(input, "array", input).dtype).kind == "c" else input


def _hermitian(input: Any) -> Any:
    """The conjugate transpose of a matrix."""
    if input.ndim not in (0, 2):
        raise refusal(
            RuntimeError, f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor."
        )
    return _conjugated(transpose(input, 0, -1) if input.ndim else input)


@operation(
    samples=lambda draw: [call(draw(2, 3)), call(draw(2, 3, 4)), call(draw.complex(2, 3)), call(draw(2, 0, 1))]
)
def adjoint(input: Any) -> Any:
    """The conjugate transpose of every matrix: the last two dimensions swapped, complex numbers conjugated.

    >>> import pellucid as torch
    >>> torch.zeros(5, 2, 3).adjoint().shape
    torch.Size([5, 3, 2])
    """
    return _conjugated(_matrix_transpose(input))


for _name, _function in (("T", _reversed), ("mT", _matrix_transpose), ("H", _hermitian), ("mH", adjoint)):
    setattr(Operators, _name, property(_function))


# --- flip, roll, repeat


def _flip(a: ndarray, axes: Axes) -> ndarray:
    return a[tuple(slice(None, None, -1) if i in axes else ALL for i in range(a.ndim))].copy()


flip_row = bind(
    multilinear(
        "flip", _flip, lambda g, axes: flip_row(g, axes),
        batch=lambda op, a, axes: op(a, tuple(i + 1 for i in axes)),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3), (0,)), call(draw(2, 3), (0, 1)), call(draw(2, 3), (-1,)), call(draw(4), (0,)),
        call(draw(2, 0), (1,)), call(draw(2, 3, 4), (0, 2)), call(draw(2), ()), call(draw(1, 3), [1]),
    ]
)  # fmt: skip
def flip(input: Any, *dims: Any) -> Any:
    """Reverse the order of the elements along dimensions.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2, 3]).flip(0)
    tensor([3, 2, 1])
    """
    return flip_row(input, axes_of(sizes_of(dims), input.ndim))


@operation(samples=lambda draw: [call(draw(2, 3)), call(draw(2, 3, 2)), call(draw(1, 1)), call(draw(2, 0))])
def fliplr(input: Any) -> Any:
    """Reverse every row: flip along dimension 1.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2]]).fliplr()
    tensor([[2, 1]])
    """
    if input.ndim < 2:
        raise refusal(RuntimeError, f"fliplr: Input must be >= 2-d, got {input.ndim}-d")
    return flip_row(input, (1,))


@operation(samples=lambda draw: [call(draw(2, 3)), call(draw(2)), call(draw(1, 1)), call(draw(0, 2))])
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
        "rot90", lambda a, k, axes: np.rot90(a, k, axes).copy(), lambda g, k, axes: rot90_row(g, -k, axes),
        batch=lambda op, a, k, axes: op(a, k, tuple(i + 1 for i in axes)),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2, 3), 2), call(draw(2, 3), -1), call(draw(2, 3, 4), 1, (0, 2)),
        call(draw(2, 3), 4), call(draw(2, 0)), call(draw(2, 3), 3, (1, 0)),
    ]
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
        return op(a, shifts, tuple(i + 1 for i in axes))
    flat = reshape_row(a, (a.shape[0], math.prod(a.shape[1:])))
    return reshape_row(op(flat, shifts, (1,) * len(shifts)), tuple(a.shape))


# no axes: the tensor is rolled as if it were flat
roll_row = bind(
    multilinear(
        "roll", _roll, lambda g, shifts, axes: roll_row(g, tuple(-n for n in shifts), axes),
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
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        return roll_row(input, moves, ())
    axes = tuple(axis_of(d, input.ndim) for d in sizes_of((dims,)))
    if len(moves) != len(axes):
        raise refusal(
            RuntimeError, f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
        )
    return roll_row(input, moves, axes)


def _unrepeat(g: Any, shape: Shape, repeats: Shape) -> Any:
    """Sum the gradients of all copies."""
    padded = (1,) * (len(repeats) - len(shape)) + shape
    pairs = tuple(n for pair in zip(repeats, padded, strict=True) for n in pair)
    return reshape_row(reshape_row(g, pairs).sum(tuple(range(0, len(pairs), 2))), shape)


repeat_row = bind(
    multilinear(
        "repeat", np.tile, lambda g, a_shape, repeats: _unrepeat(g, a_shape, repeats),
        batch=lambda op, a, repeats: op(_align(a, len(repeats)), (1, *repeats)),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(3), 2), call(draw(3), 2, 2), call(draw(2, 3), (1, 2)), call(draw(), 3), call(draw(2, 3), 2, 1, 2),
        call(draw(2), 0), call(draw(0), 2), call(draw(1, 2), 2, 3), call(draw(2, 2), 1, 1), call(draw(), ()),
    ],
    reference="",
)  # fmt: skip
def repeat(input: Any, *repeats: Any) -> Any:
    """Copies of the tensor side by side, so many along each dimension.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = sizes_of(repeats)
    if len(counts) < input.ndim:
        raise refusal(
            RuntimeError,
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            f"got {len(counts)} counts for {input.ndim} dimensions",
            "put 1 for every dimension that is not to be repeated, or use tile",
        )
    if any(n < 0 for n in counts):
        raise refusal(RuntimeError, f"Trying to create tensor with negative dimension {min(counts)}")
    return repeat_row(input, counts)


@operation(
    samples=lambda draw: [
        call(draw(3), (2,)), call(draw(2, 3), (2,)), call(draw(3), (2, 2)), call(draw(), (2,)), call(draw(2), (1,))
    ]
)
def tile(input: Any, *dims: Any) -> Any:
    """Like repeat, but missing counts (of leading dimensions) are 1.

    >>> import pellucid as torch
    >>> torch.tensor([[1], [2]]).tile(2)
    tensor([[1, 1],
            [2, 2]])
    """
    counts = sizes_of(dims)
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


@operation(
    samples=lambda draw: [
        call(draw(3), 2), call(draw(2, 3), 2), call(draw(2, 3), 2, 1), call(draw(2, 3), 3, dim=0), call(draw(2), 0),
        call(draw(2, 3), draw.integers(3), 1), call(draw(2), draw.integers(2, low=1)), call(draw(), 2),
        call(draw(2, 2), draw.integers(1, low=2), 0), call(draw(2, 3), 1, -1),
    ]
)  # fmt: skip
def repeat_interleave(input: Any, repeats: Any, dim: Any = None, *, output_size: int | None = None) -> Any:
    """Repeat every element (or every slice along a dimension) on the spot.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2]).repeat_interleave(2)
    tensor([1, 1, 2, 2])
    """
    if dim is None:
        input, dim = flatten(input), 0
    shape = tuple(input.shape)
    axis = axis_of(dim, len(shape))
    if isinstance(repeats, int):
        if repeats < 0:
            raise refusal(RuntimeError, "Repeats must be non-negative")
        wide = expand_row(unsqueeze(input, axis + 1), (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
        return reshape(clone_row(wide, "C"), (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))
    counts = concrete(repeats, "repeat_interleave") if isinstance(repeats, Tensor) else np.asarray(repeats)
    if counts.size not in (1, shape[axis]):
        raise refusal(
            RuntimeError,
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and "
            f"input.size({axis}) = {shape[axis]}",
        )
    places = np.repeat(np.arange(shape[axis]), counts.reshape(-1))
    return BOUND["index_select"](input, wrap(places), (axis,))


# --- parts: narrow, select, diagonals, windows


@operation(
    samples=lambda draw: [
        call(draw(4, 3), 0, 1, 2), call(draw(4, 3), 1, 0, 3), call(draw(4), -1, -3, 2), call(draw(4), 0, 4, 0),
        call(draw(2, 3, 4), 2, 1, 1),
    ]
)
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """The part of a tensor from `start`, `length` long, along one dimension: a view.

    >>> import pellucid as torch
    >>> torch.arange(5).narrow(0, 1, 2)
    tensor([1, 2])
    """
    if not input.ndim:
        raise refusal(RuntimeError, "narrow() cannot be applied to a 0-dim tensor.")
    axis, begin = axis_of(dim, input.ndim), int(start)
    size = input.shape[axis]
    if not -size <= begin <= size:
        raise refusal(
            IndexError, f"start out of range (expected to be in range of [{-size}, {size}], but got {begin})"
        )
    begin += size if begin < 0 else 0
    if length < 0:
        raise refusal(RuntimeError, "narrow(): length must be non-negative.")
    if begin + length > size:
        raise refusal(RuntimeError, f"start ({begin}) + length ({length}) exceeds dimension size ({size}).")
    return slice_row(input, (*(ALL,) * axis, slice(begin, begin + length), ...))


@operation(
    samples=lambda draw: [
        call(draw(4, 3), 0, 1), call(draw(4, 3), 1, -1), call(draw(4), 0, 2), call(draw(2, 3, 4), -1, 0)
    ]
)
def select(input: Any, dim: int, index: int) -> Any:
    """One slice along a dimension, which goes away: a view.

    >>> import pellucid as torch
    >>> torch.arange(4).reshape(2, 2).select(1, 0)
    tensor([0, 2])
    """
    if not input.ndim:
        raise refusal(IndexError, "select() cannot be applied to a 0-dim tensor.")
    axis, place = axis_of(dim, input.ndim), as_int(index)
    size = input.shape[axis]
    if not -size <= place < size:
        raise refusal(
            IndexError,
            f"select(): index {place} out of range for tensor of size {list(input.shape)} at dimension {axis}",
        )
    return select_row(input, (*(ALL,) * axis, place, ...))


def _diagonal(a: ndarray, offset: int, axis1: int, axis2: int) -> ndarray:
    found = a.diagonal(offset, axis1, axis2)
    if a.flags.writeable:
        found.flags.writeable = True  # NumPy gives a view but locks it
    return found


def _embed(g: ndarray, shape: Shape, offset: int, axis1: int, axis2: int) -> ndarray:
    out = np.zeros(shape, g.dtype)
    _diagonal(out, offset, axis1, axis2)[...] = g
    return out


diagonal_row = bind(
    multilinear(
        "diagonal", _diagonal,
        lambda g, a_shape, offset, axis1, axis2: diag_embed_row(g, a_shape, offset, axis1, axis2),
        view=True, batch=lambda op, a, offset, axis1, axis2: op(a, offset, axis1 + 1, axis2 + 1),
    )
)  # fmt: skip
diag_embed_row = bind(
    multilinear(
        "diag_embed", _embed,
        lambda g, shape, offset, axis1, axis2: diagonal_row(g, offset, axis1, axis2),
        batch=lambda op, a, shape, offset, axis1, axis2: op(a, (a.shape[0], *shape), offset, axis1 + 1, axis2 + 1),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(3, 3)), call(draw(2, 4), 1), call(draw(4, 2), -1), call(draw(2, 3, 4), 0, 1, 2), call(draw(2, 3), 5),
        call(draw(2, 3, 3), 0, -2, -1), call(draw(3, 2, 3), 1, 2, 0), call(draw(0, 2)),
    ]
)  # fmt: skip
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of every matrix, as the last dimension: a view.

    >>> import pellucid as torch
    >>> torch.arange(9).reshape(3, 3).diagonal()
    tensor([0, 4, 8])
    """
    first, second = axis_of(dim1, input.ndim), axis_of(dim2, input.ndim)
    if first == second:
        raise refusal(RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return diagonal_row(input, int(offset), first, second)


@operation(
    samples=lambda draw: [
        call(draw(3)), call(draw(3), 1), call(draw(2, 3), -2), call(draw(2, 3), 0, 0, 2), call(draw(2, 0)),
        call(draw(2, 2), 0, -1, -3), call(draw(1)),
    ]
)
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension on their diagonal and zeros elsewhere.

    >>> import pellucid as torch
    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    rank = input.ndim + 1
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    if first == second:
        raise refusal(RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for axis in sorted((first, second)):
        shape.insert(axis, size)
    return diag_embed_row(input, tuple(shape), int(offset), first, second)


@operation(
    samples=lambda draw: [
        call(draw(3)), call(draw(3), 1), call(draw(3, 3)), call(draw(2, 3), 1), call(draw(2, 3), -1), call(draw(0))
    ]
)
def diag(input: Any, diagonal: int = 0) -> Any:
    """The diagonal of a matrix as a vector, or a matrix with a vector on its diagonal.

    >>> import pellucid as torch
    >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim not in (1, 2):
        raise refusal(RuntimeError, f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return clone_row(diagonal_row(input, int(diagonal), 0, 1), "C")


@operation(samples=lambda draw: [call(draw(3)), call(draw(2, 2)), call(draw(2), 1), call(draw()), call(draw(2), -2)])
def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with all elements of a tensor on its diagonal.

    >>> import pellucid as torch
    >>> torch.diagflat(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(reshape(input, (math.prod(input.shape),)), offset)


def triangle(name: str, keep: Callable[[ndarray, ndarray], ndarray]) -> Row:
    """A row (a, diagonal) that keeps one triangle of every matrix and makes the rest zero."""

    def forward(a: ndarray, diagonal: int) -> ndarray:
        rows, columns = np.arange(a.shape[-2])[:, None], np.arange(a.shape[-1])
        return np.where(keep(columns - rows, np.asarray(diagonal)), a, np.zeros((), a.dtype))

    return bind(
        multilinear(
            name, forward, lambda g, diagonal: BOUND[name](g, diagonal),
            batch=lambda op, a, diagonal: op(a, diagonal),
        )
    )  # fmt: skip


tril_row = triangle("tril", np.less_equal)
triu_row = triangle("triu", np.greater_equal)


def _triangle_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 3)), call(draw(2, 4), 1), call(draw(4, 2), -1), call(draw(2, 3, 3)), call(draw(0, 2)),
        call(draw(3, 3), diagonal=2), call(draw(3, 3), -5), call(draw(1, 1)), call(draw(2, 2, 2, 3), 1),
        call(draw(3, 3), 5),
    ]  # fmt: skip


def _of_matrices(input: Any, name: str) -> Any:
    if input.ndim < 2:
        raise refusal(RuntimeError, f"{name}: input tensor must have at least 2 dimensions")
    return input


@operation(samples=_triangle_samples, inplace=True)
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of every matrix; zeros above the diagonal.

    >>> import pellucid as torch
    >>> torch.tril(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])
    """
    return tril_row(_of_matrices(input, "tril"), int(diagonal))


@operation(samples=_triangle_samples, inplace=True)
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of every matrix; zeros below the diagonal.

    >>> import pellucid as torch
    >>> torch.triu(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])
    """
    return triu_row(_of_matrices(input, "triu"), int(diagonal))


@operation(samples=lambda draw: [call(3, 3), call(2, 4, 1), call(4, 2, -1), call(0, 0)], methods=())
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the lower triangle of a matrix.

    >>> import pellucid as torch
    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _indices(np.tril_indices(row, offset, col), dtype, device)


@operation(samples=lambda draw: [call(3, 3), call(2, 4, 1), call(4, 2, -1), call(0, 0)], methods=())
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the upper triangle of a matrix.

    >>> import pellucid as torch
    >>> torch.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _indices(np.triu_indices(row, offset, col), dtype, device)


def _indices(pair: Any, dtype: Any, device: Any) -> Tensor:
    dtypes.check_device(device)
    return wrap(np.stack(pair).astype(np.int64 if dtype is None else dtypes.as_numpy_dtype(dtype)))


def _windows(a: ndarray, axis: int, size: int, step: int) -> ndarray:
    count = (a.shape[axis] - size) // step + 1
    shape = (*a.shape[:axis], count, *a.shape[axis + 1 :], size)
    strides = (*a.strides[:axis], a.strides[axis] * step, *a.strides[axis + 1 :], a.strides[axis])
    return strided(a, shape, strides)


def _overlap_add(g: ndarray, shape: Shape, axis: int, size: int, step: int) -> ndarray:
    """Add every window to its place: one pass per position in the window."""
    out = np.zeros(shape, g.dtype)
    span = (g.shape[axis] - 1) * step + 1
    for k in range(size):
        out[(*(ALL,) * axis, slice(k, k + span, step))] += g[..., k]
    return out


unfold_row = bind(
    multilinear(
        "unfold", _windows,
        lambda g, a_shape, axis, size, step: overlap_add_row(g, a_shape, axis, size, step),
        view=True, batch=lambda op, a, axis, size, step: op(a, axis + 1, size, step),
    )
)  # fmt: skip
overlap_add_row = bind(
    multilinear(
        "unfold_backward", _overlap_add,
        lambda g, shape, axis, size, step: unfold_row(g, axis, size, step),
        batch=lambda op, g, shape, axis, size, step: op(g, (g.shape[0], *shape), axis + 1, size, step),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(7), 0, 3, 2), call(draw(2, 5), 1, 2, 1), call(draw(5, 2), 0, 5, 1), call(draw(6), -1, 2, 3),
        call(draw(2, 5, 2), 1, 3, 1),
    ],
    reference="",
)
def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """All windows of a size along a dimension; the window is the last dimension of the result: a view.

    >>> import pellucid as torch
    >>> torch.arange(4).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    if not input.ndim:
        input = unsqueeze(input, 0)
        return select_row(unfold(input, dimension, size, step), (0, ...))
    axis = axis_of(dimension, input.ndim)
    if step <= 0:
        raise refusal(RuntimeError, f"step is {step} but must be > 0")
    if size > input.shape[axis]:
        raise refusal(
            RuntimeError, f"maximum size for tensor at dimension {axis} is {input.shape[axis]} but size is {size}"
        )
    return unfold_row(input, axis, int(size), int(step))


# --- as_strided: any window onto the memory

# (shape, stride, offset) in elements of the storage
Geometry = tuple[Shape, tuple[int, ...], int]


def _geometry(a: ndarray) -> Geometry:
    """How an array lies in the memory of its owner."""
    owner = aliasing.owner_of(a)
    return a.shape, tuple(s // a.itemsize for s in a.strides), (_address(a) - _address(owner)) // a.itemsize


def _places(geometry: Geometry) -> ndarray:
    """The number of the storage element that each element of a view is."""
    shape, strides, offset = geometry
    places = np.full(shape, offset, np.int64)
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        places += (np.arange(size) * step).reshape(-1, *(1,) * (len(shape) - 1 - axis))
    return places


def _extent(*geometries: Geometry) -> int:
    """How many storage elements the views reach over."""
    return max(
        offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in shape else 0
        for shape, strides, offset in geometries
    )


def _strided(a: ndarray, source: Geometry, target: Geometry) -> ndarray:
    """The window `target` onto the memory of an array that lies there as `source` says."""
    memory = aliasing.owner_of(a).ravel("K")
    if _geometry(a) == source and _extent(target) * a.itemsize <= memory.nbytes:
        shape, strides, offset = target
        return ndarray(shape, a.dtype, memory, offset * a.itemsize, tuple(s * a.itemsize for s in strides))
    storage = np.zeros(_extent(source, target), a.dtype)
    storage[_places(source)] = a
    return storage[_places(target)]


def _unstrided(g: ndarray, source: Geometry, target: Geometry) -> ndarray:
    """The adjoint: add up per storage element; elements that overlap in the input share their gradient."""
    size = _extent(source, target)
    storage = np.zeros(size, g.dtype)
    np.add.at(storage, _places(target), g)
    places = _places(source)
    copies = np.bincount(places.reshape(-1), minlength=size)[places]
    return (storage[places] / copies).astype(g.dtype) if (copies > 1).any() else storage[places]


as_strided_row = bind(
    multilinear(
        "as_strided", _strided, lambda g, source, target: unstrided_row(g, source, target), view=True,
    )
)  # fmt: skip
unstrided_row = bind(
    multilinear("unstrided", _unstrided, lambda g, source, target: as_strided_row(g, source, target))
)


@operation(
    samples=lambda draw: [
        call(draw(6), (2, 3), (3, 1)), call(draw(6), (2, 2), (1, 1)), call(draw(6), (2,), (2,), 1),
        call(draw(2, 3), (3, 2), (1, 3)), call(draw(4), (3, 2), (0, 1)), call(draw(4), (), (), 2),
    ]
)
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A window onto the memory of a tensor, with sizes and strides at will: a view.

    >>> import pellucid as torch
    >>> torch.arange(4).as_strided((3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    array = input.array
    if isinstance(array, Kind):  # has no memory of its own: taken to lie in order
        array = np.empty(array.shape, plain(array.dtype))
    shape, strides = sizes_of((tuple(size),)), sizes_of((tuple(stride),))
    source = _geometry(array)
    target = (shape, strides, source[2] if storage_offset is None else int(storage_offset))
    if len(shape) != len(strides):
        raise refusal(RuntimeError, "mismatch in length of strides and shape")
    if any(s < 0 for s in strides):
        raise refusal(
            RuntimeError, f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"
        )
    if _extent(target) * array.itemsize > aliasing.owner_of(array).nbytes or target[2] < 0:
        raise refusal(
            RuntimeError,
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {target[2]}, and itemsize "
            f"{array.itemsize} are out of bounds for storage of size {aliasing.owner_of(array).nbytes}",
        )
    return as_strided_row(input, source, target)


# --- copies


@operation(
    samples=lambda draw: [call(draw(2, 3)), call(draw()), call(draw(0)), call(draw(2, 3).mT), call(draw(1, 2, 3))]
)
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy with its own memory; gradients flow through it.

    >>> import pellucid as torch
    >>> torch.ones(2, requires_grad=True).clone()
    tensor([1., 1.], grad_fn=<CloneBackward0>)
    """
    return clone_row(input, "C" if memory_format is dtypes.contiguous_format else "K")


@operation(samples=lambda draw: [call(draw(2, 3)), call(draw(2, 3).mT), call(draw())], reference="")
def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its elements lie in order, else a copy in which they do.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).t().contiguous().stride()
    (2, 1)
    """
    array = input.array
    return input if not isinstance(array, ndarray) or array.flags.c_contiguous else clone_row(input, "C")


@operation(
    samples=lambda draw: [
        call(draw(2), draw(3), indexing="ij"), call(draw(2), draw(3), indexing="xy"),
        call(draw(), draw(2), indexing="ij"), call(draw(2), draw(1), draw(2), indexing="ij"),
    ],
    methods=(),
)  # fmt: skip
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Coordinate grids: every combination of the elements of vectors.

    >>> import pellucid as torch
    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")[0]
    tensor([[1, 1],
            [2, 2]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise refusal(RuntimeError, f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if any(x.ndim > 1 for x in tensors):
        raise refusal(RuntimeError, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    if indexing == "xy" and len(tensors) > 1:
        grids = [transpose(grid, 0, 1) for grid in meshgrid(*tensors)]
        return tuple(grids)
    shape = tuple(math.prod(x.shape) for x in tensors)
    rank = len(shape)
    return tuple(
        expand_row(reshape(x, (*(1,) * i, shape[i], *(1,) * (rank - 1 - i))), shape) for i, x in enumerate(tensors)
    )


def _at_least(name: str, grow: Callable[[Any], Any]) -> Callable[..., Any]:
    """atleast_1d, atleast_2d, atleast_3d: of one tensor or of several."""

    def at_least(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return grow(tensors[0])
        return tuple(grow(x) for x in (tensors[0] if len(tensors) == 1 else tensors))

    at_least.__name__ = name
    return publish(
        at_least,
        samples=lambda draw: [call(draw()), call(draw(3)), call(draw(2, 3)), call(draw(1, 2, 3)), call(draw(0))],
        methods=(),
        doc=f"""The tensor (or each of several) with at least {name[8]} dimensions.

    >>> import pellucid as torch
    >>> torch.{name}(torch.tensor(1.0)).ndim
    {name[8]}
    """,
    )


atleast_1d = _at_least("atleast_1d", lambda x: x if x.ndim else reshape(x, 1))
atleast_2d = _at_least(
    "atleast_2d", lambda x: x if x.ndim > 1 else unsqueeze(x, 0) if x.ndim else reshape(x, (1, 1))
)
atleast_3d = _at_least(
    "atleast_3d", lambda x: x if x.ndim > 2 else unsqueeze(atleast_2d(x), -1) if x.ndim else reshape(x, (1, 1, 1))
)


# --- complex numbers as pairs


def _as_real(a: ndarray) -> ndarray:
    return a[..., None].view(a.real.dtype)


def _as_complex(a: ndarray) -> ndarray:
    if a.strides[-1] != a.itemsize:
        a = a.copy()
    return a.view(np.result_type(a.dtype, np.complex64))[..., 0]


view_as_real_row = bind(
    multilinear(
        "view_as_real", _as_real, lambda g: view_as_complex_row(g), view=True, batch=lambda op, a: op(a)
    )
)
view_as_complex_row = bind(
    multilinear(
        "view_as_complex", _as_complex, lambda g: view_as_real_row(g), view=True, batch=lambda op, a: op(a)
    )
)


@operation(samples=lambda draw: [call(draw.complex(2, 3)), call(draw.complex()), call(draw.complex(0))])
def view_as_real(input: Any) -> Any:
    """A complex tensor as pairs (real, imaginary) in a new last dimension: a view.

    >>> import pellucid as torch
    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if np.dtype(input.array.dtype).kind != "c":
        raise refusal(RuntimeError, "view_as_real is only supported for complex tensors")
    return view_as_real_row(input)


@operation(samples=lambda draw: [call(draw(2, 2)), call(draw(2)), call(draw(3, 1, 2))])
def view_as_complex(input: Any) -> Any:
    """Pairs (real, imaginary) in the last dimension as complex numbers: a view.

    >>> import pellucid as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if np.dtype(input.array.dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise refusal(
            RuntimeError,
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of {input.dtype}",
        )
    if not input.ndim or input.shape[-1] != 2:
        raise refusal(RuntimeError, "Tensor must have a last dimension of size 2")
    if isinstance(input.array, ndarray) and stride(input)[-1] != 1:
        raise refusal(RuntimeError, "Tensor must have a last dimension with stride 1")
    return view_as_complex_row(input)


# --- conversions


def to(input: Any, *args: Any, **kwargs: Any) -> Any:
    """The tensor in another dtype; itself if nothing changes.

    Takes a dtype, a device ('cpu' is the only one), another tensor, or several of them, as PyTorch does.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2]).to(torch.float64)
    tensor([1., 2.], dtype=torch.float64)
    """
    dtype, copy = _wanted(list(args), dict(kwargs))
    source = plain(input.array.dtype)
    target = source if dtype is None else dtypes.as_numpy_dtype(dtype)
    return input if source == target and not copy else cast_row(input, target, source)


def _wanted(args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, bool]:
    """The dtype and copy flag among the arguments of `to`."""
    dtype, device, other = kwargs.pop("dtype", None), kwargs.pop("device", None), kwargs.pop("other", None)
    copy = kwargs.pop("copy", False)
    kwargs.pop("non_blocking", None)
    kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if args and isinstance(args[0], Tensor):
        other = args.pop(0)
    if args and not isinstance(args[0], bool) and isinstance(args[0], (str, dtypes.device, int, type(None))):
        device = args.pop(0)
    if args and not isinstance(args[0], bool) and args[0] is not None:
        dtype = args.pop(0)
    elif args and args[0] is None:
        args.pop(0)
    if len(args) > 1:  # (non_blocking, copy)
        copy = args[1]
    dtypes.check_device(device)
    return (other.dtype if other is not None else dtype), bool(copy)


attach("to", to)


def _conversion(name: str, dtype: dtypes.dtype) -> None:
    def convert(input: Any, memory_format: Any = None) -> Any:
        source = plain(input.array.dtype)
        return input if source == dtype.numpy else cast_row(input, dtype.numpy, source)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {dtype}: short for `to({dtype})`."
    attach(name, convert)


for _name, _dtype in {
    "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32, "long": dtypes.int64, "short": dtypes.int16, "char": dtypes.int8, "byte": dtypes.uint8,
    "bool": dtypes.bool_, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}.items():  # fmt: skip
    _conversion(_name, _dtype)


TYPE_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int32": "Int",
    "int64": "Long", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def type_(input: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor in another type (a dtype, or a name such as torch.FloatTensor).

    >>> import pellucid as torch
    >>> torch.zeros(1).type(), torch.zeros(1).type(torch.int64).dtype
    ('torch.FloatTensor', torch.int64)
    """
    if dtype is None:
        return f"torch.{TYPE_NAMES.get(input.dtype.name, input.dtype.name)}Tensor"
    if isinstance(dtype, str):
        named = {f"torch.{shown}Tensor": name for name, shown in TYPE_NAMES.items()}.get(dtype)
        if named is None:
            raise refusal(ValueError, f"invalid type: '{dtype}'")
        dtype = dtypes.DTYPE_NAMES[named]
    return to(input, dtype)


attach("type", type_)


def type_as(input: Any, other: Any) -> Any:
    """The tensor in the dtype of another.

    >>> import pellucid as torch
    >>> torch.zeros(1).type_as(torch.ones(1, dtype=torch.float64)).dtype
    torch.float64
    """
    return to(input, other.dtype)


def cpu(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself: it lives on the CPU already."""
    return input


def cuda(input: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """Always an error: Pellucid runs on the CPU."""
    raise refusal(RuntimeError, "Pellucid runs on the CPU only: there is no CUDA device", try_="leave .cuda() out")


for _method in (type_as, cpu, cuda):
    attach(_method.__name__, _method)


# --- questions about shape and memory


def numel(input: Any) -> int:
    """The number of elements.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).numel()
    6
    """
    return math.prod(input.shape)


def size(input: Any, dim: Any = None) -> Any:
    """The shape, or the size of one dimension.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).size(-1)
    3
    """
    if dim is None:
        return input.shape
    if not input.ndim:
        raise refusal(IndexError, "Dimension specified as 0 but tensor has no dimensions")
    return input.shape[axis_of(dim, input.ndim)]


def dim(input: Any) -> int:
    """The number of dimensions.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).dim()
    2
    """
    return len(input.shape)


def stride(input: Any, dim: Any = None) -> Any:
    """How many elements to step over in memory to get to the next one of a dimension.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).stride()
    (3, 1)
    """
    array = concrete(input, "stride()")
    if dim is not None:
        return array.strides[axis_of(dim, array.ndim)] // array.itemsize
    return tuple(step // array.itemsize for step in array.strides)


def storage_offset(input: Any) -> int:
    """Where in its memory a view begins, in elements.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3)[1].storage_offset()
    3
    """
    return _geometry(concrete(input, "storage_offset()"))[2]


def element_size(input: Any) -> int:
    """Bytes per element.

    >>> import pellucid as torch
    >>> torch.zeros(1).element_size()
    4
    """
    return int(np.dtype(input.array.dtype).itemsize)


def is_contiguous(input: Any, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in the order of their indices.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).t().is_contiguous()
    False
    """
    return bool(concrete(input, "is_contiguous()").flags.c_contiguous)


def data_ptr(input: Any) -> int:
    """The address of the first element."""
    return _address(concrete(input, "data_ptr()"))


def nbytes(input: Any) -> int:
    """Bytes of all elements."""
    return numel(input) * element_size(input)


for _name, _answer in {
    "numel": numel, "nelement": numel, "size": size, "dim": dim, "ndimension": dim, "stride": stride,
    "storage_offset": storage_offset, "element_size": element_size, "is_contiguous": is_contiguous,
    "data_ptr": data_ptr,
}.items():  # fmt: skip
    attach(_name, _answer)
Tensor.nbytes = property(nbytes)  # type: ignore[attr-defined]
Tensor.itemsize = property(element_size)  # type: ignore[attr-defined]


def is_floating_point(input: Any) -> bool:
    """Whether the elements are floating point numbers.

    >>> import pellucid as torch
    >>> torch.is_floating_point(torch.zeros(1))
    True
    """
    return bool(input.dtype.is_floating_point)


def is_complex(input: Any) -> bool:
    """Whether the elements are complex numbers.

    >>> import pellucid as torch
    >>> torch.is_complex(torch.zeros(1))
    False
    """
    return bool(input.dtype.is_complex)


def is_signed(input: Any) -> bool:
    """Whether the elements can be negative.

    >>> import pellucid as torch
    >>> torch.tensor([1], dtype=torch.uint8).is_signed()
    False
    """
    return bool(input.dtype.is_signed)


for _question in (is_floating_point, is_complex, is_signed):
    attach(_question.__name__, _question)


# --- in-place changes of shape: the tensor itself becomes the view


def reshaped_in_place(function: Callable[..., Any], name: str) -> None:
    """Attach `name`: the view that `function` makes takes the tensor's own place.

    A tensor that was no view hands its memory and history to a hidden base, so that its earlier views stay valid.
    """

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self, name)
        leaf = isinstance(self.node, Leaf)
        base = self
        if self.window is None and not leaf:
            base = wrap(self.array, self.node, self.cut)
        with modes.switched(grad=True):
            result = function(base, *args, **kwargs)
        self.array = result.array
        if leaf:  # under no_grad: it stays the leaf it was, in another shape
            self.node.shape = result.array.shape  # type: ignore[union-attr]
        else:
            self.node, self.window = result.node, result.window
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of `{function.__name__}`: the tensor itself gets the new shape."
    attach(name, method)


for _function in (squeeze, unsqueeze, transpose, t):
    reshaped_in_place(_function, f"{_function.__name__}_")
reshaped_in_place(transpose, "swapaxes_")
reshaped_in_place(transpose, "swapdims_")
reshaped_in_place(as_strided, "as_strided_")
