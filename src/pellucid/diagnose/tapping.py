"""How the instruments reach into the public API: attributes are wrapped for a while, the caller's line is found."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pellucid.core.provenance import Place, getframe, outside
from pellucid.core.tensor import Tensor
from pellucid.transforms.tree import flatten

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]
ABSENT = object()
PLAIN = frozenset((type(None), bool, int, float, str))  # they hold no tensors


@contextmanager
def replaced(owner: Any, name: str, wrapper: Wrapper) -> Iterator[None]:
    """Put a wrapper around an attribute of a class or module, and take it away afterwards."""
    own = owner.__dict__.get(name, ABSENT)
    original = own if own is not ABSENT else getattr(owner, name, ABSENT)
    if original is ABSENT:
        yield
        return
    setattr(owner, name, wrapper(original))
    try:
        yield
    finally:
        if own is ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def tensors_in(*things: Any) -> list[Tensor]:
    """The tensors in arguments and results, also inside lists, tuples and dicts."""
    found: list[Tensor] = []
    for thing in things:
        if isinstance(thing, Tensor):
            found.append(thing)
        elif type(thing) is tuple or type(thing) is list:
            found += tensors_in(*thing)
        elif type(thing) is dict:
            found += tensors_in(*thing.values())
        elif type(thing) not in PLAIN:
            found += [leaf for leaf in flatten(thing)[0] if isinstance(leaf, Tensor)]
    return found


def of_ours() -> bool:
    """Whether Pellucid itself asked: an optimizer that reads a number is no way out of the user's graph."""
    frame = getframe(2)
    return frame is not outside(frame)


def user_place() -> Place:
    frame = outside(getframe(1))
    return Place(frame.f_code, frame.f_lasti)


def route_here(most: int = 8) -> tuple[Place, ...]:
    """The user's lines that led here, the innermost first, up to the script's own."""
    found, frame = [], outside(getframe(2))
    while True:
        code = frame.f_code
        found.append(Place(code, frame.f_lasti))
        if frame.f_back is None or len(found) == most or code.co_name == "<module>":
            return tuple(found)
        frame = outside(frame.f_back)


def copies(frame: Any) -> bool:
    """Whether a frame belongs to `copy.deepcopy`, which is no user."""
    return frame.f_code.co_filename == copy.__file__  # type: ignore[no-any-return]
