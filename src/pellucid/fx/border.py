"""How public functions see a Proxy: while one is alive, they ask the classes of their arguments first.

A traced program calls `torch.relu(x)` with an `x` that is no tensor. Operations look at nothing but tensors, and must
not: looking costs time in every program. So nothing looks until the first Proxy is made. Then each public function gets
another *body*, one that asks for `__torch_function__` (see interop/subclasses.py) and otherwise does what it did; with
the last Proxy it gets its own body back. The functions stay the objects they are: `node.target is torch.relu` holds
before, during and after a trace, and so does every table that a program keeps of them.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import pellucid
from pellucid import symbolic
from pellucid.core.tensor import Tensor
from pellucid.fx import public
from pellucid.interop import subclasses
from pellucid.library import CustomOpDef

LIVE: dict[int, Any] = {}  # what functions ask for: the proxies that are alive, and the traces under way
BODIES: dict[FunctionType, CodeType] = {}  # while functions ask: the body that each has when nothing is traced
ASKING: dict[FunctionType, CodeType] = {}  # the bodies that ask, which are made once


def notice(proxy: Any) -> None:
    """From now on, and until this object and all others are gone, public functions ask."""
    key = id(proxy)
    LIVE[key] = weakref.ref(proxy, lambda gone: forget(key))
    if not BODIES:
        _begin()


def forget(key: int) -> None:
    """One that functions ask for is gone; with the last of them nothing asks any more."""
    LIVE.pop(key, None)
    if not LIVE:
        _end()


@contextmanager
def functions_ask() -> Iterator[None]:
    """Public functions ask in this block.

    >>> import pellucid as torch
    >>> body = torch.exp.__code__
    >>> with functions_ask():
    ...     torch.exp.__code__ is body, torch.exp(torch.zeros(1))
    (False, tensor([1.]))
    >>> torch.exp.__code__ is body
    True
    """
    token = _Token()
    notice(token)
    try:
        yield
    finally:
        forget(id(token))


class _Token:
    """Stands for a trace in LIVE."""


def _begin() -> None:
    pellucid.ops.load_families()
    for function in (*public.functions(), symbolic._assert):
        _let_ask(function, function)
    _let_ask(CustomOpDef.__call__)
    for name, method in subclasses._methods().items():
        _let_ask(method, getattr(Tensor, subclasses.NAMES.get(name, name)))


def _end() -> None:
    while BODIES:
        function, body = BODIES.popitem()
        function.__code__ = body


def _let_ask(function: Any, asked_as: Any = None) -> None:
    """Give a function a body that asks, as which function, and then runs its own; without one, as its first argument.

    The first argument is the function where it is the `__call__` of an operation with a name of its own.
    """
    if function in BODIES:
        return
    BODIES[function] = function.__code__
    if function not in ASKING:
        ASKING[function] = _asking_body(function, asked_as)
    function.__code__ = ASKING[function]


def _asking_body(function: Any, asked_as: Any) -> CodeType:
    body = function.__code__
    twin = FunctionType(body, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__

    def asking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        owners = subclasses.overloaded(subclasses._arguments(args, kwargs))
        if not any(id(owner) in LIVE for owner in owners):  # others are asked where they always are
            return twin(*args, **kwargs)
        if asked_as is None:
            return subclasses.ask(args[0], owners, args[1:], kwargs)
        return subclasses.ask(asked_as, owners, args, kwargs)

    # A body knows its function by a constant; its function's cells are not its own, but their number has to be right.
    constants = tuple(asking if each == PLACE else each for each in _asks_first.__code__.co_consts)
    return _asks_first.__code__.replace(co_consts=constants, co_freevars=body.co_freevars)


PLACE = "what this function asks"


def _asks_first(*args: Any, **kwargs: Any) -> Any:
    asking: Any = "what this function asks"
    return asking(args, kwargs)
