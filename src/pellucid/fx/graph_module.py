"""GraphModule: a module whose `forward` is written from a graph."""

import copy
import itertools
import linecache
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.fx.graph import Graph
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter

__all__ = ["GraphModule"]

NUMBERS = itertools.count()
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # in `meta`: what copies are to have, too


def _compiled(source: str, names: dict[str, Any]) -> Any:
    """The function `forward` of a program; tracebacks find its lines."""
    place = f"<eval_with_key>.{next(NUMBERS)}"
    linecache.cache[place] = len(source), None, source.splitlines(keepends=True), place
    scope = dict(names)
    exec(compile(source, place, "exec"), scope)
    return scope["forward"]


class GraphModule(Module):
    """A module that does what a graph says, with the parts of a module (or of a dictionary) that the graph names.

    >>> import pellucid as torch
    >>> program = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten()))
    >>> program(torch.tensor([[[-1.0, 2.0]]]))
    tensor([[0., 2.]])
    >>> for node in program.graph.nodes:
    ...     if node.target == "1":
    ...         _ = node.replace_all_uses_with(node.args[0])
    ...         program.graph.erase_node(node)
    >>> _ = program.recompile()
    >>> print(program.code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        return _0
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "GraphModule":
        """Every one has a class of its own, for a `forward` of its own."""
        base = next(kind for kind in cls.__mro__ if not kind.__dict__.get("_is_own_class"))
        return object.__new__(type(base.__name__, (base,), {"_is_own_class": True, "__module__": base.__module__}))

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        if isinstance(root, Module) and hasattr(root, "training"):
            self.training = root.training
        for target in [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]:
            if isinstance(root, Module):
                _copy_attr(root, self, target)
            elif target in root:
                _put(self, target, root[target])
            else:
                raise RuntimeError(f"the graph names {target!r}, which is not among {sorted(root)}")
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph; after it was changed, `recompile` writes the program anew."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        self._graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The program as text."""
        return self._code

    def recompile(self) -> Any:
        """Write the program of the graph anew."""
        program = self._graph.python_code("self")
        self._code = program.src
        type(self).forward = _compiled(program.src, program.globals)  # type: ignore[method-assign]
        return program

    def print_readable(self, print_output: bool = True, *args: Any, **kwargs: Any) -> str:
        """The program as the text of a class.

        >>> import pellucid as torch
        >>> _ = torch.fx.symbolic_trace(torch.nn.ReLU()).print_readable()
        class ReLU(torch.nn.Module):
            def forward(self, input):
                # No stacktrace found for following nodes
                input_1 = input
                relu = torch.nn.functional.relu(input_1, inplace = False);  input_1 = None
                return relu
        <BLANKLINE>
        """
        lines = []
        for line in self._code.strip().splitlines():
            lines.append(f"    {line}" if line else "")
            if line.startswith("def forward("):
                lines.append("        # No stacktrace found for following nodes")
        text = f"class {self._get_name()}(torch.nn.Module):\n" + "\n".join(lines) + "\n"
        for child in self.children():
            if isinstance(child, GraphModule):
                inner = child.print_readable(print_output=False)
                text += "\n" + "".join(f"    {line}\n" for line in inner.rstrip().splitlines())
        if print_output:
            print(text)
        return text

    # --- parts

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module in a place, and modules on the way to it; False if something else is there.

        >>> import pellucid as torch
        >>> program = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> program.add_submodule("more.layers.linear", torch.nn.Linear(1, 1)), program.more.layers.linear.in_features
        (True, 1)
        """
        *above, name = target.split(".")
        place: Any = self
        for each in above:
            if not hasattr(place, each):
                setattr(place, each, Module())
            place = getattr(place, each)
            if not isinstance(place, Module):
                return False
        place.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take a module out; False if there is none."""
        above, _, name = target.rpartition(".")
        try:
            place = self.get_submodule(above)
        except AttributeError:
            return False
        if not isinstance(getattr(place, name, None), Module):
            return False
        delattr(place, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the modules that no node needs."""
        needed: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                parts = str(node.target).split(".")
                needed.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
                if node.op == "call_module":
                    inside = self.get_submodule(str(node.target)).named_modules()
                    needed.update(f"{node.target}.{name}" for name, _ in inside if name)
        for name in [name for name, _ in self.named_modules() if name and name not in needed]:
            self.delete_submodule(name)

    # --- copies and texts

    def __deepcopy__(self, memo: dict[int, Any]) -> "GraphModule":
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = {key: value for key, value in self.__getstate__().items() if key != "_graph"}
        made._restore({**copy.deepcopy(state, memo), "_graph": copy.deepcopy(self._graph, memo)})
        return made

    def __copy__(self) -> "GraphModule":
        return GraphModule(self, self._graph, type(self).__name__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        base = next(kind for kind in type(self).__mro__ if not kind.__dict__.get("_is_own_class"))
        return _unpickled, (base, self.__getstate__())

    def _restore(self, state: dict[str, Any]) -> None:
        self.__setstate__(state)
        self._graph.owning_module = self
        self.recompile()

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])


def _unpickled(kind: type[GraphModule], state: dict[str, Any]) -> GraphModule:
    made = kind.__new__(kind)
    made._restore(state)
    return made


class _CodeOnlyModule(Module):
    """A module of attributes alone, from which libraries make their own kinds of GraphModule."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__setstate__(body)


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Give a module the same attribute as another has, and plain modules on the way to it."""
    *above, name = target.split(".")
    given: Any = from_module
    for i, each in enumerate(above):
        given = getattr(given, each)
        if _place(to_module, above[: i + 1]) is given:  # a module that both have, with all that is in it
            return
    if hasattr(given, name):
        _put(to_module, target, getattr(given, name))


def _place(module: Any, path: list[str]) -> Any:
    """The module at a path; where there is none, a plain one is made."""
    for name in path:
        if getattr(module, name, None) is None:
            setattr(module, name, Module())
        module = getattr(module, name)
    return module


def _put(module: Module, target: str, value: Any) -> None:
    """Give a module an attribute; a tensor that is no parameter becomes a buffer."""
    *above, name = target.split(".")
    place = _place(module, above)
    if isinstance(value, Tensor) and not isinstance(value, Parameter) and not hasattr(place, name):
        place.register_buffer(name, value)
    else:
        setattr(place, name, value)
