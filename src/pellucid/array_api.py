"""The Python array API standard (2024.12) over tensors: `x.__array_namespace__()` is this module.

Code that is written for the standard (of scikit-learn, of SciPy, or one's own) runs on tensors and stays
differentiable. The names and parameters are the standard's, which are NumPy's; each is one of the functions by which
NumPy's own are answered (interop/functions.py), so a name means the same in both places.

>>> import pellucid as torch
>>> def standardise(x):
...     xp = x.__array_namespace__()
...     return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0, correction=1)
>>> x = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
>>> standardise(x)
tensor([[-1.],
        [ 0.],
        [ 1.]], grad_fn=<DivBackward0>)

Where the standard and PyTorch differ, PyTorch's way stays: `x.size` is a method (`math.prod(x.shape)` is the number
of elements), integers are summed up in int64, and integers and floats may be mixed.
"""

import builtins
import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from pellucid import dtypes
from pellucid.core.attributes import attribute
from pellucid.core.tensor import Tensor
from pellucid.interop import elements, products, shapes, ufuncs
from pellucid.interop.dlpack import from_dlpack as from_dlpack
from pellucid.interop.vocabulary import NAMED, Function, as_type, holds_tensor, lift, torch

__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

DTYPES = {
    name: dtypes.DTYPE_NAMES[name]
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
        "complex64", "complex128",
    )
}  # fmt: skip

ELEMENTWISE = """
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
bitwise_right_shift bitwise_xor ceil conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow reciprocal remainder sign
signbit sin sinh sqrt square subtract tan tanh trunc
"""
FUNCTIONS = """
all any argmax argmin argsort astype broadcast_to can_cast concat count_nonzero cumulative_prod
cumulative_sum diff expand_dims flip imag isin matrix_transpose max mean min moveaxis nonzero permute_dims
prod real repeat reshape roll round searchsorted sort squeeze stack std sum take take_along_axis tensordot tile
unique_all unique_counts unique_inverse unique_values unstack var where
"""
LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv
qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftshift ifftshift"


def _elementwise(name: str) -> Function:
    """One of the standard's elementwise functions: NumPy has them all as ufuncs, and those have their operations."""

    def function(*operands: Any, **wrong: Any) -> Any:
        return ufuncs.operation_of(getattr(np, name))(*operands, **wrong)

    function.__name__ = function.__qualname__ = name
    return function


matmul, vecdot = products.matmul, products.vecdot

linalg = SimpleNamespace(**{name: NAMED[f"linalg.{name}"] for name in LINALG.split()})
"""The standard's extension for linear algebra."""

fft = SimpleNamespace(**{name: NAMED[f"fft.{name}"] for name in FFT.split()})
"""The standard's extension for Fourier transforms; see also `fftfreq` and `rfftfreq`."""


# --- the tensor's side


@attribute
def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> ModuleType:
    """The functions of the array API standard for this tensor."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"version {api_version!r} of the array API standard is not there; these are: {VERSIONS}")
    return sys.modules[__name__]


@attribute
def to_device(self: Tensor, device: Any, /, *, stream: None = None) -> Tensor:
    """The tensor on a device, as the standard spells it; there is only the CPU."""
    dtypes.check_device(device)
    return self


# --- new arrays


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """The data as a tensor; a tensor keeps its history.

    >>> import pellucid as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> asarray(x) is x, asarray(x, copy=True).requires_grad
    (True, True)
    """
    dtypes.check_device(device)
    if not holds_tensor(obj):
        return torch.asarray(obj, dtype=dtype, copy=copy)
    tensor = lift(obj)
    if copy is False and (tensor is not obj or (dtype is not None and tensor.dtype is not dtype)):
        raise ValueError("asarray: this needs a copy, and copy=False forbids one")
    return tensor.to(tensor.dtype if dtype is None else dtype, copy=builtins.bool(copy))  # type: ignore[operator]


def _made(create: Function, *args: Any, dtype: Any, device: Any) -> Tensor:
    return create(*args, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros."""
    return _made(torch.zeros, _sizes(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return _made(torch.ones, _sizes(shape), dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor whose values do not matter."""
    return _made(torch.empty, _sizes(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of one value."""
    return _made(torch.full, _sizes(shape), fill_value, dtype=dtype, device=device)


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape of another tensor."""
    return _made(torch.zeros_like, x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape of another tensor."""
    return _made(torch.ones_like, x, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor in the shape of another whose values do not matter."""
    return _made(torch.empty_like, x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value in the shape of another tensor."""
    return _made(torch.full_like, x, fill_value, dtype=dtype, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from `start` (or 0) up to `stop`.

    >>> arange(3), arange(3, 1)
    (tensor([0, 1, 2]), tensor([], dtype=torch.int64))
    """
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step < 0:  # the standard wants nothing where PyTorch refuses
        stop = start
    return _made(torch.arange, start, stop, step, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    dtypes.check_device(device)
    return shapes.eye(n_rows, n_cols, k, dtype)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """Evenly spaced numbers.

    >>> linspace(0.0, 1.0, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    dtypes.check_device(device)
    return shapes.linspace(start, stop, num, endpoint, dtype=dtype)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle, zeros above the k-th diagonal."""
    return torch.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle, zeros below the k-th diagonal."""
    return torch.triu(x, k)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid, one tensor for each of the vectors that span it."""
    return [*shapes.meshgrid(*arrays, indexing=indexing)]


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """The arrays, each in the shape that all of them have together."""
    return [*shapes.broadcast_arrays(*arrays)]


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """The values, brought between two bounds.

    >>> clip(asarray([1, 5, 9]), 2, 6)
    tensor([2, 5, 6])
    """
    return elements.clip(x, min, max)


# --- dtypes


class finfo_object(NamedTuple):
    """The limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtypes.dtype


class iinfo_object(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: dtypes.dtype


def finfo(type: Any, /) -> finfo_object:
    """The limits of a floating-point dtype, or of a tensor's.

    >>> finfo(dtypes.float32).eps
    1.1920928955078125e-07
    """
    found = dtypes.finfo(type.dtype if isinstance(type, Tensor) else type)
    dtype = dtypes.DTYPE_NAMES[found.dtype]
    return finfo_object(found.bits, found.eps, found.max, found.min, found.smallest_normal, dtype)


def iinfo(type: Any, /) -> iinfo_object:
    """The limits of an integer dtype, or of a tensor's."""
    found = dtypes.iinfo(type.dtype if isinstance(type, Tensor) else type)
    return iinfo_object(found.bits, found.max, found.min, dtypes.DTYPE_NAMES[found.dtype])


def result_type(*arrays_and_dtypes: Any) -> dtypes.dtype:
    """The dtype in which tensors, dtypes and numbers meet.

    >>> result_type(arange(3), dtypes.float32, 1.5)
    torch.float32
    """
    return elements.common_dtype(*arrays_and_dtypes)


KINDS: dict[str, Any] = {
    "bool": lambda d: d.category == "bool",
    "signed integer": lambda d: d.category == "integer" and d.is_signed,
    "unsigned integer": lambda d: d.category == "integer" and not d.is_signed,
    "integral": lambda d: d.category == "integer",
    "real floating": lambda d: d.category == "floating",
    "complex floating": lambda d: d.category == "complex",
    "numeric": lambda d: d.category != "bool",
}


def isdtype(dtype: dtypes.dtype, kind: Any) -> bool:
    """Whether a dtype is of a kind: another dtype, one of the standard's names of kinds, or a tuple of these.

    >>> isdtype(dtypes.float32, ("integral", "real floating"))
    True
    """
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return dtype is dtypes.as_dtype(kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: unknown kind {kind!r}; these are known: {', '.join(KINDS)}")
    return builtins.bool(KINDS[kind](dtype))


# --- Fourier frequencies


def _fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    return as_type(torch.fft.fftfreq(n, d), dtype)


def _rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    return as_type(torch.fft.rfftfreq(n, d), dtype)


fft.fftfreq, fft.rfftfreq = _fftfreq, _rfftfreq


# --- what there is


class Info:
    """What the standard lets a program ask about a library.

    >>> Info().default_dtypes()["real floating"]
    torch.float32
    """

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> dtypes.device:
        return dtypes.device("cpu")

    def devices(self) -> list[dtypes.device]:
        return [dtypes.device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.dtype]:
        dtypes.check_device(device)
        real = dtypes.get_default_dtype()
        whole = dtypes.int64
        return {"real floating": real, "complex floating": real.to_complex(), "integral": whole, "indexing": whole}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.dtype]:
        dtypes.check_device(device)
        return {name: found for name, found in DTYPES.items() if kind is None or kind == () or isdtype(found, kind)}


def __array_namespace_info__() -> Info:
    """What there is: dtypes, devices and capabilities."""
    return Info()


# At the end, because some of the names hide Python's own: from here on `bool` is a dtype and `sum` one of ours.
globals().update(DTYPES)
globals().update({name: _elementwise(name) for name in ELEMENTWISE.split()})
globals().update({name: NAMED[name] for name in FUNCTIONS.split()})
