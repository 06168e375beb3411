"""Activation functions of straight pieces: hardtanh, relu6, hardsigmoid, hardswish, and the shrinkers.

On a corner between two pieces the slope is that of the flat one, as in PyTorch.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.flags import Truth
from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.ops.arguments import refusal
from pellucid.ops.compare import in_single, only
from pellucid.ops.nn.activation import F, perhaps_in_place, samples_with, smooth
from pellucid.ops.nn.kernels import between, times
from pellucid.ops.operation import operation, unary_samples
from pellucid.ops.select import drop, keep, zero_slope
from pellucid.ops.shape import zeros_like_row

# --- between two bounds


# A row of its own, so that the second derivative is a zero that is there, as in PyTorch.
_between_back_row = bind(
    elementwise(
        "hardtanh_back", lambda g, a, low, high: drop(g, (a <= low) | (a >= high)),
        lambda g, b, low, high: _between_back_row(g, b, low, high), lambda g, a, low, high: zero_slope(g, a),
    )
)  # fmt: skip
_hardtanh_row = bind(
    elementwise(
        "hardtanh", only("iuf", between),
        lambda g, a, low, high: _between_back_row(g, a, low, high), dtypes="promote",
    )
)  # fmt: skip


@operation(samples=samples_with({"min_val": -0.3, "max_val": 1.1}), module=F, writers=(f"{F}.hardtanh_",))
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: Truth = False) -> Any:
    """Each element, but not below `min_val` nor above `max_val`.

    >>> import pellucid as torch
    >>> torch.nn.functional.hardtanh(torch.tensor([-3.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    kind = input.array.dtype.kind
    if kind == "b":
        raise refusal(RuntimeError, "Bool inputs not supported for hardtanh")
    if min_val > max_val:
        raise refusal(ValueError, "min_val cannot be greater than max_val")
    if kind == "u" and min_val < 0:
        raise refusal(RuntimeError, "cannot do hardtanh on an unsigned type with negative limits")
    return perhaps_in_place(inplace, _hardtanh_row, input, min_val, max_val)


@operation(samples=unary_samples, module=F, domain=(-9.0, 9.0))
def relu6(input: Any, inplace: Truth = False) -> Any:
    """Each element between 0 and 6, else the nearer of the two.

    >>> import pellucid as torch
    >>> torch.nn.functional.relu6(torch.tensor([-3.0, 0.5, 30.0]))
    tensor([0.0000, 0.5000, 6.0000])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


# --- sigmoid and silu in straight pieces


def _hardsigmoid(a: ndarray) -> ndarray:
    y = np.add(a, 3, np.empty_like(a))
    between(y, 0, 6, y)
    y /= 6
    return y


_hardsigmoid_row = smooth(
    "hardsigmoid", _hardsigmoid, lambda g, a, y: keep(g * g.dtype.type(1 / 6), (a > -3) & (a < 3)), zeros_like_row
)


@operation(
    samples=unary_samples, module=F, domain=(-5.0, 5.0),
    unclaimed={"gradient_equals_torch": "PyTorch multiplies by a sixth rounded to float32, also in float64"},
)  # fmt: skip
def hardsigmoid(input: Any, inplace: Truth = False) -> Any:
    """(x + 3) / 6, between 0 and 1: a sigmoid in straight pieces.

    >>> import pellucid as torch
    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return perhaps_in_place(inplace, _hardsigmoid_row, input)


def _hardswish(a: ndarray) -> ndarray:
    y = _hardsigmoid(a)
    y *= a
    return y


def _hardswish_slope(g: ndarray, a: ndarray, y: ndarray) -> Any:
    slope = np.multiply(a, 1 / 3, np.empty_like(a))
    slope += 0.5
    slope = drop(slope, a >= 3)
    slope += a >= 3
    return drop(times(slope, g), a <= -3)


_hardswish_row = smooth(
    "hardswish", _hardswish, _hardswish_slope, lambda a: keep(zeros_like_row(a) + 1 / 3, (a > -3) & (a < 3))
)


@operation(samples=unary_samples, module=F, domain=(-5.0, 5.0))
def hardswish(input: Any, inplace: Truth = False) -> Any:
    """`x * hardsigmoid(x)`: silu without an exponential.

    >>> import pellucid as torch
    >>> torch.nn.functional.hardswish(torch.tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000,  0.6667,  4.0000])
    """
    return perhaps_in_place(inplace, _hardswish_row, input)


# --- shrinking: small numbers become 0


def _hardshrink(a: ndarray, lambd: float) -> Any:
    return drop(a, (a >= -lambd) & (a <= lambd))


def _softshrink(a: ndarray, lambd: float) -> Any:
    return a - between(a, -lambd, lambd)


_shrink_back_row = bind(
    elementwise(
        "shrink_back", lambda g, a, lambd: drop(g, (a >= -lambd) & (a <= lambd)),
        lambda g, b, lambd: _shrink_back_row(g, b, lambd), lambda g, a, lambd: zero_slope(g, a),
    )
)  # fmt: skip
_hardshrink_row, _softshrink_row = (
    bind(
        elementwise(
            name, only("f", in_single(forward)), lambda g, a, lambd: _shrink_back_row(g, a, lambd), dtypes="promote"
        )
    )
    for name, forward in (("hardshrink", _hardshrink), ("softshrink", _softshrink))
)


@operation(samples=samples_with({"lambd": 0.2}, {"lambd": 1}), aliases=(f"{F}.hardshrink",), out="exact")
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """Each element, and 0 where it lies between -lambd and lambd.

    >>> import pellucid as torch
    >>> torch.hardshrink(torch.tensor([-2.0, 0.3, 1.0]))
    tensor([-2.,  0.,  1.])
    """
    if input.array.dtype.itemsize == 2:  # computed in single precision, but compared with a number of their own
        lambd = np.float64(lambd).astype(dtypes.as_numpy_dtype(input.array.dtype))
    return _hardshrink_row(input, float(lambd))


@operation(samples=samples_with({"lambd": 0.2}, {"lambd": 1}), module=F, out="exact")
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """Each element brought nearer to 0 by lambd, and 0 where it is that near already.

    >>> import pellucid as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-2.0, 0.3, 1.0]))
    tensor([-1.5000,  0.0000,  0.5000])
    """
    if lambd < 0:
        kind = input.dtype
        limits = f"[0, {dtypes.finfo(kind).max:g}] for input dtype {dtypes.scalar_name(kind)}"
        raise refusal(RuntimeError, f"lambda must be in range {limits}, but found {lambd:g}")
    return _softshrink_row(input, float(lambd))
