"""Claims about arrays: single precision stays single, and strides do not matter."""

from collections.abc import Callable
from functools import partial

import numpy as np

from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.errors import LinAlgError
from pellucid.ops.operation import Operation, Sample
from pellucid.testing.claims.comparing import assert_close
from pellucid.testing.claims.oracle import HAS_TORCH, dtype_name, run_torch
from pellucid.testing.claims.registry import claim
from pellucid.testing.claims.samples import fresh, gradients, leaves, replaced, tensors_in
from pellucid.transforms.differences import reals

SINGLE = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}


def in_single_precision(sample: Sample) -> Sample:
    """The sample in float32 and complex64."""

    def new(tensor: Tensor) -> Tensor:
        narrow = SINGLE.get(np.dtype(tensor.array.dtype))
        return tensor if narrow is None else fresh(tensor, tensor.array.astype(narrow))

    return replaced(sample, new)


@claim()
def single_precision_is_kept(operation: Operation, sample: Sample) -> None:
    """float32 in, float32 out and float32 gradients, near the float64 ones (and PyTorch's dtype)."""
    wide, _, wide_gradients = gradients(operation, sample)
    narrow_sample = in_single_precision(sample)
    narrow, variables, found = gradients(operation, narrow_sample)
    theirs = run_torch(operation, narrow_sample) if HAS_TORCH else None
    for k, (y, e) in enumerate(zip(narrow, wide, strict=True)):
        if not isinstance(y, Tensor):
            continue
        if theirs is not None:
            assert dtype_name(y) == dtype_name(theirs[0][k]), f"result {k} in float32 gives {y.dtype}"  # type: ignore[attr-defined]
        elif not any(isinstance(value, dtypes.dtype) for value in leaves((sample.args, sample.kwargs))):
            wanted = SINGLE.get(np.dtype(e.array.dtype), e.array.dtype)
            assert y.array.dtype == wanted or not variables, f"result {k} in float32 gives {y.array.dtype}"
        if e.array.dtype.kind in "fc":
            assert_close(y.array, e.array, 1e-4, f"result {k} in float32", atol=1e-4 * (1 + _largest(e.array)))
    for k, (g, wide_g, x) in enumerate(zip(found, wide_gradients, variables, strict=True)):
        if g is not None:
            assert g.array.dtype == x.array.dtype, f"gradient {k} of {x.array.dtype} is {g.array.dtype}"
        if g is not None and wide_g is not None:
            assert_close(
                g.array, wide_g.array, 1e-3, f"gradient {k} in float32", atol=1e-3 * (1 + _largest(wide_g.array))
            )


def _largest(array: np.ndarray) -> float:
    values = np.abs(reals(array))
    return float(values[np.isfinite(values)].max(initial=0.0))


def fortran(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="F")


def strided(array: np.ndarray) -> np.ndarray:
    """The same values, with a gap after each element of the last dimension."""
    if not array.ndim:
        return np.stack([array, array])[1, ...]
    return np.repeat(array, 2, axis=-1)[..., ::2]


def reversed_memory(array: np.ndarray) -> np.ndarray:
    """The same values, stored backwards and read with negative strides."""
    index = (slice(None, None, -1),) * array.ndim
    return np.ascontiguousarray(array[index]).reshape(array.shape)[index]


def expanded(array: np.ndarray) -> np.ndarray:
    """The first slice of an array repeated with stride zero: other values, the same shape."""
    return np.broadcast_to(array[:1], array.shape) if array.ndim and array.shape[0] else array


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def laid_out(layout: Callable[[np.ndarray], np.ndarray], tensor: Tensor) -> Tensor:
    """A tensor's values in another layout."""
    return fresh(tensor, layout(tensor.array))


LAYOUTS = (fortran, strided, reversed_memory, expanded, read_only)


@claim()
def layout_does_not_matter(operation: Operation, sample: Sample) -> None:
    """Other strides, the same result; and no input is written to."""
    for layout in LAYOUTS:
        odd = replaced(sample, partial(laid_out, layout))
        plain_sample = replaced(odd, lambda tensor: fresh(tensor, np.array(tensor.array, order="C")))
        try:
            expected, _, expected_gradients = gradients(operation, plain_sample)
        except LinAlgError:  # a matrix of equal rows has no inverse
            continue
        before = [reals(tensor.array).tobytes() for tensor in tensors_in(odd)]
        results, _, found = gradients(operation, odd)
        after = [reals(tensor.array).tobytes() for tensor in tensors_in(odd)]
        assert before == after, f"an input with layout {layout.__name__} was written to"
        for k, (y, e) in enumerate(zip(results, expected, strict=True)):
            if isinstance(e, Tensor):
                assert_close(y.array, e.array, 1e-12, f"result {k} with layout {layout.__name__}")
        for k, (g, e) in enumerate(zip(found, expected_gradients, strict=True)):
            if g is not None and e is not None:
                assert_close(g.array, e.array, 1e-12, f"gradient {k} with layout {layout.__name__}")
