"""Shape operations: the same elements in the same order, in other dimensions: reshape, view, flatten, squeeze.

All are views whenever the strides allow it; the derivative reshapes back. Rows that do the same and differ in name
only (PyTorch names a node after the call that made it) are made by one function, `reshaping`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.inplace import check_writable
from pellucid.core.primitive import constant, multilinear
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Leaf, Tensor, wrap
from pellucid.ops.arguments import INTEGERS, Row, Shape, axes_of, axis_of, one_or_several, refusal, sizes_of
from pellucid.ops.convert import clone_row
from pellucid.ops.layout import lying, stride
from pellucid.ops.operation import LAYOUT_DECIDES, Draw, Sample, call, operation, publish


def _reshape(a: ndarray, shape: Shape) -> ndarray:
    try:
        return a.reshape(shape)
    except ValueError:
        _resolved(shape, a.size)  # says what is wrong
        raise


def reshaping(name: str, grad_name: str, view: bool = True) -> Row:
    """A row (a, shape) that keeps the order of the elements; a view whenever the strides allow it."""
    return bind(
        multilinear(
            name, _reshape, lambda g, a_shape, shape: reshape_row(g, a_shape),
            view=view, lower="view", grad_name=grad_name,
            batch=lambda op, a, shape: op(a, (a.shape[0], *shape)),
        )
    )  # fmt: skip


reshape_row = reshaping("reshape", "ViewBackward0")
unsafe_view_row = reshaping("unsafe_view", "UnsafeViewBackward0", view=False)  # of a copy that nobody else has
unsqueeze_row = reshaping("unsqueeze", "UnsqueezeBackward0")
SQUEEZE_ROWS = tuple(reshaping(f"squeeze{form}", f"SqueezeBackward{form}") for form in range(3))

zeros_like_row = bind(constant("zeros_like", np.zeros_like, 1, batch=lambda op, a: op(a)))


def aligned(a: Any, rank: int) -> Any:
    """For a batched array: axes of size 1 behind the batch axis, so that `rank` axes follow it."""
    missing = rank + 1 - a.ndim
    return a if missing <= 0 else reshape_row(a, (a.shape[0], *(1,) * missing, *a.shape[1:]))


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
        why = None if -1 in sizes else f"{list(sizes)} has room for {math.prod(sizes)} elements, not for {count}"
        raise refusal(RuntimeError, f"shape '{list(sizes)}' is invalid for input of size {count}", why)
    return sizes


def _requested(input: Any, shape: tuple[Any, ...]) -> Shape:
    """The sizes that a call of reshape or view asks for; NumPy finds out whether known sizes fit."""
    sizes = shape[0] if len(shape) == 1 and type(shape[0]) is tuple else shape
    if not INTEGERS.issuperset(map(type, sizes)):
        sizes = sizes_of(shape)
    return _resolved(sizes, math.prod(input.shape)) if sizes and min(sizes) < 0 else sizes


def _shape_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 3), (3, 2)), call(draw(2, 3), (-1,)), call(draw(), (1, 1)), call(draw(6), (2, -1)),
        call(draw(2, 0), (0, 5)), call(draw(1), ()), call(draw(2, 3, 4), (6, 4)), call(draw(2, 3, 4), (2, 12)),
        call(draw(4), (4,)), call(draw(0), (3, 0)),
    ]  # fmt: skip


def reshape(input: Any, *sizes: Any, shape: Any = None) -> Any:
    """The same elements in another shape; one size may be -1. A view if possible, else a copy.

    >>> import pellucid as torch
    >>> torch.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    sizes = _requested(input, sizes if shape is None else (shape,))
    array = getattr(input, "array", None)
    if isinstance(array, ndarray) and not array.flags.c_contiguous and not _is_view(array, sizes):
        return unsafe_view_row(clone_row(input, "C"), sizes)
    return reshape_row(input, sizes)


def _is_view(array: ndarray, sizes: Shape) -> bool:
    """Whether a reshape can be had without a copy."""
    return array.size == 0 or np.may_share_memory(array.reshape(sizes), array)


publish(reshape, samples=_shape_samples)


@operation(samples=_shape_samples, reference="", name="view", unclaimed=LAYOUT_DECIDES)
def view(input: Any, *shape: Any, size: Any = None, dtype: Any = None) -> Any:
    """The same memory in another shape, or (given a dtype) read as elements of another type.

    >>> import pellucid as torch
    >>> torch.arange(4).view(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if size is not None or dtype is not None:
        shape = (dtype if size is None else size,)
    if len(shape) == 1 and isinstance(shape[0], dtypes.dtype):
        return _reinterpret(input, shape[0].numpy)
    sizes = _requested(input, shape)
    array = lying(getattr(input, "array", None))
    if array is not None and not array.flags.c_contiguous and not _is_view(array, sizes):
        raise refusal(
            RuntimeError,
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead.",
            f"shape {array.shape} with strides {stride(input)} cannot become {sizes} without a copy",
            "x.reshape(...), or x.contiguous().view(...)",
        )
    return reshape_row(input, sizes)


reinterpret_row = bind(constant("view_dtype", lambda a, dtype: a.view(dtype), 1, view=True))


def _check_bytes(input: Any, source: np.dtype, dtype: np.dtype) -> None:
    """Refuse to look at memory as elements of another size where these would not lie in rows."""
    several = dtype.itemsize // source.itemsize
    steps = stride(input)
    for place, wrong in (
        ("dim() cannot be 0", not input.ndim),
        ("stride(-1) must be 1", input.ndim and steps[-1] != 1),
        (f"size(-1) must be divisible by {several}", several > 1 and input.ndim and input.shape[-1] % several),
        *(
            (f"stride({i}) must be divisible by {several}", several > 1 and n % several)
            for i, n in enumerate(steps[:-1])
        ),
    ):
        if wrong:
            raise refusal(RuntimeError, f"self.{place} to view {source} as {dtype} (different element sizes)")


def _reinterpret(input: Any, dtype: np.dtype) -> Any:
    source = np.dtype(input.array.dtype)
    if source.itemsize != dtype.itemsize:
        _check_bytes(input, source, dtype)
    return input[...] if source == dtype else reinterpret_row(input, dtype)


def _other_shape_samples(draw: Draw) -> list[Sample]:
    pairs = [
        ((2, 3), (3, 2)), ((1,), ()), ((6,), (2, 3)), ((2, 3, 4), (6, 4)), ((), (1, 1)), ((0,), (3, 0)),
        ((2, 0), (0, 5)), ((4,), (4,)), ((2, 2), (4,)), ((1, 3), (3, 1, 1)),
    ]  # fmt: skip
    return [call(draw(*shape), draw(*other)) for shape, other in pairs]


@operation(samples=_other_shape_samples, reference="", unclaimed=LAYOUT_DECIDES)
def view_as(input: Any, other: Any) -> Any:
    """View a tensor in the shape of another.

    >>> import pellucid as torch
    >>> torch.zeros(4).view_as(torch.ones(2, 2)).shape
    torch.Size([2, 2])
    """
    return view(input, tuple(other.shape))


@operation(samples=_other_shape_samples, reference="")
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


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw()), call(draw(3)), call(draw(2, 0)), call(draw(2, 1, 2)), call(draw(0)),
        call(draw(1, 1)), call(draw(2, 3).mT), call(draw(2, 2, 2)), call(draw(1)),
    ],
)  # fmt: skip
def ravel(input: Any) -> Any:
    """All elements in one dimension.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).ravel().shape
    torch.Size([6])
    """
    return reshape(input, -1) if math.prod(input.shape) else reshape(input, 0)


@operation(
    samples=lambda draw: [
        call(draw(6), 0, (2, 3)), call(draw(2, 6), 1, (3, -1)), call(draw(6, 2), -2, (6, 1)),
        call(draw(4), 0, [2, 2]), call(draw(2, 0), 1, (0, 3)), call(draw(2, 3, 4), -1, (2, 2)),
        call(draw(4), -1, (-1,)), call(draw(1), 0, (1, 1, 1)), call(draw(2, 6).mT, 0, (2, 3)),
        call(draw(8), 0, (2, 2, 2)),
    ],
)  # fmt: skip
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several.

    >>> import pellucid as torch
    >>> torch.zeros(2, 6).unflatten(1, (3, 2)).shape
    torch.Size([2, 3, 2])
    """
    axis = axis_of(dim, input.ndim)
    shape = tuple(input.shape)
    if not shape:
        raise refusal(RuntimeError, "unflatten: a tensor without dimensions has none to split")
    if not len(sizes):
        raise refusal(RuntimeError, "unflatten: sizes must be non-empty")
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
def squeeze(input: Any, *axes: Any, dim: Any = None) -> Any:
    """Leave out dimensions of size 1: all of them, or those named.

    >>> import pellucid as torch
    >>> torch.zeros(1, 3, 1).squeeze(0).shape
    torch.Size([3, 1])
    """
    shape, dim = tuple(input.shape), one_or_several(axes, dim)
    gone = range(len(shape)) if dim is None else axes_of(dim, len(shape))
    row = SQUEEZE_ROWS[0 if dim is None else 2 if isinstance(dim, (tuple, list)) else 1]
    return row(input, tuple(n for i, n in enumerate(shape) if n != 1 or i not in gone))


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


def _at_least(name: str, grow: Callable[[Any], Any]) -> Callable[..., Any]:
    """atleast_1d, atleast_2d, atleast_3d: of one tensor or of several."""

    def at_least(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return grow(tensors[0])
        return tuple(grow(x) for x in (tensors[0] if len(tensors) == 1 else tensors))

    at_least.__name__ = name
    return publish(
        at_least,
        samples=lambda draw: [
            call(draw()),
            call(draw(3)),
            call(draw(2, 3)),
            call(draw(1, 2, 3)),
            call(draw(0)),
            call(draw(2, 0)),
            call(draw(1)),
            call(draw(2, 3).mT),
            call(draw(1, 2, 1, 3)),
            call(draw(), draw(2)),
            call([draw(2), draw()]),
        ],
        methods=(),
        doc=f"""The tensor (or each of several) with at least {name[8]} dimensions.

    >>> import pellucid as torch
    >>> torch.{name}(torch.tensor(1.0)).ndim
    {name[8]}
    """,
    )


atleast_1d = _at_least("atleast_1d", lambda x: x if x.ndim else reshape(x, 1))
atleast_2d = _at_least("atleast_2d", lambda x: x if x.ndim > 1 else unsqueeze(x, 0) if x.ndim else reshape(x, (1, 1)))
atleast_3d = _at_least(
    "atleast_3d", lambda x: x if x.ndim > 2 else unsqueeze(atleast_2d(x), -1) if x.ndim else reshape(x, (1, 1, 1))
)


# --- in-place changes of shape: the tensor itself becomes the view


def reshaped_in_place(function: Callable[..., Any], name: str) -> None:
    """Attach `name`: the view that `function` makes takes the tensor's own place.

    A tensor that was no view hands its memory and history to a hidden base, so that its earlier views stay valid.
    """

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self, name, alike=True)  # no element is written, so they may share their memory
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


for _function in (squeeze, unsqueeze):
    reshaped_in_place(_function, f"{_function.__name__}_")
