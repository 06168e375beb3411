"""Graph: a program as a list of nodes, to look at, to change and to write as Python."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pellucid.fx.codegen import CodeGen, Namespace, PythonCode
from pellucid.fx.node import Argument, Node, Target, map_aggregate, map_arg, suggested_name

__all__ = ["CodeGen", "Graph", "PythonCode"]

_Namespace = Namespace
ABSENT = object()  # no default value


class _NodeList:
    """The nodes of a graph in their order; nodes may come and go while it is walked through."""

    def __init__(self, graph: "Graph", direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._count

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> "_NodeList":
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


class Graph:
    """Nodes in the order in which they run.

    >>> import pellucid as torch
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> _ = graph.output(y)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    >>> torch.fx.GraphModule({}, graph)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._names = Namespace()
        self._root = Node(self, "", "root", "", (), {})
        self._place: Callable[[Node], None] = self._root.prepend
        self._count = 0
        self._codegen = CodeGen()
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras

    @property
    def nodes(self) -> _NodeList:
        """The nodes in their order."""
        return _NodeList(self)

    # --- new nodes

    def create_node(
        self, op: str, target: Target, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node in the place where nodes are put: at the end, unless a block says otherwise."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        chosen = self._names.create_name(name if name is not None else suggested_name(target), None)
        node = Node(self, chosen, op, target, args, kwargs, type_expr)
        self._names.associate(chosen, node)
        self._place(node)
        self._count += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ABSENT) -> Node:
        """An input; a name that starts with `*` is that of several."""
        args = () if default_value is ABSENT or _is_empty(default_value) else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, a buffer or another attribute of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None, type_expr: Any = None,
        name: str | None = None,
    ) -> Node:  # fmt: skip
        """The call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """The call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """The call of a part of the module."""
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)  # refuses a name that leads nowhere
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the program returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node) -> Node:
        """The copy of a node of another graph; `arg_transform` says what stands for the nodes that it takes."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: "Graph", val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy all nodes of a graph but its output, which is returned; `val_map` learns which is whose copy."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda each: val_map[each])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda each: val_map[each])
        return None

    # --- places

    def inserting_before(self, n: Node | None = None) -> Any:
        """New nodes in this block stand before a node; without one, at the beginning."""
        return self._inserting((n or self._root._next).prepend, n)

    def inserting_after(self, n: Node | None = None) -> Any:
        """New nodes in this block stand after a node, the one that was made last next to it; without one, at the end.

        >>> import pellucid as torch
        >>> graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
        >>> with graph.inserting_after(next(iter(graph.nodes))):
        ...     _ = graph.call_function(torch.relu, ())
        >>> list(graph.nodes)
        [x, relu, add, output]
        """
        return self._inserting(n.append if n is not None else self._root.prepend, n)

    @contextmanager
    def _inserting(self, place: Callable[[Node], None], n: Node | None) -> Iterator[None]:
        if n is not None and n.graph is not self:
            raise AssertionError("Node to insert at is not in graph.")
        before, self._place = self._place, place
        try:
            yield
        finally:
            self._place = before

    def erase_node(self, to_erase: Node) -> None:
        """Take out a node that nobody takes."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._unlink()
        to_erase._erased = True
        to_erase._set_arguments((), {})
        self._count -= 1

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out what nobody needs, and tell whether there was any.

        >>> import pellucid as torch
        >>> def two(x):
        ...     unused = torch.exp(x)
        ...     return x + 1
        >>> graph = torch.fx.symbolic_trace(two).graph
        >>> graph.eliminate_dead_code(), list(graph.nodes)
        (True, [x, add, output])
        """
        self.lint()
        impure = is_impure_node or Node.is_impure
        before = self._count
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
        return self._count != before

    # --- questions

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and of a target.

        >>> import pellucid as torch
        >>> torch.fx.symbolic_trace(lambda x: x.neg().neg()).graph.find_nodes(op="call_method", target="neg")
        [neg, neg_1]
        """
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """The last node."""
        return next(iter(reversed(self.nodes)))

    def lint(self) -> None:
        """Refuse a graph whose nodes take what comes later, have one name, or name what the module has not."""
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for each in node.all_input_nodes:
                if each.graph is not self:
                    raise RuntimeError(f"Argument '{each}' of Node '{node}' does not belong to this Graph!")
                if each not in seen:
                    raise RuntimeError(
                        f"Argument '{each}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            seen.add(node)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                _check_target(self.owning_module, node)

    # --- texts

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """The program of the graph, as a method of the object that is called `root_module`.

        >>> import pellucid as torch
        >>> print(torch.fx.symbolic_trace(lambda x: torch.relu(x) * 2).graph.python_code("self").src.strip())
        def forward(self, x):
            relu = torch.relu(x);  x = None
            mul = relu * 2;  relu = None
            return mul
        """
        return self._codegen.written(list(self.nodes), root_module)

    def print_tabular(self) -> None:
        """Print the nodes as a table, which the package tabulate writes."""
        try:
            from tabulate import tabulate  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip "
                "install tabulate` to install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(str(node.format_node()) for node in self.nodes)])

    # --- copies

    def __deepcopy__(self, memo: dict[int, Any]) -> "Graph":
        made = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = made
        copies: dict[Node, Node] = {}
        result = made.graph_copy(self, copies, return_output_node=True)
        if result is not None:
            output = made.output(result[0], result[1].type)
            output.meta = copy.copy(result[1].meta)
        return made

    def __reduce__(self) -> Any:
        """As rows, in which nodes are told by their names: a list whose members hold each other is too deep."""
        rows = [
            (node.op, node.name, node.target, _packed(node.args), _packed(node.kwargs), node.type, dict(node.meta))
            for node in self.nodes
        ]
        return _unpickled, (rows,)


class _Name(str):
    """A node, in a pickled graph."""


def _packed(arguments: Argument) -> Argument:
    return map_arg(arguments, lambda node: _Name(node.name))


def _unpickled(rows: Iterable[Any]) -> Graph:
    graph = Graph()
    nodes: dict[str, Node] = {}
    for op, name, target, args, kwargs, kind, meta in rows:
        args, kwargs = map_aggregate((args, kwargs), lambda each: nodes[each] if isinstance(each, _Name) else each)
        nodes[name] = graph.create_node(op, target, args, kwargs, name, kind)
        nodes[name].meta = meta
    return graph


def _is_empty(default: Any) -> bool:
    """Whether this is how a signature says that there is no default."""
    return isinstance(default, type) and default.__name__ == "_empty"


def _check_target(module: Any, node: Node) -> None:
    found = module
    for name in str(node.target).split("."):
        if not hasattr(found, name):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {name} of {type(module).__name__}"
            )
        found = getattr(found, name)
