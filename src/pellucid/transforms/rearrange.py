"""Axes named in a pattern: "b (h w) c -> b c h w" splits, orders and merges them, as einops writes it."""

import math
import re
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.ops.join import stack

Groups = list[list[str]]  # what stands at each dimension: one name, several in brackets, or none for a length of 1
DOTS = ["... of their own"]  # each of the dimensions for itself; in brackets, "..." is one name for all of them


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Tensor:
    """Reorder, split and merge the axes of a tensor (or of several, stacked) as a pattern says.

    >>> import pellucid as torch
    >>> images = torch.zeros(32, 30, 40, 3)
    >>> rearrange(images, "b h w c -> b c h w").shape
    torch.Size([32, 3, 30, 40])
    >>> rearrange(images, "b (h1 h) (w1 w) c -> (b h1 w1) h w c", h1=2, w1=2).shape
    torch.Size([128, 15, 20, 3])
    """
    given: Tensor = tensor if isinstance(tensor, Tensor) else stack(tensor)
    left, arrow, right = pattern.partition("->")
    if not arrow or "->" in right:
        raise ValueError(f"Pattern must contain exactly one arrow '->': {pattern!r}")
    before, after = (_groups(side, pattern) for side in (left, right))
    spread = _dots(before, after, given.dim(), pattern)
    before, after = (_without_dots(groups, spread) for groups in (before, after))
    _same_names(before, after, axes_lengths, pattern)
    lengths = _lengths(before, tuple(given.shape), axes_lengths, pattern)
    names, wanted = ([name for group in groups for name in group] for groups in (before, after))
    split = given.reshape([lengths[name] for name in names])
    ordered = split.permute([names.index(name) for name in wanted])
    return ordered.reshape([math.prod(lengths[name] for name in group) for group in after])


def _groups(side: str, pattern: str) -> Groups:
    """The dimensions of one side of a pattern."""
    result: Groups = []
    inside = False
    for word in re.findall(r"\.\.\.|\(|\)|[^\s()]+", side):
        if word == "(":
            if inside:
                raise ValueError(f"brackets cannot be nested: {pattern!r}")
            inside = True
            result.append([])
        elif word == ")":
            if not inside:
                raise ValueError(f"brackets are not balanced: {pattern!r}")
            inside = False
        elif word != "..." and not word.isidentifier() and word != "1":
            raise ValueError(f"{word!r} is no name of an axis: {pattern!r}")
        else:
            named = [] if word == "1" else [word]
            if inside:
                result[-1] += named
            else:
                result.append(DOTS if word == "..." else named)
    if inside:
        raise ValueError(f"brackets are not balanced: {pattern!r}")
    return result


def _dots(before: Groups, after: Groups, rank: int, pattern: str) -> list[str]:
    """Names for the dimensions that "..." stands for."""
    if any("..." in group for group in before):
        raise ValueError(f"'...' cannot stand in brackets on the left: {pattern!r}")
    if DOTS not in before and any("..." in group or group == DOTS for group in after):
        raise ValueError(f"'...' stands on the right side only: {pattern!r}")
    count = rank - len(before) + (DOTS in before)
    if count < 0 or (DOTS not in before and count):
        raise ValueError(f"the left side names {len(before)} dimensions, the tensor has {rank}: {pattern!r}")
    return [f"...{i}" for i in range(count)]


def _without_dots(groups: Groups, spread: list[str]) -> Groups:
    result: Groups = []
    for group in groups:
        if group == DOTS:
            result += [[name] for name in spread]
        else:
            result.append([each for name in group for each in (spread if name == "..." else [name])])
    return result


def _same_names(before: Groups, after: Groups, axes_lengths: dict[str, int], pattern: str) -> None:
    left, right = ([name for group in groups for name in group] for groups in (before, after))
    if len(set(left)) != len(left) or len(set(right)) != len(right):
        raise ValueError(f"a name stands twice on one side: {pattern!r}")
    if set(left) != set(right):
        raise ValueError(f"Identifiers only on one side of expression (should be on both): {pattern!r}")
    if unknown := set(axes_lengths) - set(left):
        raise ValueError(f"no axis is called {', '.join(sorted(unknown))}: {pattern!r}")


def _lengths(before: Groups, shape: tuple[int, ...], known: dict[str, int], pattern: str) -> dict[str, int]:
    """The length of every axis; one of each bracket may be left to find out."""
    result = dict(known)
    for group, size in zip(before, shape, strict=True):
        open_ones = [name for name in group if name not in known]
        rest = math.prod(known[name] for name in group if name in known)
        if len(open_ones) > 1:
            raise ValueError(f"all but one of the lengths of {' '.join(group)} must be given: {pattern!r}")
        if size % rest if open_ones else size != rest:
            raise ValueError(f"a dimension of {size} cannot be split as ({' '.join(group)}) with {known}: {pattern!r}")
        if open_ones:
            result[open_ones[0]] = size // rest
    return result
