"""Floats of eight bits: types to store numbers in. PyTorch converts to them and from them, and computes in none."""

from typing import Any, Final

import numpy as np

from pellucid.dtypes.element import (
    NumpyDtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
)

__all__ = ["FLOAT8", "astype"]

FLOAT8: Final[frozenset[NumpyDtype]] = frozenset(
    each.numpy for each in (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
)
_LARGEST = 448.0  # of float8_e4m3fn, which has no infinity: PyTorch takes the largest number where ml_dtypes has NaN


def astype(array: Any, wanted: NumpyDtype) -> Any:
    """Return an array in another dtype, rounded as PyTorch rounds: to eight and sixteen bits by way of float32.

    >>> astype(np.array([300.0, 1e9, 0.3]), float8_e4m3fn.numpy).astype("float32").tolist()
    [288.0, 448.0, 0.3125]
    """
    source = array.dtype
    if source == wanted:
        return array.astype(wanted)
    if source == np.float64 and wanted.itemsize == 2 and wanted.kind in "fV":
        array = array.astype(np.float32)
    if wanted in FLOAT8:
        array = array.astype(np.float32)
        if wanted == float8_e8m0fnu.numpy:
            return _power_of_two(array)
        if wanted == float8_e4m3fn.numpy:
            array = np.clip(array, -_LARGEST, _LARGEST)
    return array.astype(wanted)


def _power_of_two(array: Any) -> Any:
    """Return the exponents of float32 numbers, rounded: this type has no sign, no zero and no fraction."""
    bits = np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    exponent = bits >> 23 & 0xFF
    nearer_the_next = (bits & 0x400000 != 0) & ((bits & 0x3FFFFF != 0) | (exponent > 0))
    rounded = np.where(exponent == 0xFF, 0xFF, exponent + nearer_the_next)
    return rounded.astype(np.uint8).view(float8_e8m0fnu.numpy)
