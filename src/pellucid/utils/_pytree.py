"""torch.utils._pytree: nested containers as a list of leaves and a shape; dictionaries in the order of their keys.

>>> leaves, spec = tree_flatten({"b": 1, "a": (2, [3])})
>>> leaves
[1, 2, 3]
>>> tree_unflatten([10, 20, 30], spec)
{'b': 10, 'a': (20, [30])}
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

PyTree = Any
Flatten = Callable[[Any], tuple[Iterable[Any], Any]]  # a container -> its parts, and what else makes it up
Unflatten = Callable[[Iterable[Any], Any], Any]

# How to take containers apart and to put them together again.
NODES: dict[Any, tuple[Flatten, Unflatten]] = {
    list: (lambda node: (node, None), lambda parts, context: list(parts)),
    tuple: (lambda node: (node, None), lambda parts, context: tuple(parts)),
    dict: (lambda node: (node.values(), list(node)), lambda parts, keys: dict(zip(keys, parts, strict=True))),
    OrderedDict: (
        lambda node: (node.values(), list(node)), lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
    ),
    defaultdict: (
        lambda node: (node.values(), (node.default_factory, list(node))),
        lambda parts, context: defaultdict(context[0], zip(context[1], parts, strict=True)),
    ),
    deque: (lambda node: (node, node.maxlen), lambda parts, maxlen: deque(parts, maxlen)),
}  # fmt: skip
WITH_KEYS: dict[Any, Flatten] = {}  # of containers of one's own: (key, part) for each part
NAMED: tuple[Flatten, Unflatten] = (lambda node: (node, type(node)), lambda parts, kind: kind(*parts))


def _way(kind: Any) -> tuple[Flatten, Unflatten] | None:
    return NODES.get(kind) or (NAMED if issubclass(kind, tuple) and hasattr(kind, "_fields") else None)


@dataclass(frozen=True, repr=False)
class TreeSpec:
    """The shape of a tree: the kind of container, what else makes it up, and the shapes of its parts."""

    type: Any = None  # None for a leaf
    context: Any = None
    children_specs: tuple["TreeSpec", ...] = ()

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether there is no container."""
        return self.type is None

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        apart = ",\n" + " " * (indent + 2)
        parts = apart.join(child.__repr__(indent + 2) for child in self.children_specs)
        kind = "namedtuple" if self.type not in NODES else self.type.__name__
        return f"TreeSpec({kind}, {self.context}, [{parts}])"

    def _build(self, leaves: Iterator[Any]) -> Any:
        way = None if self.is_leaf() else _way(self.type)
        return (
            next(leaves)
            if way is None
            else way[1]([child._build(leaves) for child in self.children_specs], self.context)
        )


LeafSpec = TreeSpec


def register_pytree_node(
    cls: Any, flatten_fn: Flatten, unflatten_fn: Unflatten, *, flatten_with_keys_fn: Any = None, **options: Any
) -> None:
    """Teach all functions here a container of one's own."""
    NODES[cls] = (flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        WITH_KEYS[cls] = flatten_with_keys_fn


def register_dataclass(cls: Any, *, field_names: Any = None, drop_field_names: Any = (), **options: Any) -> None:
    """Teach all functions here a dataclass, whose fields are the parts; those to drop keep their defaults.

    >>> @dataclass
    ... class Point:
    ...     x: int
    ...     y: int
    >>> register_dataclass(Point)
    >>> tree_map(lambda number: number + 1, Point(1, 2))
    Point(x=2, y=3)
    """
    if not is_dataclass(cls):
        raise ValueError(f"register_dataclass: {cls!r} is not a dataclass")
    names = [field.name for field in fields(cls) if field.init] if field_names is None else list(field_names)
    kept, made = [name for name in names if name not in drop_field_names], cast(Callable[..., Any], cls)
    register_pytree_node(
        cls,
        lambda node: ([getattr(node, name) for name in kept], None),
        lambda parts, context: made(**dict(zip(kept, parts, strict=True))),
    )


def register_constant(cls: Any) -> None:
    """Teach all functions here a class without parts: its objects are of the tree's shape.

    >>> class Name(str): ...
    >>> register_constant(Name)
    >>> tree_leaves([Name("a"), 1])
    [1]
    """
    register_pytree_node(cls, lambda node: ([], node), lambda parts, node: node)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree from left to right, and its shape."""
    way = _way(type(tree))
    if way is None or (is_leaf is not None and is_leaf(tree)):
        return [tree], TreeSpec()
    parts, context = way[0](tree)
    below = [tree_flatten(part, is_leaf) for part in parts]
    leaves = [leaf for found, _ in below for leaf in found]
    return leaves, TreeSpec(type(tree), context, tuple(spec for _, spec in below))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a shape with these leaves."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: a tree of {treespec.num_leaves} leaves cannot be made of {len(given)}")
    return treespec._build(iter(given))


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves of a tree, one after the other."""
    return iter(tree_leaves(tree, is_leaf))


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether a value is no container, or `is_leaf` says that it is to be taken as a whole.

    >>> tree_is_leaf(1), tree_is_leaf([1])
    (True, False)
    """
    return bool(is_leaf is not None and is_leaf(tree)) or _way(type(tree)) is None


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The shape of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A tree of the same shape with a function of every leaf (and of the leaves at its place in other trees).

    >>> tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Call a function with every leaf, and give the tree back."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Like tree_map, but leaves of other classes stay as they are."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree, is_leaf=is_leaf)


# --- with the way to each leaf


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What is at the place."""
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """A key of a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What the key stands for."""
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The name of a field."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The field."""
        return getattr(obj, self.name)


KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]


def _keys(tree: Any, count: int) -> list[Any]:
    """The places of a container's parts."""
    if type(tree) in WITH_KEYS:
        return [key for key, _ in WITH_KEYS[type(tree)](tree)[0]]
    if isinstance(tree, dict):
        return [MappingKey(key) for key in tree]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return [GetAttrKey(name) for name in tree._fields]
    if isinstance(tree, (list, tuple, deque)):
        return [SequenceKey(i) for i in range(count)]
    if is_dataclass(tree):
        return [GetAttrKey(field.name) for field in fields(tree) if field.init][:count]
    raise ValueError(f"Did not find a flatten_with_keys_fn for type: {type(tree)}. It has no names for its parts.")


def tree_leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with the way to it.

    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2], "b": 3})]
    [("['a'][0]", 1), ("['a'][1]", 2), ("['b']", 3)]
    """
    if tree_is_leaf(tree, is_leaf):
        return [((), tree)]
    parts = list(NODES[type(tree)][0](tree)[0]) if type(tree) in NODES else list(tree)
    return [
        ((key, *path), leaf)
        for key, part in zip(_keys(tree, len(parts)), parts, strict=True)
        for path, leaf in tree_leaves_with_path(part, is_leaf)
    ]


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a tree, each with the way to it, and the tree's shape."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Like tree_map, with the way to each leaf as the first argument.

    >>> tree_map_with_path(lambda path, leaf: f"{keystr(path)}={leaf}", {"a": [1]})
    {'a': ["['a'][0]=1"]}
    """
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    return tree_map(lambda *leaves: func(next(paths), *leaves), tree, *rests, is_leaf=is_leaf)


def keystr(kp: KeyPath) -> str:
    """The way to a leaf as Python writes it."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at the end of a way."""
    for key in kp:
        obj = key.get(obj)
    return obj


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments of a call."""
    return tree_leaves([args, kwargs])


def is_namedtuple(obj: Any) -> bool:
    """Whether something is a named tuple, or a class of them."""
    kind = obj if isinstance(obj, type) else type(obj)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def is_namedtuple_class(cls: Any) -> bool:
    """Whether something is a class of named tuples."""
    return isinstance(cls, type) and is_namedtuple(cls)


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether something is a named tuple, not a class of them."""
    return not isinstance(obj, type) and is_namedtuple(obj)


def tree_map_only_(
    kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Call a function with every leaf of a class, and give the tree back."""
    tree_map_only(kind, func, tree, is_leaf)
    return tree


def tree_all_only(kind: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether all leaves of a class are such."""
    return all(pred(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, kind))


def tree_any_only(kind: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether one leaf of a class is such."""
    return any(pred(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, kind))


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether all leaves are such."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether one leaf is such."""
    return any(map(pred, tree_leaves(tree)))
