"""Backward: the user's own is run, and what it returns is checked against what forward was given."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.function import wrong_backward
from pellucid.core.function.context import Call, FunctionCtx, Result, alive, saved_tensors
from pellucid.core.hooks import as_tensor
from pellucid.core.kinds import plain
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
    with modes.recording(create_graph), alive(call, saved_tensors(call, node, kept)):
        returned = call.function._run_backward(ctx, _incoming(call, node, parts))
    grads = checked(call, returned)
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


def checked(call: Call, returned: Any) -> list[Tensor | None]:
    """What backward returned for each tensor argument, if it fits the arguments of forward."""
    values = returned if isinstance(returned, tuple) else (returned,)
    count = len(call.inputs)
    surplus = values[count:]
    if len(values) < count or any(value is not None for value in surplus):
        raise RuntimeError(wrong_backward.wrong_count(call, len(values)))
    grads = []
    for i, (value, given) in enumerate(zip(values, call.inputs, strict=False)):
        if value is not None and not isinstance(value, Tensor):
            raise RuntimeError(wrong_backward.not_a_tensor(call, i, value))
        if given is not None:
            grads.append(None if value is None else _fitting(call, i, value, given))
        elif value is not None:
            raise RuntimeError(wrong_backward.for_no_tensor(call, i))
    return grads


def _fitting(call: Call, index: int, value: Tensor, given: Result) -> Tensor:
    """A gradient of the argument's shape, in the argument's dtype."""
    shape, dtype = given
    if tuple(value.array.shape) != shape:
        raise RuntimeError(wrong_backward.wrong_shape(call, index, tuple(value.array.shape), shape))
    if value.array.dtype == dtype:
        return value
    cast: Tensor = BOUND["cast"](value, plain(dtype), plain(value.array.dtype))
    return cast
