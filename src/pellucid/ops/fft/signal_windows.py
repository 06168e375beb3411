"""torch.signal.windows: symmetric unless told, in float32 or float64.

Each is a formula of equally spaced numbers. All take sym, dtype, layout, device and requires_grad besides.
"""

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
import scipy.special
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.flags import Truth
from pellucid.ops.arguments import refusal
from pellucid.ops.create import made
from pellucid.ops.fft.windows import exactly
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.ranges import linspace

Formula = Callable[[ndarray], ndarray]


def window(
    name: str, M: int, formula: Formula, ends: Callable[[float], tuple[float, float]], span: float, *,
    dtype: Any = None, layout: Any = dtypes.strided, device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The formula at M equally spaced points between the `ends` that the span (M, or M - 1) gives."""
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise refusal(ValueError, f"{name} requires non-negative window length, got M={M}")
    if layout is not dtypes.strided:
        raise refusal(ValueError, f"{name} is implemented for strided tensors only, got: {layout}")
    if kind not in (dtypes.float32, dtypes.float64):
        raise refusal(ValueError, f"{name} expects float32 or float64 dtypes, got: {kind}")
    dtypes.check_device(device)
    if M == 0:
        return made(np.ones(0, kind.numpy), requires_grad)
    return made(formula(linspace(*ends(span), M, dtype=kind).array), requires_grad)


def _samples(**options: Any) -> Callable[[Draw], list[Sample]]:
    wide: dict[str, Any] = {**options, "dtype": dtypes.float64}
    return lambda draw: [
        call(0, **options), call(1, **options), call(6, **wide), call(7, sym=False, **wide),
        call(5, requires_grad=True, **wide), call(2, sym=False, **wide),
    ]  # fmt: skip


def _positive(what: str, value: float) -> None:
    if value <= 0:
        raise refusal(ValueError, f"{what} must be positive, got: {value} instead.")


# --- bells


@operation(
    samples=lambda draw: [*_samples(tau=0.7)(draw), call(5, center=1.0, sym=False, dtype=dtypes.float64)],
    module="torch.signal.windows",
)
def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: Truth = True, **options: Any) -> Any:
    """Falling exponentially on both sides of the centre, by a factor e every tau.

    >>> import pellucid as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    _positive("Tau", tau)
    if sym and center is not None:
        raise refusal(ValueError, "Center must be None for symmetric windows")
    middle = _middle(M, sym) if center is None else center
    return window(
        "exponential", M, lambda k: exactly(np.exp, -abs(k)), lambda c: (-c / tau, (M - 1 - c) / tau), middle, **options
    )


@operation(samples=_samples(std=0.9), module="torch.signal.windows")
def gaussian(M: int, *, std: float = 1.0, sym: Truth = True, **options: Any) -> Any:
    """The bell of the normal distribution.

    >>> import pellucid as torch
    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    _positive("Standard deviation", std)
    scale = 1 / (std * sqrt(2))
    ends = lambda c: (-c * scale, (M - 1 - c) * scale)
    return window("gaussian", M, lambda k: exactly(np.exp, -(k * k)), ends, _middle(M, sym), **options)


def _middle(M: int, sym: bool) -> float:
    return (M if not sym and M > 1 else M - 1) / 2


@operation(samples=_samples(beta=4.0), module="torch.signal.windows")
def kaiser(M: int, *, beta: float = 12.0, sym: Truth = True, **options: Any) -> Any:
    """The Kaiser window; beta says how narrow it is.

    >>> import pellucid as torch
    >>> torch.signal.windows.kaiser(3, beta=3.0)
    tensor([0.2049, 1.0000, 0.2049])
    """
    if beta < 0:
        raise refusal(ValueError, f"beta must be non-negative, got: {beta} instead.")

    def formula(k: ndarray) -> ndarray:
        top = k.dtype.type(beta)
        height = np.sqrt(np.maximum(top * top - k * k, 0))
        return exactly(scipy.special.i0, height) / exactly(scipy.special.i0, np.asarray(top))

    ends = lambda span: (-beta, min(-beta + (M - 1) * 2 * beta / span, beta))
    return window("kaiser", M, _unless_single(M, formula), ends, _span(M, sym), **options)


def _span(M: int, sym: bool) -> int:
    """How many steps a period has; a single point has none, and any number does."""
    return max(M - 1 if sym else M, 1)


def _unless_single(M: int, formula: Formula) -> Formula:
    """A window of a single point is 1."""
    return np.ones_like if M == 1 else formula


# --- arcs and triangles


@operation(samples=_samples(), module="torch.signal.windows")
def cosine(M: int, *, sym: Truth = True, **options: Any) -> Any:
    """Half a period of a sine.

    >>> import pellucid as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    ends = lambda span: (0.5 * pi / span, (M - 0.5) * pi / span)
    return window("cosine", M, lambda k: exactly(np.sin, k), ends, M + 1 if not sym and M > 1 else M, **options)


@operation(samples=_samples(), module="torch.signal.windows")
def bartlett(M: int, *, sym: Truth = True, **options: Any) -> Any:
    """A triangle.

    >>> import pellucid as torch
    >>> torch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    formula = _unless_single(M, lambda k: 1 - abs(k))
    return window("bartlett", M, formula, lambda span: (-1, -1 + (M - 1) * 2 / span), _span(M, sym), **options)


# --- sums of cosines


@operation(samples=_samples(a=[0.5, 0.3, 0.2]), module="torch.signal.windows")
def general_cosine(M: int, *, a: Sequence[float], sym: Truth = True, **options: Any) -> Any:
    """A sum of cosines with coefficients a, their signs alternating.

    >>> import pellucid as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.25, 0.25])
    tensor([0.5000, 1.0000, 0.5000])
    """
    if not isinstance(a, (tuple, list)):
        raise refusal(TypeError, "Coefficients must be a list/tuple", f"this is a {type(a).__name__}")
    if not a:
        raise refusal(ValueError, "Coefficients cannot be empty")

    def formula(k: ndarray) -> ndarray:
        return np.add.reduce([exactly(np.cos, k * i) * ((-1) ** i * weight) for i, weight in enumerate(a)])

    ends = lambda span: (0, (M - 1) * 2 * pi / span)
    return window("general_cosine", M, _unless_single(M, formula), ends, _span(M, sym), **options)


@operation(samples=_samples(alpha=0.6), module="torch.signal.windows")
def general_hamming(M: int, *, alpha: float = 0.54, sym: Truth = True, **options: Any) -> Any:
    """alpha - (1 - alpha) cos.

    >>> import pellucid as torch
    >>> torch.signal.windows.general_hamming(3, alpha=0.6)
    tensor([0.2000, 1.0000, 0.2000])
    """
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, **options)


def _sum_of_cosines(name: str, a: list[float], doc: str) -> None:
    """A named choice of coefficients."""

    def function(M: int, *, sym: Truth = True, **options: Any) -> Any:
        return general_cosine(M, a=a, sym=sym, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    >>> import pellucid as torch
    >>> torch.signal.windows.{name}(3)[1].round()
    tensor(1.)
    """
    operation(samples=_samples(), module="torch.signal.windows")(function)


_sum_of_cosines("hann", [0.5, 0.5], "One period of a cosine, raised so that it begins at 0.")
_sum_of_cosines("hamming", [0.54, 0.46], "A raised cosine that does not quite begin at 0.")
_sum_of_cosines("blackman", [0.42, 0.5, 0.08], "A sum of two cosines, flatter at its ends than hann.")
_sum_of_cosines(
    "nuttall", [0.3635819, 0.4891775, 0.1365995, 0.0106411], "A sum of three cosines with very small side lobes."
)
