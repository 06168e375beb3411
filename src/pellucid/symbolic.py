"""Sizes that PyTorch may not know yet when it compiles; here they are plain numbers."""

import builtins
import math
from typing import Any

SymInt, SymFloat, SymBool = int, float, bool


def sym_int(a: Any) -> int:
    """`int(a)`.

    >>> sym_int(2.5)
    2
    """
    return int(a)


def sym_float(a: Any) -> float:
    """`float(a)`."""
    return float(a)


def sym_not(a: Any) -> bool:
    """`not a`."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger; a float if one of them is."""
    return type(a + b)(builtins.max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller; a float if one of them is."""
    return type(a + b)(builtins.min(a, b))


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum."""
    return builtins.sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def _assert(condition: Any, message: str) -> None:
    """An assertion that tracers can follow."""
    assert condition, message
