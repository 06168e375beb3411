"""Pytrees: nested tuples, lists, dictionaries and named tuples with tensors (or anything else) at their leaves.

>>> leaves, structure = flatten({"weight": 1, "bias": (2, [3, None])})
>>> leaves
[2, 3, None, 1]
>>> structure.unflatten([20, 30, 40, 10])
{'weight': 10, 'bias': (20, [30, 40])}
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Structure:
    """The shape of a pytree: what kind of container, with which keys, holding which parts. A leaf has no kind."""

    kind: Any = None  # the class of the container
    keys: tuple[Any, ...] = ()  # of a dictionary, sorted where that is possible
    parts: tuple["Structure", ...] = ()
    order: tuple[Any, ...] = ()  # of a dictionary: its keys as they stood

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind is None else sum(part.size for part in self.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        return (self.kind, self.keys, self.parts) == (other.kind, other.keys, other.parts)

    def __hash__(self) -> int:
        return hash((self.kind, self.parts))

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The pytree with these leaves."""
        if len(leaves) != self.size:
            raise ValueError(f"a pytree with {self.size} leaves cannot be made of {len(leaves)}")
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        parts = [part._build(leaves) for part in self.parts]
        if issubclass(self.kind, dict):
            return _dictionary(self.kind, self.order, dict(zip(self.keys, parts, strict=True)))
        return self.kind(*parts) if _is_named(self.kind) else self.kind(parts)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        inside = [str(part) for part in self.parts]
        if issubclass(self.kind, dict):
            inside = [f"{key!r}: {part}" for key, part in zip(self.keys, inside, strict=True)]
        opening, closing = BRACKETS.get(self.kind, (f"{self.kind.__name__}(", ")"))
        return opening + ", ".join(inside) + closing


LEAF = Structure()
BRACKETS: dict[Any, tuple[str, str]] = {tuple: ("(", ")"), list: ("[", "]"), dict: ("{", "}")}
DICTIONARIES = (dict, OrderedDict, defaultdict)


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _dictionary(kind: type, order: Sequence[Any], values: dict[Any, Any]) -> Any:
    ordered = {key: values[key] for key in order}
    return defaultdict(None, ordered) if kind is defaultdict else kind(ordered)


def _sorted(keys: Sequence[Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(keys))
    except TypeError:
        return tuple(keys)


def parts_of(tree: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The keys and parts of a container; None for a leaf."""
    kind = type(tree)
    if kind in DICTIONARIES:
        keys = _sorted(list(tree))
        return keys, [tree[key] for key in keys]
    if kind in (tuple, list) or _is_named(kind):
        return (), list(tree)
    return None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a pytree from left to right, and its structure.

    >>> flatten((1, [2, 3]))[0]
    [1, 2, 3]
    """
    found = parts_of(tree)
    if found is None:
        return [tree], LEAF
    leaves: list[Any] = []
    structures = []
    for part in found[1]:
        below, structure = flatten(part)
        leaves += below
        structures.append(structure)
    order = tuple(tree) if isinstance(tree, dict) else ()
    return leaves, Structure(type(tree), found[0], tuple(structures), order)


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The pytree with a function applied to every leaf.

    >>> map_tree(lambda n: -n, {"a": 1, "b": [2]})
    {'a': -1, 'b': [-2]}
    """
    leaves, structure = flatten(tree)
    return structure.unflatten([function(leaf) for leaf in leaves])


def spread(prefix: Any, structure: Structure) -> list[Any] | None:
    """The leaves of a prefix, each repeated for all leaves below it; None if it does not fit the structure.

    >>> spread((0, None), flatten((5, [6, 7]))[1])
    [0, None, None]
    """
    found = parts_of(prefix)
    if found is None:
        return [prefix] * structure.size
    if structure.kind is not type(prefix) or found[0] != structure.keys or len(found[1]) != len(structure.parts):
        return None
    below = [spread(part, inside) for part, inside in zip(found[1], structure.parts, strict=True)]
    return None if any(part is None for part in below) else [leaf for part in below for leaf in part or ()]
