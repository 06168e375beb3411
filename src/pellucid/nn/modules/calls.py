"""Which module was running: for errors that name it, and for the module behind every node of a graph.

A node knows the tick of its birth; a call of a module lasts from one tick to another. So a node's module is found
afterwards, and running an operation costs nothing for it.
"""

import weakref
from collections import deque
from typing import Any

import numpy as np

from pellucid.core.aliasing import tick
from pellucid.core.tensor import Node, Tensor
from pellucid.core.views import current_node
from pellucid.transforms.tree import flatten

__all__ = ["CALLS", "Call", "located", "module_of", "tick"]


class Call:
    """One call of a module, from the tick when it began to the tick when it ended."""

    __slots__ = ("end", "module", "start")

    def __init__(self, module: Any, start: int) -> None:
        self.module = weakref.ref(module)
        self.start = start
        self.end = 0  # still running


CALLS: "deque[Call]" = deque(maxlen=4096)  # the last ones, outer before inner; a model's pass is some hundreds


def module_of(node: Node) -> tuple[str, Any] | None:
    """The innermost module that made a node and the path to it from the outermost, or None.

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> y = model(torch.ones(1, 2))
    >>> module_of(y.grad_fn)
    ('1', ReLU())
    """
    around = [call for call in CALLS if call.start < node.born and (call.end == 0 or node.born < call.end)]
    modules = [module for call in around if (module := call.module()) is not None]
    return (path_between(modules[0], modules[-1]), modules[-1]) if modules else None


def path_between(outer: Any, inner: Any) -> str:
    """The name of one module inside another."""
    return next((name for name, module in outer.named_modules() if module is inner), "?")


def located(error: Exception, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
    """Tell an error the module it happened in, on its way out through the calls around it."""
    trail = error.__dict__.setdefault("modules", [])
    if not trail:
        error.__dict__["inputs"] = _described((args, kwargs))
    elif error.args and isinstance(error.args[0], str):
        error.args = (error.__dict__["plain_text"], *error.args[1:])
    trail.append(module)
    if error.args and isinstance(error.args[0], str) and not isinstance(error, KeyError):
        error.__dict__["plain_text"] = error.args[0]
        innermost = trail[0]
        path = path_between(module, innermost)
        name = f"{path}, {_brief(innermost)}" if path else _brief(innermost)
        error.args = (f"{error.args[0].rstrip()}\n  module: {name}, got {error.__dict__['inputs']}", *error.args[1:])
    return error


def _brief(module: Any) -> str:
    """A module in a few words: `Linear(6 -> 2)`, or its text if that is short."""
    sizes = [getattr(module, f"{side}_{kind}", None) for side in ("in", "out") for kind in ("features", "channels")]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) == 2:
        return f"{type(module).__name__}({numbers[0]} -> {numbers[1]})"
    text = repr(module)
    return text if len(text) <= 60 and "\n" not in text else type(module).__name__


def _described(arguments: Any) -> str:
    """The inputs' shapes, and where a computed one was made."""
    tensors = [leaf for leaf in flatten(arguments)[0] if isinstance(leaf, Tensor)]
    shapes = ", ".join(str(tuple(np.shape(tensor.array))) for tensor in tensors) or "no tensor"
    node = current_node(tensors[0]) if tensors else None
    if node is None or not node.inputs:
        return shapes
    return f"{shapes}; that shape was made at {node.place} by {node.primitive.name}"
