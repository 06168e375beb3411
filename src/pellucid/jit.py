"""TorchScript, accepted: functions and modules stay plain Python, which runs them as they are."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

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


def optimized_execution(should_optimize: bool) -> AbstractContextManager[None]:
    """A context that changes nothing."""
    return nullcontext()


fuser = optimized_execution


_files = absent("torch.jit", "load save", "there are no TorchScript files", "torch.save(model.state_dict(), path)")
save, load = _files("save"), _files("load")
