"""Sizes that PyTorch may not know yet when it compiles, here plain numbers; and what programs assert of them."""

import builtins
import math
from typing import Any

from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor

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


def _raise_unless(error: type[Exception], condition: Any, message: Any) -> None:
    if isinstance(condition, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert "
            "that all elements are true."
        )
    if not isinstance(condition, bool):
        raise TypeError(f"cond must be a bool, but got {type(condition)}")
    if condition:
        return
    if message is None:
        raise error(f"Expected cond to be True, but got False.\n  where: {here()}")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def _check(cond: Any, message: Any = None) -> None:
    """Raise RuntimeError unless the condition holds; the message is a function, asked only then.

    >>> import pellucid as torch
    >>> torch._check(2 > 1, lambda: "two is more than one")
    """
    _raise_unless(RuntimeError, cond, message)


def _check_index(cond: Any, message: Any = None) -> None:
    """_check, with IndexError.

    >>> import pellucid as torch
    >>> torch._check_index(2 > 1)
    """
    _raise_unless(IndexError, cond, message)


def _check_value(cond: Any, message: Any = None) -> None:
    """_check, with ValueError.

    >>> import pellucid as torch
    >>> torch._check_value(2 > 1)
    """
    _raise_unless(ValueError, cond, message)


def _check_type(cond: Any, message: Any = None) -> None:
    """_check, with TypeError.

    >>> import pellucid as torch
    >>> torch._check_type(isinstance(2, int))
    """
    _raise_unless(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Any = None) -> None:
    """_check, with NotImplementedError.

    >>> import pellucid as torch
    >>> torch._check_not_implemented(2 > 1)
    """
    _raise_unless(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """Raise RuntimeError unless a number can be the size of a dimension.

    >>> import pellucid as torch
    >>> torch._check_is_size(3)
    """
    _raise_unless(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _check_tensor_all(cond: Any, message: Any = None) -> None:
    """Raise RuntimeError unless all elements of a tensor of truth values are true.

    >>> import pellucid as torch
    >>> torch._check_tensor_all(torch.tensor([1, 2]) > 0)
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    _raise_unless(RuntimeError, bool(cond.array.all()), message)
