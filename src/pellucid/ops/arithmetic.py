"""Arithmetic: sums, products, quotients, remainders, and the operators that write into their tensor.

The operators are the bare rows; the public functions beside them take PyTorch's further arguments (`alpha`,
`rounding_mode`). In a rule `g` is the gradient of the result, `y` the result, `a`, `b` and `c` the inputs.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.attention import HALVES
from pellucid.core.careful import FLOAT32
from pellucid.core.inplace import in_place
from pellucid.core.large import minus, plus, products, times
from pellucid.core.primitive import elementwise, same
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor, bearing
from pellucid.ops.arguments import check_multiplier, no_slope, number, refusal
from pellucid.ops.compare import bitwise_and, bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor, only
from pellucid.ops.operation import (
    Draw,
    Sample,
    binary,
    binary_samples,
    broadcast_hint,
    call,
    must_be_tensors,
    operation,
    publish,
    unary,
    unary_samples,
)
from pellucid.ops.power import pow
from pellucid.ops.select import as_operand, kind_of
from pellucid.ops.shape import zeros_like_row

# --- sum and difference

add_row = bind(
    elementwise("add", np.add, same, same, lower="fadd", hint=broadcast_hint, large=(plus, same, same)),
    "__add__", "__radd__",
)  # fmt: skip


sub_row = bind(
    elementwise(
        "sub",
        np.subtract,
        same,
        lambda g: -g,
        dtypes="numbers",
        lower="fsub",
        hint=broadcast_hint,
        large=(minus, same, lambda g: -g),
    ),
    "__sub__",
)


def _rsub(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.subtract(b, a)


rsub_row = bind(elementwise("rsub", _rsub, lambda g: -g, same, dtypes="numbers", hint=broadcast_hint))
rsub_number_row = bind(
    elementwise(
        "rsub_number", _rsub, lambda g: -g, same, dtypes="numbers", grad_name="RsubBackward1", hint=broadcast_hint
    ),
    "__rsub__",
)


def by_number(g: Any, number: float, operator: Callable[[Any, Any], Any]) -> Any:
    """A gradient in half precision and a number, computed in single precision."""
    if isinstance(g, np.ndarray) and g.dtype in HALVES:
        return operator(g.astype(np.float32), number).astype(g.dtype)
    return operator(g, number)


# Half precision times a number, which stays what it is: core/careful.py calls them in the place of the rows above.
for _called, _compute, _rule in (
    ("mul", operator.mul, lambda g, v: by_number(g, v, operator.mul)),
    ("div", operator.truediv, lambda g, v: by_number(g, v, operator.truediv)),
):
    bind(elementwise(f"{_called}_number", _compute, _rule, grad_name=f"{_called.capitalize()}Backward0"))


def _with_alpha(row: Any, input: Any, other: Any, alpha: Any) -> Any:
    """The row on `input` and `alpha * other`, where alpha may be fractional only if the result is.

    Of halves it is computed in float32 and rounded once, as PyTorch does it.
    """
    if isinstance(alpha, Tensor):
        return row(input, other * alpha)
    common = dtypes.promote_two(*(value.array if isinstance(value, Tensor) else value for value in (input, other)))
    check_multiplier("alpha", alpha, common.kind)
    if common.kind == "b":
        return row(input, other & bool(alpha))
    if common not in HALVES:
        return row(input, other * alpha)
    halves = [as_operand(each, common) if isinstance(each, Tensor) else common.type(each) for each in (input, other)]
    first, second = (as_operand(x, FLOAT32) if isinstance(x, Tensor) else float(x) for x in halves)
    wide = row(first, second * float(common.type(alpha)))
    narrow = as_operand(wide, common)
    return narrow if wide.node is None else bearing(wide.node.primitive.grad_name, narrow)


def _alpha_samples(draw: Draw) -> Iterable[Sample]:
    yield from binary_samples(draw)
    yield call(draw(2, 3), draw(3), alpha=2)
    yield call(draw(2, 3), draw(2, 1), alpha=-0.5)
    yield call(draw(3), 1.5, alpha=3)
    yield call(draw(2, 3), 0.5, draw(3))  # as old scripts write alpha


def add(input: Any, other: Any, last: Any = None, *, alpha: Any = 1) -> Any:
    """Sum of two tensors, or of a tensor and a number: `input + alpha * other`; once add(input, alpha, other).

    >>> import pellucid as torch
    >>> torch.add(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    if last is not None:
        other, alpha = last, other
    plain = type(alpha) is int and alpha == 1
    return add_row(input, other) if plain else _with_alpha(add_row, input, other, alpha)


def sub(input: Any, other: Any, last: Any = None, *, alpha: Any = 1) -> Any:
    """Difference of two tensors, or of a tensor and a number: `input - alpha * other`; once sub(input, alpha, other).

    >>> import pellucid as torch
    >>> torch.sub(torch.tensor([1.0, 2.0]), 1)
    tensor([0., 1.])
    """
    if last is not None:
        other, alpha = last, other
    plain = type(alpha) is int and alpha == 1
    return sub_row(input, other) if plain else _with_alpha(sub_row, input, other, alpha)


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Difference the other way round: `other - alpha * input`."""
    row = rsub_row if isinstance(other, Tensor) else rsub_number_row
    if type(alpha) is int and alpha == 1:
        return row(input, other)
    return _with_alpha(lambda a, b: row(b, a), other, input, alpha)


add.primitive, sub.primitive = add_row.primitive, sub_row.primitive  # type: ignore[attr-defined]
publish(add, samples=_alpha_samples, inplace=True)
publish(sub, samples=_alpha_samples, inplace=True, aliases=("subtract",))
publish(rsub, tensors=1, samples=lambda draw: list(_alpha_samples(draw))[:-1], methods=())  # it never had the old form

# --- product and quotient

mul = binary(
    "mul", np.multiply, lambda g, b: g * b, lambda g, a: g * a,
    lower="fmul", operators=("__mul__", "__rmul__"), aliases=("multiply",),
    large=(times, lambda g, b: times(g, b), lambda g, a: times(g, a)), gather=products,
    doc="""Product of two tensors, or of a tensor and a number, element by element.

    >>> import pellucid as torch
    >>> torch.mul(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([3., 8.])
    """,
)  # fmt: skip
div_row = bind(
    elementwise(
        "div", np.true_divide, lambda g, b: g / b, lambda g, a, b: -g * (a / b / b),
        lower="fdiv", dtypes="float", hint=broadcast_hint,
    ),
    "__truediv__",
)  # fmt: skip
reciprocal = unary(
    "reciprocal", np.reciprocal, lambda g, y: -g * (y * y), domain=(0.3, 2.0), doc="1 divided by each element."
)


def _divided(self: Any, other: Any) -> Any:
    """`number / tensor`, as PyTorch writes it."""
    return reciprocal(self) * other


attach("__rtruediv__", _divided)
attach("__rdiv__", _divided)


def _refuse_zero(b: np.ndarray) -> None:
    """Floats divided by zero are infinite; whole numbers have no such answer."""
    if b.dtype.kind in "iu" and not np.logical_and.reduce(b, axis=None):
        raise ZeroDivisionError("ZeroDivisionError: an integer is divided by 0")


def _floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _refuse_zero(b)
    return np.floor_divide(a, b)


def _trunc_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _refuse_zero(b)
    if a.dtype.kind in "iu":
        return np.floor_divide(a - np.fmod(a, b), b)
    return np.trunc(np.true_divide(a, b))


def _quotient_hint(shapes: list[tuple[int, ...]], params: tuple[Any, ...]) -> tuple[str | None, str | None]:
    why, try_ = broadcast_hint(shapes, params)
    return why or "ZeroDivisionError: an integer is divided by 0", try_


div_floor_row = bind(
    elementwise(
        "div_floor", only("iuf", _floor_divide), lambda g: zeros_like_row(g), lambda g: zeros_like_row(g),
        grad_name="DivBackward2", hint=_quotient_hint,
    )
)  # fmt: skip
div_trunc_row = bind(
    elementwise(
        "div_trunc", only("iuf", _trunc_divide), lambda g: zeros_like_row(g), lambda g: zeros_like_row(g),
        grad_name="DivBackward2", hint=_quotient_hint,
    )
)  # fmt: skip
QUOTIENTS = {None: div_row, "floor": div_floor_row, "trunc": div_trunc_row}


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Quotient of two tensors, or of a tensor and a number; `rounding_mode` is None, 'floor' or 'trunc'.

    >>> import pellucid as torch
    >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    quotient = QUOTIENTS.get(rounding_mode)
    if quotient is None:
        raise refusal(
            RuntimeError,
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'",
        )
    return quotient(input, other)


def _quotients(draw: Draw) -> Iterable[Sample]:
    yield from binary_samples(draw)
    yield call(draw(2, 3), draw(3), rounding_mode="floor")
    yield call(draw(2, 3, low=2.0, high=9.0), draw(2, 1), rounding_mode="trunc")
    yield call(draw.integers(4, low=-9, high=9), 2, rounding_mode="trunc")
    yield call(draw.integers(4, low=-9, high=9), draw.integers(4, low=1), rounding_mode="floor")


div.primitive = div_row.primitive  # type: ignore[attr-defined]
publish(div, samples=_quotients, inplace=True, domain=(0.3, 2.0), aliases=("divide",))
publish(div_row, name="true_divide", samples=binary_samples, inplace=True, domain=(0.3, 2.0), doc="Same as `div`.")


def _whole_quotients(draw: Draw) -> Iterable[Sample]:
    for first, second in [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), ()), ((0,), (1,))]:
        yield call(draw.integers(*first, low=-9, high=9), draw.integers(*second, low=1, high=4))
    for first, second in [((), (2, 3)), ((2, 0), (2, 0)), ((4, 1, 2), (3, 1))]:
        yield call(draw.integers(*first, low=-9, high=9), draw.integers(*second, low=1, high=4))
    yield call(draw.integers(5, low=-9, high=9), -2)
    yield call(draw.integers(5, low=-9, high=9), 1.5)


floor_divide = binary(
    "floor_divide", only("iuf", _floor_divide), no_slope("floor_divide"), no_slope("floor_divide"),
    operators=("__floordiv__",), samples=_whole_quotients, hint=_quotient_hint,
    grad_name="NotImplemented", names=("input", "other"),
    doc="The quotient rounded down; as in PyTorch backward refuses it (div with rounding_mode='floor' has a slope: 0).",
)  # fmt: skip


# --- remainders: of `remainder` and % it has the divisor's sign, of `fmod` the dividend's


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _refuse_zero(b)
    left = np.asarray(np.remainder(a, b))
    if left.dtype.kind == "f":  # NumPy gives a zero the sign of the divisor, PyTorch that of the dividend
        np.copysign(left, a, out=left, where=left == 0)
    return left


def _fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _refuse_zero(b)
    return np.fmod(a, b)


remainder = binary(
    "remainder", only("iuf", _remainder), same, lambda g, a, b: -g * div_floor_row(a, b), operators=("__mod__",),
    grad_name="RemainderBackward1", domain=(0.3, 2.0), hint=_quotient_hint,
    doc="""What is left of a division rounded down: it has the sign of the divisor, as Python's `%`.

    >>> import pellucid as torch
    >>> torch.remainder(torch.tensor([-3.0, 3.0]), 2)
    tensor([1., 1.])
    """,
)  # fmt: skip
fmod = binary(
    "fmod", only("iuf", _fmod), same, lambda g, a, b: -g * div_trunc_row(a, b),
    grad_name="FmodBackward1", domain=(0.3, 2.0), hint=_quotient_hint,
    tensors=1, doc="What is left of a division rounded towards zero: it has the sign of the dividend.",
)  # fmt: skip

# --- sign

neg = unary(
    "neg", np.negative, lambda g: -g, lower="fneg", dtypes="promote", operators=("__neg__",), aliases=("negative",),
    hint=lambda *_: (
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
        "`~` or `logical_not()` operator instead.", "~x",
    ),
    out="exact", doc="Each element with the other sign.",
)  # fmt: skip


@operation(samples=unary_samples, tensors=1)
def positive(input: Any) -> Any:
    """The tensor itself, as `+x`."""
    if isinstance(input, Tensor) and input.array.dtype.kind == "b":
        raise refusal(RuntimeError, "The `+` operator, on a bool tensor is not supported.")
    return input


attach("__pos__", positive)


# --- several steps in one


def _lerp(a: np.ndarray, b: np.ndarray, weight: Any) -> np.ndarray:
    """From a by weight towards b, counted from the nearer end so that weight 1 gives b exactly."""
    step = b - a
    if isinstance(weight, (int, float, complex)):
        return a + weight * step if np.abs(weight) < 0.5 else b - step * (1 - weight)
    return np.where(np.abs(weight) < 0.5, a + weight * step, b - step * (1 - weight))


_lerp_number_row = bind(
    elementwise("lerp_number", only("fc", _lerp), lambda g, weight: g * (1 - weight), lambda g, weight: g * weight,
                grad_name="LerpBackward0", dtypes="equal")
)  # fmt: skip
_lerp_row = bind(
    elementwise("lerp", only("fc", _lerp), lambda g, c: g * (1 - c), lambda g, c: g * c, lambda g, a, b: g * (b - a),
                grad_name="LerpBackward1", dtypes="equal")
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3), 0.3), call(draw(3), draw(2, 3), 0.8), call(draw(2, 3), draw(3), draw(2, 1)),
        call(draw(), draw(), 1.5), call(draw(0), draw(0), 0.5), call(draw(2, 3), draw(2, 3), draw(2, 3)),
        call(draw(2), draw(2), draw()), call(draw(4, 1), draw(1, 2), -0.5), call(draw(2, 0), draw(0), draw(2, 1)),
        call(draw(3, 2).mT, draw(2, 3), 0.4),
    ],
    inplace=True,
    tensors=2,
)  # fmt: skip
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """The way from `input` to `end`, gone by `weight`: `input + weight * (end - input)`.

    >>> import pellucid as torch
    >>> torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([1.0, 20.0]), 0.5)
    tensor([ 0.5000, 15.0000])
    """
    weight = number(weight)
    if isinstance(weight, Tensor) and not weight.array.ndim and weight.dtype != input.dtype:
        weight = weight.to(input.dtype)  # type: ignore[attr-defined]
    alone = isinstance(weight, (int, float, complex))
    return _lerp_number_row(input, end, weight) if alone else _lerp_row(input, end, weight)


_addcmul_row = bind(
    elementwise(
        "addcmul", lambda a, b, c, value: a + (b * c if value == 1 else (b * c) * a.dtype.type(value)),
        lambda g, value: g, lambda g, c, value: g * (c * value), lambda g, b, value: g * (b * value),
    )
)  # fmt: skip
_addcdiv_row = bind(
    elementwise(
        "addcdiv", lambda a, b, c, value: a + value * (b / c),
        lambda g, value: g, lambda g, c, value: g * (value / c), lambda g, b, c, value: -g * (value * b / (c * c)),
    )
)  # fmt: skip


def _triples(draw: Draw) -> Iterable[Sample]:
    yield call(draw(2, 3), draw(2, 3), draw(2, 3))
    yield call(draw(2, 3), draw(3), draw(2, 1), value=0.5)
    yield call(draw(3), draw(2, 3), draw(), value=-2)
    yield call(draw(), draw(), draw())
    yield call(draw(0), draw(1), draw(0), value=3.0)
    yield call(draw(2, 1, 3), draw(2, 1), draw(3), value=1.5)
    yield call(draw(1), draw(1), draw(1), value=0.25)
    yield call(draw(3, 2).mT, draw(2, 3), draw(3))
    yield call(draw(2, 0), draw(1, 0), draw())
    yield call(draw(), draw(3), draw(2, 1))
    yield call(draw(2, 3), -0.5, draw(3), draw(2, 1))  # as old scripts write value


@operation(samples=_triples, inplace=True, tensors=1)
def addcmul(input: Any, tensor1: Any, tensor2: Any, last: Any = None, *, value: Any = 1) -> Any:
    """`input + value * tensor1 * tensor2`; in old scripts addcmul(input, value, tensor1, tensor2).

    >>> import pellucid as torch
    >>> torch.addcmul(torch.ones(2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), value=10)
    tensor([31., 81.])
    """
    if last is not None:
        value, tensor1, tensor2 = tensor1, tensor2, last
    must_be_tensors("addcmul", tensor1=tensor1, tensor2=tensor2)
    return _addcmul_row(input, tensor1, tensor2, value)


@operation(samples=_triples, inplace=True, domain=(0.3, 2.0), tensors=1)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, last: Any = None, *, value: Any = 1) -> Any:
    """`input + value * tensor1 / tensor2`; in old scripts addcdiv(input, value, tensor1, tensor2).

    >>> import pellucid as torch
    >>> torch.addcdiv(torch.ones(2), torch.tensor([1.0, 3.0]), torch.tensor([2.0, 2.0]), value=2)
    tensor([2., 4.])
    """
    if last is not None:
        value, tensor1, tensor2 = tensor1, tensor2, last
    must_be_tensors("addcdiv", tensor1=tensor1, tensor2=tensor2)
    if {kind_of(tensor1), kind_of(tensor2)} <= set("biu"):
        raise refusal(
            RuntimeError,
            "Integer division with addcdiv is no longer supported: it would be a true division of the tensors",
            try_="input + value * torch.true_divide(tensor1, tensor2), or divide with rounding_mode='trunc'",
        )
    return _addcdiv_row(input, tensor1, tensor2, number(value))


# --- the operators that write into their tensor; on tensors only, other kinds of array do not change

AUGMENTED = {
    "__iadd__": (add_row, "add_"), "__isub__": (sub_row, "sub_"), "__imul__": (mul, "mul_"),
    "__itruediv__": (div_row, "div_"), "__ifloordiv__": (floor_divide, "floor_divide_"),
    "__imod__": (remainder, "remainder_"), "__ipow__": (pow, "pow_"), "__iand__": (bitwise_and, "bitwise_and_"),
    "__ior__": (bitwise_or, "bitwise_or_"), "__ixor__": (bitwise_xor, "bitwise_xor_"),
    "__ilshift__": (bitwise_left_shift, "bitwise_left_shift_"),
    "__irshift__": (bitwise_right_shift, "bitwise_right_shift_"),
}  # fmt: skip
for _operator, (_function, _name) in AUGMENTED.items():
    setattr(Tensor, _operator, in_place(_function, _name))
