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
    """`float(a)`.

    >>> import pellucid as torch
    >>> torch.sym_float(2)
    2.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """`not a`.

    >>> import pellucid as torch
    >>> torch.sym_not(False)
    True
    """
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger; a float if one of them is.

    >>> import pellucid as torch
    >>> torch.sym_max(2, 3), torch.sym_max(2.5, 3)
    (3, 3.0)
    """
    return type(a + b)(builtins.max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller; a float if one of them is.

    >>> import pellucid as torch
    >>> torch.sym_min(2, 3), torch.sym_min(2, 3.5)
    (2, 2.0)
    """
    return type(a + b)(builtins.min(a, b))


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`.

    >>> import pellucid as torch
    >>> torch.sym_ite(3 > 2, "yes", "no")
    'yes'
    """
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum.

    >>> import pellucid as torch
    >>> torch.sym_sum([1, 2, 3])
    6
    """
    return builtins.sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root.

    >>> import pellucid as torch
    >>> torch.sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)


def _assert(condition: Any, message: str) -> None:
    """An assertion that tracers can follow.

    >>> import pellucid as torch
    >>> torch._assert(2 > 1, "two is more than one")
    """
    assert condition, message
