"""Backward: the user's own is run, and what it returns is fitted to what forward was given."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import exposure, modes
from pellucid.core.backward import expands_to, summed_to
from pellucid.core.function import wrong_backward
from pellucid.core.function.context import Call, FunctionCtx, Result, alive, saved_tensors
from pellucid.core.hooks import as_tensor
from pellucid.core.kinds import Kind, plain
from pellucid.core.primitive import BOUND
from pellucid.core.tensor import Node, Tensor, wrap
from pellucid.core.views import current_array


def pull_back(g: Any, kept: tuple[Any, ...], ctx: FunctionCtx) -> list[Any]:
    """The pullback of every custom operation: run the user's backward and check what it returns."""
    call = ctx._call
    parts = list(g) if call.outputs is not None else [g]
    create_graph = any(isinstance(part, Tensor) for part in parts)
    node = call.node() if call.node is not None else None
    assert node is not None
    incoming = _incoming(call, node, parts)
    with modes.recording(create_graph), alive(call, saved_tensors(call, node, kept)):
        fitting = fitted(ctx, call.function._run_backward(ctx, incoming))
        pairs = zip(fitting, call.inputs, strict=True)
        grads = [_of_this_walk(d, incoming) for d, given in pairs if given is not None]
    exposure.user_code_ran()
    return grads if create_graph else [None if d is None else current_array(d) for d in grads]


def _incoming(call: Call, node: Node, parts: Sequence[Any]) -> list[Tensor | None]:
    """The gradients as backward takes them: Tensors, zeros for those that did not arrive."""
    results = call.outputs if call.outputs is not None else ((node.shape or (), np.dtype(np.float32)),)
    return [
        as_tensor(part) if part is not None else _zeros(result) if call.materialize else None
        for part, result in zip(parts, results, strict=True)
    ]


def _zeros(result: Result | None) -> Tensor | None:
    return None if result is None else wrap(np.zeros(result[0], plain(result[1])))


def _of_this_walk(d: Tensor | None, incoming: Sequence[Tensor | None]) -> Tensor | None:
    """A gradient with the marks of those that came in: inside a transform they tell that it must leave again.

    Backward may have made it of saved values and zeros alone, which bear none.
    """
    if d is None or not isinstance(d.array, Kind):
        return d
    for g in incoming:
        if g is not None and isinstance(g.array, Kind):
            d = d + BOUND["keep"](BOUND["sum"](g, tuple(range(g.array.ndim)), False), NOWHERE)
    return d


NOWHERE = np.zeros((), bool)


def fitted(ctx: FunctionCtx, returned: Any) -> list[Tensor | None]:
    """What backward returned for each argument of forward, if it fits; for those that need no gradient None."""
    call = ctx._call
    values = returned if isinstance(returned, tuple) else (returned,)
    count = len(call.inputs)
    surplus = values[count:]
    if len(values) < count or any(value is not None for value in surplus):
        raise RuntimeError(wrong_backward.wrong_count(call, len(values)))
    grads: list[Tensor | None] = []
    for i, (value, given) in enumerate(zip(values, call.inputs, strict=False)):
        if value is not None and not isinstance(value, Tensor):
            raise RuntimeError(wrong_backward.not_a_tensor(call, i, value))
        if value is not None and given is None:
            raise RuntimeError(wrong_backward.for_no_tensor(call, i))
        if value is None or given is None or not ctx.needs_input_grad[i]:
            grads.append(None)
        else:
            grads.append(_fitted(call, i, value, given))
    return grads


def _fitted(call: Call, index: int, value: Tensor, given: Result) -> Tensor:
    """A gradient in the argument's dtype and shape: summed over what was broadcast, as published code relies on."""
    shape, got = given[0], tuple(value.array.shape)
    dtype, own = (dtypes.from_numpy_dtype(d) for d in (given[1], value.array.dtype))
    if not own.is_floating_point and own.is_complex != dtype.is_complex:
        raise RuntimeError(wrong_backward.wrong_kind(call, index, own, dtype))
    if got != shape:
        if not expands_to(shape, got):
            raise RuntimeError(wrong_backward.wrong_shape(call, index, got, shape))
        value = summed_to(value, shape)
    if own is dtype:
        return value
    cast: Tensor = BOUND["cast"](value, dtype.numpy, own.numpy)
    return cast
