"""Which boxes can be folded into one: the runs of modules, and the parameters that only they use."""

from typing import Any

from pellucid.explorer.graph import Graph

__all__ = ["grouped"]


def grouped(graph: Graph) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The runs of modules (`model`, inside it `model.0`) and the innermost one of each item.

    A run is unbroken in the order of computation: so a module that is used twice has two, and folding them cannot
    make a circle.
    """
    groups: list[dict[str, Any]] = []
    member: dict[int, int] = {}
    open_: list[tuple[str, int]] = []  # the runs that the last operation was in, outermost first
    for item in graph.items:
        if not item.is_operation:
            continue
        parts = item.module.split(".") if item.module else []
        paths = [".".join(parts[: i + 1]) for i in range(len(parts))]
        while open_ and (len(open_) > len(paths) or open_[-1][0] != paths[len(open_) - 1]):
            open_.pop()
        for path in paths[len(open_) :]:
            groups.append({"id": len(groups), "path": path, "parent": open_[-1][1] if open_ else None})
            open_.append((path, len(groups) - 1))
        if open_:
            member[item.index] = open_[-1][1]
    _take_in_leaves(graph, member)
    return groups, member


def _take_in_leaves(graph: Graph, member: dict[int, int]) -> None:
    users: dict[int, set[int | None]] = {}
    for edge in graph.edges:
        users.setdefault(edge.source, set()).add(member.get(edge.target))
    for item in graph.items:
        if not item.is_operation and item.badge and len(users.get(item.index, ())) == 1:
            (group,) = users[item.index]
            if group is not None:
                member[item.index] = group
