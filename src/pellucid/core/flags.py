"""Arguments that are true or false, and what an operation takes for one: what PyTorch does.

They are read off the annotations: `bool` takes True and False alone, `bool | None` also None. The 1 of `x.sum(0, 1)`
is no `keepdim` but a slip for `x.sum((0, 1))`, which would give another sum without a word. `Truth` is what PyTorch
asks only whether it is true: a word is refused there, too, for nobody who writes one means True.
"""

import sys
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

from pellucid.core.provenance import here
from pellucid.errors import explain

Function = Callable[..., Any]
Kinds = tuple[type, ...]

Truth = bool | Any
KINDS: dict[Any, Kinds] = {bool: (bool,), bool | None: (bool, type(None)), Truth: ()}  # (): all but words


def flags(function: Function) -> dict[str, Kinds]:
    """The flags of a function, each with the types that it takes.

    >>> import pellucid as torch
    >>> flags(torch.sum), flags(torch.exp)
    ({'keepdim': (<class 'bool'>,)}, {})
    """
    annotations = unwrap(function).__annotations__
    return {name: KINDS[kind] for name, kind in annotations.items() if name != "return" and kind in KINDS}


def wrong(value: Any, kinds: Kinds) -> bool:
    """Whether a flag of these types does not take a value."""
    return type(value) not in kinds if kinds else isinstance(value, str)


def no_flag(name: str, flag: str, value: Any, position: int | None = None) -> TypeError:
    """The refusal of an argument that should be true or false, in PyTorch's words."""
    place = f" (position {position})" if position else ""
    what = f"{name}(): argument '{flag}'{place} must be bool, not {type(value).__name__}"
    way = "several dimensions are given as one tuple, e.g. x.sum((0, 1))" if flag == "keepdim" and position else None
    return TypeError(explain(what, str(here()), try_=way or f"{flag}=True or {flag}=False"))


def reception(function: Function, name: str, foreign: dict[str, str]) -> tuple[int, frozenset[str], Function]:
    """(how many positional arguments need no look, which named ones need one, the look).

    It refuses what is no flag, and returns the arguments given by name under our names: `foreign` has others'.

    >>> import pellucid as torch
    >>> count, special, look = reception(torch.sum, "sum", {"axis": "dim"})
    >>> count, sorted(special), look((torch.ones(2),), {"axis": 0})
    (2, ['axis', 'keepdim'], {'dim': 0})
    """
    kinds, code = flags(function), unwrap(function).__code__
    positional = code.co_varnames[: code.co_argcount]
    places = sorted((positional.index(flag), flag) for flag in kinds if flag in positional)
    count = places[0][0] if places else sys.maxsize

    def look(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = len(args)
        if given > count:
            for place, flag in places:
                if place >= given:
                    break
                value = args[place]
                if value is not True and value is not False and wrong(value, kinds[flag]):
                    raise no_flag(name, flag, value, place + 1)
        named = kwargs
        for key, value in kwargs.items():
            if key in foreign:
                if named is kwargs:
                    named = {foreign.get(other, other): each for other, each in kwargs.items()}
                key = foreign[key]
            if value is not True and value is not False and key in kinds and wrong(value, kinds[key]):
                raise no_flag(name, key, value)
        return named

    return count, frozenset((*kinds, *foreign)), look


def received(function: Function, name: str | None = None, foreign: dict[str, str] | None = None) -> Function:
    """The form of a function that refuses what is no flag where one is asked for; a decorator.

    >>> @received
    ... def doubled(x: float, again: bool = False) -> float:
    ...     return 2 * x
    >>> try:
    ...     doubled(1.0, again="yes")
    ... except TypeError as error:
    ...     print(str(error).splitlines()[0])
    doubled(): argument 'again' must be bool, not str
    """
    count, special, look = reception(function, name or function.__name__, foreign or {})
    if not special:
        return function

    @wraps(function)
    def received(*args: Any, **kwargs: Any) -> Any:
        if len(args) > count or (kwargs and not special.isdisjoint(kwargs)):
            kwargs = look(args, kwargs)
        return function(*args, **kwargs) if kwargs else function(*args)  # without the dictionary it is faster

    return received
