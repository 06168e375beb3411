"""The text of a tensor: `repr` exactly as PyTorch writes it, digit for digit and break for break.

A tensor prints in three steps. A `_Style` is chosen from the numbers that will be shown (how many digits,
fixed or scientific, how wide); the numbers are laid out in rows, blocks and an ellipsis where there are
too many; then come the suffixes, such as the dtype where the numbers do not tell it.

>>> print(format_tensor(np.array([[1.0, 2.5], [-3.0, 1e4]], dtype="float32")))
tensor([[ 1.0000e+00,  2.5000e+00],
        [-3.0000e+00,  1.0000e+04]])
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import numpy as np

from pellucid.dtypes import bool_, default_complex, default_float, from_numpy_dtype, int64

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Number: TypeAlias = bool | int | float | complex

# --------------------------------------------------------------------------------------------------
# Options
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PrintOptions:
    """How tensors print; `sci_mode=None` lets the numbers decide.

    >>> PrintOptions().precision
    4
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: Final[dict[str, PrintOptions]] = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_options: PrintOptions = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print: first a profile ("default", "short" or "full"), then the options over it.

    An option left out keeps its value, except `sci_mode`, which every call sets; an unknown profile is
    passed over. Both as in torch.

    >>> set_printoptions(precision=2)
    >>> format_tensor(np.array([1.12345], dtype="float32"))
    'tensor([1.12])'
    >>> set_printoptions(profile="default")
    """
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    base = _options if profile is None else _PROFILES.get(profile, _options)
    _install(dataclasses.replace(base, **changes, sci_mode=sci_mode))


def _install(options: PrintOptions) -> None:
    """Make these the options in force."""
    global _options
    _options = options


def get_printoptions() -> dict[str, Any]:
    """Return the options in force, by name.

    >>> get_printoptions()["linewidth"]
    80
    """
    return dataclasses.asdict(_options)


@contextmanager
def printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> Iterator[None]:
    """Set options, as `set_printoptions` does, for the length of a `with` block.

    >>> with printoptions(precision=1):
    ...     format_tensor(np.array([1.25], dtype="float32"))
    'tensor([1.2])'
    """
    before = _options
    set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode)
    try:
        yield
    finally:
        _install(before)


# --------------------------------------------------------------------------------------------------
# Style: how one number is written
# --------------------------------------------------------------------------------------------------

# torch goes scientific when the fixed notation would hide digits or fill lines with zeros.
_LARGEST_RATIO: Final = 1000.0
_LARGEST_FIXED: Final = 1e8
_SMALLEST_FIXED: Final = 1e-4


@dataclasses.dataclass(frozen=True)
class _Style:
    """How every number of a tensor is written: a format specification, and a width to pad to."""

    specification: str
    width: int
    adds_point: bool = False

    def write(self, number: Any) -> str:
        """Write a number, padded on the left."""
        return self.bare(number).rjust(self.width)

    def bare(self, number: Any) -> str:
        """Write a number without padding; whole floats end in a point: `1.`."""
        text = format(number, self.specification)
        return text + "." if self.adds_point and math.isfinite(number) else text


@dataclasses.dataclass(frozen=True)
class _ComplexStyle:
    """How complex numbers are written: the parts each have the style of their own numbers."""

    real: _Style
    imaginary: _Style

    @property
    def width(self) -> int:
        """Return the width torch reckons with for wrapping: both parts and the `j`."""
        return self.real.width + self.imaginary.width + 1

    def write(self, number: complex) -> str:
        """Write a number as `real±imaginaryj`."""
        imaginary = self.imaginary.write(number.imag).lstrip() + "j"
        sign = "" if imaginary[0] in "+-" else "+"
        return self.real.write(number.real) + sign + imaginary


def _choose_style(array: Array, options: PrintOptions) -> _Style | _ComplexStyle:
    """Choose the style for the numbers of `array`, which are all that will be shown."""
    kind = from_numpy_dtype(array.dtype)
    if kind.is_complex:
        return _ComplexStyle(_float_style(array.real, options), _float_style(array.imag, options))
    if kind.is_floating_point:
        return _float_style(array, options)
    return _whole_style(array)


def _whole_style(array: Array) -> _Style:
    """Return the style for integers and booleans: as wide as the widest."""
    return _Style("", max((len(str(number)) for number in array.ravel().tolist()), default=0))


def _float_style(array: Array, options: PrintOptions) -> _Style:
    """Return the style for floats; zeros, nan and inf have no say in it."""
    exact = array.astype(np.float64)
    telling = exact[np.isfinite(exact) & (exact != 0)]
    if telling.size == 0:
        return _Style(".0f", 1, adds_point=True)
    whole = bool(np.all(telling == np.ceil(telling)))
    scientific = _needs_exponent(np.abs(telling), whole) if options.sci_mode is None else options.sci_mode
    if scientific:
        return _fitted(_Style(f".{options.precision}e", 0), telling)
    if whole:
        return _fitted(_Style(".0f", 0, adds_point=True), telling)
    return _fitted(_Style(f".{options.precision}f", 0), telling)


def _needs_exponent(magnitudes: Array, whole: bool) -> bool:
    """Tell whether torch writes numbers of these magnitudes in scientific notation."""
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    # Divided as float64: a quotient past its range is simply a large ratio.
    with np.errstate(over="ignore"):
        ratio = np.float64(largest) / np.float64(smallest)
    too_small = not whole and smallest < _SMALLEST_FIXED
    return bool(ratio > _LARGEST_RATIO) or largest > _LARGEST_FIXED or too_small


def _fitted(style: _Style, numbers: Array) -> _Style:
    """Return the style with the width of the widest of `numbers`."""
    return dataclasses.replace(style, width=max(len(style.bare(number)) for number in numbers.tolist()))


# --------------------------------------------------------------------------------------------------
# Layout: where the numbers stand
# --------------------------------------------------------------------------------------------------


def _edges(array: Array, edgeitems: int) -> Array:
    """Keep the first and last `edgeitems` along every dimension that has more than both together.

    >>> _edges(np.arange(9), 2)
    array([0, 1, 7, 8])
    """
    kept = [
        [*range(edgeitems), *range(length - edgeitems, length)] if length > 2 * edgeitems else range(length)
        for length in array.shape
    ]
    # All dimensions in one gather: cutting them in turn would copy most of a large array.
    return array[np.ix_(*kept)]


def _with_gap(items: list[str], length: int, options: PrintOptions, gap: str) -> list[str]:
    """Put the ellipsis in the middle of items that stand for `length` of them, if some are left out."""
    if len(items) == length:
        return items
    return [*items[: options.edgeitems], gap, *items[options.edgeitems :]]


def _lay_out(
    array: Array,
    shape: Sequence[int],
    style: _Style | _ComplexStyle,
    indent: int,
    options: PrintOptions,
) -> str:
    """Write an array in brackets; `shape` is what it had before `_edges` cut it."""
    if array.ndim == 0:
        return style.write(_numbers(array))
    if array.ndim == 1:
        return _lay_out_row(array, shape[0], style, indent, options)
    blocks = [_lay_out(part, shape[1:], style, indent + 1, options) for part in array]
    blocks = _with_gap(blocks, shape[0], options, "...")
    separator = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return f"[{separator.join(blocks)}]"


def _lay_out_row(row: Array, length: int, style: _Style | _ComplexStyle, indent: int, options: PrintOptions) -> str:
    """Write one row in brackets, broken into lines that fit (always at least one number in each)."""
    items = _with_gap([style.write(number) for number in _numbers(row)], length, options, " ...")
    per_line = max(1, (options.linewidth - indent) // (style.width + 2))
    lines = [", ".join(items[start : start + per_line]) for start in range(0, len(items), per_line)]
    separator = ",\n" + " " * (indent + 1)
    return f"[{separator.join(lines)}]"


def _numbers(array: Array) -> Any:
    """Return an array as Python numbers in lists (a bare number for 0-d), bfloat16 included.

    >>> _numbers(np.array([1, 2]))
    [1, 2]
    """
    if from_numpy_dtype(array.dtype).is_floating_point:
        # The scalars of ml_dtypes are not Python floats and do not take format specifications.
        array = array.astype(np.float64)
    return array.tolist()


# --------------------------------------------------------------------------------------------------
# The whole text
# --------------------------------------------------------------------------------------------------


def format_tensor(array: Array, suffixes: Sequence[str] = (), prefix: str = "tensor(") -> str:
    """Return the text of a tensor with these numbers; `suffixes` follow the dtype, if that is shown.

    >>> print(format_tensor(np.array([1, 2], dtype="int32"), ["requires_grad=True"]))
    tensor([1, 2], dtype=torch.int32, requires_grad=True)
    """
    options = _options
    body = _format_body(array, len(prefix), options)
    return _append_suffixes(prefix + body, [*_own_suffixes(array, options), *suffixes], len(prefix), options)


def _format_body(array: Array, indent: int, options: PrintOptions) -> str:
    """Write the numbers, or the edges of them when there are more than the threshold."""
    if array.size == 0:
        return "[]"
    shape = array.shape
    if array.size > options.threshold and shape:
        if options.edgeitems == 0:
            return "[...]"
        array = _edges(array, options.edgeitems)
    return _lay_out(array, shape, _choose_style(array, options), indent, options)


def _own_suffixes(array: Array, options: PrintOptions) -> list[str]:
    """Return the size and the dtype, where the numbers in their brackets do not tell them."""
    suffixes = []
    if array.size == 0:
        hides_size = array.ndim != 1
        told_by_numbers = [default_float()]
    else:
        hides_size = options.edgeitems == 0
        told_by_numbers = [default_float(), default_complex(), int64.numpy, bool_.numpy]
    if hides_size:
        suffixes.append(f"size={tuple(array.shape)}")
    if array.dtype not in told_by_numbers:
        suffixes.append(f"dtype={from_numpy_dtype(array.dtype)}")
    return suffixes


def _append_suffixes(text: str, suffixes: Sequence[str], indent: int, options: PrintOptions) -> str:
    """Close the text with its suffixes, each on the last line if it fits there, else on a new one."""
    # torch counts two characters more than the last line has; breaks would differ without them.
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return text + ")"


def format_scalar(array: Array, specification: str = "") -> str:
    """Return `format(tensor, specification)` of a 0-d tensor, which is that of its Python number.

    >>> format_scalar(np.array(2.0)), format_scalar(np.array(3.14159), ".2f")
    ('2.0', '3.14')
    """
    if array.ndim != 0:
        raise TypeError("unsupported format string passed to Tensor.__format__")
    return format(_numbers(array), specification)
