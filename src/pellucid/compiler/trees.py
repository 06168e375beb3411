"""Trees: tensors and other leaves inside tuples, lists, dicts and slices."""

from collections.abc import Callable
from typing import Any

Tree = Any  # tensors inside tuples, lists and dicts


def mapped(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """The tree with every leaf replaced by what the function makes of it.

    >>> mapped(lambda leaf: leaf + 1, {"a": [1, (2, 3)]})
    {'a': [2, (3, 4)]}
    """
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(function, branch) for branch in tree))
    if type(tree) in (tuple, list):
        return type(tree)(mapped(function, branch) for branch in tree)
    if isinstance(tree, dict):
        return {key: mapped(function, branch) for key, branch in tree.items()}
    if isinstance(tree, slice):
        return slice(*(mapped(function, part) for part in (tree.start, tree.stop, tree.step)))
    return function(tree)


def leaves(tree: Tree, path: str = "") -> list[tuple[str, Any]]:
    """Every leaf of a tree with the path that leads to it.

    >>> leaves({"a": [1, (2, 3)]})
    [("['a'][0]", 1), ("['a'][1][0]", 2), ("['a'][1][1]", 3)]
    """
    if isinstance(tree, (tuple, list)):
        return [leaf for i, branch in enumerate(tree) for leaf in leaves(branch, f"{path}[{i}]")]
    if isinstance(tree, dict):
        return [leaf for key, branch in tree.items() for leaf in leaves(branch, f"{path}[{key!r}]")]
    if isinstance(tree, slice):
        return leaves((tree.start, tree.stop, tree.step), path)
    return [(path, tree)]
