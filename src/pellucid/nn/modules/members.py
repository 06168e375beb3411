"""The dictionaries of a module: its parameters, its buffers, its modules.

Python finds an attribute in an object's own `__dict__` in 20 ns, and through `__getattr__` in 1 µs (3.11 raises and
forgets an error on the way). So what these dictionaries hold is mirrored there: a layer that reads its weight and its
bias, in a model that reads its layers, is several µs faster per layer.
"""

import weakref
from collections.abc import Iterable
from typing import Any

KINDS = ("_parameters", "_buffers", "_modules")


class Members(dict[str, Any]):
    """Members of a module by name, each also an attribute of the module. It knows its module weakly: no cycles."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any, values: Any = ()) -> None:
        super().__init__()
        self.owner = weakref.ref(owner)
        self.update(values)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        owner = self.owner()
        if owner is not None:
            owner.__dict__[name] = value

    def __delitem__(self, name: str) -> None:
        value = self[name]
        super().__delitem__(name)
        owner = self.owner()
        if owner is not None and owner.__dict__.get(name, self) is value:
            del owner.__dict__[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Take a member out."""
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out what was added last."""
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        """Take everything out."""
        for name in list(self):
            del self[name]

    def update(self, values: Any = (), /, **named: Any) -> None:
        """Add members from a mapping or from pairs."""
        for name, value in {**dict(values), **named}.items():
            self[name] = value

    def __ior__(self, values: Any) -> "Members":  # type: ignore[override, misc]
        self.update(values)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The member under a name, put there if there was none."""
        if name not in self:
            self[name] = default
        return self[name]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled and copied on its own it is a plain dictionary; a module makes a new one for itself."""
        return dict, (dict(self),)


def install(module: Any, kind: str, values: Any = ()) -> None:
    """Give a module a new dictionary of one kind in place of the one it has."""
    attributes = module.__dict__
    forget(attributes, attributes.get(kind, {}))
    attributes[kind] = Members(module, values)


def forget(attributes: dict[str, Any], members: dict[str, Any]) -> None:
    """Take the mirrors of some members out of a module's attributes."""
    for name, value in members.items():
        if attributes.get(name, members) is value:
            del attributes[name]


def without_mirrors(module: Any) -> dict[str, Any]:
    """A module's attributes as PyTorch has them: members only in their dictionaries, which are plain ones."""
    attributes = dict(module.__dict__)
    kinds: Iterable[str] = [kind for kind in KINDS if kind in attributes]
    for kind in kinds:
        forget(attributes, attributes[kind])
        attributes[kind] = dict(attributes[kind])
    return attributes
