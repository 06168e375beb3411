"""Max pooling: the largest element of every window, with its index."""

from typing import Any

import numpy as np

from pellucid.core.flags import Truth
from pellucid.core.kinds import plain
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.along import bare
from pellucid.ops.arguments import expect, refuse
from pellucid.ops.nn.windows import windows_of
from pellucid.ops.nn.winners import lowest, pick_row, picking, spread, spread_row, window_index_row
from pellucid.ops.operation import Draw, Sample, call, named, operation, publish
from pellucid.ops.shape import zeros_like_row

F = "torch.nn.functional"

# PyTorch pools one dimension as two, and squeezes.
ROWS = {
    1: picking("max_pool1d_with_indices", "SqueezeBackward1"),
    2: picking("max_pool2d_with_indices", "MaxPool2DWithIndicesBackward0"),
    3: picking("max_pool3d_with_indices", "MaxPool3DWithIndicesBackward0"),
}


def refuse_kinds(name: str, input: Any, kinds: str) -> None:
    """Refuse dtypes that PyTorch has no kernel for."""
    refuse(input, kinds, f"\"{name}\" not implemented for '{{}}'", NotImplementedError)


def _pooled(rank: int, input: Any, *how: Any) -> tuple[Any, Any]:
    """The largest elements and their indices."""
    name = f"max_pool{rank}d"
    windows = windows_of(name, input, rank, *how)
    refuse_kinds(name, input, "bc")
    index = window_index_row(bare(input), windows)
    values = ROWS[rank](input, index, rank)
    if max(windows.dilation) > 1:
        empty = windows.empty(tuple(input.shape[-rank:]))
        values = values.masked_fill(wrap(empty), lowest(plain(input.array.dtype))) if empty.any() else values
    return values, index


def _samples(rank: int, count: int = 8) -> Any:
    shape = (5, 6, 4)[:rank]
    lead, long = (1,) * (rank - 1), (9,) if rank == 1 else (5,) * rank

    def samples(draw: Draw) -> list[Sample]:
        return [
            call(draw(2, 1, *shape), 2), call(draw(2, *shape), 3, 2, 1), call(draw(1, 2, *shape), 2, 1),
            call(draw(1, *long), 3, stride=2, ceil_mode=True), call(draw(1, *long), (*lead, 2), dilation=2),
            call(draw(1, *long), 3, 3, padding=1, dilation=1, ceil_mode=True), call(draw(0, 2, *shape), 2),
            call(draw(1, *long), [2], [3]),
        ][:count]  # fmt: skip

    return samples


EXAMPLES = {
    1: ("torch.tensor([[1.0, 3.0, 2.0, 0.0]])", "{}3., 2.{}"),
    2: ("torch.arange(4.0).reshape(1, 2, 2)", "{}3.{}"),
    3: ("torch.arange(8.0).reshape(1, 2, 2, 2)", "{}7.{}"),
}


def example(function: str, rank: int, shown: str) -> str:
    """The example of a pooling function, ready for its documentation."""
    return f"""

    >>> import pellucid as torch
    >>> torch.nn.functional.{function}({EXAMPLES[rank][0]}, 2)
    {shown}
    """


def _max_pool(rank: int) -> Any:
    """The public function for `rank` spatial dimensions."""

    def max_pool(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: Truth = False,
    ) -> Any:  # fmt: skip
        values, index = _pooled(rank, input, kernel_size, stride, padding, dilation, ceil_mode)
        return (values, index) if return_indices else values

    name = f"max_pool{rank}d"
    values = f"tensor({EXAMPLES[rank][1].format('[' * (rank + 1), ']' * (rank + 1))})"
    return publish(
        named(max_pool, name), module=F, aliases=(f"torch.{name}",), samples=_samples(rank),
        doc=f"The largest element of every window over the last {rank} dimensions." + example(name, rank, values),
    )  # fmt: skip


def _max_pool_with_indices(rank: int) -> Any:
    def max_pool_with_indices(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: Truth = False,
    ) -> Any:  # fmt: skip
        return _pooled(rank, input, kernel_size, stride, padding, dilation, ceil_mode)

    name = f"max_pool{rank}d_with_indices"
    brackets = "[" * (rank + 1), "]" * (rank + 1)
    index = {1: "1, 2", 2: "3", 3: "7"}[rank]
    shown = f"(tensor({EXAMPLES[rank][1].format(*brackets)}), tensor({brackets[0]}{index}{brackets[1]}))"
    return publish(
        named(max_pool_with_indices, name), module=F, samples=_samples(rank, 3),
        aliases=(f"torch.{name}",) if rank == 1 else (),
        doc=f"The largest element of every window over the last {rank} dimensions, and the number of each in its plane."
        + example(name, rank, shown),
    )  # fmt: skip


max_pool1d, max_pool2d, max_pool3d = (_max_pool(rank) for rank in (1, 2, 3))
max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = (
    _max_pool_with_indices(rank) for rank in (1, 2, 3)
)


def _push(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    return zeros_like_row(y) if tangents[0] is None else spread_row(tangents[0], inputs[2], *params)


# In PyTorch the result depends on the input too, with a derivative of zero.
backward_row = bind(
    general(
        "max_pool2d_with_indices_backward", lambda a, b, c, plane: spread(a, c, plane),
        lambda g, c, plane: pick_row(g, c, len(plane)), lambda g, plane: zeros_like_row(g), None, jvp=_push,
        grad_name="MaxPool2DWithIndicesBackwardBackward0", batch=lambda op, *how: op(*how),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(1, 2, 2), draw(1, 4, 4), 2, 2, 0, 1, False, wrap(np.array([[[0, 2], [13, 15]]]))),
        call(draw(1, 1, 2, 2), draw(1, 1, 4, 4), [3], [1], [0], [1], False, wrap(np.array([[[[5, 5], [9, 10]]]]))),
    ],
    methods=(), reference="torch.ops.aten.max_pool2d_with_indices_backward",
)  # fmt: skip
def max_pool2d_with_indices_backward(
    grad_output: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Truth,
    indices: Any,
) -> Any:  # fmt: skip
    """The gradient of max_pool2d: each element of grad_output added to the place that its index names.

    >>> import pellucid as torch
    >>> picture, index = torch.zeros(1, 2, 2), torch.tensor([[[3]]])
    >>> torch.max_pool2d_with_indices_backward(torch.ones(1, 1, 1), picture, 2, 2, 0, 1, False, index)
    tensor([[[0., 0.],
             [0., 1.]]])
    """
    windows = windows_of("max_pool2d", input, 2, kernel_size, stride, padding, dilation, ceil_mode)
    wanted = [*input.shape[:-2], *windows.sizes]
    for what, given in (("grad_output", grad_output), ("indices", indices)):
        expect(list(given.shape) == wanted, f"Expected {what} of size {wanted}, but got {list(given.shape)}")
    return backward_row(grad_output, input, indices, tuple(input.shape[-2:]))
