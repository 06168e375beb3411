"""Arrays as the page shows them: every number of a small one; of a large one statistics, a histogram, a heat map."""

import base64
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.diagnose.pulling import norm
from pellucid.explorer.graph import FEW

__all__ = ["plain_number", "summary"]

HEAT = 32  # rows and columns of a heat map
BINS = 24


def plain_number(value: Any) -> float | int | str:
    """A number that JSON can carry: what it has no number for is text, which JavaScript's Number() understands.

    >>> plain_number(2.5), plain_number(float("nan")), plain_number(float("-inf"))
    (2.5, 'NaN', '-Infinity')
    """
    value = float(value)
    if np.isfinite(value):
        return int(value) if value == int(value) and abs(value) < 1e15 else value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def summary(array: Any, heat: int = HEAT) -> dict[str, Any]:
    """What the page shows of an array; complex numbers by their size.

    >>> summary(np.array(3.0))
    {'shape': [], 'dtype': 'float64', 'numbers': [3]}
    """
    array = np.asarray(array)
    dtype = str(dtypes.from_numpy_dtype(array.dtype)).removeprefix("torch.")
    told: dict[str, Any] = {"shape": list(array.shape), "dtype": dtype}
    numbers = (np.abs(array) if array.dtype.kind == "c" else array).astype(np.float64)
    if array.size <= FEW:
        told["numbers"] = [plain_number(_rounded(value, array.dtype)) for value in numbers.ravel()]
    if array.size > 1:
        told.update(_statistics(numbers))
    if array.size > FEW:
        told["histogram"] = _histogram(numbers)
        if heat:
            told["heat"] = _heat(numbers, heat)
    return told


def _rounded(value: np.float64, dtype: np.dtype) -> float:
    """A float32 says 0.1, not 0.10000000149: its shortest text, read as a float64."""
    if dtype == np.float32 and np.isfinite(value):
        return float(str(np.float32(value)))
    return float(value)


def _statistics(numbers: np.ndarray) -> dict[str, Any]:
    finite = numbers[np.isfinite(numbers)]
    low, high, mean = (finite.min(), finite.max(), finite.mean()) if finite.size else (np.nan,) * 3
    told = {"min": low, "max": high, "mean": mean, "norm": norm(numbers) if finite.size == numbers.size else np.nan}
    shown: dict[str, Any] = {name: plain_number(f"{value:.6g}") for name, value in told.items()}
    nan, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    return {**shown, **({"nan": nan} if nan else {}), **({"inf": infinite} if infinite else {})}


def _histogram(numbers: np.ndarray) -> list[int]:
    """How many of the finite numbers are in each of the equal parts between the smallest and the largest."""
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return [0] * BINS
    low, high = float(finite.min()), float(finite.max())
    if high - low == 0 or not np.isfinite(high - low):
        return [int(finite.size), *[0] * (BINS - 1)]
    places = np.minimum(((finite - low) / (high - low) * BINS).astype(int), BINS - 1)
    return np.bincount(places, minlength=BINS).tolist()


def _heat(numbers: np.ndarray, most: int) -> dict[str, Any]:
    """A picture of few cells, each the mean of a block: a byte from min to max, 255 where one is not finite."""
    grid = _as_grid(numbers)
    rows, columns = min(most, grid.shape[0]), min(most, grid.shape[1])
    cells = np.add.reduceat(np.add.reduceat(grid, _starts(grid.shape[0], rows), 0), _starts(grid.shape[1], columns), 1)
    cells /= np.outer(_widths(grid.shape[0], rows), _widths(grid.shape[1], columns))
    good = np.isfinite(cells)
    low, high = (cells[good].min(), cells[good].max()) if good.any() else (0.0, 0.0)
    scaled = np.zeros(cells.shape) if high == low else (cells - low) / (high - low) * 254
    data = np.where(good, np.where(good, scaled, 0).round(), 255).astype(np.uint8).tobytes()
    return {
        "rows": rows, "columns": columns, "low": plain_number(f"{low:.4g}"), "high": plain_number(f"{high:.4g}"),
        "cells": base64.b64encode(data).decode(),
    }  # fmt: skip


def _as_grid(numbers: np.ndarray) -> np.ndarray:
    """The last axis across, all others down; a long vector is folded into a square."""
    if numbers.ndim >= 2 and numbers.shape[-1] > 1:
        return numbers.reshape(-1, numbers.shape[-1])
    flat = numbers.ravel()
    width = int(np.ceil(np.sqrt(flat.size)))
    height = int(np.ceil(flat.size / width))
    return np.pad(flat, (0, width * height - flat.size), constant_values=np.nan).reshape(height, width)


def _starts(size: int, parts: int) -> np.ndarray:
    return np.arange(parts) * size // parts


def _widths(size: int, parts: int) -> np.ndarray:
    return np.diff([*_starts(size, parts), size])
