"""Where a value comes from, past the operations that only move numbers about; and what kind of numbers it holds."""

from collections.abc import Container
from typing import Any

import numpy as np

from pellucid.diagnose.events import LossCall, Operation, Value

MOVING = frozenset((
    "reshape", "permute", "squeeze", "squeeze1", "unsqueeze", "newaxis", "select", "slice", "expand", "clone", "cast",
    "index", "index_mask", "transpose", "movedim", "flip", "contiguous", "narrow", "getitem", "detach",
))  # fmt: skip

WRITING = frozenset(("write", "replace"))  # the value before, then the part that takes its place
SIGMOIDS = frozenset(("sigmoid", "hardsigmoid"))
JOINING = WRITING | {"stack", "cat"}


def origin(value: Value | None, past: Container[str] = MOVING) -> Operation | None:
    """The operation that computed a value, past those that only reshape, select or convert it."""
    maker = None if value is None else value.maker
    while maker is not None and maker.op in past and maker.inputs:
        maker = maker.inputs[0].maker
    return maker


def origin_of_parts(value: Value | None) -> Operation | None:
    """Like `origin`, also past a stack, a cat or an assignment to a part, if all parts were computed alike."""
    maker = origin(value)
    while maker is not None and maker.op in JOINING:
        parts = maker.inputs[1:] if maker.op in WRITING else maker.inputs
        makers = [origin_of_parts(part) for part in parts]
        if not makers or makers[0] is None or any(made is None or made.op != makers[0].op for made in makers):
            return maker
        maker = makers[0]
    return maker


def unscaled(value: Value | None) -> Value | None:
    """A value before it was multiplied or divided by a number, such as a temperature."""
    maker = None if value is None else origin(value)
    while maker is not None and maker.op in ("mul", "div") and maker.inputs[-1].size == 1:
        value, maker = maker.inputs[0], origin(maker.inputs[0])
    return value


def is_sigmoid(operation: Operation) -> bool:
    """Whether an operation is a sigmoid, also one written out: `1 / (1 + exp(-x))`, `exp(x) / (exp(x) + 1)`."""
    if operation.op in SIGMOIDS:
        return True
    if operation.op == "mul" and _is_one(operation.inputs[-1]):  # 1 / x is a reciprocal, times 1
        maker = operation.inputs[0].maker
        return maker is not None and is_sigmoid(maker)
    if operation.op == "div":
        above = operation.inputs[0]
        made = origin(above)
        return (_is_one(above) or (made is not None and made.op == "exp")) and _is_one_more(operation.inputs[1])
    inverse = operation.op == "reciprocal" or (operation.op == "pow_number" and operation.params == (-1,))
    return inverse and _is_one_more(operation.inputs[0])


def _is_one_more(value: Value) -> bool:
    """Whether a value is an exponential plus one."""
    maker = value.maker
    if maker is None or maker.op != "add":
        return False
    makers = [origin(part) for part in maker.inputs]
    return any(_is_one(part) for part in maker.inputs) and any(made is not None and made.op == "exp" for made in makers)


def _is_one(value: Value) -> bool:
    return isinstance(value.array, np.ndarray) and value.parameter is None and bool((value.array == 1).all())


def numbers(value: Value | None) -> Any:
    """A value's numbers as float64, or None when they are gone."""
    if value is None or value.array is None or not np.size(value.array) or value.dtype.kind == "c":
        return None
    return np.asarray(value.array, np.float64)


def class_axis(call: LossCall) -> int:
    """The dimension of a loss's input that counts the classes."""
    dimensions = 0 if call.input is None else len(call.input.shape)
    if call.name == "ctc_loss":
        return max(dimensions - 1, 0)
    return 1 if dimensions > 1 else 0


def are_probabilities(array: Any, axis: int) -> bool:
    """Whether numbers are shares of one along an axis: none negative, and they add up to 1."""
    if array is None or array.ndim <= axis or array.shape[axis] < 2 or array.min() < 0 or array.max() > 1 + 1e-4:
        return False
    return bool(np.allclose(array.sum(axis), 1, atol=1e-3))


def are_log_probabilities(array: Any, axis: int) -> bool:
    """Whether numbers are logarithms of shares of one."""
    with np.errstate(over="ignore"):
        return (
            array is not None and bool(array.max() <= 1e-4) and bool(np.allclose(np.exp(array).sum(axis), 1, atol=1e-2))
        )
