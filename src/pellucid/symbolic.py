"""Sizes that PyTorch may not know yet when it compiles; here they are plain numbers."""

import builtins
import math
from collections.abc import Callable
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import refusal

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


def _assert_async(input: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Refuse a tensor whose only element is zero.

    >>> import pellucid as torch
    >>> torch._assert_async(torch.tensor(0.5))
    """
    if not bool(input):
        raise refusal(RuntimeError, assert_msg)


def _checker(kind: type[Exception], name: str = "") -> Callable[..., None]:
    """A check of a condition that raises an error of one kind, under a name."""

    def check(cond: Any, message: Callable[[], Any] | None = None) -> None:
        if not isinstance(cond, bool):
            more = "For tensor conditions, use torch._check_tensor_all() to assert that all elements are true."
            raise TypeError(
                f"cond must be a bool, but got {f'a Tensor. {more}' if isinstance(cond, Tensor) else type(cond)}"
            )
        if not cond:
            raise refusal(kind, _said(message))

    check.__name__ = check.__qualname__ = f"_check{name}"
    check.__doc__ = f"Raise {kind.__name__}, with what `message()` says, unless a condition is true."
    return check


def _said(message: Any) -> str:
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    return "Expected cond to be True, but got False." if message is None else str(message())


_check = _checker(RuntimeError)
_check_index = _checker(IndexError, "_index")
_check_value = _checker(ValueError, "_value")
_check_type = _checker(TypeError, "_type")
_check_not_implemented = _checker(NotImplementedError, "_not_implemented")


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any]) -> None:
    """A check that raises an error of the kind given.

    >>> import pellucid as torch
    >>> torch._check_with(KeyError, 2 > 1, lambda: "two is more than one")
    """
    _checker(error_type)(cond, message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None, *, max: Any = None) -> None:
    """Refuse what cannot be a size.

    >>> import pellucid as torch
    >>> torch._check_is_size(3)
    """
    _check(i >= 0, message)
    _check(max is None or i <= max, message)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Refuse a tensor of truth values that are not all true.

    >>> import pellucid as torch
    >>> torch._check_tensor_all(torch.tensor([1.0, 2.0]) > 0)
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.array.dtype != bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check(bool(cond.all()), message)  # type: ignore[attr-defined]
