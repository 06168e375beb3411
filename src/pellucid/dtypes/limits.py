"""The limits of the types: the largest and smallest number, and the distance from 1 to the next."""

from collections.abc import Callable
from typing import Final

from pellucid.dtypes.constants import Immutable
from pellucid.dtypes.element import (
    DTYPE_NAMES,
    as_dtype,
    bfloat16,
    bool_,
    dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
)
from pellucid.dtypes.promotion import get_default_dtype

__all__ = ["finfo", "iinfo"]

# Per type: bits, bits of the fraction, the largest exponent, decimal digits that always survive.
_FLOAT_SHAPES: Final[dict[dtype, tuple[int, int, int, int]]] = {
    float16: (16, 10, 15, 3),
    bfloat16: (16, 7, 127, 2),
    float32: (32, 23, 127, 6),
    float64: (64, 52, 1023, 15),
}

# Of eight bits, whose shapes follow no rule: the largest and smallest number, eps, the smallest normal number.
_FLOAT8_LIMITS: Final[dict[dtype, tuple[float, float, float, float]]] = {
    float8_e4m3fn: (448.0, -448.0, 0.125, 2.0**-6),
    float8_e4m3fnuz: (240.0, -240.0, 0.125, 2.0**-7),
    float8_e5m2: (57344.0, -57344.0, 0.25, 2.0**-14),
    float8_e5m2fnuz: (57344.0, -57344.0, 0.125, 2.0**-15),  # the eps is PyTorch's: that of e4m3
    float8_e8m0fnu: (2.0**127, 2.0**-127, 1.0, 2.0**-127),
}


class _Limits(Immutable):
    """What `finfo` and `iinfo` share: equality by type, and no hash, as in torch."""

    __slots__ = ("bits", "dtype", "max", "min")

    bits: int
    dtype: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Limits):
            return NotImplemented
        return type(self) is type(other) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]

    def _write(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


class finfo(_Limits):
    """The limits of a floating type (a complex type answers for its parts).

    >>> finfo(float32).eps
    1.1920928955078125e-07
    >>> finfo(float16)  # doctest: +ELLIPSIS
    finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, ..., dtype=float16)
    """

    __slots__ = ("eps", "resolution", "smallest_normal", "tiny")

    max: float
    min: float
    eps: float
    tiny: float
    smallest_normal: float
    resolution: float

    def __init__(self, type: object = None) -> None:
        found = (get_default_dtype() if type is None else as_dtype(type)).to_real()
        if found in _FLOAT8_LIMITS:
            largest, lowest, eps, smallest = _FLOAT8_LIMITS[found]
            self._write(dtype=found.name, bits=8, eps=eps, max=largest, min=lowest)
            self._write(tiny=smallest, smallest_normal=smallest, resolution=1.0)
            return
        if found not in _FLOAT_SHAPES:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{found!r}'"
            )
        bits, fraction_bits, largest_exponent, digits = _FLOAT_SHAPES[found]
        eps = 2.0**-fraction_bits
        largest = (2.0 - eps) * 2.0**largest_exponent
        smallest = 2.0 ** (1 - largest_exponent)
        self._write(dtype=found.name, bits=bits, eps=eps, max=largest, min=-largest)
        self._write(tiny=smallest, smallest_normal=smallest, resolution=float(f"1e-{digits}"))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

    def __reduce__(self) -> tuple[Callable[..., "finfo"], tuple[dtype]]:
        return (finfo, (DTYPE_NAMES[self.dtype],))


class iinfo(_Limits):
    """The limits of an integer type.

    >>> from pellucid.dtypes import int8
    >>> iinfo(int8).min, iinfo(int8).max, iinfo(int8)
    (-128, 127, iinfo(min=-128, max=127, dtype=int8))
    """

    __slots__ = ()

    max: int
    min: int

    def __init__(self, type: object) -> None:
        found = as_dtype(type)
        if found is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if found.category != "integer":
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{found!r}'")
        bits = 8 * found.itemsize
        largest = 2 ** (bits - 1) - 1 if found.is_signed else 2**bits - 1
        self._write(dtype=found.name, bits=bits, max=largest, min=-largest - 1 if found.is_signed else 0)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __reduce__(self) -> tuple[Callable[..., "iinfo"], tuple[dtype]]:
        return (iinfo, (DTYPE_NAMES[self.dtype],))
