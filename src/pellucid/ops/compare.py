"""Questions and roundings: comparison, logic, bits, classification, whole numbers. Their derivative is none or zero.

A row whose rules are None cuts the graph: its result is bool or integer, or PyTorch does not differentiate it.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np

from pellucid.core.attention import HALVES
from pellucid.core.attributes import concrete
from pellucid.core.kinds import Kind
from pellucid.core.primitive import elementwise, same
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import as_number, refusal
from pellucid.ops.operation import BROADCASTS, Draw, Sample, binary, broadcast_hint, call, operation, publish, unary
from pellucid.ops.shape import zeros_like_row

NAMES = {"b": "bool", "i": "integers", "u": "integers", "f": "floating point", "c": "complex numbers"}


def only(kinds: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that refuses dtypes which PyTorch does not take there, instead of NumPy's answer to them.

    `kinds` are NumPy's letters: b bool, i and u integers, f floating point, c complex (V is bfloat16). A forward of
    floats also takes bfloat16, which reaches it from rules: on the way from users it is float32 by then.
    """
    kinds = kinds.replace("f", "fV")
    name = forward.__name__.strip("_")

    @wraps(forward)
    def refusing(a: np.ndarray, *others: Any) -> Any:
        kind = a.dtype.kind
        if kind not in kinds:
            other = "x.long()" if "f" not in kinds else "x.float()" if kind in "biu" else "x.real or x.abs()"
            raise refusal(NotImplementedError, f"{name} is not implemented for {NAMES.get(kind, a.dtype)}", try_=other)
        return forward(a, *others)

    return refusing


def in_single(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that computes halves in float32: users' are float32 when they reach it, those of rules are not."""

    @wraps(forward)
    def wide(*arguments: Any) -> Any:
        kind = arguments[0].dtype
        if kind not in HALVES:
            return forward(*arguments)
        given = (value.astype(np.float32) if isinstance(value, np.ndarray) else value for value in arguments)
        return np.asarray(forward(*given)).astype(kind)

    return wide


# --- comparison

eq = binary("eq", np.equal, None, None, lower="fcmp.oeq", tensors=1, doc="Whether elements are equal.")
ne = binary(
    "ne", np.not_equal, None, None, lower="fcmp.une", aliases=("not_equal",), tensors=1, doc="Whether elements differ."
)
lt = binary("lt", only("biuf", np.less), None, None, lower="fcmp.olt", operators=("__lt__",), aliases=("less",),
            tensors=1, doc="Whether each element is less than the other.")  # fmt: skip
le = binary("le", only("biuf", np.less_equal), None, None, lower="fcmp.ole", operators=("__le__",),
            aliases=("less_equal",), tensors=1,
            doc="Whether each element is less than or equal to the other.")  # fmt: skip
gt = binary(
    "gt", only("biuf", np.greater), None, None, lower="fcmp.ogt", operators=("__gt__",), aliases=("greater",),
    tensors=1, doc="""Whether each element is greater than the other.

    >>> import pellucid as torch
    >>> torch.gt(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([False, False,  True])
    """,
)  # fmt: skip
ge = binary("ge", only("biuf", np.greater_equal), None, None, lower="fcmp.oge", operators=("__ge__",),
            aliases=("greater_equal",), tensors=1,
            doc="Whether each element is greater than or equal to the other.")  # fmt: skip

COMPARABLE = (Tensor, Kind, np.ndarray, np.generic, bool, int, float, complex)


def _equals(self: Any, other: Any) -> Any:
    """`==`: with a thing that is no number (None, a string) Python's own answer."""
    return eq(self, other) if isinstance(other, COMPARABLE) else NotImplemented


def _differs(self: Any, other: Any) -> Any:
    return ne(self, other) if isinstance(other, COMPARABLE) else NotImplemented


attach("__eq__", _equals)
attach("__ne__", _differs)


def pairs(draw: Draw) -> Iterable[Sample]:
    """Two tensors, broadcast every way; for operations that take no Python number."""
    return [call(draw(*first), draw(*second)) for first, second in BROADCASTS]


def integer_pairs(draw: Draw) -> Iterable[Sample]:
    """Whole numbers and masks: what the operations on bits take."""
    for first, second in [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), ()), ((0,), (1,))]:
        yield call(draw.integers(*first, high=9), draw.integers(*second, high=4))
    for first, second in [((), (2, 3)), ((3,), (2, 3)), ((2, 0), (2, 0)), ((4, 1, 2), (3, 1))]:
        yield call(draw.integers(*first, high=9), draw.integers(*second, high=4))
    yield call(draw.integers(5), 1)
    yield call(draw.integers(2, 3), 2)


def _logical_pairs(draw: Draw) -> Iterable[Sample]:
    yield from pairs(draw)
    for first, second in [((4,), (4,)), ((2, 3), (3,))]:
        yield call(draw.integers(*first), draw.mask(*second))
    yield from _masks_of_two(draw)


def _mask_pairs(draw: Draw) -> Iterable[Sample]:
    yield from integer_pairs(draw)
    yield from _masks_of_two(draw)


def _masks_of_two(draw: Draw) -> Iterable[Sample]:
    for first, second in [((), ()), ((4,), (4,)), ((2, 3), (3,)), ((2, 1), (1, 3))]:
        yield call(draw.mask(*first), draw.mask(*second))


def _masks(draw: Draw) -> Iterable[Sample]:
    for shape in [(), (4,), (2, 3), (0,), (2, 1, 3)]:
        yield call(draw.mask(*shape))
        yield call(draw.integers(*shape, high=9))


# --- logic: any dtype is true where it is not zero

logical_and = binary("logical_and", np.logical_and, None, None, dtypes="any", samples=_logical_pairs,
                     tensors=2, doc="Whether both elements are true (not zero).")  # fmt: skip
logical_or = binary("logical_or", np.logical_or, None, None, dtypes="any", samples=_logical_pairs,
                    tensors=2, doc="Whether at least one of two elements is true (not zero).")  # fmt: skip
logical_xor = binary("logical_xor", np.logical_xor, None, None, dtypes="any", samples=_logical_pairs,
                     tensors=2, doc="Whether exactly one of two elements is true (not zero).")  # fmt: skip
logical_not = unary("logical_not", np.logical_not, None, dtypes="any", samples=_masks,
                    doc="Whether each element is false (zero).")  # fmt: skip


# --- bits of integers; on bool they are logic


bitwise_and = binary("bitwise_and", only("biu", np.bitwise_and), None, None, operators=("__and__",),
                     samples=_mask_pairs, doc="The bits that both integers have; of masks, both.")  # fmt: skip
bitwise_or = binary("bitwise_or", only("biu", np.bitwise_or), None, None, operators=("__or__",), samples=_mask_pairs,
                    doc="The bits that one of two integers has; of masks, either.")  # fmt: skip
bitwise_xor = binary("bitwise_xor", only("biu", np.bitwise_xor), None, None, operators=("__xor__",),
                     samples=_mask_pairs, doc="The bits in which two integers differ.")  # fmt: skip
bitwise_not = unary("bitwise_not", only("biu", np.invert), None, dtypes="promote", samples=_masks,
                    out="exact", doc="Every bit the other way; of a mask, its opposite.")  # fmt: skip
bitwise_left_shift = binary(
    "bitwise_left_shift", only("biu", np.left_shift), None, None, operators=("__lshift__",), samples=integer_pairs,
    doc="The bits moved to the left: times two, so many times.",
)  # fmt: skip
bitwise_right_shift = binary(
    "bitwise_right_shift", only("biu", np.right_shift), None, None, operators=("__rshift__",), samples=integer_pairs,
    doc="The bits moved to the right: halved and rounded down, so many times.",
)  # fmt: skip


def _invert(self: Any) -> Any:
    """`~x`."""
    if (self.array if isinstance(self, Tensor) else self).dtype.kind not in "biu":
        raise refusal(
            TypeError,
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors",
            try_="compare first, e.g. ~(x > 0)",
        )
    return bitwise_not(self)


attach("__invert__", _invert)


# --- what kind of number

isnan = unary("isnan", np.isnan, None, dtypes="any", inplace=False, doc="Whether each element is not a number.")
isinf = unary("isinf", np.isinf, None, dtypes="any", inplace=False, doc="Whether each element is infinite.")
isfinite = unary(
    "isfinite", np.isfinite, None, dtypes="any", inplace=False,
    doc="""Whether each element is neither infinite nor NaN.

    >>> import pellucid as torch
    >>> torch.isfinite(torch.tensor([1.0, torch.inf, torch.nan]))
    tensor([ True, False, False])
    """,
)  # fmt: skip
signbit = unary("signbit", lambda a: np.signbit(a) if a.dtype.kind != "b" else np.zeros(a.shape, bool), None,
                dtypes="any", inplace=False, out="exact",
                doc="Whether each element has a minus sign; -0.0 has one.")  # fmt: skip


def _isposinf(a: np.ndarray) -> np.ndarray:
    return a == np.inf


def _isneginf(a: np.ndarray) -> np.ndarray:
    return a == -np.inf


isposinf = unary("isposinf", only("biuf", _isposinf), None, dtypes="any", inplace=False,
                 out="exact", doc="Whether each element is +inf.")  # fmt: skip
isneginf = unary("isneginf", only("biuf", _isneginf), None, dtypes="any", inplace=False,
                 out="exact", doc="Whether each element is -inf.")  # fmt: skip
isreal = unary("isreal", lambda a: a.imag == 0, None, dtypes="any", inplace=False,
               doc="Whether each element has no imaginary part.")  # fmt: skip


# --- closeness

def _close(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    if rtol == atol == 0 and not equal_nan:
        return np.equal(a, b)  # whole numbers above 2**53 are not told apart as floats, by which NumPy goes
    return np.isclose(a, b, rtol, atol, equal_nan)


_isclose_row = bind(
    elementwise(
        "isclose", _close, None, None,
        dtypes="equal", hint=broadcast_hint,
    )
)  # fmt: skip


def _tolerance(name: str, value: Any) -> float:
    """A tolerance as a number; a tensor of one number is as good."""
    value = as_number(value)
    if isinstance(value, Tensor):
        raise TypeError(f"isclose(): argument '{name}' must be float, not Tensor")
    if not value >= 0:
        raise refusal(RuntimeError, f"{name} must be greater than or equal to zero, but got {value}")
    return value  # type: ignore[no-any-return]


def _close_samples(draw: Draw) -> Iterable[Sample]:
    yield from [call(draw(2, 3), draw(2, 3)), call(draw(2, 3), draw(3), rtol=0.5, atol=0.3), call(draw(), draw(2))]
    yield from [call(draw.integers(4), draw.integers(4)), call(draw(0), draw(0)), call(draw(3), draw(3), atol=9.0)]
    yield from [call(draw(2, 1), draw(1, 3), 0.1, 0.5), call(draw(), draw()), call(draw(2, 0), draw(1, 0))]
    yield call(draw(3), draw(3), equal_nan=True)


@operation(samples=_close_samples, tensors=2)
def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether elements are equal up to `atol + rtol * |other|`.

    >>> import pellucid as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
    tensor([ True, False])
    """
    return _isclose_row(input, other, _tolerance("rtol", rtol), _tolerance("atol", atol), equal_nan)


@operation(samples=_close_samples, tensors=2)
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are equal up to `atol + rtol * |other|`, as a Python bool.

    >>> import pellucid as torch
    >>> torch.allclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-7]))
    True
    """
    return bool(concrete(isclose(input, other, rtol, atol, equal_nan), "allclose()").all())


@operation(
    samples=lambda draw: [
        call(draw(3), draw(3)), call(draw(2), draw(3)), call(draw.mask(0), draw.mask(0)), call(draw(), draw()),
        call(draw(2, 3), draw(3)), call(draw(2, 0), draw(0, 2)),
        call(draw.integers(1, high=1), draw.integers(1, high=1)), call(draw.integers(2, 3), draw.integers(2, 3)),
        call(draw.mask(), draw.mask()), call(draw.complex(2), draw.complex(2)),
    ],
)  # fmt: skip
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and equal elements, as a Python bool.

    >>> import pellucid as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    return tuple(input.shape) == tuple(other.shape) and bool(concrete(eq(input, other), "equal()").all())


# --- whole numbers: flat nearly everywhere, so the gradient is zero


def sign_of(a: np.ndarray) -> np.ndarray:
    """-1, 0 or 1, and 0 for NaN."""
    return a.copy() if a.dtype.kind == "b" else (a > 0).astype(a.dtype) - (a < 0)


sign = unary("sign", only("biuf", sign_of), lambda g: zeros_like_row(g), dtypes="promote",
             out="exact", doc="-1, 0 or 1: the sign of each element.")  # fmt: skip


def _whole(ufunc: np.ufunc) -> Any:
    """Round floats; integers are whole already."""

    def rounded(a: np.ndarray) -> np.ndarray:
        return ufunc(a) if a.dtype.kind == "f" else a.copy()

    rounded.__name__ = ufunc.__name__
    return only("iuf", rounded)


def _frac(a: np.ndarray) -> np.ndarray:
    return a - np.trunc(a)


floor = unary("floor", _whole(np.floor), lambda g: zeros_like_row(g), dtypes="promote", lower="llvm.floor",
              out="exact", doc="The largest whole number that is not above each element.")  # fmt: skip
ceil = unary("ceil", _whole(np.ceil), lambda g: zeros_like_row(g), dtypes="promote", lower="llvm.ceil",
             out="exact", doc="The smallest whole number that is not below each element.")  # fmt: skip
trunc = unary("trunc", _whole(np.trunc), lambda g: zeros_like_row(g), dtypes="promote", lower="llvm.trunc",
              aliases=("fix",), out="exact", doc="Each element without its digits after the point.")  # fmt: skip
frac = unary("frac", only("f", _frac), same, dtypes="promote",
             out="exact", doc="The digits after the point of each element, with its sign.")  # fmt: skip
rint_row = bind(
    elementwise("round", _whole(np.rint), lambda g: zeros_like_row(g), dtypes="promote", lower="llvm.rint")
)


def _round_decimals(a: np.ndarray, decimals: int) -> np.ndarray:
    """Scale, round, scale back, in the order that keeps the powers of ten whole."""
    ten = a.dtype.type(10 ** (decimals if decimals >= 0 else -decimals))
    return np.rint(a * ten) / ten if decimals >= 0 else np.rint(a / ten) * ten


_round_decimals_row = bind(
    elementwise(
        "round_decimals", only("f", _round_decimals), lambda g, decimals: zeros_like_row(g), grad_name="RoundBackward1",
        dtypes="promote",
    )
)  # fmt: skip


def round(input: Any, *, decimals: int = 0) -> Any:
    """The nearest number with so many digits after the point; halves go to the even neighbour.

    >>> import pellucid as torch
    >>> torch.round(torch.tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    """
    return _round_decimals_row(input, decimals) if decimals else rint_row(input)


publish(
    round, out="exact",
    samples=lambda draw: [
        call(draw()), call(draw(5)), call(draw(2, 3)), call(draw(0)), call(draw(4, 1, 2)), call(draw(5), decimals=1),
        call(draw(2, 3), decimals=1), call(draw(5, low=-90.0, high=90.0), decimals=-1), call(draw(2, 0)),
        call(draw(), decimals=2), call(draw(3, 2).mT),
    ],
    inplace=True,
    aliases=("torch.special.round",),
)  # fmt: skip
