"""Small helpers of the layers, under the names that other people's layers import from PyTorch."""

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes a tuple of n of a number, and a tuple of anything that can be iterated.

    >>> _ntuple(3)(5), _ntuple(3)([1, 2, 3])
    ((5, 5, 5), (1, 2, 3))
    """

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Each element n times, the last first: how a padding per axis becomes one for `nn.functional.pad`.

    >>> _reverse_repeat_tuple((1, 2), 2)
    (2, 2, 1, 1)
    """
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: list[int | None], defaults: list[int]) -> list[int]:
    """Sizes, those that are None taken from the end of the defaults.

    >>> _list_with_default([None, 3], [8, 9, 10])
    [9, 3]
    """
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [default if size is None else size for size, default in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix off the keys of a state_dict, in place: that of a model which was wrapped in another, say.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata: Any = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key == prefix.replace(".", "") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
