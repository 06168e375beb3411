"""Copying forms of the views: `diagonal_copy` is `diagonal` with memory of its own. And slice, which they end with.

Each is the view and then a copy, so derivatives are those of the view.
"""

from collections.abc import Callable
from typing import Any

from pellucid import dtypes
from pellucid.core.tensor import bearing
from pellucid.core.views import current_node
from pellucid.ops.arguments import ALL, axis_of, refusal
from pellucid.ops.axes import permute, t, transpose
from pellucid.ops.complex_numbers import view_as_complex, view_as_real
from pellucid.ops.convert import clone_row
from pellucid.ops.diagonal import diagonal
from pellucid.ops.expand import expand
from pellucid.ops.operation import COMPOSED, LAYOUT_DECIDES, OPERATIONS, Draw, Sample, call, operation, publish
from pellucid.ops.shape import reshape, squeeze, unsqueeze, view
from pellucid.ops.slicing import alias_row, narrow, select, slice_row
from pellucid.ops.split import split, split_with_sizes, unbind
from pellucid.ops.strided import as_strided, unfold


@operation(
    samples=lambda draw: [
        call(draw(5)), call(draw(5, 2), 0, 1, 4), call(draw(2, 5), 1, 0, 5, 2), call(draw(5), 0, -3, -1),
        call(draw(5), start=2), call(draw(5), end=9), call(draw(2, 0), 1), call(draw(5), 0, 4, 2),
    ],
    methods=(), reference="torch.ops.aten.slice",
)  # fmt: skip
def slice(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Every `step`-th element from `start` to before `end` along a dimension: a view. PyTorch's aten.slice.

    >>> import pellucid as torch
    >>> torch.slice(torch.arange(6), 0, 1, 5, 2)
    tensor([1, 3])
    """
    return slice_row(input, slice_index(input, dim, start, end, step))


def slice_index(input: Any, dim: int, start: int | None, end: int | None, step: int) -> tuple[Any, ...]:
    """The index of a slice along one dimension."""
    if not input.ndim:
        raise refusal(RuntimeError, "slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise refusal(RuntimeError, "slice step must be positive")
    return (*(ALL,) * axis_of(dim, input.ndim), builtin_slice(start, end, step), ...)


builtin_slice = type(ALL)


def _alias(input: Any) -> Any:
    return alias_row(input, (...,))


def _expand(input: Any, size: Any, *, implicit: bool = False) -> Any:
    return expand(input, tuple(size))


def _view(input: Any, size: Any) -> Any:
    """A copy can have any shape, whatever the strides."""
    return view(input, size) if isinstance(size, dtypes.dtype) else reshape(input, tuple(size))


def _copied(result: Any) -> Any:
    """A copy, whose node bears the view's name and says that it copies."""
    if isinstance(result, tuple):
        return tuple(_copied(part) for part in result)
    copy, node = clone_row(result, "C"), current_node(result)
    return copy if node is None else bearing(f"{node.name()}_copy", copy)


def _copying(
    look: Callable[..., Any], samples: Any = None, methods: tuple[str, ...] = (), unclaimed: dict[str, str] = COMPOSED
) -> Callable[..., Any]:
    """Publish the copying form of a view."""
    original = look.__name__.strip("_")

    def copying(*args: Any, **kwargs: Any) -> Any:
        return _copied(look(*args, **kwargs))

    copying.__name__ = copying.__qualname__ = f"{original}_copy"
    doc = f"`{original}` with memory of its own: a copy, not a view."
    return publish(
        copying, samples=samples or OPERATIONS[original].samples, methods=methods, doc=doc, unclaimed=unclaimed
    )


def _plain_samples(draw: Draw) -> list[Sample]:
    return [call(draw(2, 3)), call(draw()), call(draw(0)), call(draw(3, 2).mT), call(draw.complex(2)), call(draw(1, 3))]


def _expand_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(1, 3), (2, 3)), call(draw(1, 3), (2, -1)), call(draw(), (2, 2)), call(draw(1), (0,)),
        call(draw(2, 1), [2, 4]), call(draw(2, 3), (-1, -1)), call(draw(), ()),
    ]  # fmt: skip


def _narrow_samples(draw: Draw) -> list[Sample]:
    """Without a negative start, of which PyTorch loses the gradient."""
    return [call(draw(4, 3), 0, 1, 2), call(draw(4, 3), 1, 0, 3), call(draw(4), 0, 4, 0), call(draw(3, 4).mT, -2, 1, 2)]


def _split_samples(draw: Draw) -> list[Sample]:
    return [call(draw(5, 2), 2), call(draw(2, 5), 2, 1), call(draw(4), 9), call(draw(0), 1), call(draw(3, 4).mT, 3)]


def _complex_samples(draw: Draw) -> list[Sample]:
    return [call(draw.complex(2, 3)), call(draw.complex()), call(draw.complex(3, 1))]


def _pair_samples(draw: Draw) -> list[Sample]:
    """Without gradients, which PyTorch has none of here."""
    return [call(draw(3, 2).detach()), call(draw(2).detach()), call(draw(1, 3, 2).detach())]


def _unfold_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(7), 0, 3, 2), call(draw(2, 5), 1, 2, 1), call(draw(5, 2), 0, 5, 1), call(draw(), 0, 1, 1),
        call(draw(5, 3).mT, 1, 2, 2), call(draw(2, 0), 0, 1, 1),
    ]  # fmt: skip


alias_copy = _copying(_alias, _plain_samples)
as_strided_copy = _copying(as_strided, unclaimed=COMPOSED | LAYOUT_DECIDES)
diagonal_copy = _copying(diagonal)
expand_copy = _copying(_expand, _expand_samples)
narrow_copy = _copying(narrow, _narrow_samples, methods=("narrow_copy",))
permute_copy = _copying(permute)
select_copy = _copying(select)
slice_copy = _copying(slice)
split_copy = _copying(split, _split_samples)
split_with_sizes_copy = _copying(split_with_sizes)
squeeze_copy = _copying(squeeze)
t_copy = _copying(t)
transpose_copy = _copying(transpose)
unbind_copy = _copying(unbind)
unfold_copy = _copying(unfold, _unfold_samples)
unsqueeze_copy = _copying(unsqueeze)
view_copy = _copying(_view)
view_as_real_copy = _copying(view_as_real, _complex_samples)
view_as_complex_copy = _copying(view_as_complex, _pair_samples, unclaimed=COMPOSED | LAYOUT_DECIDES)


@operation(samples=_plain_samples, methods=(), reference="")
def detach_copy(input: Any) -> Any:
    """A copy without history.

    >>> import pellucid as torch
    >>> torch.detach_copy(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    return clone_row(input.detach(), "C")
