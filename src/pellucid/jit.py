"""TorchScript, accepted: functions and modules stay plain Python, which runs them as they are."""

import builtins
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

from pellucid.absent import absent
from pellucid.nn.modules.module import Module


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The object itself.

    >>> script(len)([1, 2])
    2
    """
    return obj


script_method = script_if_tracing = freeze = optimize_for_inference = interface = script
_script_if_tracing = _overload = _overload_method = script


def trace(func: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function itself."""
    return func


trace_module = trace


def ignore(obj: Any = None, **kwargs: Any) -> Any:
    """The object itself, or a decorator that gives it back."""
    return obj if callable(obj) else (lambda function: function)


export = unused = ignore


class ScriptModule(Module):
    """A plain module.

    >>> import pellucid as torch
    >>> class Doubled(torch.jit.ScriptModule):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Doubled()(torch.tensor(3.0))
    tensor(6.)
    """


ScriptFunction = RecursiveScriptModule = ScriptModule
Final = Any


# torch.jit.annotations: the types that a script's annotations name.
annotations = ModuleType("torch.jit.annotations")
annotations.__dict__.update(dict.fromkeys(("BroadcastingList1", "BroadcastingList2", "BroadcastingList3"), list))


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """The value."""
    return value


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function now; `wait` gives its result.

    >>> import pellucid as torch
    >>> future = torch.jit.fork(max, 3, 5)
    >>> torch.jit.wait(future)
    5
    """
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """What `fork` gave.

    >>> import pellucid as torch
    >>> torch.jit.wait(torch.jit.fork(max, 3, 5))
    5
    """
    return future


def is_scripting() -> bool:
    """False."""
    return False


is_tracing = is_scripting


class Error(RuntimeError):
    """What a script raises."""


class strict_fusion(AbstractContextManager[None]):
    """A context that changes nothing."""

    def __exit__(self, *error: object) -> None:
        """Nothing to undo."""


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value, and what it holds, is of a type such as `list[int]`.

    >>> isinstance([1, 2], list[int]), isinstance([1, "two"], list[int]), isinstance({"a": 1}, dict[str, int])
    (True, False, True)
    """
    origin, parts = get_origin(target_type), get_args(target_type)
    if target_type is Any:
        return True
    if origin in (Union, UnionType):
        return any(isinstance(obj, part) for part in parts)
    if origin is None:
        return builtins.isinstance(obj, type(None) if target_type is None else target_type)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(key, parts[0]) and isinstance(value, parts[1]) for key, value in obj.items())
    if origin is tuple and parts[-1:] != (...,):
        return len(obj) == len(parts) and all(map(isinstance, obj, parts))
    return all(isinstance(each, parts[0]) for each in obj)


STRATEGY: list[list[tuple[str, int]]] = [[("STATIC", 2), ("DYNAMIC", 10)]]


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accepted, without effect; gives what was said before."""
    before, STRATEGY[0] = STRATEGY[0], strategy
    return before


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted, without effect."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def optimized_execution(should_optimize: bool) -> AbstractContextManager[None]:
    """A context that changes nothing."""
    return nullcontext()


fuser = optimized_execution


_files = absent("torch.jit", "load save", "there are no TorchScript files", "torch.save(model.state_dict(), path)")
save, load = _files("save"), _files("load")
