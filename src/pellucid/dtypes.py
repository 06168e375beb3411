"""Element types, promotion, devices and sizes: the vocabulary that every other module speaks.

Everything here prints, compares and fails as its PyTorch namesake does, and the arithmetic of types
(`promote_types`, `promote`, `can_cast`) gives PyTorch's answers rather than NumPy's. This module is the
bottom of the house: it imports NumPy and ml_dtypes (for bfloat16) and nothing of ours.

>>> from pellucid.dtypes import float32, int64, promote_types
>>> promote_types(int64, float32)
torch.float32
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final, Literal, NoReturn, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

import ml_dtypes
import numpy as np

NumpyDtype: TypeAlias = np.dtype[Any]
Category: TypeAlias = Literal["bool", "integer", "floating", "complex"]
PythonScalar: TypeAlias = bool | int | float | complex


class ArrayLike(Protocol):
    """Anything with a `dtype` and an `ndim`: a NumPy array, or a tensor of ours."""

    @property
    def dtype(self) -> Any: ...

    @property
    def ndim(self) -> int: ...


Operand: TypeAlias = ArrayLike | PythonScalar


def _refuse_change(instance: object, name: str) -> NoReturn:
    """Raise the error torch raises on assigning to an attribute of its constants."""
    kind = type(instance).__name__
    if hasattr(instance, name):
        raise AttributeError(f"attribute '{name}' of 'torch.{kind}' objects is not writable")
    raise AttributeError(f"'torch.{kind}' object has no attribute '{name}'")


class _Immutable:
    """A base whose instances refuse assignment; constructors write with `object.__setattr__`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        _refuse_change(self, name)

    def __delattr__(self, name: str) -> None:
        _refuse_change(self, name)


# --------------------------------------------------------------------------------------------------
# The element types
# --------------------------------------------------------------------------------------------------


class dtype(_Immutable):
    """The type of a tensor's elements; there is exactly one instance of each, so compare with `is`.

    >>> float32, float32.itemsize, float32.is_floating_point, float32.numpy
    (torch.float32, 4, True, dtype('float32'))
    """

    __slots__ = ("category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy")

    name: str
    numpy: NumpyDtype
    category: Category
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool

    def __new__(cls, *args: object, **kwargs: object) -> dtype:
        raise TypeError("cannot create 'torch.dtype' instances; use the constants, such as float32 or int64")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        # A string tells pickle and copy "the module's global of this name": identity survives.
        return _constant_name(self.name)

    def to_real(self) -> dtype:
        """Return the type of the real part; a type that is already real returns itself.

        >>> complex64.to_real()
        torch.float32
        """
        return _REAL_OF.get(self, self)

    def to_complex(self) -> dtype:
        """Return the complex type whose parts hold this type (float16 and bfloat16: complex64).

        >>> float64.to_complex()
        torch.complex128
        """
        try:
            return _COMPLEX_OF[self]
        except KeyError:
            raise RuntimeError(f"Unknown Complex ScalarType for {_SCALAR_TYPE_NAMES[self.name]}") from None


# "bool" as a global of this module would hide the builtin from every function below.
def _constant_name(name: str) -> str:
    """Return the name under which this module keeps the constant for the type called `name`."""
    return "bool_" if name == "bool" else name


def _define(name: str, numpy_type: Any, category: Category, *, is_signed: bool = True) -> dtype:
    """Make the one instance for a type and enter it in the lookup by NumPy dtype."""
    instance = object.__new__(dtype)
    numpy_dtype: NumpyDtype = np.dtype(numpy_type)
    values = {
        "name": name,
        "numpy": numpy_dtype,
        "category": category,
        "itemsize": numpy_dtype.itemsize,
        "is_floating_point": category == "floating",
        "is_complex": category == "complex",
        "is_signed": is_signed,
    }
    for attribute, value in values.items():
        object.__setattr__(instance, attribute, value)
    _BY_NUMPY[numpy_dtype] = instance
    return instance


_BY_NUMPY: Final[dict[NumpyDtype, dtype]] = {}

bool_: Final = _define("bool", np.bool_, "bool", is_signed=False)
uint8: Final = _define("uint8", np.uint8, "integer", is_signed=False)
int8: Final = _define("int8", np.int8, "integer")
int16: Final = _define("int16", np.int16, "integer")
int32: Final = _define("int32", np.int32, "integer")
int64: Final = _define("int64", np.int64, "integer")
uint16: Final = _define("uint16", np.uint16, "integer", is_signed=False)
uint32: Final = _define("uint32", np.uint32, "integer", is_signed=False)
uint64: Final = _define("uint64", np.uint64, "integer", is_signed=False)
float16: Final = _define("float16", np.float16, "floating")
bfloat16: Final = _define("bfloat16", ml_dtypes.bfloat16, "floating")
float32: Final = _define("float32", np.float32, "floating")
float64: Final = _define("float64", np.float64, "floating")
complex64: Final = _define("complex64", np.complex64, "complex")
complex128: Final = _define("complex128", np.complex128, "complex")

half: Final = float16
double: Final = float64
short: Final = int16
long: Final = int64
cfloat: Final = complex64
cdouble: Final = complex128

ALL_DTYPES: Final[tuple[dtype, ...]] = tuple(_BY_NUMPY.values())

# Every public name, with the three that would hide builtins here: the package exports these.
DTYPE_NAMES: Final[dict[str, dtype]] = {
    **{each.name: each for each in ALL_DTYPES},
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}

_REAL_OF: Final[dict[dtype, dtype]] = {complex64: float32, complex128: float64}

# torch has complex32 for float16; NumPy has not, so half precision goes to complex64.
_COMPLEX_OF: Final[dict[dtype, dtype]] = {
    float16: complex64,
    bfloat16: complex64,
    float32: complex64,
    float64: complex128,
    complex64: complex64,
    complex128: complex128,
}

_PYTHON_TYPES: Final[dict[object, dtype]] = {
    bool: bool_,
    int: int64,
    float: float64,
    complex: complex128,
}

# The names torch's errors use.
_SCALAR_TYPE_NAMES: Final[dict[str, str]] = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def from_numpy_dtype(numpy_dtype: NumpyDtype) -> dtype:
    """Return our type for a NumPy dtype.

    >>> from_numpy_dtype(np.dtype("int16"))
    torch.int16
    """
    found = _BY_NUMPY.get(numpy_dtype)
    if found is None:
        _refuse_numpy_dtype(np.dtype(numpy_dtype))
    return found


def _refuse_numpy_dtype(numpy_dtype: NumpyDtype) -> NoReturn:
    """Explain why a NumPy dtype cannot be the type of a tensor, and what can."""
    if not numpy_dtype.isnative and numpy_dtype.newbyteorder("=") in _BY_NUMPY:
        raise TypeError(
            f"can't convert np.ndarray of type {numpy_dtype}: its byte order is not the native one. "
            "Convert it first: array.astype(array.dtype.newbyteorder('='))."
        )
    supported = ", ".join(each.name for each in ALL_DTYPES)
    hint = {
        "O": " An object array usually means rows of unequal length or a None among the numbers.",
        "U": " Encode strings as integers first.",
        "S": " Encode strings as integers first.",
        "V": " Take the fields of a structured array one at a time: array['field'].",
        "M": " Convert dates with array.astype('int64') first.",
        "m": " Convert time differences with array.astype('int64') first.",
    }.get(numpy_dtype.kind, "")
    described = numpy_dtype if numpy_dtype.names else f"numpy.{numpy_dtype.type.__name__}"
    raise TypeError(f"can't convert np.ndarray of type {described}. The only supported types are: {supported}.{hint}")


def as_dtype(value: object) -> dtype:
    """Return the type that `value` means: one of ours, a NumPy dtype or scalar type, or a Python type.

    >>> as_dtype(float), as_dtype(int), as_dtype(np.float32)
    (torch.float64, torch.int64, torch.float32)
    """
    if isinstance(value, dtype):
        return value
    if isinstance(value, np.dtype):
        return from_numpy_dtype(value)
    if isinstance(value, type):
        if value in _PYTHON_TYPES:
            return _PYTHON_TYPES[value]
        if issubclass(value, np.generic):
            return from_numpy_dtype(np.dtype(value))
    shown = f"type {value.__name__}" if isinstance(value, type) else repr(value)
    raise TypeError(f"dtype must be a dtype such as float32, or one of bool, int, float, complex, not {shown}")


def as_numpy_dtype(value: object) -> NumpyDtype:
    """Return the NumPy dtype that `value` means; Python's float means float64, as in torch.

    >>> as_numpy_dtype(float), as_numpy_dtype(bfloat16)
    (dtype('float64'), dtype(bfloat16))
    """
    return as_dtype(value).numpy


# --------------------------------------------------------------------------------------------------
# The default type
# --------------------------------------------------------------------------------------------------

_default_dtype: dtype = float32


def get_default_dtype() -> dtype:
    """Return the type given to Python floats.

    >>> get_default_dtype()
    torch.float32
    """
    return _default_dtype


def set_default_dtype(d: dtype) -> None:
    """Set the type given to Python floats; the default complex type follows it.

    >>> set_default_dtype(float64); default_complex()
    dtype('complex128')
    >>> set_default_dtype(float32)
    """
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    global _default_dtype
    _default_dtype = d
    # What a Python float promotes to is among the remembered answers.
    _scalar_dtypes.clear()
    _scalar_dtypes.update(_dtypes_of_scalars())


def default_float() -> NumpyDtype:
    """Return the NumPy dtype given to Python floats.

    >>> default_float()
    dtype('float32')
    """
    return _default_dtype.numpy


def default_complex() -> NumpyDtype:
    """Return the NumPy dtype given to Python complex numbers.

    >>> default_complex()
    dtype('complex64')
    """
    return _default_dtype.to_complex().numpy


# --------------------------------------------------------------------------------------------------
# Promotion
# --------------------------------------------------------------------------------------------------

_UNPROMOTED: Final = frozenset({uint16, uint32, uint64})
_CATEGORY_ORDER: Final[dict[Category, int]] = {"bool": 0, "integer": 1, "floating": 2, "complex": 3}


def promote_types(type1: object, type2: object) -> dtype:
    """Return the smallest type that holds both, as torch defines it.

    >>> promote_types(uint8, int8), promote_types(bfloat16, float16), promote_types(int64, float16)
    (torch.int16, torch.float32, torch.float16)
    """
    return _BY_NUMPY[promote_dtypes(as_numpy_dtype(type1), as_numpy_dtype(type2))]


_promoted: Final[dict[tuple[NumpyDtype, NumpyDtype], NumpyDtype]] = {}


def promote_dtypes(left: NumpyDtype, right: NumpyDtype) -> NumpyDtype:
    """Return `promote_types` of two NumPy dtypes; each pair is worked out once and remembered.

    >>> promote_dtypes(np.dtype("uint8"), np.dtype("int8"))
    dtype('int16')
    """
    if left is right:
        return left
    key = (left, right)
    found = _promoted.get(key)
    if found is None:
        found = _promoted[key] = _work_out_promotion(from_numpy_dtype(left), from_numpy_dtype(right)).numpy
    return found


def _work_out_promotion(left: dtype, right: dtype) -> dtype:
    """Apply torch's rule: the higher category wins; within one category, the wider type."""
    if left is right:
        return left
    low, high = sorted((left, right), key=lambda each: _CATEGORY_ORDER[each.category])
    if high in _UNPROMOTED or (low in _UNPROMOTED and not high.is_floating_point):
        _refuse_promotion(left, right)
    if high.is_complex:
        return _wider_complex(low, high)
    if low.category != high.category:
        return high
    if high.is_floating_point:
        return _wider_floating(low, high)
    return _wider_integer(low, high)


def _refuse_promotion(left: dtype, right: dtype) -> NoReturn:
    """Raise torch's error for the unsigned types it does not promote."""
    raise RuntimeError(
        "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
        f"{_SCALAR_TYPE_NAMES[left.name]} and {_SCALAR_TYPE_NAMES[right.name]}"
    )


def _wider_complex(low: dtype, high: dtype) -> dtype:
    """Promote a complex type with any type: only float64 parts ask for complex128."""
    return complex128 if complex128 in (low, high) or low is float64 else complex64


def _wider_floating(left: dtype, right: dtype) -> dtype:
    """Promote two floating types: the wider; neither half-precision type holds the other."""
    if left.itemsize == right.itemsize:
        return float32
    return left if left.itemsize > right.itemsize else right


def _wider_integer(left: dtype, right: dtype) -> dtype:
    """Promote two integer types: the wider; uint8 with int8 needs one bit more than either."""
    if left.itemsize == right.itemsize:
        return int16
    return left if left.itemsize > right.itemsize else right


def _dtypes_of_scalars() -> dict[type, NumpyDtype]:
    """Return the NumPy dtype each Python scalar type stands for, under the current default."""
    return {
        bool: bool_.numpy,
        int: int64.numpy,
        float: default_float(),
        complex: default_complex(),
    }


_scalar_dtypes: Final[dict[type, NumpyDtype]] = _dtypes_of_scalars()


def _scalar_dtype(scalar: object) -> NumpyDtype | None:
    """Return the dtype a scalar stands for, or None for what is not a scalar.

    NumPy's scalars count as Python's: in torch too they bring a category, not a width.
    """
    found = _scalar_dtypes.get(type(scalar))
    if found is not None or isinstance(scalar, np.ndarray):
        return found
    if isinstance(scalar, np.generic):
        category = from_numpy_dtype(scalar.dtype).category
        return _scalar_dtypes[_PYTHON_TYPE_OF[category]]
    for python_type in (bool, int, float, complex):
        if isinstance(scalar, python_type):
            return _scalar_dtypes[python_type]
    return None


_PYTHON_TYPE_OF: Final[dict[Category, type]] = {
    "bool": bool,
    "integer": int,
    "floating": float,
    "complex": complex,
}

_overridden: Final[dict[tuple[NumpyDtype, NumpyDtype], NumpyDtype]] = {}


def _override(strong: NumpyDtype, weak: NumpyDtype) -> NumpyDtype:
    """Combine two priority classes: the weak one only matters where its category is higher."""
    if strong is weak:
        return strong
    key = (strong, weak)
    found = _overridden.get(key)
    if found is None:
        found = _overridden[key] = _work_out_override(from_numpy_dtype(strong), from_numpy_dtype(weak)).numpy
    return found


def _work_out_override(strong: dtype, weak: dtype) -> dtype:
    """Apply torch's rule for classes of operand: a floating type that turns complex keeps its width."""
    if _CATEGORY_ORDER[weak.category] <= _CATEGORY_ORDER[strong.category]:
        return strong
    if strong.is_floating_point:
        return strong.to_complex()
    # The only lift with a refusal of its own is bool to a wide unsigned integer; promotion knows it.
    return _work_out_promotion(strong, weak) if weak.category == "integer" else weak


def promote(operands: Iterable[Operand]) -> NumpyDtype:
    """Return the NumPy dtype in which torch computes an operation on `operands`.

    Arrays with dimensions count most, then 0-d arrays, then Python scalars; within a class the types
    promote, and a lesser class only raises the category (bool < integer < floating < complex).

    >>> promote([np.ones(2, "float32"), np.array(1.0)]), promote([np.ones(2, "int32"), 0.5])
    (dtype('float32'), dtype('float32'))
    """
    dimensioned: NumpyDtype | None = None
    zero_dimensional: NumpyDtype | None = None
    scalar: NumpyDtype | None = None
    for operand in operands:
        found = _scalar_dtype(operand)
        if found is not None:
            scalar = found if scalar is None else promote_dtypes(scalar, found)
            continue
        found = _dtype_of_array(operand)
        if operand.ndim:  # type: ignore[union-attr]  # a scalar went the other way
            dimensioned = found if dimensioned is None else promote_dtypes(dimensioned, found)
        else:
            zero_dimensional = found if zero_dimensional is None else promote_dtypes(zero_dimensional, found)
    return _combine_classes(dimensioned, zero_dimensional, scalar)


def scalar_name(kind: dtype) -> str:
    """How PyTorch's messages call a dtype.

    >>> scalar_name(int64), scalar_name(bfloat16)
    ('Long', 'BFloat16')
    """
    return _SCALAR_NAMES.get(str(kind).removeprefix("torch."), str(kind))


_SCALAR_NAMES = {
    "float16": "Half", "float32": "Float", "float64": "Double", "bfloat16": "BFloat16", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
}  # fmt: skip


def _dtype_of_array(operand: object) -> NumpyDtype:
    """Return the NumPy dtype of an array or tensor, or explain what an operand can be."""
    found = getattr(operand, "dtype", None)
    if isinstance(found, np.dtype):
        return found
    if isinstance(found, dtype):
        return found.numpy
    raise TypeError(f"expected a tensor or a Python number, not {type(operand).__name__}")


def _combine_classes(*strongest_first: NumpyDtype | None) -> NumpyDtype:
    """Fold the types of the priority classes, the strongest first; None marks an absent class."""
    result: NumpyDtype | None = None
    for weaker in strongest_first:
        if weaker is not None:
            result = weaker if result is None else _override(result, weaker)
    if result is None:
        raise TypeError("promotion needs at least one operand")
    return result


def promote_two(left: Operand, right: Operand) -> NumpyDtype:
    """Return `promote((left, right))`, quickly for what nearly every operation brings.

    >>> promote_two(np.ones(2, "float16"), 2.5)
    dtype('float16')
    """
    if isinstance(left, np.ndarray):
        if isinstance(right, np.ndarray):
            if left.dtype is right.dtype or bool(left.ndim) == bool(right.ndim):
                return promote_dtypes(left.dtype, right.dtype)
            strong, weak = (left, right) if left.ndim else (right, left)
            return _override(strong.dtype, weak.dtype)
        array, scalar = left, _scalar_dtypes.get(type(right))
    elif isinstance(right, np.ndarray):
        array, scalar = right, _scalar_dtypes.get(type(left))
    else:
        return promote((left, right))
    return promote((left, right)) if scalar is None else _override(array.dtype, scalar)


def result_type(*operands: Operand) -> dtype:
    """Return the type an operation on these tensors and numbers computes in.

    >>> result_type(np.ones(2, "uint8"), True, 3), result_type(np.array(1), 2.0)
    (torch.uint8, torch.float32)
    """
    return _BY_NUMPY[promote(operands)]


def can_cast(from_: object, to: object) -> bool:
    """Tell whether torch converts `from_` to `to` unasked: never to a lower category.

    >>> can_cast(float64, float32), can_cast(float32, int64), can_cast(int64, bool_)
    (True, False, False)
    """
    return _CATEGORY_ORDER[as_dtype(from_).category] <= _CATEGORY_ORDER[as_dtype(to).category]


# --------------------------------------------------------------------------------------------------
# Limits of the types
# --------------------------------------------------------------------------------------------------

# Per type: bits, bits of the fraction, the largest exponent, decimal digits that always survive.
_FLOAT_SHAPES: Final[dict[dtype, tuple[int, int, int, int]]] = {
    float16: (16, 10, 15, 3),
    bfloat16: (16, 7, 127, 2),
    float32: (32, 23, 127, 6),
    float64: (64, 52, 1023, 15),
}


class _Limits(_Immutable):
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

    def __reduce__(self) -> tuple[Callable[..., finfo], tuple[dtype]]:
        return (finfo, (DTYPE_NAMES[self.dtype],))


class iinfo(_Limits):
    """The limits of an integer type.

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

    def __reduce__(self) -> tuple[Callable[..., iinfo], tuple[dtype]]:
        return (iinfo, (DTYPE_NAMES[self.dtype],))


# --------------------------------------------------------------------------------------------------
# Devices
# --------------------------------------------------------------------------------------------------

_DEVICE_TYPES: Final = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia"),
    *("xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)


class device(_Immutable):
    """The name of a place for tensors. Any of torch's can be named; only the CPU can hold tensors.

    >>> device("cpu"), device("cuda:1").index, str(device("cpu", 0))
    (device(type='cpu'), 1, 'cpu:0')
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | device | int, index: int | None = None) -> None:
        name, number = _parse_device(type, index)
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", number)

    def __repr__(self) -> str:
        shown_index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{shown_index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Callable[..., device], tuple[str] | tuple[str, int]]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> device:
        check_device(self)
        return self

    def __exit__(self, *exception: object) -> None:
        return None


def _parse_device(named: object, index: object) -> tuple[str, int | None]:
    """Read the arguments of `device`: a string with or without an index, or another device."""
    if isinstance(named, device) and index is None:
        return named.type, named.index
    if isinstance(named, int) and not isinstance(named, bool) and index is None:
        _check_index(named)
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if not isinstance(named, str):
        raise TypeError(f"device(): argument 'type' (position 1) must be str, not {type(named).__name__}")
    name, number = _parse_device_string(named)
    if index is None:
        return name, number
    if not isinstance(index, int):
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {type(index).__name__}")
    if number is not None:
        raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {named}")
    _check_index(index)
    return name, index


def _check_index(index: int) -> None:
    """Raise torch's error for a negative index."""
    if index < 0:
        raise RuntimeError("Device index must not be negative")


def _parse_device_string(text: str) -> tuple[str, int | None]:
    """Split "cuda:1" into its type and index, with torch's errors for what is malformed."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    name, colon, digits = text.partition(":")
    is_number = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
    if colon and not is_number:
        raise RuntimeError(f"Invalid device string: '{text}'")
    if name not in _DEVICE_TYPES:
        raise RuntimeError(f"Expected one of {', '.join(_DEVICE_TYPES)} device type at start of device string: {name}")
    return name, int(digits) if colon else None


CPU: Final = device("cpu")


def check_device(requested: device | str | int | None) -> device:
    """Return the device a new tensor gets, which is the CPU, or say why it cannot be the one requested.

    >>> check_device("cpu:0"), check_device(None)
    (device(type='cpu'), device(type='cpu'))
    """
    if requested is None or requested is CPU:
        return CPU
    if isinstance(requested, (str, int)):
        requested = device(requested)
    if not isinstance(requested, device):
        raise TypeError(f"argument 'device' must be torch.device, not {type(requested).__name__}")
    if requested.type != "cpu":
        refusal, first = (AssertionError, "Torch not compiled with CUDA enabled. ") if requested.type == "cuda" else (
            RuntimeError, "")  # fmt: skip
        raise refusal(
            f"{first}Pellucid runs on the CPU only, so a tensor cannot live on device '{requested}'. "
            "Write device='cpu', or leave the argument out; code that asks cuda.is_available() first "
            "chooses the CPU by itself."
        )
    # An index on "cpu" names the same memory; torch's tensors drop it as well.
    return CPU


# --------------------------------------------------------------------------------------------------
# Sizes
# --------------------------------------------------------------------------------------------------


class Size(tuple[int, ...]):
    """The lengths of a tensor's dimensions: a tuple of ints that stays a Size when cut or joined.

    >>> Size([2, 3]), Size([2, 3]).numel(), Size([2, 3])[1:] + (4,)
    (torch.Size([2, 3]), 6, torch.Size([3, 4]))
    """

    __slots__ = ()

    def __new__(cls, lengths: Iterable[SupportsIndex] = ()) -> Size:
        return super().__new__(cls, map(_as_length, lengths, count()))

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[Callable[..., Size], tuple[tuple[int, ...]]]:
        return (Size, (tuple(self),))

    def numel(self) -> int:
        """Return how many elements a tensor of this size has.

        >>> Size([]).numel(), Size([2, 0]).numel()
        (1, 0)
        """
        return math.prod(self)

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, key: slice) -> Size: ...

    def __getitem__(self, key: SupportsIndex | slice) -> int | Size:
        found = super().__getitem__(key)
        return found if isinstance(found, int) else trusted_size(found)

    def __add__(self, other: tuple[Any, ...]) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple(self) + tuple(other))

    def __radd__(self, other: tuple[Any, ...]) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return trusted_size(super().__mul__(times))

    def __rmul__(self, times: SupportsIndex) -> Size:
        return trusted_size(super().__mul__(times))


def _as_length(length: SupportsIndex, position: int) -> int:
    """Return one length as an int, or say which one is not."""
    try:
        return operator.index(length) + 0  # the sum makes True the int 1
    except TypeError:
        kind = type(length).__name__
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{kind}')") from None


def trusted_size(lengths: tuple[int, ...]) -> Size:
    """Return a Size without checking the lengths: for `array.shape`, which NumPy has checked.

    >>> trusted_size(np.ones((2, 3)).shape)
    torch.Size([2, 3])
    """
    return tuple.__new__(Size, lengths)


# --------------------------------------------------------------------------------------------------
# Layouts and memory formats
# --------------------------------------------------------------------------------------------------


class _NamedConstant(_Immutable):
    """A constant that only has a name; `_make_constant` is the one way to get an instance."""

    __slots__ = ("_name",)

    _name: str

    def __new__(cls, *args: object) -> _NamedConstant:
        raise TypeError(f"cannot create 'torch.{cls.__name__}' instances")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_NamedConstant):
    """How a tensor's elements lie in memory; ours are all strided.

    >>> strided
    torch.strided
    """

    __slots__ = ()


class memory_format(_NamedConstant):
    """The order of a tensor's dimensions in memory, accepted where torch accepts one.

    >>> channels_last
    torch.channels_last
    """

    __slots__ = ()


_Constant = TypeVar("_Constant", bound=_NamedConstant)


def _make_constant(kind: type[_Constant], name: str) -> _Constant:
    """Make a named constant past the constructor that refuses callers."""
    instance = object.__new__(kind)
    object.__setattr__(instance, "_name", name)
    return instance


strided: Final = _make_constant(layout, "strided")
sparse_coo: Final = _make_constant(layout, "sparse_coo")

contiguous_format: Final = _make_constant(memory_format, "contiguous_format")
preserve_format: Final = _make_constant(memory_format, "preserve_format")
channels_last: Final = _make_constant(memory_format, "channels_last")
channels_last_3d: Final = _make_constant(memory_format, "channels_last_3d")
