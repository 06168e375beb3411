"""The type of a result: of Python numbers (the default type), and of operands whose types differ."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import numpy as np

from pellucid.dtypes.element import (
    BY_NUMPY,
    Category,
    NumpyDtype,
    as_dtype,
    as_numpy_dtype,
    bool_,
    complex64,
    complex128,
    dtype,
    float32,
    float64,
    from_numpy_dtype,
    int16,
    int64,
    scalar_name,
    uint16,
    uint32,
    uint64,
)
from pellucid.dtypes.float8 import FLOAT8

__all__ = [
    "can_cast", "default_complex", "default_float", "get_default_dtype", "promote", "promote_dtypes",
    "promote_two", "promote_types", "result_type", "set_default_dtype",
]  # fmt: skip

PythonScalar: TypeAlias = bool | int | float | complex


class ArrayLike(Protocol):
    """Anything with a `dtype` and an `ndim`: a NumPy array, or a tensor of ours."""

    @property
    def dtype(self) -> Any: ...

    @property
    def ndim(self) -> int: ...


Operand: TypeAlias = ArrayLike | PythonScalar


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
    if d.numpy in FLOAT8:
        raise TypeError(f"couldn't find storage object {scalar_name(d)}Storage: nothing is computed in eight bits")
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


_UNPROMOTED: Final = frozenset({uint16, uint32, uint64})
_CATEGORY_ORDER: Final[dict[Category, int]] = {"bool": 0, "integer": 1, "floating": 2, "complex": 3}


def promote_types(type1: object, type2: object) -> dtype:
    """Return the smallest type that holds both, as torch defines it.

    >>> from pellucid.dtypes import bfloat16, float16, int8, uint8
    >>> promote_types(uint8, int8), promote_types(bfloat16, float16), promote_types(int64, float16)
    (torch.int16, torch.float32, torch.float16)
    """
    return BY_NUMPY[promote_dtypes(as_numpy_dtype(type1), as_numpy_dtype(type2))]


def promote_dtypes(left: NumpyDtype, right: NumpyDtype) -> NumpyDtype:
    """Return `promote_types` of two NumPy dtypes; each pair is worked out once and remembered.

    >>> promote_dtypes(np.dtype("uint8"), np.dtype("int8"))
    dtype('int16')
    """
    return left if left is right else _promoted(left, right)


@cache
def _promoted(left: NumpyDtype, right: NumpyDtype) -> NumpyDtype:
    return _work_out_promotion(from_numpy_dtype(left), from_numpy_dtype(right)).numpy


def _work_out_promotion(left: dtype, right: dtype) -> dtype:
    """Apply torch's rule: the higher category wins; within one category, the wider type."""
    if left is right:
        return left
    if left.numpy in FLOAT8 or right.numpy in FLOAT8:
        raise RuntimeError(
            "Promotion for Float8 Types is not supported, attempted to promote "
            f"{scalar_name(left)} and {scalar_name(right)}"
        )
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
        f"{scalar_name(left)} and {scalar_name(right)}"
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


def _override(strong: NumpyDtype, weak: NumpyDtype) -> NumpyDtype:
    """Combine two priority classes: the weak one only matters where its category is higher."""
    return strong if strong is weak else _overridden(strong, weak)


@cache
def _overridden(strong: NumpyDtype, weak: NumpyDtype) -> NumpyDtype:
    return _work_out_override(from_numpy_dtype(strong), from_numpy_dtype(weak)).numpy


def _work_out_override(strong: dtype, weak: dtype) -> dtype:
    """Apply torch's rule for classes of operand: a floating type that turns complex keeps its width."""
    if _CATEGORY_ORDER[weak.category] <= _CATEGORY_ORDER[strong.category]:
        return strong
    if strong.is_floating_point:
        return strong.to_complex()
    # The only lift with a refusal of its own is bool to a wide unsigned integer; promotion knows it.
    return _work_out_promotion(strong, weak) if weak.category == "integer" or weak.numpy in FLOAT8 else weak


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
    return BY_NUMPY[promote(operands)]


def can_cast(from_: object, to: object) -> bool:
    """Tell whether torch converts `from_` to `to` unasked: never to a lower category.

    >>> can_cast(float64, float32), can_cast(float32, int64), can_cast(int64, bool_)
    (True, False, False)
    """
    return _CATEGORY_ORDER[as_dtype(from_).category] <= _CATEGORY_ORDER[as_dtype(to).category]
