"""Which module was running: for errors that name it, and for the module behind every node of a graph.

A node knows the tick of its birth; a call of a module lasts from one tick to another. So a node's module is found
afterwards, and running an operation costs nothing for it.
"""

import sys
import weakref
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from pellucid.core.aliasing import tick
from pellucid.core.provenance import PACKAGE_FOLDER
from pellucid.core.tensor import Node, Tensor
from pellucid.core.views import current_node
from pellucid.transforms.tree import flatten

__all__ = ["CALLS", "locate", "module_of", "tick"]

# The last calls that ended: the module, and the ticks of the beginning and the end. A model's pass is some hundreds.
CALLS: "deque[tuple[weakref.ref[Any], int, int]]" = deque(maxlen=4096)


def module_of(node: Node) -> tuple[str, Any] | None:
    """The innermost module that made a node and the path to it from the outermost, or None.

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Identity())
    >>> y = model(torch.ones(1, 2))
    >>> module_of(y.grad_fn)
    ('0', Linear(in_features=2, out_features=2, bias=True))
    """
    ended = [(start, module()) for module, start, end in CALLS if start < node.born < end]
    around = sorted([*ended, *(call for call in running() if call[0] < node.born)], key=lambda call: call[0])
    modules = [module for _, module in around if module is not None]
    return (path_between(modules[0], modules[-1]), modules[-1]) if modules else None


def running() -> Iterator[tuple[int, Any]]:
    """The calls that have not ended, read off Python's own stack: the tick when each began, and its module."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == CALL_FILE and frame.f_code.co_name == "__call__":
            yield frame.f_locals["start"], frame.f_locals["self"]
        frame = frame.f_back  # type: ignore[assignment]


CALL_FILE = __file__.replace("calls.py", "module.py")


def path_between(outer: Any, inner: Any) -> str:
    """The name of one module inside another."""
    return next((name for name, module in outer.named_modules() if module is inner), "?")


def locate(error: Exception, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Tell an error the module it happened in, on its way out through the calls around it.

    Our own errors say it in their text. An error that the user's code raised keeps its text and gets a note.
    """
    story = error.__dict__.setdefault("story", None)
    if story is None:
        story = error.__dict__["story"] = Story(error, module, _described((args, kwargs)))
    story.tell(error, module)


class Story:
    """Where an error happened: in which module, on what inputs; how the error looked before it was told."""

    def __init__(self, error: Exception, innermost: Any, inputs: str) -> None:
        self.innermost, self.inputs = innermost, inputs
        self.args, self.notes = error.args, tuple(getattr(error, "__notes__", ()))
        self.in_text = raised_by_us(error.__traceback__) and type(error) is not KeyError and len(self.args) == 1

    def tell(self, error: Exception, outermost: Any) -> None:
        """Write the path from the outermost module so far."""
        path = path_between(outermost, self.innermost)
        name = f"{path}, {_brief(self.innermost)}" if path else _brief(self.innermost)
        line = f"  module: {name}, got {self.inputs}"
        if self.in_text:
            error.args = (f"{str(self.args[0]).rstrip()}\n{line}",)
        else:
            error.__notes__ = [*self.notes, line]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """An error that is sent to another process leaves its module at home."""
        return type(None), ()


def raised_by_us(traceback: TracebackType | None) -> bool:
    """Whether the innermost frame of an error is Pellucid's, not the user's."""
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename.startswith(PACKAGE_FOLDER)


def _brief(module: Any) -> str:
    """A module in a few words: `Linear(6 -> 2)`, or its text if that is short."""
    sizes = [getattr(module, f"{side}_{kind}", None) for side in ("in", "out") for kind in ("features", "channels")]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) == 2:
        return f"{type(module).__name__}({numbers[0]} -> {numbers[1]})"
    try:
        text = repr(module)
    except Exception:  # the user's own text of a half-made module must not hide the error that is told
        text = "\n"
    return text if len(text) <= 60 and "\n" not in text else type(module).__name__


def _described(arguments: Any) -> str:
    """The inputs' shapes, and where a computed one was made."""
    tensors = [leaf for leaf in flatten(arguments)[0] if isinstance(leaf, Tensor)]
    shapes = ", ".join(str(tuple(tensor.array.shape)) for tensor in tensors) or "no tensor"
    node = current_node(tensors[0]) if tensors else None
    if node is None or not node.inputs:
        return shapes
    return f"{shapes}; that shape was made at {node.place} by {node.primitive.name}"
