"""The types of a tensor's elements: one instance for each, and the ways to name one."""

from collections.abc import Callable
from typing import Any, Final, Literal, NoReturn, TypeAlias

import ml_dtypes
import numpy as np

from pellucid.dtypes.constants import Immutable

__all__ = [
    "ALL_DTYPES",
    "DTYPE_NAMES",
    "NumpyDtype",
    "as_dtype",
    "as_numpy_dtype",
    "bfloat16",
    "bool_",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "double",
    "dtype",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "from_numpy_dtype",
    "half",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "machine_name",
    "scalar_name",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # fmt: skip

NumpyDtype: TypeAlias = np.dtype[Any]
Category: TypeAlias = Literal["bool", "integer", "floating", "complex"]


class dtype(Immutable):
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

    def __new__(cls, *args: object, **kwargs: object) -> "dtype":
        raise TypeError("cannot create 'torch.dtype' instances; use the constants, such as float32 or int64")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], "dtype"], tuple[str]]:
        return (_constant, (self.name,))  # by a function, which is found whatever module the class says it is from

    @property
    def abbr(self) -> str:
        """A short name.

        >>> float32.abbr, bfloat16.abbr, uint8.abbr, bool_.abbr
        ('f32', 'bf16', 'u8', 'b8')
        """
        if self.name.startswith("float8"):
            return f"f{self.name.removeprefix('float').replace('_', '')}"
        letters = self.name.rstrip("0123456789")
        return f"{'bf' if letters == 'bfloat' else letters[0]}{8 * self.itemsize}"

    def to_real(self) -> "dtype":
        """Return the type of the real part; a type that is already real returns itself.

        >>> complex64.to_real()
        torch.float32
        """
        return _REAL_OF.get(self, self)

    def to_complex(self) -> "dtype":
        """Return the complex type whose parts hold this type (float16 and bfloat16: complex64).

        >>> float64.to_complex()
        torch.complex128
        """
        try:
            return _COMPLEX_OF[self]
        except KeyError:
            raise RuntimeError(f"Unknown Complex ScalarType for {scalar_name(self)}") from None


# "bool" as a global of this module would hide the builtin from every function below.
def _constant(name: str) -> dtype:
    return DTYPE_NAMES[name]


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
    BY_NUMPY[numpy_dtype] = instance
    return instance


BY_NUMPY: Final[dict[NumpyDtype, dtype]] = {}

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

float8_e4m3fn: Final = _define("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "floating")
float8_e4m3fnuz: Final = _define("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "floating")
float8_e5m2: Final = _define("float8_e5m2", ml_dtypes.float8_e5m2, "floating")
float8_e5m2fnuz: Final = _define("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "floating")
float8_e8m0fnu: Final = _define("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, "floating", is_signed=False)

half: Final = float16
double: Final = float64
short: Final = int16
long: Final = int64
cfloat: Final = complex64
cdouble: Final = complex128

ALL_DTYPES: Final[tuple[dtype, ...]] = tuple(BY_NUMPY.values())

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


def scalar_name(kind: dtype) -> str:
    """How PyTorch's messages call a dtype.

    >>> scalar_name(int64), scalar_name(bfloat16), scalar_name(float8_e5m2)
    ('Long', 'BFloat16', 'Float8_e5m2')
    """
    return _SCALAR_TYPE_NAMES.get(kind.name) or kind.name.capitalize()  # the floats of eight bits


def machine_name(kind: dtype) -> str:
    """How PyTorch's messages call the type of one number: by its name in C++.

    >>> machine_name(int64), machine_name(float16), machine_name(complex64)
    ('int64_t', 'c10::Half', 'c10::complex<float>')
    """
    parts = {"float32": "float", "float64": "double", "int32": "int", "bool": "bool"}
    if kind.is_complex:
        return f"c10::complex<{parts[kind.to_real().name]}>"
    return parts.get(kind.name) or (f"c10::{scalar_name(kind)}" if kind.is_floating_point else f"{kind.name}_t")


def from_numpy_dtype(numpy_dtype: NumpyDtype) -> dtype:
    """Return our type for a NumPy dtype.

    >>> from_numpy_dtype(np.dtype("int16"))
    torch.int16
    """
    found = BY_NUMPY.get(numpy_dtype)
    if found is None:
        _refuse_numpy_dtype(np.dtype(numpy_dtype))
    return found


def _refuse_numpy_dtype(numpy_dtype: NumpyDtype) -> NoReturn:
    """Explain why a NumPy dtype cannot be the type of a tensor, and what can."""
    if not numpy_dtype.isnative and numpy_dtype.newbyteorder("=") in BY_NUMPY:
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
