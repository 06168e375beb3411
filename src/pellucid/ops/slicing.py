"""Basic indexing: slices, integers, None and Ellipsis, as NumPy understands them; narrow and select.

A basic index gives a view. Its adjoint, `unslice`, puts a gradient into zeros of the input's shape; `write_view` is
what an in-place operation on a view does to the base: the base with this part replaced.
"""

from collections.abc import Sequence
from operator import index as as_int
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core import aliasing
from pellucid.core.primitive import BOUND, Primitive, general, multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.core.views import looked_up
from pellucid.ops.arguments import ALL, Row, Shape, axis_of, refusal
from pellucid.ops.operation import call, operation
from pellucid.ops.shape import zeros_like_row


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
    if "empty axes" in what:
        what = "index is out of bounds for dimension with size 0"
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


def _write_view(a: ndarray, b: ndarray, steps: Any) -> ndarray:
    out = a.copy()
    part = looked_up(out, steps)
    if aliasing.owner_of(part) is out:
        part[...] = b
    else:  # in this layout a step had to copy: ask the steps where each element comes from
        places = looked_up(np.arange(a.size).reshape(a.shape), steps)
        out.reshape(-1)[places] = b
    return out


write_view_row = bind(
    jointly_linear(
        "write_view", _write_view,
        lambda g, b_shape, steps: write_view_row(g, zeros_like_row(looked_up(g, steps)), steps),
        lambda g, steps: looked_up(g, steps),
        grad_name="CopySlices",
    )
)  # fmt: skip


# --- narrow and select


@operation(
    samples=lambda draw: [
        call(draw(4, 3), 0, 1, 2), call(draw(4, 3), 1, 0, 3), call(draw(4), -1, -3, 2), call(draw(4), 0, 4, 0),
        call(draw(2, 3, 4), 2, 1, 1), call(draw(4, 3), -2, 1, 1), call(draw(4), 0, 0, 4), call(draw(4, 0), 0, 1, 2),
        call(draw(3, 4).mT, 0, 1, 2), call(draw(2, 3, 4), -1, -1, 1),
    ],
)  # fmt: skip
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """The part of a tensor from `start`, `length` long, along one dimension: a view.

    >>> import pellucid as torch
    >>> torch.arange(5).narrow(0, 1, 2)
    tensor([1, 2])
    """
    if not input.ndim:
        raise refusal(RuntimeError, "narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start.ndim or start.array.dtype.kind not in "iu"):
        raise refusal(RuntimeError, "start must be an 0-dim integral Tensor.", f"it is {start.dtype}, {start.ndim}-d")
    if isinstance(start, (bool, float)):
        raise refusal(TypeError, f"narrow(): argument 'start' must be int or Tensor, not {type(start).__name__}")
    axis, begin = axis_of(dim, input.ndim), int(start)
    size = input.shape[axis]
    if not -size <= begin <= size:
        raise refusal(IndexError, f"start out of range (expected to be in range of [{-size}, {size}], but got {begin})")
    begin += size if begin < 0 else 0
    if length < 0:
        raise refusal(RuntimeError, "narrow(): length must be non-negative.")
    if begin + length > size:
        raise refusal(RuntimeError, f"start ({begin}) + length ({length}) exceeds dimension size ({size}).")
    return slice_row(input, (*(ALL,) * axis, slice(begin, begin + length), ...))


@operation(
    samples=lambda draw: [
        call(draw(4, 3), 0, 1), call(draw(4, 3), 1, -1), call(draw(4), 0, 2), call(draw(2, 3, 4), -1, 0),
        call(draw(4, 3), -2, 3), call(draw(2, 0), 0, 1), call(draw(1), 0, 0), call(draw(2, 3, 4), 1, -3),
        call(draw(3, 4).mT, 0, 1), call(draw(2, 2, 2), -3, 1),
    ],
)  # fmt: skip
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
