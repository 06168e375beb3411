"""Powers: of a tensor by a number, of a number by a tensor, of a tensor by a tensor. Each has its own row."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.careful import IN_HALVES, rounded
from pellucid.core.inplace import overwrite
from pellucid.core.primitive import BOUND, elementwise
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import number, refusal
from pellucid.ops.compare import only
from pellucid.ops.elementwise import log
from pellucid.ops.operation import (
    Draw,
    Sample,
    binary_samples,
    broadcast_hint,
    call,
    named,
    operation,
    publish,
    unary_samples,
)
from pellucid.ops.select import as_operand, drop, keep, kind_of
from pellucid.ops.shape import zeros_like_row


def _power(a: np.ndarray, exponent: Any) -> np.ndarray:
    """Small exponents are products: np.power takes thirty times as long (65536 float32 cubed: 660 : 21 µs)."""
    if exponent == 2:
        return np.square(a)
    if exponent == 1:
        return a.copy()
    if exponent == 3:
        return a * a * a
    if a.dtype.kind in "fc":
        if exponent == 0.5:
            return np.sqrt(a)
        if exponent == -1:
            return np.reciprocal(a)
        if exponent == -0.5 and a.dtype.kind == "f":
            return np.reciprocal(np.sqrt(a))  # as in PyTorch: -inf at -0.0, NaN at -inf
    return np.power(a, exponent)


def _power_hint(shapes: list[tuple[int, ...]], params: tuple[Any, ...]) -> tuple[str | None, str | None]:
    why, try_ = broadcast_hint(shapes, params) if len(shapes) == 2 else (None, None)
    return why or "Integers to negative integer powers are not allowed.", try_ or "convert the base: x.float()"


def _power_rule(g: Any, a: Any, exponent: Any) -> Any:
    """Squares, the most frequent, without a detour; 0 for the exponent 0, also where the base is 0."""
    if exponent == 2:
        return g * (a * 2)
    return zeros_like_row(g) if exponent == 0 else g * (exponent * pow_number_row(a, exponent - 1))


def _power_of_half(half: np.dtype, a: np.ndarray, exponent: Any) -> np.ndarray:
    """In bfloat16, not in float16, PyTorch rounds the square on the way to a cube and to 1 / a²."""
    if half != dtypes.bfloat16.numpy:
        return _power(a, exponent) if exponent != -0.5 else np.power(a, exponent)
    if exponent not in (3, -2):
        return _power(a, exponent)
    square = rounded(a * a, half)
    return square * a if exponent == 3 else 1 / square  # type: ignore[no-any-return]


IN_HALVES["pow_number"] = _power_of_half
pow_number_row = bind(
    elementwise("pow_number", _power, _power_rule, dtypes="promote", grad_name="PowBackward0", hint=_power_hint)
)


def _pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """np.power, but a whole number to a negative power is rounded towards zero, as in PyTorch."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    ones = (a == 1) | ((a == -1) & (b % 2 == 0))
    fraction = ones.astype(a.dtype) - ((a == -1) & (b % 2 == 1))
    return np.where(b < 0, fraction, np.power(a, np.maximum(b, 0)))


def _not_negative(b: Any) -> Any:
    """Whether an exponent's real part is not negative."""
    return (BOUND["real"](b) if kind_of(b) == "c" else b) >= 0


pow_row = bind(
    elementwise(
        "pow", only("iufc", _pow),
        lambda g, a, b: keep(g * (b * a ** (b - 1)), b != 0),
        lambda g, y, a, b: drop(g * (y * log(a)), (a == 0) & _not_negative(b)),  # 0 to a positive power stays 0
        grad_name="PowBackward1", lower="llvm.pow", hint=_power_hint,
    )
)  # fmt: skip


def _base_rule(g: Any, y: Any, base: Any) -> Any:
    """The derivative of `base ** x` by x: y log(base); 0 ** x is flat for x >= 0, where y is 0 or 1."""
    if base == 0:
        return drop(g * (y * -np.inf), abs(y) <= 1)
    import cmath  # here, because few need it and it takes 0.3 ms

    slope = cmath.log(base)
    if not isinstance(base, complex):
        slope = slope.real if base > 0 else np.nan
    return g * (y * slope)


pow_of_number_row = bind(
    elementwise(
        "pow_of_number", lambda a, base: _pow(np.asarray(base, a.dtype), a), _base_rule, dtypes="promote",
        grad_name="PowBackward2",
    )
)  # fmt: skip


def _meeting(tensor: Any, number: Any) -> Any:
    """A tensor in the dtype at which it meets a Python number."""
    if not isinstance(tensor, Tensor) or (kind_of(tensor) in "fV" and type(number) is not complex):
        return tensor
    return as_operand(tensor, dtypes.promote([tensor.array, number]))


def pow(input: Any, exponent: Any) -> Any:
    """`input` to the power of `exponent`; each a tensor or a number, not both numbers.

    >>> import pellucid as torch
    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    if isinstance(exponent, (int, float, complex)):
        if isinstance(input, (int, float, complex)):
            raise refusal(TypeError, "pow() takes at least one Tensor, got two numbers", try_="a ** b")
        return pow_number_row(_meeting(input, exponent), number(exponent))
    if isinstance(input, (int, float, complex)):
        if not isinstance(input, complex) and input < 0 and kind_of(exponent) == "c":
            input = complex(input)  # its logarithm is complex
        return pow_of_number_row(_meeting(exponent, input), number(input))
    return pow_row(input, exponent)


def _powers_samples(draw: Draw) -> Iterable[Sample]:
    yield from binary_samples(draw)
    for exponent in (0, 1, 2, 3, 0.5, -1, -2.5, 4):
        yield call(draw(2, 3), exponent)
    yield call(2.5, draw(2, 3))
    yield call(draw.integers(4), 3)


publish(pow, samples=_powers_samples, inplace=True, domain=(0.3, 2.0))
attach("__pow__", pow)


@operation(samples=unary_samples, inplace=True, out="cast")
def square(input: Any) -> Any:
    """Each element times itself.

    >>> import pellucid as torch
    >>> torch.square(torch.tensor([1.0, -3.0]))
    tensor([1., 9.])
    """
    return pow(input, 2)


@operation(
    samples=_powers_samples, domain=(0.3, 2.0),
    unclaimed={"single_precision_is_kept": "its results are double, whatever it is given"},
)
def float_power(input: Any, exponent: Any) -> Any:
    """`input ** exponent` computed in double precision, whatever the dtypes are."""
    return pow(_doubled(input), _doubled(exponent))


def _float_power_in_place(self: Any, exponent: Any) -> Any:
    """In-place form of `float_power`, which needs a tensor of the dtype that the result has."""
    result = float_power(self, exponent)
    if result.dtype != self.dtype:
        what = f"the base given to float_power_ has dtype {self.dtype} but the operation's result requires dtype"
        raise refusal(RuntimeError, f"{what} {result.dtype}")
    return overwrite(self, result, "float_power_")


attach("float_power_", named(_float_power_in_place, "float_power_"))


def _doubled(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return as_operand(value, np.dtype(np.complex128 if kind_of(value) == "c" else np.float64))
