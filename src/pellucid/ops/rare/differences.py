"""torch.gradient: the derivative of a function that is known on a grid."""

from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import ALL, Axes, axes_of, expect, refusal, refuse
from pellucid.ops.join import cat
from pellucid.ops.operation import COMPOSED, call, operation
from pellucid.ops.scan import diff
from pellucid.ops.shape import reshape
from pellucid.ops.slicing import slice_row


@operation(
    samples=lambda draw: [
        call(draw(5)), call(draw(3, 4)), call(draw(3, 4), spacing=2.0), call(draw(3, 4), dim=1),
        call(draw(3, 4), spacing=[0.5, 2.0], edge_order=2), call(draw(2, 3, 4), dim=(0, -1), spacing=(1, 3.0)),
        call(draw(3, 4), spacing=[wrap(np.array([0.0, 0.5, 2.0])), wrap(np.array([-1.0, 0.0, 0.5, 2.5]))]),
        call(draw(4), spacing=(wrap(np.array([0.0, 0.5, 2.0, 2.5])),), edge_order=2), call(draw.complex(3, 3)),
    ],
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Any, ...]:
    """The derivative along each dimension, by differences of neighbours; one-sided at the edges.

    `spacing` is the distance of neighbours, one for all dimensions or one for each, or the coordinates along each.

    >>> import pellucid as torch
    >>> torch.gradient(torch.tensor([0.0, 1.0, 4.0, 9.0]))
    (tensor([1., 2., 4., 5.]),)
    """
    refuse(input, "u", "torch.gradient does not support uint8 input.")
    axes = tuple(range(input.ndim)) if dim is None else axes_of(dim, input.ndim)
    steps = _steps(spacing, axes)
    expect(edge_order in (1, 2), "torch.gradient only supports edge_order=1 and edge_order=2.")
    what = "torch.gradient expected each dimension size to be at least edge_order+1"
    expect(all(input.shape[axis] > edge_order for axis in axes), what)
    return tuple(_along(input, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True))


def _steps(spacing: Any, axes: Axes) -> list[Any]:
    """A distance, or the coordinates, for each dimension."""
    if isinstance(spacing, Tensor):
        what = "gradient(): argument 'spacing' must be a number or a list, not Tensor"
        raise refusal(TypeError, what, try_="spacing=(coordinates,)")
    if not isinstance(spacing, (tuple, list)):
        return [1 if spacing is None else spacing] * len(axes)
    expect(
        len(spacing) == len(axes),
        "torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to the number of "
        f"dimensions {len(axes)}, but got a list of length {len(spacing)}",
    )
    for step in spacing:
        what = "torch.gradient expected each element of spacing to have one dimension"
        expect(not isinstance(step, Tensor) or step.ndim == 1, what)
    return list(spacing)


def _along(f: Any, axis: int, step: Any, edge_order: int) -> Any:
    def part(start: int | None, stop: int | None) -> Any:
        return slice_row(f, (*(ALL,) * axis, slice(start, stop), ...))

    if isinstance(step, Tensor):
        shape = (-1, *(1,) * (f.ndim - 1 - axis))
        gaps = reshape(diff(step), shape)
        before, after = gaps[:-1], gaps[1:]
        inner = _three(part(None, -2), part(1, -1), part(2, None), before, after)
        first, last = gaps[:1], gaps[-1:]
        second, second_last = gaps[1:2], gaps[-2:-1]
    else:
        inner = (part(2, None) - part(None, -2)) / (2 * step)
        first = last = second = second_last = step
    if edge_order == 1:
        begin, end = (part(1, 2) - part(0, 1)) / first, (part(-1, None) - part(-2, -1)) / last
    else:
        begin = _edge(part(0, 1), part(1, 2), part(2, 3), first, second)
        end = -_edge(part(-1, None), part(-2, -1), part(-3, -2), last, second_last)
    return cat([begin, inner, end], axis)


def _three(left: Any, middle: Any, right: Any, before: Any, after: Any) -> Any:
    """The slope of the parabola through three points, at the middle one."""
    both = before + after
    inner = left * (-after / (before * both)) + middle * ((after - before) / (before * after))
    return inner + right * (before / (after * both))  # added up in PyTorch's order: it rounds the same


def _edge(edge: Any, near: Any, far: Any, first: Any, second: Any) -> Any:
    """The slope of the parabola through three points, at the first one."""
    both = first + second
    others = near * (both / (first * second)) - far * (first / (second * both))
    return others - edge * ((first + both) / (first * both))
