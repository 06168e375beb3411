"""assert_close: two results are equal up to rounding, or the error says in PyTorch's words where they differ."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor
from pellucid.dtypes import promote_types
from pellucid.ops.construct import as_tensor

# Relative and absolute tolerance by dtype, as PyTorch has them; whole numbers must be equal.
TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}
EXACT = (0.0, 0.0)
NUMBERS = (int, float, complex)


@dataclass(frozen=True)
class Options:
    """What counts as close, and what else must agree."""

    allow_subclasses: bool
    tolerance: tuple[float, float] | None
    equal_nan: bool
    check_dtype: bool
    check_stride: bool


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError unless both are equal within the tolerance of their dtype, part by part in containers.

    `msg` is what the error says instead, or a function of what it would say.

    >>> import pellucid as torch
    >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    >>> torch.testing.assert_close({"w": [torch.zeros(1)]}, {"w": [torch.zeros(1)]})
    """
    if rtol is None or atol is None:
        if rtol is not atol:
            absent = "rtol" if rtol is None else "atol"
            raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {absent}.")
        tolerance = None
    else:
        tolerance = (rtol, atol)
    options = Options(allow_subclasses, tolerance, equal_nan, check_dtype, check_stride)
    for place, mine, its in _pairs(actual, expected):
        problem = _difference(mine, its, options)
        if problem is not None:
            told = f"{problem}\n\nThe failure occurred for item {place}" if place else problem
            raise AssertionError(told if msg is None else msg(told) if callable(msg) else msg)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """The old form of `assert_close`: wider tolerances, and NaN equals NaN.

    >>> import warnings
    >>> import pellucid as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.testing.assert_allclose(torch.ones(2), [1.0, 1.00005])
    """
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
    )
    actual, expected = (each if isinstance(each, Tensor) else as_tensor(each) for each in (actual, expected))
    if rtol is None and atol is None:
        names = {str(each.dtype).removeprefix("torch.") for each in (actual, expected)}
        rtol, atol = map(max, *(OLD_TOLERANCES.get(name, TOLERANCES.get(name, EXACT)) for name in names), (0.0, 0.0))
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _pairs(actual: Any, expected: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """What is to be compared, and where it is: the parts of sequences and of dictionaries."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing = sorted(expected.keys() - actual.keys(), key=str)
        more = sorted(actual.keys() - expected.keys(), key=str)
        if missing or more:
            lines = [("Missing keys in the actual mapping", missing), ("Additional keys in the actual mapping", more)]
            told = "\n".join(f"{what}: {keys}" for what, keys in lines if keys)
            raise AssertionError(f"The keys of the mappings do not match:\n{told}")
        keys = list(actual)
    elif isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        keys = list(range(len(actual)))
    else:
        yield place, actual, expected
        return
    for key in keys:
        yield from _pairs(actual[key], expected[key], f"{place}[{key!r}]")


def _difference(actual: Any, expected: Any, options: Options) -> str | None:
    """What makes two parts differ; None if they are close."""
    mine, its = (each.item() if isinstance(each, np.generic) else each for each in (actual, expected))
    if mine is None or its is None:
        return None if mine is its else f"None mismatch: {mine} is not {its}"
    if isinstance(mine, bool) and isinstance(its, bool):
        return None if mine is its else f"Booleans mismatch: {mine} is not {its}"
    if isinstance(mine, NUMBERS) and isinstance(its, NUMBERS):
        if options.check_dtype and type(mine) is not type(its):
            return f"The (d)types do not match: {type(mine)} != {type(its)}."
        wide = np.result_type(type(mine), type(its), np.int64)
        return _values(as_tensor(np.asarray(mine, wide)), as_tensor(np.asarray(its, wide)), options)
    _check_comparable(mine, its, options.allow_subclasses)
    a, b = (as_tensor(each).detach() for each in (mine, its))
    if a.shape != b.shape:
        return f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}."
    if options.check_dtype and a.dtype != b.dtype:
        return f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}."
    if options.check_stride and a.stride() != b.stride():
        return f"The values for attribute 'stride()' do not match: {a.stride()} != {b.stride()}."
    return _values(a, b, options)


def _check_comparable(actual: Any, expected: Any, allow_subclasses: bool) -> None:
    """Refuse to compare a tensor with something that is none: it is a mistake, however close the numbers are."""
    mine, its = type(actual), type(expected)
    related = issubclass(mine, its) or issubclass(its, mine) if allow_subclasses else mine is its
    if not related or not isinstance(actual, (Tensor, np.ndarray)):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {mine} and {its}: convert one of them first"
        )


def _values(a: Any, b: Any, options: Options) -> str | None:
    """Where the numbers of two tensors of one shape differ, and by how much."""
    kinds = [TOLERANCES.get(str(each.dtype).removeprefix("torch."), EXACT) for each in (a, b)]
    relative, absolute = options.tolerance or (max(kinds[0][0], kinds[1][0]), max(kinds[0][1], kinds[1][1]))
    common = promote_types(a.dtype, b.dtype)
    whole = not (a.to(common).is_floating_point() or a.to(common).is_complex())
    a, b = (each.long() if whole else each.to(common) for each in (a, b))
    close = a.isclose(b, rtol=relative, atol=absolute, equal_nan=options.equal_nan)
    if bool(close.all()):
        return None
    exact = (relative, absolute) == EXACT
    apart = (a - b).abs()
    ratio = (apart / b).abs()
    limits = ["" if exact else f" (up to {limit} allowed)" for limit in (absolute, relative)]
    word = "equal" if exact else "close"
    if a.ndim == 0:
        return (
            f"Scalars are not {word}!\n\nExpected {b.item()} but got {a.item()}.\n"
            f"Absolute difference: {apart.item()}{limits[0]}\nRelative difference: {ratio.item()}{limits[1]}"
        )
    wrong = int((~close).sum())
    return (
        f"Tensor-likes are not {word}!\n\nMismatched elements: {wrong} / {a.numel()} ({wrong / a.numel():.1%})\n"
        f"Greatest absolute difference: {_worst(apart, close)}{limits[0]}\n"
        f"Greatest relative difference: {_worst(ratio, close)}{limits[1]}"
    )


def _worst(apart: Any, close: Any) -> str:
    """The greatest difference, with its place; nan is greater than any."""
    flat = apart.masked_fill(close, 0).flatten()
    place = int(flat.argmax())
    return f"{flat[place].item()} at index {tuple(int(i) for i in np.unravel_index(place, apart.shape))}"
