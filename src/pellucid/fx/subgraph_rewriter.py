"""replace_pattern: steps that look like those of one function become those of another."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid.fx._symbolic_trace import symbolic_trace
from pellucid.fx.graph import Graph
from pellucid.fx.graph_module import GraphModule
from pellucid.fx.node import Argument, Node, map_arg, nodes_of

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was found."""

    anchor: Node
    nodes_map: dict[Node, Node]  # by the pattern's node: the graph's


class ReplacedPatterns(NamedTuple):
    """Where a pattern was found, and what is there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replace the steps of one function by those of another, wherever they are found and nobody else needs them.

    >>> import pellucid as torch
    >>> program = torch.fx.symbolic_trace(lambda x: torch.exp(torch.neg(x)) + 1)
    >>> found = replace_pattern(program, lambda a: torch.exp(torch.neg(a)), lambda a: 1 / torch.exp(a))
    >>> print(len(found), program.code.strip())
    1 def forward(self, x):
        exp_1 = torch.exp(x);  x = None
        truediv = 1 / exp_1;  exp_1 = None
        add = truediv + 1;  truediv = None
        return add
    """
    return [Match(each.anchor, each.nodes_map) for each in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Any, replacement: Any, match_filters: Any = None, ignore_literals: bool = False,
    **options: Any,
) -> list[ReplacedPatterns]:  # fmt: skip
    """As `replace_pattern`, where each filter says yes to a match, the graph and the pattern's graph."""
    pattern_graph, replacement_graph = _graph(pattern), _graph(replacement)
    done: list[ReplacedPatterns] = []
    renewed: dict[Node, Node] = {}  # what earlier replacements have put in the place of nodes
    for match in _matches(gm.graph, pattern_graph, ignore_literals):
        if all(accepts(match, gm.graph, pattern_graph) for accepts in match_filters or ()):
            done.append(_replace(gm.graph, match, pattern_graph, replacement_graph, renewed))
    _take_parts(gm, replacement)
    gm.recompile()
    return done


def _graph(program: Any) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _take_parts(gm: GraphModule, replacement: Any) -> None:
    """What the replacement names of its module is in the program, too."""
    for name, module in replacement.named_children() if isinstance(replacement, GraphModule) else ():
        if not hasattr(gm, name):
            gm.add_submodule(name, module)


def _matches(graph: Graph, pattern: Graph, ignore_literals: bool) -> list[Match]:
    """Where the pattern is, without overlaps."""
    ends = list(nodes_of(pattern.output_node().args))
    used: set[Node] = set()
    found: list[Match] = []
    for node in graph.nodes:
        nodes_map = _at(ends[0], node, {}, ignore_literals)
        for end in ends[1:]:
            nodes_map = nodes_map and _anywhere(end, graph, nodes_map, ignore_literals)
        if nodes_map is None:
            continue
        inside = {each for key, each in nodes_map.items() if key.op != "placeholder"}
        if inside & used or not _alone(nodes_map, inside, ends):
            continue
        used |= inside
        found.append(Match(node, nodes_map))
    return found


Found = dict[Node, Node]


def _at(end: Node, node: Node, known: Found, ignore_literals: bool) -> Found | None:
    """What is known of a match if a result of the pattern is this node; None if it is not."""
    found = dict(known)
    fits = node.op not in ("placeholder", "output") and _same(end, node, found, ignore_literals)
    return found if fits else None


def _anywhere(end: Node, graph: Graph, known: Found, ignore_literals: bool) -> Found | None:
    """What is known of a match with one more result of the pattern, wherever that is."""
    if end in known:
        return known
    tried = (_at(end, node, known, ignore_literals) for node in graph.nodes)
    return next((found for found in tried if found is not None), None)


def _same(pattern: Argument, given: Argument, nodes_map: Found, ignore_literals: bool) -> bool:
    """Whether an argument is like that of the pattern; what the pattern leaves open may be anything, but only one."""
    if not isinstance(pattern, Node):
        if isinstance(pattern, (list, tuple)):
            alike = isinstance(given, (list, tuple)) and len(given) == len(pattern)
            return alike and all(_same(a, b, nodes_map, ignore_literals) for a, b in zip(pattern, given, strict=True))
        if isinstance(pattern, dict):
            alike = isinstance(given, dict) and given.keys() == pattern.keys()
            return alike and all(_same(pattern[key], given[key], nodes_map, ignore_literals) for key in pattern)
        return not isinstance(given, Node) and (ignore_literals or bool(pattern == given))
    if pattern in nodes_map:
        return nodes_map[pattern] is given
    if isinstance(given, Node) and any(given is each for each in nodes_map.values()):
        return False
    if pattern.op == "placeholder":
        nodes_map[pattern] = given
        return True
    if not isinstance(given, Node) or (pattern.op, pattern.target) != (given.op, given.target):
        return False
    nodes_map[pattern] = given
    return _same(pattern.args, given.args, nodes_map, ignore_literals) and _same(
        pattern.kwargs, given.kwargs, nodes_map, ignore_literals
    )


def _alone(nodes_map: dict[Node, Node], inside: set[Node], ends: list[Node]) -> bool:
    """Whether nobody outside needs what is inside, but for the results."""
    for key, node in nodes_map.items():
        if key.op not in ("placeholder", "get_attr") and key not in ends and not set(node.users) <= inside:
            return False
    return True


def _replace(
    graph: Graph, match: Match, pattern: Graph, replacement: Graph, renewed: dict[Node, Node]
) -> ReplacedPatterns:
    inputs = [node for node in pattern.nodes if node.op == "placeholder"]
    taken = [node for node in replacement.nodes if node.op == "placeholder"]
    given = [map_arg(match.nodes_map[node], lambda each: renewed.get(each, each)) for node in inputs]
    copies: dict[Node, Any] = dict(zip(taken, given, strict=True))
    results = [match.nodes_map[end] for end in nodes_of(pattern.output_node().args)]
    order = list(graph.nodes)
    first = min((user for each in results for user in each.users), key=order.index)
    before = set(order)
    with graph.inserting_before(first):
        made = list(nodes_of((graph.graph_copy(replacement, copies),)))
    if len(made) != len(results):
        raise RuntimeError(f"the pattern returns {len(results)} values, and its replacement {len(made)}")
    for old, new in zip(results, made, strict=True):
        old.replace_all_uses_with(new)
        renewed[old] = new
    for node in reversed(order):
        if any(node is each and key.op != "placeholder" for key, each in match.nodes_map.items()) and not node.users:
            graph.erase_node(node)
    return ReplacedPatterns(match.anchor, match.nodes_map, [node for node in graph.nodes if node not in before])
