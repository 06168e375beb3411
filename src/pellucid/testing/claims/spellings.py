"""Claims about the other ways to call an operation: captured, in place, as a method, with out=, under vmap."""

from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid
from pellucid import dtypes
from pellucid.core import backward, modes
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops.operation import Operation, Sample
from pellucid.testing.claims.comparing import assert_close
from pellucid.testing.claims.registry import claim
from pellucid.testing.claims.samples import (
    as_function,
    fresh,
    gradients,
    leaves,
    replaced,
    run,
    tensors_in,
    variables_in,
    weights_for,
)


def tensors_of(function: Callable[..., list[Any]]) -> Callable[..., tuple[Tensor, ...]]:
    """The function with only those of its results that are tensors."""
    return lambda *values: tuple(y for y in function(*values) if isinstance(y, Tensor))


@claim("pellucid:capture")
def capture_replays(operation: Operation, sample: Sample) -> None:
    """A captured call replays bit for bit on the same inputs, and agrees on others."""
    tensors = tensors_in(sample)
    function = tensors_of(as_function(operation, sample, tensors))

    copies = [wrap(np.array(x.array, order="K")) for x in tensors]
    expected = function(*copies)
    if not expected:
        return
    program = pellucid.capture(function, *copies)
    for k, (y, e) in enumerate(zip(leaves(program(*copies)), expected, strict=True)):
        assert y.array.dtype == e.array.dtype, f"result {k}: {y.array.dtype}, expected {e.array.dtype}"
        assert np.array_equal(y.array, e.array, equal_nan=e.array.dtype.kind in "fc"), f"result {k} differs on replay"


@claim()
def in_place_form_agrees(operation: Operation, sample: Sample) -> None:
    """`x.name_(...)` writes what `name(x, ...)` returns, returns x, and has the same gradient."""
    target = sample.args[0] if sample.args else None
    if not operation.inplace or not isinstance(target, Tensor):
        return
    (expected, *_), _, expected_gradients = gradients(operation, sample)
    if not isinstance(expected, Tensor) or not _fits(expected, target):
        return
    again = replaced(sample, fresh)
    copy = again.args[0] * 1 if current_node(again.args[0]) is not None else again.args[0]
    method = getattr(copy, f"{operation.name}_")
    pellucid.manual_seed(0)
    result = method(*again.args[1:], **again.kwargs)
    assert result is copy, f"{operation.name}_ does not return its tensor"
    assert_close(result.array, expected.array.astype(target.array.dtype), 1e-12, f"{operation.name}_")
    if current_node(result) is not None and current_node(expected) is not None:
        seeds = [wrap(weight) for weight in weights_for([expected.array])]
        found = backward.gradients([result], seeds, variables_in(again), False, False)
        for k, (g, e) in enumerate(zip(found, expected_gradients, strict=True)):
            if e is not None and g is not None:
                assert_close(g.array, e.array, 1e-12, f"gradient {k} of {operation.name}_")


def _fits(result: Tensor, target: Tensor) -> bool:
    source, goal = (dtypes.from_numpy_dtype(t.array.dtype) for t in (result, target))
    return result.array.shape == target.array.shape and dtypes.can_cast(source, goal)


@claim()
def method_agrees(operation: Operation, sample: Sample) -> None:
    """`x.name(...)` is `name(x, ...)`."""
    target = sample.args[0] if sample.args else None
    method = getattr(target, operation.name, None) if isinstance(target, Tensor) and operation.method else None
    if method is None:
        return
    expected = run(operation, sample)
    pellucid.manual_seed(0)
    for y, e in zip(leaves(method(*sample.args[1:], **sample.kwargs)), expected, strict=True):
        if isinstance(e, Tensor):
            assert np.array_equal(y.array, e.array, equal_nan=e.array.dtype.kind in "fc"), f"x.{operation.name} differs"


@claim()
def out_form_agrees(operation: Operation, sample: Sample) -> None:
    """`name(..., out=tensor)` writes what `name(...)` returns and returns the tensor."""
    if operation.module == "torch.nn.functional":
        return  # PyTorch's take no out= there
    with modes.no_grad():
        pellucid.manual_seed(0)
        result = operation.function(*sample.args, **sample.kwargs)
        expected = leaves(result)
        if not expected or not all(isinstance(y, Tensor) for y in expected):
            return
        outs = [wrap(np.empty_like(y.array, shape=(0,))) for y in expected]
        given = outs[0] if isinstance(result, Tensor) else tuple(outs)
        pellucid.manual_seed(0)
        returned = leaves(operation.function(*sample.args, **sample.kwargs, out=given))
    for k, (y, e, back) in enumerate(zip(outs, expected, returned, strict=True)):
        assert back is y, f"result {k} is not the tensor that was given"
        assert y.array.tobytes() == np.ascontiguousarray(e.array).tobytes(), f"result {k} differs with out="


@claim("pellucid.func:vmap")
def batching_is_a_loop(operation: Operation, sample: Sample) -> None:
    """vmap over a stack of inputs is the stack of the results."""
    from pellucid.func import vmap

    variables = variables_in(sample)
    if not variables:
        return
    stacks = [wrap(np.stack([x.array, x.array * 0.75 + 0.125 * _middle(operation)])) for x in variables]
    function = tensors_of(as_function(operation, sample, variables))
    slices = [function(*(wrap(np.array(stack.array[i])) for stack in stacks)) for i in range(2)]
    if not slices[0] or any(a.array.shape != b.array.shape for a, b in zip(*slices, strict=True)):
        return  # a shape that depends on values cannot be batched
    together = vmap(function, randomness="same")(*stacks)  # each run starts from one seed
    for k, (whole, *parts) in enumerate(zip(together, *slices, strict=True)):
        expected = np.stack([part.array for part in parts])
        assert whole.array.dtype == expected.dtype, (
            f"batched result {k}: {whole.array.dtype}, expected {expected.dtype}"
        )
        assert_close(whole.array, expected, 1e-12, f"batched result {k}")


def _middle(operation: Operation) -> float:
    return (operation.domain[0] + operation.domain[1]) * 1.0
