"""Selection: of several values one is taken, element by element; the gradient goes to the one that was taken.

Where values tie or stand on a bound, PyTorch's convention decides who gets the gradient.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy._core.umath import clip  # type: ignore[attr-defined]  # the ufunc: np.clip takes three times as long

from pellucid import dtypes
from pellucid.core.kinds import Kind, plain
from pellucid.core.primitive import elementwise
from pellucid.core.provenance import warn
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import as_number, no_slope, number, refusal
from pellucid.ops.compare import integer_pairs, isfinite, isnan, only, pairs
from pellucid.ops.convert import cast_row
from pellucid.ops.create import check_range, held
from pellucid.ops.operation import (
    Draw,
    Sample,
    binary,
    broadcast_hint,
    call,
    must_be_tensors,
    named,
    operation,
    publish,
    unary,
)

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
BITS = {F32: np.dtype(np.uint32), F64: np.dtype(np.uint64)}
LARGE = 4096  # elements: from here on np.where suffers from branches that cannot be predicted
ZERO = {dtype: np.zeros((), dtype) for dtype in (F32, F64)}
INFINITY = {dtype: np.full((), np.inf, dtype) for dtype in (F32, F64)}


# --- keep and drop: what the rules below, and those of other files, mask a gradient with


def _keep(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """a where the mask is true, else 0, also where a is inf or NaN.

    On large arrays the bits are multiplied by 0 or 1: np.where takes twelve times as long (65536 float32 and a
    random mask: 250 : 19 µs). On small ones np.where has less to do (1.1 : 1.7 µs).
    """
    dtype = a.dtype
    if a.size > LARGE and dtype in BITS:
        return np.multiply(a.view(BITS[dtype]), mask).view(dtype)
    zero = ZERO.get(dtype)
    return np.where(mask, a, np.zeros((), dtype) if zero is None else zero)


def _drop(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return _keep(a, np.logical_not(mask))


keep = bind(elementwise("keep", _keep, lambda g, b: keep(g, b), None, dtypes="any", grad_name="WhereBackward0"))
drop = bind(elementwise("drop", _drop, lambda g, b: drop(g, b), None, dtypes="any", grad_name="MaskedFillBackward0"))
NOWHERE = np.zeros((), bool)


def zero_slope(g: Any, a: Any) -> Any:
    """How a gradient `a` moves that is the same wherever it is taken: zeros that are there, as in PyTorch.

    They are made of both factors and by a row that has a derivative, because in a transform either may have come in on
    a walk from outside, and by that mark it is known that the zeros must leave the level again.
    """
    return keep(g * a, NOWHERE)


# --- where


def _where(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """np.where; on large arrays without branches: b, changed by the bits in which a differs where the mask is true."""
    bits = BITS.get(a.dtype)
    shapes = (mask.shape, ())
    alike = a.dtype == b.dtype and a.shape in shapes and b.shape in shapes  # NumPy: bfloat16 times 0.5 is float32
    if mask.size <= LARGE or bits is None or not alike:
        return np.where(mask, a, b)
    rest = b.view(bits)
    chosen = np.asarray(np.bitwise_xor(a.view(bits), rest))
    chosen = np.multiply(chosen, mask, chosen if chosen.shape else None)
    chosen ^= rest
    return chosen.view(a.dtype)


where_row = bind(
    elementwise(
        "where", _where, None, lambda g, a: keep(g, a), lambda g, a: drop(g, a), dtypes="any",
        hint=lambda shapes, params: broadcast_hint(shapes[1:], params),
    )
)  # fmt: skip


def kind_of(value: Any) -> str:
    """NumPy's letter for the dtype of a tensor or an array of any kind: b, i, u, f or c."""
    return (value.array if isinstance(value, Tensor) else value).dtype.kind  # type: ignore[no-any-return]


def as_operand(value: Any, dtype: np.dtype) -> Any:
    """A number or a tensor as a tensor of the dtype at which operands meet."""
    if not isinstance(value, Tensor):
        return wrap(np.asarray(value, dtype))
    source = value.array.dtype
    return value if source == dtype else cast_row(value, dtype, dtypes.from_numpy_dtype(source).numpy)


def meet(first: Any, second: Any) -> tuple[Any, Any]:
    """Two tensors or numbers as tensors of one dtype."""
    if isinstance(first, Tensor) and isinstance(second, Tensor) and first.array.dtype is second.array.dtype:
        return first, second
    target = dtypes.promote_two(*(value.array if isinstance(value, Tensor) else value for value in (first, second)))
    return as_operand(held(first, target), target), as_operand(held(second, target), target)


@operation(
    samples=lambda draw: [
        call(draw.mask(2, 3), draw(2, 3), draw(2, 3)), call(draw.mask(3), draw(2, 3), draw(3)),
        call(draw.mask(2, 1), draw(3), draw()), call(draw.mask(), draw(), draw()), call(draw.mask(0), draw(0), draw(1)),
        call(draw.mask(2, 3), draw(2, 3), 0.0), call(draw.mask(2, 3), 1, draw(3)), call(draw.mask(2), draw(1), draw(2)),
        call(draw.mask(2, 3), draw(), 2.5), call(draw.mask(1, 3), draw(2, 1), draw(1, 1)),
    ],
    methods=(),
    out="exact",
)  # fmt: skip
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Elements of `input` where the condition is true, of `other` elsewhere; alone, the indices of what is true.

    >>> import pellucid as torch
    >>> x = torch.tensor([-1.0, 2.0])
    >>> torch.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if isinstance(condition, Tensor) and condition.array.dtype == np.uint8:
        warn("where received a uint8 condition tensor, which is deprecated: use a boolean condition instead.")
        condition = condition.ne(0)  # type: ignore[attr-defined]
    if kind_of(condition) != "b":
        raise refusal(
            RuntimeError,
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}",
            try_="compare it first, e.g. condition != 0",
        )
    return where_row(condition, *meet(input, other))


def _where_method(self: Any, condition: Any, other: Any) -> Any:
    """Elements of this tensor where the condition is true, of `other` elsewhere."""
    return where(condition, self, other)


attach("where", named(_where_method, "where"))


# --- the greater, the smaller: at a tie maximum and minimum share, fmax and fmin (which pass over NaN) do not


def _shared(g: Any, mine: Any, other: Any) -> Any:
    """The gradient of one of two values that won: half of it at a tie."""
    return where_row(mine == other, g * 0.5, g)


maximum = binary(
    "maximum", only("biuf", np.maximum),
    lambda g, a, b: drop(_shared(g, a, b), a < b), lambda g, a, b: drop(_shared(g, a, b), b < a),
    inplace=False, samples=pairs,
    tensors=2, doc="""The greater of two elements; NaN if one of them is. At a tie each gets half the gradient.

    >>> import pellucid as torch
    >>> torch.maximum(torch.tensor([1.0, 5.0]), torch.tensor([3.0, 2.0]))
    tensor([3., 5.])
    """,
)  # fmt: skip
minimum = binary(
    "minimum", only("biuf", np.minimum),
    lambda g, a, b: drop(_shared(g, a, b), a > b), lambda g, a, b: drop(_shared(g, a, b), b > a),
    inplace=False, samples=pairs, tensors=2, doc="The smaller of two elements; NaN if one of them is.",
)  # fmt: skip
fmax = binary(
    "fmax", only("biuf", np.fmax),
    lambda g, a, b: keep(g, (a >= b) | isnan(b)), lambda g, a, b: drop(g, (a >= b) | isnan(b)),
    inplace=False, samples=pairs, tensors=2, doc="The greater of two elements; a number rather than NaN.",
)  # fmt: skip
fmin = binary(
    "fmin", only("biuf", np.fmin),
    lambda g, a, b: keep(g, (a <= b) | isnan(b)), lambda g, a, b: drop(g, (a <= b) | isnan(b)),
    inplace=False, samples=pairs, tensors=2, doc="The smaller of two elements; a number rather than NaN.",
)  # fmt: skip


def _relu(a: np.ndarray) -> np.ndarray:
    """Between 0 and infinity: NumPy's clip is three times as fast as its maximum (12 : 35 µs for 65536 float32)."""
    zero = ZERO.get(a.dtype)
    return np.maximum(a, 0) if zero is None else clip(a, zero, INFINITY[a.dtype])


# A row of its own, and not keep(g, y != 0): so the second derivative is a zero that is there, as in PyTorch.
_relu_back_row = bind(
    elementwise(
        "relu_back", lambda a, b: _keep(a, b != 0), lambda g, b: _relu_back_row(g, b), zero_slope,
        dtypes="any", grad_name="ThresholdBackwardBackward0",
    )
)  # fmt: skip
relu = unary("relu", only("iuf", _relu), lambda g, y: _relu_back_row(g, y), dtypes="promote", lower="relu",
             doc="Each element if it is positive, else 0.")  # fmt: skip


# --- clamp: numbers or tensors as bounds


def _clamp(a: np.ndarray, low: Any, high: Any) -> np.ndarray:
    if low is None:
        return np.minimum(a, high)
    return np.maximum(a, low) if high is None else clip(a, low, high)


def _inside(a: Any, low: Any, high: Any) -> Any:
    """Where the bounds leave a value as it is; a bound itself belongs to the inside."""
    if low is None:
        return a <= high
    return a >= low if high is None else (a >= low) & (a <= high)


_clamp_row = bind(
    elementwise(
        "clamp", _clamp, lambda g, a, low, high: keep(g, _inside(a, low, high)), dtypes="promote",
        grad_name="ClampBackward1",
    )
)  # fmt: skip
_clamp_min_row = bind(
    elementwise(
        "clamp_min", lambda a, low: np.maximum(a, low), lambda g, a, low: keep(g, a >= low), dtypes="promote"
    )
)  # fmt: skip
_clamp_max_row = bind(
    elementwise(
        "clamp_max", lambda a, high: np.minimum(a, high), lambda g, a, high: keep(g, a <= high), dtypes="promote"
    )
)  # fmt: skip
_clamp_between_row = bind(
    elementwise(
        "clamp_between", lambda a, b, c: np.minimum(np.maximum(a, b), c),
        lambda g, a, b, c: keep(g, (a >= b) & (a <= c)),
        lambda g, a, b, c: keep(g, (b < c) & (a < b)),
        lambda g, a, b, c: keep(g, (a > c) | (c < b)),
        grad_name="ClampBackward0",
    )
)  # fmt: skip


def _above(name: str, grad_name: str) -> Any:
    """The row of a tensor as lower bound."""
    rules = (lambda g, a, b: keep(g, a >= b), lambda g, a, b: keep(g, a < b))
    return bind(elementwise(name, np.maximum, *rules, grad_name=grad_name, hint=broadcast_hint))


def _below(name: str, grad_name: str) -> Any:
    """The row of a tensor as upper bound."""
    rules = (lambda g, a, b: keep(g, a <= b), lambda g, a, b: keep(g, a > b))
    return bind(elementwise(name, np.minimum, *rules, grad_name=grad_name, hint=broadcast_hint))


_clamp_above_row = _above("clamp_above", "ClampBackward0")
_clamp_below_row = _below("clamp_below", "ClampBackward0")
_clamp_min_tensor_row = _above("clamp_min_tensor", "ClampMinBackward1")
_clamp_max_tensor_row = _below("clamp_max_tensor", "ClampMaxBackward1")


def _clamp_samples(draw: Draw) -> Iterable[Sample]:
    for shape in [(), (5,), (2, 3), (0,), (2, 1, 3)]:
        yield call(draw(*shape), -0.7, 0.9)
    yield call(draw(2, 3), min=0.1)
    yield call(draw(2, 3), max=0.1)
    yield call(draw(2, 3), draw(3), draw(2, 1))
    yield call(draw(2, 3), draw(2, 3), None)
    yield call(draw(3), max=draw(2, 3))


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Elements below `min` become `min`, elements above `max` become `max`; bounds are numbers or tensors.

    >>> import pellucid as torch
    >>> torch.clamp(torch.tensor([-2.0, 0.5, 2.0]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise refusal(RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None")
    _refuse_complex(input, "clamp")
    if not isinstance(min, (Tensor, Kind)) and not isinstance(max, (Tensor, Kind)):
        return _clamp_row(*_met(input, min, max))
    if min is None:
        return _clamp_below_row(input, max)
    if max is None:
        return _clamp_above_row(input, min)
    if isinstance(min, (Tensor, Kind)) and isinstance(max, (Tensor, Kind)):
        return _clamp_between_row(input, min, max)
    lower, upper = as_number(min), as_number(max)  # PyTorch takes two numbers or two tensors
    if isinstance(lower, (Tensor, Kind)) or isinstance(upper, (Tensor, Kind)):
        must_be_tensors("clamp", min=min, max=max)
    return clamp(input, lower, upper)


def _refuse_complex(input: Any, name: str) -> None:
    if kind_of(input) == "c":
        raise refusal(
            NotImplementedError, f"{name} is not supported for complex types", "complex numbers have no order"
        )


def _met(input: Any, *bounds: Any) -> tuple[Any, ...]:
    """A tensor and its bounds as numbers of its dtype; an integer tensor becomes floating if a bound is."""
    numbers = [number(bound) for bound in bounds]
    for bound in numbers:
        if isinstance(bound, (str, list, tuple)):
            raise refusal(TypeError, f"clamp(): a bound must be a Number or a Tensor, not {type(bound).__name__}")
    if isinstance(input, Tensor) and input.array.dtype.itemsize <= 2 and input.array.dtype.kind not in "biu":
        for bound in numbers:
            check_range(bound, plain(input.array.dtype))
    if not isinstance(input, Tensor) or input.array.dtype.kind == "f":
        return input, *numbers
    target = dtypes.promote([input.array, *(bound for bound in bounds if bound is not None)])
    return as_operand(input, target), *(held(bound, target) for bound in numbers)


publish(clamp, tensors=1, samples=_clamp_samples, aliases=("clip",), inplace=True)


def _bound_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(), 0.1), call(draw(5), 0.1), call(draw(2, 3), -0.3), call(draw(0), 1), call(draw(2, 3), draw(3)),
        call(draw(3), draw(2, 3)), call(draw(4, 1, 2), draw(3, 1)), call(draw(), draw()), call(draw(0), draw(1)),
        call(draw(3, 2).mT, 0.3), call(draw(2, 1), draw(1, 3)),
    ]  # fmt: skip


@operation(samples=_bound_samples, inplace=True)
def clamp_min(input: Any, min: Any) -> Any:
    """Elements below `min` become `min`."""
    _refuse_complex(input, "clamp")
    if isinstance(min, (Tensor, Kind)):
        return _clamp_min_tensor_row(input, min)
    return _clamp_min_row(*_met(input, min))


@operation(samples=_bound_samples, inplace=True)
def clamp_max(input: Any, max: Any) -> Any:
    """Elements above `max` become `max`."""
    _refuse_complex(input, "clamp")
    if isinstance(max, (Tensor, Kind)):
        return _clamp_max_tensor_row(input, max)
    return _clamp_max_row(*_met(input, max))


# --- replacing what is not finite, and the step function

_nan_to_num_row = bind(
    elementwise(
        "nan_to_num", lambda a, nan, above, below: np.nan_to_num(a, nan=nan, posinf=above, neginf=below),
        lambda g, a, nan, above, below: g * isfinite(a), dtypes="promote",
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw()), call(draw(5)), call(draw(2, 3), 1.0), call(draw(0)), call(draw(2, 3), nan=0.5, posinf=9.0),
        call(draw(2, 1, 3), neginf=-9.0), call(draw(1)), call(draw.integers(3)), call(draw(2, 0)), call(draw(3, 2).mT),
    ],
    inplace=True,
    out="exact",
)  # fmt: skip
def nan_to_num(input: Any, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """NaN becomes `nan`, infinities become the largest and smallest number of the dtype or what is given.

    >>> import pellucid as torch
    >>> torch.nan_to_num(torch.tensor([1.0, torch.nan, torch.inf]), posinf=9)
    tensor([1., 0., 9.])
    """
    if input.dtype.is_floating_point:  # the row computes halves in float32, whose limits are others
        limits = dtypes.finfo(input.dtype)
        posinf, neginf = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    return _nan_to_num_row(input, 0.0 if nan is None else nan, posinf, neginf)


heaviside = binary(
    "heaviside", only("biuf", lambda a, b: np.where(a == 0, b, (a > 0).astype(b.dtype))),
    no_slope("heaviside"), no_slope("heaviside"), dtypes="equal",
    samples=lambda draw: [sample for sample in integer_pairs(draw) if isinstance(sample.args[1], Tensor)],
    out="exact", tensors=2, names=("input", "values"), grad_name="NotImplemented",
    doc="0 for negative elements, 1 for positive ones, and `values` for 0.",
)  # fmt: skip
