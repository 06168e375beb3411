"""Subclasses of Tensor and `__torch_function__`: operations that ask the classes of their arguments first.

A plain program has none of them and pays nothing: operations know only tensors. When the first class that wants to be
asked comes along (a subclass of Tensor is defined, or torch.overrides is imported), the public functions are replaced,
wherever a module holds them, by functions that look at their arguments; the methods of a subclass are replaced in that
class alone. An operation on a subclass asks `cls.__torch_function__(func, types, args, kwargs)`; the one that Tensor
has runs the operation and makes its results instances of the subclass.

>>> import pellucid as torch
>>> class Metres(torch.Tensor):
...     pass
>>> length = torch.ones(2).as_subclass(Metres)
>>> torch.add(length, 1) * 2
Metres([4., 4.])
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from types import FunctionType
from typing import Any

from pellucid.core.attributes import attribute
from pellucid.core.modes import recording
from pellucid.core.tensor import Leaf, Operators, Tensor
from pellucid.core.views import current_array
from pellucid.ops import create, load_families, random
from pellucid.ops.operation import OPERATIONS, WRITERS

Function = Callable[..., Any]

ASKING: ContextVar[bool] = ContextVar("pellucid_asks_classes", default=True)
MODES: ContextVar[tuple[Any, ...]] = ContextVar("pellucid_torch_function_modes", default=())
ASKED: dict[Function, Function] = {}  # by the function as the library has it: the one that asks

# Modules whose calls go on as they are: inside an operation nobody is asked again.
INSIDE = tuple(f"pellucid.{name}" for name in ("core", "ops", "interop", "transforms", "compiler", "native"))
LIKE = [name for module in (create, random) for name in module.__all__ if name.endswith("_like")]


# --- who is asked


def disabled_torch_function(cls: Any, func: Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of classes that do not want to be asked, such as Parameter."""
    return func(*args, **(kwargs or {}))


NOT_ASKED: Any = classmethod(disabled_torch_function)


def wants_to_be_asked(value: Any) -> bool:
    """Whether the class of a value has a `__torch_function__` that is to be asked."""
    cls = type(value)
    return cls is not Tensor and not isinstance(value, type) and hasattr(cls, "__torch_function__") and _overrides(cls)


def _has_its_own(cls: type) -> bool:
    """Whether a class has a `__torch_function__` of its own, or derives from Tensor without refusing to be asked."""
    for kind in cls.__mro__:
        if kind is Tensor:
            return cls is not Tensor
        if "__torch_function__" in vars(kind):
            return vars(kind)["__torch_function__"] is not NOT_ASKED
    return True


_overrides: Any = functools.cache(_has_its_own)


def overloaded(values: Iterable[Any]) -> list[Any]:
    """One value of every class that wants to be asked: from the left, but subclasses before what they inherit from."""
    found: list[Any] = []
    if not ASKING.get():
        return found
    for value in values:
        if not wants_to_be_asked(value) or any(type(value) is type(other) for other in found):
            continue
        place = next((i for i, other in enumerate(found) if issubclass(type(value), type(other))), len(found))
        found.insert(place, value)
    return found


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The arguments, and the members of those that are lists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def ask(func: Function, owners: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the classes make of a call; the first that does not return NotImplemented decides."""
    types = tuple(type(owner) for owner in owners)
    modes = MODES.get()
    if modes:
        token = MODES.set(modes[:-1])
        try:
            answer = modes[-1].__torch_function__(func, types, args, kwargs)
        finally:
            MODES.reset(token)
        if answer is not NotImplemented:
            return answer
    for owner in owners:
        answer = owner.__torch_function__(func, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    names = ", ".join(str(cls) for cls in types)
    name = f"{func.__module__}.{func.__name__}".replace("pellucid", "torch", 1)
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: [{names}]")


def asking(function: Function, method: str = "") -> Function:
    """A function that asks the classes of its arguments before it does what it does; as which method, if it is one."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        owners = overloaded(_arguments(args, kwargs))
        if not owners and not (MODES.get() and ASKING.get()):
            return function(*args, **kwargs)
        return ask(getattr(Tensor, method) if method else call, owners, args, kwargs)

    return call


@contextmanager
def nobody_asked() -> Iterator[None]:
    """Operations in this block ask no class; results are plain tensors.

    >>> import pellucid as torch
    >>> class Metres(torch.Tensor):
    ...     pass
    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     type(torch.ones(2).as_subclass(Metres) + 1).__name__
    'Tensor'
    """
    token = ASKING.set(False)
    try:
        yield
    finally:
        ASKING.reset(token)


# --- what Tensor itself answers

UNCHANGED = frozenset(("grad", "_grad", "_base"))


def _tensors_answer(cls: type[Tensor], func: Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run the operation on the tensors as they are, and give its results the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with nobody_asked():
        result = func(*args, **(kwargs or {}))
        return result if getattr(func, "__name__", "") in UNCHANGED else converted(result, cls)


setattr(Tensor, "__torch_function__", classmethod(_tensors_answer))  # noqa: B010 (mypy knows no attributes that come later)


def converted(result: Any, cls: type[Tensor]) -> Any:
    """The result of an operation with all its tensors as instances of a class."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (list, tuple)):
        parts = [converted(part, cls) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


@attribute
def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """The same tensor as an instance of a subclass: the same memory and history.

    >>> import pellucid as torch
    >>> class Named(torch.Tensor):
    ...     pass
    >>> torch.zeros(1).as_subclass(Named)
    Named([0.])
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a type (not {type(cls).__name__}) that inherits from torch.Tensor")
    source: Tensor = self.view_as(self) if isinstance(self.node, Leaf) else self
    made: Tensor = object.__new__(cls)
    made.array, made.node, made._grad = current_array(source), source.node, None
    made.window, made.cut = source.window, source.cut
    return made


def make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False, **options: Any) -> Tensor:
    """A leaf of a subclass over the memory of a tensor."""
    made = as_subclass(data.detach(), cls)
    with recording(True):
        return made.requires_grad_() if require_grad else made  # type: ignore[no-any-return]


setattr(Tensor, "_make_subclass", staticmethod(make_subclass))  # noqa: B010

# --- classes that come along

# Operators under the name of the method that PyTorch hands on for them.
NAMES = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__matmul__": "matmul", "__neg__": "neg", "__pow__": "pow", "__abs__": "abs", "__eq__": "eq", "__ne__": "ne",
    "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__invert__": "bitwise_not", "__iadd__": "add_",
    "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_",
}  # fmt: skip
# Python's own questions about an object, which are no operations.
QUESTIONS = frozenset((
    "__array__", "__array_function__", "__array_namespace__", "__array_ufunc__", "__bool__", "__complex__",
    "__deepcopy__", "__dlpack__", "__dlpack_device__", "__float__", "__hash__", "__index__", "__init__", "__int__",
    "__reduce_ex__", "_make_subclass", "as_subclass", "from_data", "requires_grad_",
))  # fmt: skip
PROPERTIES = ("T", "mT", "H", "mH", "real", "imag", "data")


def _methods() -> dict[str, Function]:
    """The methods of tensors by name."""
    found = {**vars(Operators), **vars(Tensor)}
    return {name: each for name, each in found.items() if isinstance(each, FunctionType) and name not in QUESTIONS}


def _asking_members() -> dict[str, Any]:
    """What a class needs in place of Tensor's methods and properties to be asked."""
    members: dict[str, Any] = {name: asking(each, NAMES.get(name, name)) for name, each in _methods().items()}
    for name in PROPERTIES:
        given: Any = getattr(Tensor, name)
        members[name] = property(asking(given.fget), given.fset)
    return members


def adopt(cls: type[Tensor]) -> None:
    """A class that is derived from Tensor is asked from now on, unless it says that it does not want to be."""
    if not _overrides(cls):
        return
    prepare()
    cls.shown_as = cls.__name__
    kinds = cls.__mro__[: cls.__mro__.index(Tensor)]
    own = {name for kind in kinds for name in vars(kind)}
    for name, member in _asking_members().items():
        if name not in own:
            setattr(cls, name, member)
    if "__init__" not in own:
        setattr(cls, "__init__", _leave_as_it_is)  # noqa: B010 (mypy)


def _leave_as_it_is(self: Tensor, *args: Any, **kwargs: Any) -> None:
    """PyTorch's tensors are made by `__new__`."""


def _new(cls: type[Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """A tensor that `__init__` fills; one of a subclass is complete, as `super().__new__(cls, data)` asks for."""
    made: Tensor = object.__new__(cls)
    if cls is not Tensor and _overrides(cls):
        Tensor.__init__(made, *args, **kwargs)
    return made


setattr(Tensor, "__new__", staticmethod(_new))  # noqa: B010


def prepare() -> None:
    """Put functions that ask in the place of those that do not, wherever a module outside the engine holds them."""
    if ASKED:
        return
    load_families()
    for path, operation in list(OPERATIONS.items()):
        OPERATIONS[path] = replace(operation, function=_asked(operation.function, operation.module))
    for path, function in list(WRITERS.items()):
        WRITERS[path] = _asked(function)
    for name in LIKE:
        _asked(getattr(create if name in create.__all__ else random, name))
    for name, module in list(sys.modules.items()):
        if not name.startswith(INSIDE):
            _exchange(module)


def _asked(function: Function, home: str = "") -> Function:
    if function not in ASKED:
        ASKED[function] = asking(function)
        if home:  # where pickle finds the one that asks
            ASKED[function].__module__ = home.replace("torch", "pellucid", 1)
    return ASKED[function]


def _exchange(module: Any) -> None:
    for name, value in list(getattr(module, "__dict__", {}).items()):
        if isinstance(value, FunctionType) and value in ASKED:
            setattr(module, name, ASKED[value])


# --- modes: asked about every operation


def enter_mode(mode: Any) -> None:
    """Ask a mode first, about functions and about the methods of all tensors, until it is left."""
    prepare()
    if not MODES.get():
        KEPT.update({name: vars(Tensor).get(name) for name in _methods()})
        for name, member in _asking_members().items():
            if name not in PROPERTIES:
                setattr(Tensor, name, member)
    MODES.set((*MODES.get(), mode))


def leave_mode() -> None:
    """The opposite of `enter_mode`."""
    MODES.set(MODES.get()[:-1])
    if not MODES.get():
        for name, member in KEPT.items():
            if member is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, member)
        KEPT.clear()


KEPT: dict[str, Any] = {}  # what Tensor has of its own where a mode is asked
