"""Every size from which an operation takes another way, crossed with every layout of its inputs.

Large arrays go through compiled loops and threads. Two ways to get there: all thresholds are lowered, so that every
operation takes these ways with its own small samples; and samples are repeated until they are large, with the
thresholds as they are.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pellucid.errors import LinAlgError
from pellucid.native import Kernel
from pellucid.native import kernel as kernels
from pellucid.ops.nn import workers
from pellucid.ops.operation import Operation, Sample
from pellucid.testing import claims
from pellucid.testing.claims.arrays import expanded, fortran, in_single_precision, reversed_memory, strided

DISTINCT = claims.distinct_operations()
PARTS = 8
EVERY = os.environ.get("PELLUCID_SOAK", "") not in ("", "0")  # all samples in all layouts
Layout = Callable[[np.ndarray], np.ndarray]
# Random numbers have a state of so many words, and normal ones are made in blocks of 16.
FIXED = {("pellucid.ops.streams", "WORDS"), ("pellucid.ops.streams", "CHUNK")}


def packed(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="C")


def transposed(array: np.ndarray) -> np.ndarray:
    """The same values; the last two dimensions have changed their places in memory."""
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2) if array.ndim > 1 else array


def offset(array: np.ndarray) -> np.ndarray:
    """The same values, in order, behind an element that is not theirs."""
    memory = np.zeros(array.size + 1, array.dtype)
    memory[1:] = array.reshape(-1)
    return memory[1:].reshape(array.shape)


LAYOUTS = (packed, offset, fortran, transposed, strided, reversed_memory, expanded)


def thresholds() -> Iterator[tuple[ModuleType, str]]:
    """The sizes that the modules of the engine and the operations compare with, wherever they are imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("pellucid.ops", "pellucid.core.large", "pellucid.core.backward", "pellucid.native.kernel")):
            for key, value in vars(module).items():
                if key.isupper() and type(value) is int and 500 <= value <= 1 << 24 and (name, key) not in FIXED:
                    yield module, key


@contextmanager
def lowered(compiled: bool) -> Iterator[None]:
    """Every array is large, and two threads share the work: in compiled loops, or as where llvmlite is missing."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in thresholds():
            patch.setattr(module, name, 4)
        if not compiled:
            patch.setattr(Kernel, "available", lambda self, dtype: False)
        patch.setattr(workers, "HANDS", 2)
        patch.setattr(workers, "WORTH", 1e-9)
        patch.setattr(kernels, "_hands", 2)
        yield


def test_the_thresholds_are_found() -> None:
    found = {f"{module.__name__}.{name}" for module, name in thresholds()}
    assert {"pellucid.core.large.LARGE", "pellucid.core.backward.LARGE", "pellucid.ops.nn.kernels.SHARED"} <= found
    assert {"pellucid.native.kernel.MANY", "pellucid.ops.gemm.WORTH", "pellucid.ops.select.LARGE"} <= found
    assert len(found) > 25


def results(operation: Operation, sample: Sample) -> list[Any] | None:
    """Values and gradients; None where the operation refuses (the rows of an expanded matrix are equal)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            values, _, gradients = claims.gradients(operation, sample)
        except LinAlgError:
            return None

    return [None if y is None else y.array for y in [*values, *gradients] if y is None or hasattr(y, "array")]


def contiguous(sample: Sample) -> Sample:
    return claims.replaced(sample, lambda tensor: claims.fresh(tensor, packed(tensor.array)))


def different(ours: list[Any], theirs: list[Any]) -> str:
    """What is not nearly the same, or nothing."""
    for at, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if (a is None) != (b is None):
            return f"result {at} is missing"
        if a is None:
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {at} is {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        if a.dtype.kind not in "fc":
            if not np.array_equal(a, b):
                return f"result {at}"
            continue
        finite = np.abs(b[np.isfinite(b)], dtype=float) if b.dtype.kind == "f" else np.abs(b[np.isfinite(b)])
        digits = 1e-10 if a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) == 8 else 2e-5
        if not np.allclose(a, b, digits, digits * (1 + finite.max(initial=0.0)), equal_nan=True):
            return f"result {at}"
    return ""


def crossed(operation: Operation, sample: Sample, layout: Layout, compiled: bool) -> str:
    """What differs between the way of large arrays, in a layout, and the way of small ones, in C order."""
    odd = claims.replaced(sample, partial(claims.laid_out, layout))
    expected = results(operation, contiguous(odd))
    with lowered(compiled):
        found = results(operation, odd)
    if expected is None or found is None:
        return "" if expected is found else "one of the two is refused"
    return different(found, expected)


def fullness(sample: Sample) -> tuple[bool, int, int]:
    """Whether a sample's arrays have one shape; how many dimensions they have at most, and how many elements."""
    arrays = [tensor.array for tensor in claims.tensors_in(sample)]
    ranks, sizes = [each.ndim for each in arrays], [each.size for each in arrays]
    return len({each.shape for each in arrays}) == 1, max(ranks, default=0), max(sizes, default=0)


def numbered(samples: list[Sample], layouts: tuple[Layout, ...]) -> Iterator[tuple[Sample, Layout, bool]]:
    """Samples in single and in double precision, in a layout, with and without compiled loops.

    The fullest of them in all layouts in single precision, in which more loops are compiled; the others by turns.
    """
    ways = list(product(layouts, (True, False)))
    for number, sample in enumerate(sorted(samples, key=fullness, reverse=True)):
        for single in (True, False):
            each = in_single_precision(sample) if single else sample
            if EVERY or (single and not number):
                yield from ((each, *way) for way in ways)
            elif single == bool(number % 2):
                yield each, *ways[number % len(ways)]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_gives_the_same_beyond_every_threshold(part: int) -> None:
    failures = []
    for operation in list(DISTINCT.values())[part::PARTS]:
        layouts = LAYOUTS[:1] if "layout_does_not_matter" in operation.unclaimed else LAYOUTS
        for sample, layout, compiled in numbered(claims.samples_of(operation), layouts):
            if difference := crossed(operation, sample, layout, compiled):
                way = f"{layout.__name__}{', compiled' if compiled else ''}"
                failures.append(f"{operation.name}({claims.describe(sample)}) {way}: {difference}")
    assert not failures, "\n".join(failures)


# --- as large as the thresholds ask for

SIZE = (1 << 17) + 6  # elements, above all sizes from which on single elements are shared among threads


@contextmanager
def plain() -> Iterator[None]:
    """NumPy's ways only."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in thresholds():
            patch.setattr(module, name, 1 << 40)
        patch.setattr(Kernel, "available", lambda self, dtype: False)
        yield


def grown(sample: Sample, size: int) -> Sample | None:
    """The sample with its largest array, and those that begin alike, repeated along the first dimension."""
    arrays = [tensor.array for tensor in claims.tensors_in(sample)]
    largest = max(arrays, key=lambda array: array.size, default=np.zeros(()))
    if not largest.ndim or not largest.size:
        return None
    times = -(-size // largest.size)

    def longer(tensor: Any) -> Any:
        array = tensor.array
        if array.ndim != largest.ndim or array.shape[0] != largest.shape[0]:
            return tensor
        repeated = np.concatenate([array] * times)
        if array.dtype.kind == "f":  # no row is like the other
            repeated *= np.linspace(0.9, 1.0, len(repeated), dtype=array.dtype).reshape(-1, *(1,) * (array.ndim - 1))
        return claims.fresh(tensor, repeated)

    return claims.replaced(sample, longer)


LAYOUTS_WHEN_LARGE = LAYOUTS if EVERY else (packed, strided)
# Of a large array these make a result of every row, or they take seconds.
SLOW = ("split", "unbind", "ctc_loss", "matrix_exp", "cdist", "zeta", "svd_lowrank", "pca_lowrank", "rnn_")


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_gives_the_same_when_it_is_large(part: int) -> None:
    failures, tried = [], 0
    for operation in list(DISTINCT.values())[part::PARTS]:
        if operation.name.startswith(SLOW) or "layout_does_not_matter" in operation.unclaimed:
            continue
        for sample in sorted(claims.samples_of(operation), key=fullness, reverse=True)[:1]:
            for layout in LAYOUTS_WHEN_LARGE:
                difference = when_large(operation, in_single_precision(sample), layout)
                tried += difference is not None
                if difference:
                    failures.append(f"{operation.name}({claims.describe(sample)}) {layout.__name__}: {difference}")
    assert not failures, "\n".join(failures)
    assert tried > 80  # of some 80 operations in two layouts, those that can grow


def in_proportion(operation: Operation, sample: Sample) -> bool:
    """Whether the sample can grow, and no result faster: a matrix of all pairs would need all memory."""
    sizes: list[list[int]] = []
    largest = max((tensor.array.size for tensor in claims.tensors_in(sample)), default=0)
    for times in (2, 8):
        more = grown(sample, times * largest)
        try:
            found = None if more is None else results(operation, more)
        except (RuntimeError, ValueError, IndexError, TypeError):
            return False
        sizes.append([each.size for each in found or () if each is not None])
    return any(sizes[0]) and all(later <= 6 * before for before, later in zip(*sizes, strict=True))


def when_large(operation: Operation, sample: Sample, layout: Layout) -> str | None:
    """What differs between the ways of large arrays and NumPy's; None where the sample cannot grow."""
    if not in_proportion(operation, sample):
        return None
    more = grown(sample, SIZE)
    odd = claims.replaced(more, partial(claims.laid_out, layout))
    with plain():
        try:
            expected = results(operation, contiguous(odd))
        except (RuntimeError, ValueError, IndexError, TypeError):
            return None
    found = results(operation, odd)
    return different(found, expected) if expected and found else None
