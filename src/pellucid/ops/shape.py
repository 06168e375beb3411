"""Shape operations: the same elements, seen differently. Most are views; their derivatives undo the step."""

from typing import Any

import numpy as np

from pellucid.core.primitive import BOUND, constant, multilinear
from pellucid.core.record import bind
from pellucid.ops.operation import call, publish

Axes = tuple[int, ...]


def _broadcast(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A writable zero-stride view: np.broadcast_to costs three times as much and is read-only."""
    if a.size == 1 and a.ndim <= len(shape):
        return np.ndarray(shape, a.dtype, a, 0, (0,) * len(shape))
    if a.shape == shape:
        return a[...]
    extra = len(shape) - a.ndim
    if extra < 0 or any(n not in (1, m) for n, m in zip(a.shape, shape[extra:], strict=True)):
        raise ValueError(f"shape {a.shape} cannot be expanded to {shape}")
    strides = (0,) * extra + tuple(
        s if n == m else 0 for s, n, m in zip(a.strides, a.shape, shape[extra:], strict=True)
    )
    return np.ndarray(shape, a.dtype, a, 0, strides) if a.flags.c_contiguous else np.broadcast_to(a, shape)


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


reshape_row = bind(
    multilinear(
        "reshape", lambda a, shape: a.reshape(shape),
        lambda g, a_shape, shape: reshape_row(g, a_shape),
        view=True, lower="view", grad_name="ViewBackward0",
        batch=lambda op, a, shape: op(a, (a.shape[0], *shape)),
    )
)  # fmt: skip

permute_row = bind(
    multilinear(
        "permute", lambda a, axes: a.transpose(axes),
        lambda g, axes: permute_row(g, tuple(int(i) for i in np.argsort(axes))),
        view=True, lower="view",
        batch=lambda op, a, axes: op(a, (0, *(i + 1 for i in axes))),
    )
)  # fmt: skip

# One basic index: slices, integers, None and Ellipsis, as NumPy understands them.
slice_row = bind(
    multilinear(
        "slice", lambda a, index: a[index],
        lambda g, a_shape, index: unslice_row(g, a_shape, index),
        view=True, lower="view",
        batch=lambda op, a, index: op(a, (slice(None), *index)),
    )
)  # fmt: skip


def _unslice(g: np.ndarray, shape: tuple[int, ...], index: Any) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    out[index] = g
    return out


unslice_row = bind(
    multilinear(
        "unslice", _unslice, lambda g, shape, index: slice_row(g, index),
        batch=lambda op, g, shape, index: op(g, (g.shape[0], *shape), (slice(None), *index)),
    )
)  # fmt: skip


def _write_view(a: np.ndarray, b: np.ndarray, steps: Any) -> np.ndarray:
    out = a.copy()
    part = out
    for step, params in steps:
        part = step.forward(part, *params)
    part[...] = b
    return out


def _look(g: Any, steps: Any) -> Any:
    for step, params in steps:
        g = BOUND[step.name](g, *params)
    return g


zeros_like_row = bind(constant("zeros_like", np.zeros_like, 1, batch=lambda op, a: op(a)))

# What an in-place operation on a view does to the base: the base with this part replaced.
write_view_row = bind(
    multilinear(
        "write_view", _write_view,
        lambda g, b_shape, steps: write_view_row(g, zeros_like_row(_look(g, steps)), steps),
        lambda g, steps: _look(g, steps),
        grad_name="CopySlices",
    )
)  # fmt: skip


def _astype(a: np.ndarray, dtype: np.dtype, source: np.dtype) -> np.ndarray:
    return (a.real if a.dtype.kind == "c" and dtype.kind != "c" else a).astype(dtype)


cast_row = bind(
    multilinear(
        "cast", _astype, lambda g, dtype, source: cast_row(g, source, dtype),
        grad_name="ToCopyBackward0", batch=lambda op, a, dtype, source: op(a, dtype, source),
    )
)  # fmt: skip


def reshape(input: Any, *shape: Any) -> Any:
    """The same elements in another shape; one size may be -1.

    >>> import pellucid as torch
    >>> torch.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return reshape_row(input, tuple(int(n) for n in sizes))


publish(reshape, samples=lambda draw: [call(draw(2, 3), (3, 2)), call(draw(2, 3), (-1,)), call(draw(), (1, 1))])
