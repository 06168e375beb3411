"""Gradients from elsewhere beside ours: real PyTorch's, those of a paper, or what was worked out by hand."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from pellucid.errors import explain
from pellucid.explorer.graph import Graph, Item, number

__all__ = ["compare"]


def compare(graph: Graph, beside: Mapping[str, Any]) -> None:
    """Put each given gradient beside the box of that name, and say in a note how far they are apart.

    They may be anything NumPy can read: torch tensors on the CPU, too.
    """
    known = {item.called: item for item in graph.items}
    found = {name: (_item(known, name), np.asarray(given, np.float64)) for name, given in beside.items()}
    for name, (item, given) in found.items():
        if item.grad is not None and np.shape(item.grad) != given.shape:
            raise ValueError(f"beside: {name} has a gradient of shape {np.shape(item.grad)}, not {given.shape}")
    for item, given in found.values():
        item.beside = given, _apart(item.grad, given)
    if found:
        graph.notes.append(_said(found))


def _item(known: Mapping[str, Item], name: str) -> Item:
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 3) or list(known)[:3]
    raise ValueError(explain(f"beside: there is no {name!r} in this graph", try_=f"one of {', '.join(near)}"))


def _apart(ours: Any, given: np.ndarray) -> float | None:
    """The largest difference of two elements, as a share of the largest given one; None where we have no gradient."""
    if ours is None:
        return None
    off = np.abs(np.asarray(ours, np.float64) - given)
    same_nan = np.isnan(given) & np.isnan(np.asarray(ours, np.float64))
    worst, largest = float(np.max(off[~same_nan], initial=0.0)), float(np.max(np.abs(given[~same_nan]), initial=0.0))
    return worst / largest if largest else worst


def _said(found: Mapping[str, tuple[Item, np.ndarray]]) -> str:
    apart = {name: item.beside[1] for name, (item, _) in found.items() if item.beside[1] is not None}
    missing = [name for name in found if name not in apart]
    none = f" No gradient goes to {', '.join(missing)} here." if missing else ""
    if not apart:
        return f"Beside the given gradients:{none}"
    worst = max(apart, key=lambda name: np.nan_to_num(apart[name], nan=np.inf))
    many = f"{len(apart)} gradient{'s'[: len(apart) != 1]}"
    if apart[worst] == 0:
        return f"Beside {many} given: the same to the last bit.{none}"
    return f"Beside {many} given: at most {number(apart[worst])} of its size apart, in {worst}.{none}"
