"""assert_close: two results are equal up to rounding, or the error says where and by how much they differ."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor
from pellucid.dtypes import from_numpy_dtype

# Relative and absolute tolerance by dtype, as PyTorch has them.
TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


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
    msg: Any = None,
) -> None:
    """Raise an AssertionError unless both are equal within the tolerance of their dtype, part by part in containers.

    `msg` is what the error says instead, or a function of what it would say.

    >>> import pellucid as torch
    >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    >>> torch.testing.assert_close({"w": [torch.zeros(1)]}, {"w": [torch.zeros(1)]})
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both `rtol` and `atol` must be either specified or unspecified, got {rtol=} and {atol=}.")
    for mine, its in _pairs(actual, expected):
        try:
            _check(mine, its, rtol, atol, equal_nan, check_dtype, check_stride)
        except AssertionError as error:
            if msg is None:
                raise
            raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


def _pairs(actual: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """What is to be compared: the parts of sequences and of dictionaries."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            different = sorted(actual.keys() ^ expected.keys(), key=str)
            raise AssertionError(f"The keys of the mappings do not match: {different} are in one of them only")
        actual, expected = list(actual.values()), [expected[key] for key in actual]
    if not isinstance(actual, (list, tuple)) or not isinstance(expected, (list, tuple)):
        yield actual, expected
        return
    if len(actual) != len(expected):
        raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
    for mine, its in zip(actual, expected, strict=True):
        yield from _pairs(mine, its)


def _check(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, check_dtype: bool,
    check_stride: bool,
) -> None:  # fmt: skip
    if actual is None and expected is None:
        return
    a, b = _array(actual), _array(expected)
    if a.shape != b.shape:
        raise AssertionError(f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.")
    if check_dtype and a.dtype != b.dtype:
        names = f"{from_numpy_dtype(a.dtype)} != {from_numpy_dtype(b.dtype)}"
        raise AssertionError(f"The values for attribute 'dtype' do not match: {names}.")
    if check_stride and a.strides != b.strides:
        raise AssertionError("The values for attribute 'stride()' do not match.")
    relative, absolute = TOLERANCES.get(a.dtype.name, (0.0, 0.0))
    _compare(a, b, relative if rtol is None else rtol, absolute if atol is None else atol, equal_nan)


def _array(value: Any) -> np.ndarray:
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _compare(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> None:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    close = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if close.all():
        return
    difference = np.where(close, 0.0, np.abs(x - y))
    worst = tuple(int(i) for i in np.unravel_index(int(np.nanargmax(difference)) if difference.size else 0, a.shape))
    raise AssertionError(
        f"Tensor-likes are not close!\n\nMismatched elements: {(~close).sum()} / {close.size}\n"
        f"Greatest absolute difference: {difference[worst]} at index {worst} (up to {atol} allowed)\n"
        f"There: {x[worst]} against {y[worst]} (relative tolerance {rtol})"
    )
