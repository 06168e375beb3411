"""Interpreter: runs a graph node by node. Transformer: runs it with proxies, which makes another graph."""

from typing import Any

from pellucid.fx.graph import ABSENT, Graph
from pellucid.fx.graph_module import GraphModule
from pellucid.fx.node import Argument, Node, Target, map_aggregate, map_arg
from pellucid.fx.proxy import GraphAppendingTracer, Proxy
from pellucid.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node; a method for each kind of node says how.

    >>> import pellucid as torch
    >>> class Telling(Interpreter):
    ...     def run_node(self, n):
    ...         print(n.op, n.name)
    ...         return super().run_node(n)
    >>> Telling(torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)).run(torch.tensor([-1.0]))
    placeholder x
    call_function relu
    call_function add
    output output
    tensor([1.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run all nodes; the value of the output."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        last = _last_uses(self.graph) if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _say_where(error, node)
                raise
            for each in last.get(node, ()):
                self.env.pop(each, None)
            if node.op == "output":
                return self.env[node]
        return None

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run with a list of inputs, which is emptied."""
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next input."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The call of a function."""
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The call of a method of the first argument."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The call of a part of the module."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The value of the whole."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of an attribute of the module."""
        found: Any = self.module
        for i, name in enumerate(target.split(".")):
            if not hasattr(found, name):
                so_far = ".".join(target.split(".")[:i])
                raise RuntimeError(f"Node referenced nonexistent target {so_far}.{name}")
            found = getattr(found, name)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Arguments with the values of the nodes among them."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    seen: set[Node] = set()
    last: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        fresh = [each for each in node.all_input_nodes if each not in seen]
        seen.update(fresh)
        last[node] = fresh
    return last


def _say_where(error: Exception, node: Node) -> None:
    """Let an error say which node it happened in."""
    where = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
    first = f"{error.args[0]}\n\n{where}" if error.args else where
    if not (error.args and isinstance(error.args[0], str) and "While executing" in error.args[0]):
        error.args = first, *error.args[1:]


class Transformer(Interpreter):
    """Runs a graph with proxies, and makes another graph of what happens.

    >>> import pellucid as torch
    >>> class NoExp(Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return args[0] if target is torch.exp else super().call_function(target, args, kwargs)
    >>> print(NoExp(torch.fx.symbolic_trace(lambda x: torch.exp(x) + 1)).transform().code.strip())
    def forward(self, x):
        add = x + 1;  x = None
        return add
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = GraphAppendingTracer(self.new_graph)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """An input of the new graph."""
        return Proxy(self.new_graph.placeholder(str(target), default_value=args[0] if args else ABSENT), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The call of a module, in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The call of a function, in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = self.run(enable_io_processing=False)
        self.env = {}  # as long as a proxy is alive, all functions look for one
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda each: each.node if isinstance(each, Proxy) else each))
        return GraphModule(self.module, self.new_graph)
