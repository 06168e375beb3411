"""Modules, as tools ask for them: which one ran at a moment (a tick: recordings keep no nodes), and what is none."""

from typing import Any

from pellucid.core.provenance import here
from pellucid.errors import explain
from pellucid.nn.modules.calls import CALLS, path_between, running
from pellucid.nn.modules.module import Module

__all__ = ["model_for", "paths_of", "roots_of"]


def model_for(function: str, given: Any) -> Module:
    """What a tool was given, if it is a model; else an error that says what it wants."""
    if isinstance(given, Module):
        return given
    several = isinstance(given, (list, tuple, dict)) and any(isinstance(each, Module) for each in given)
    raise TypeError(
        explain(
            f"{function} looks at a model, an nn.Module, not at {type(given).__name__}",
            here().text,
            try_="nn.ModuleList([...]) of these models" if several else "the model whose parameters are trained",
        )
    )


def _calls(ticks: list[int]) -> list[tuple[int, float, Any]]:
    """The calls of modules around these ticks: when each began and ended, oldest first."""
    if not ticks:
        return []
    ended = [(start, end, module()) for module, start, end in CALLS if end > ticks[0] and start < ticks[-1]]
    going = [(start, float("inf"), module) for start, module in running()]
    return sorted((call for call in (*ended, *going) if call[2] is not None), key=lambda call: call[0])


def paths_of(ticks: list[int]) -> list[str]:
    """For each tick the path from the outermost to the innermost module that was running; empty outside of modules."""
    calls = _calls(ticks)
    known: dict[tuple[int, int], str] = {}
    paths, around, following = [], [], 0
    for tick in ticks:
        while following < len(calls) and calls[following][0] < tick:
            around.append(calls[following])
            following += 1
        around = [call for call in around if call[1] > tick]
        if not around:
            paths.append("")
            continue
        outer, inner = around[0][2], around[-1][2]
        key = id(outer), id(inner)
        if key not in known:
            known[key] = path_between(outer, inner) or type(inner).__name__
        paths.append(known[key])
    return paths


def roots_of(ticks: list[int]) -> list[Any]:
    """The outermost modules that ran between these ticks."""
    roots: list[Any] = []
    until = 0.0
    for start, end, module in _calls(ticks):
        if start >= until:
            until = end
            if not any(module is root for root in roots):
                roots.append(module)
    return roots
