"""Proxy: stands for a value that is not known yet, and writes down what is done with it."""

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.fx import border, public
from pellucid.fx.graph import Graph
from pellucid.fx.node import Argument, Node, Target, map_aggregate
from pellucid.interop.subclasses import NAMES

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]

PLAIN = (str, int, float, bool, complex, type(None), type(...), dtypes.dtype, dtypes.device, dtypes.layout,
         dtypes.memory_format)  # fmt: skip
NO_LOOPS = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
    "function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control "
    "flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
)


class TraceError(ValueError):
    """What a program does with a value that is not known yet and needs the value for."""


class TracerBase:
    """Makes nodes of what is done with proxies."""

    graph: Graph

    def create_node(
        self, kind: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node; a tracer that wants to change or refuse one overrides this."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> "Proxy":
        """What stands for a node in a traced program."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Callable[[Node], "Proxy"] | None = None,
    ) -> "Proxy":  # fmt: skip
        """A node of what a program did, and what stands for its result."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """An argument of a program as one of a node: proxies are nodes there."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, (tuple, list, dict, slice)):
            return map_aggregate(_with_lists(a), lambda each: self.create_arg(each))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (Node, type, *PLAIN)) or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: "Proxy") -> bool:
        """What an `if` asks for, which nobody knows."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Any) -> Iterator[Any]:
        """What a loop asks for: nobody knows how many there are, unless names are given to them: `a, b = x`."""
        frame = sys._getframe(2)
        for step in dis.get_instructions(frame.f_code):
            if step.offset == frame.f_lasti and step.opname == "UNPACK_SEQUENCE":
                return iter([obj[i] for i in range(step.argval)])
        raise TraceError(NO_LOOPS)

    def keys(self, obj: "Proxy") -> Any:
        """What `**x` asks for."""
        return Attribute(obj, "keys")()


def _with_lists(a: Any) -> Any:
    """Special kinds of containers, a torch.Size for one, as the plain ones."""
    if isinstance(a, tuple) and not hasattr(a, "_fields"):
        return tuple(a)
    return a


class GraphAppendingTracer(TracerBase):
    """Makes nodes in a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a node: what is done with it becomes nodes of the same graph.

    >>> import pellucid as torch
    >>> graph = torch.fx.Graph()
    >>> x = Proxy(graph.placeholder("x"))
    >>> y = torch.tanh(x).sum(dim=0) * 2
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %tanh : [num_users=1] = call_function[target=torch.tanh](args = (%x,), kwargs = {})
        %sum_1 : [num_users=1] = call_method[target=sum](args = (%tanh,), kwargs = {dim: 0})
        %mul : [num_users=0] = call_function[target=operator.mul](args = (%sum_1, 2), kwargs = {})
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        border.notice(self)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> "Attribute":
        if name.startswith("__") and name.endswith("__"):  # Python's own questions are no attributes of the value
            raise AttributeError(f"'Proxy' object has no attribute '{name}'")
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> "Proxy":
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """What `**x` asks for."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A function got a proxy: write it down."""
        kwargs = kwargs or {}
        tracer = _tracer_of((args, kwargs))
        if isinstance(func, FunctionType) and _is_method(func) and _called_as_method(func, args):
            name = func.__name__
            return tracer.create_proxy("call_method", NAMES.get(name, name), args, kwargs)
        args, kwargs = public.as_written(func, args, kwargs)
        return tracer.create_proxy("call_function", func, args, kwargs)


def _is_method(function: FunctionType) -> bool:
    return getattr(Tensor, function.__name__, None) is function


def _called_as_method(function: FunctionType, args: tuple[Any, ...]) -> bool:
    """Whether a method was called; where it is one object with the function, a tensor that comes first tells."""
    return function not in public.functions() or (bool(args) and isinstance(args[0], Tensor))


def _tracer_of(arguments: Any) -> TracerBase:
    found: list[TracerBase] = []
    map_aggregate(arguments, lambda each: found.append(each.tracer) if isinstance(each, Proxy) else None)
    return found[0]


class Attribute(Proxy):
    """An attribute of a value: a method if it is called, else what `getattr` gives."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None
        border.notice(self)

    @property
    def node(self) -> Node:  # type: ignore[override]
        """Its node, made when it is needed first."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter, of which the shape is known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        self.name, self.param = name, param

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's own."""
        return self.param.shape

    def size(self, *args: Any) -> Any:
        """The parameter's own."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The parameter's own."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's own."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's own."""
        return self.param.numel()

    def nelement(self) -> int:
        """The parameter's own."""
        return self.param.numel()


OPERATORS = """
    eq ne lt gt le ge pos neg invert abs add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor getitem matmul
"""
REFLECTED = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul"


def _records(name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name)

    def operate(self: Proxy, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (*args, self) if reflected else (self, *args), {})

    return operate


for _name in OPERATORS.split():
    setattr(Proxy, f"__{_name.rstrip('_')}__", _records(_name, reflected=False))
for _name in REFLECTED.split():
    setattr(Proxy, f"__r{_name.rstrip('_')}__", _records(_name, reflected=True))
