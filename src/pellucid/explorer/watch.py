"""An observer that keeps what a graph forgets: every value, the inputs that want no gradient, the user's names."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.aliasing import tick
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import PACKAGE_FOLDER, Place, here
from pellucid.core.tensor import Node, Tensor
from pellucid.core.views import current_node

__all__ = ["Call", "Watch", "watching"]


@dataclass(slots=True, eq=False)
class Call:
    """One operation that ran: what it took, what it gave, where."""

    primitive: Primitive
    inputs: tuple[Tensor, ...]
    params: tuple[Any, ...]
    results: tuple[Any, ...]  # copies of the arrays
    place: Place
    born: int


class Watch:
    """Keeps every operation that runs while it is watching.

    >>> import pellucid as torch
    >>> from pellucid.explorer import watching
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with watching() as watch:
    ...     y = (x * x).exp()
    >>> [call.primitive.name for call, _ in watch.calls.values()]
    ['mul', 'exp']
    """

    gradient = None  # backward is walked afterwards, step by step

    def __init__(self) -> None:
        self.calls: dict[Node, tuple[Call, int]] = {}  # by the node of a result; which of the results it is
        self.without_graph: dict[int, tuple[Call, int]] = {}  # by the identity of a result's array
        self.owners: dict[int, Node] = {}  # the node of the tensor that an array was seen in
        self.entered: dict[int, Any] = {}  # the values of tensors that no operation made, when they were first used
        self.names: dict[Any, str] = {}  # by node, or by the identity of an array
        self._kept: list[Any] = []  # identities hold only while the arrays live

    def operation(self, p: Primitive, tensors: Any, params: tuple[Any, ...], outs: Any) -> None:
        """Keep an operation that has just run."""
        inputs = tuple(tensors)
        for tensor in inputs:
            node = current_node(tensor)
            if node is not None:
                self.owners.setdefault(id(tensor.array), node)
            self.entered.setdefault(id(tensor.array), np.array(tensor.array) if _is_plain(tensor) else None)
        call = Call(p, inputs, params, tuple(_copy(out) for out in outs), here(), tick())
        for number, out in enumerate(outs):
            if out.node is not None:
                self.calls[out.node] = call, number
                self.owners[id(out.array)] = out.node
            else:
                self.without_graph[id(out.array)] = call, number
        self._kept.append((inputs, tuple(outs), tuple(tensor.array for tensor in inputs)))

    def write(self, target: Tensor, name: str) -> None:
        """A tensor was written in place: the values with which it was first used are not those of its next use."""
        self.entered.pop(id(target.array), None)

    def name_locals(self, scope: dict[str, Any]) -> None:
        """Remember what the user calls the tensors of a function that is about to return."""
        for name, value in list(scope.items()):
            if name.startswith("_") or not name.isidentifier() or not issubclass(type(value), Tensor):
                continue
            node = current_node(value)
            self.names[id(value.array) if node is None else node] = name
            self._kept.append(value)


def _is_plain(tensor: Tensor) -> bool:
    return isinstance(tensor.array, (np.ndarray, np.generic))


def _copy(out: Tensor) -> Any:
    return np.array(out.array) if _is_plain(out) else None


@contextmanager
def watching(names: bool = True) -> Iterator[Watch]:
    """Keep everything that is computed in a block; with `names` also what the user's functions call it.

    >>> import pellucid as torch
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> with watching() as watch:
    ...     y = (x * 3).detach() * x
    >>> [call.primitive.name for call, _ in watch.calls.values()]
    ['mul', 'mul']
    """
    watch = Watch()
    before = sys.getprofile()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and not frame.f_code.co_filename.startswith(PACKAGE_FOLDER):
            watch.name_locals(frame.f_locals)

    with modes.switched(observers=(*modes.current().observers, watch)):
        if names and before is None:
            sys.setprofile(profile)
        try:
            yield watch
        finally:
            if names and before is None:
                sys.setprofile(None)
