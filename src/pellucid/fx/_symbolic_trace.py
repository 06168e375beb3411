"""Tracer: calls a module or a function with proxies, and has a graph of what it did."""

import inspect
import math
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pellucid import symbolic
from pellucid.core.tensor import Tensor
from pellucid.errors import a_kind
from pellucid.fx import border
from pellucid.fx.graph import Graph
from pellucid.fx.graph_module import GraphModule
from pellucid.fx.node import Argument, Node, map_aggregate
from pellucid.fx.proxy import ParameterProxy, Proxy, TracerBase
from pellucid.nn.modules.container import Sequential
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter

__all__ = ["PH", "Tracer", "symbolic_trace", "wrap"]

WRAPPED: dict[tuple[int, str], dict[str, Any]] = {}  # by the id of a module's names, and a name: these names
TRACING: list["Tracer"] = []  # traces that are under way, one inside the other
MISSING = object()


class _Placeholder:
    """The mark for an argument that stays unknown."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()


def _assert_is_none(value: Any, message: str) -> None:
    """The check of a traced program that an argument is None, as it was when the program was traced."""
    assert value is None, message


def is_fx_tracing() -> bool:
    """Whether a trace is under way."""
    return bool(TRACING)


def wrap(fn_or_name: Any) -> Any:
    """Say at the head of a module that calls of a function are to be recorded, not followed.

    >>> import pellucid as torch
    >>> wrap("len")
    'len'
    >>> program = torch.fx.symbolic_trace(lambda x: x + len(x))
    >>> [node.name for node in program.graph.nodes], program(torch.zeros(3))
    (['x', 'len_1', 'add', 'output'], tensor([3., 3., 3.]))
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, got {type(fn_or_name)}"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    WRAPPED[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function in whose place a call is recorded, if a proxy is among the arguments."""

    def call(*args: Any, **kwargs: Any) -> Any:
        proxies: list[Proxy] = []
        map_aggregate((args, kwargs), lambda each: proxies.append(each) if isinstance(each, Proxy) else None)
        if not proxies:
            return function(*args, **kwargs)
        proxy = proxies[0].tracer.create_proxy("call_function", function, args, kwargs)
        proxy.node.meta["is_wrapped"] = True
        return proxy

    call.is_recorded = True  # type: ignore[attr-defined]
    return call


class Patches:
    """Names that stand for something else until the end of a block."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.seen: set[int] = set()

    def item(self, names: dict[str, Any], name: str, value: Any) -> None:
        """Another value for a name of a module."""
        before = names.get(name, MISSING)
        names[name] = value
        self.undo.append(lambda: names.pop(name, None) if before is MISSING else names.__setitem__(name, before))

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Another value for an attribute."""
        before = vars(owner).get(name, MISSING)
        setattr(owner, name, value)
        self.undo.append(lambda: delattr(owner, name) if before is MISSING else setattr(owner, name, before))

    def functions(self, names: dict[str, Any], recorded: set[int]) -> None:
        """Record the calls of some functions that a module names."""
        if id(names) in self.seen:
            return
        self.seen.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in recorded:
                self.item(names, name, _recorded(value))

    def wrapped(self) -> None:
        """Record the calls of the functions that were wrapped."""
        for (_, name), names in list(WRAPPED.items()):
            value = names.get(name, (names.get("__builtins__") or {}))
            if isinstance(value, ModuleType):
                value = getattr(value, name, None)
            elif isinstance(value, dict):
                value = value.get(name)
            if callable(value) and not getattr(value, "is_recorded", False):
                self.item(names, name, _recorded(value))

    def take_back(self) -> None:
        """Everything as it was."""
        while self.undo:
            self.undo.pop()()


class Tracer(TracerBase):
    """Traces: override `is_leaf_module`, `call_module` or `create_proxy` to trace differently.

    >>> import pellucid as torch
    >>> class IntoActivations(Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return not isinstance(m, torch.nn.ReLU) and super().is_leaf_module(m, module_qualified_name)
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> [node.op for node in IntoActivations().trace(model).nodes]
    ['placeholder', 'call_module', 'call_function', 'output']
    """

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,), autowrap_functions: tuple[Any, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        self._recorded = {
            id(value) for module in autowrap_modules for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | set(map(id, autowrap_functions))  # fmt: skip
        self._searched = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.proxy_buffer_attributes = getattr(type(self), "proxy_buffer_attributes", False)
        self.module_stack: OrderedDict[str, Any] = OrderedDict()

    # --- what tracers override

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether the call of a module is one step: those of torch.nn are, but for Sequential."""
        return type(m).__module__.startswith("pellucid.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where in the traced module another one is."""
        if id(mod) in self._paths:
            return self._paths[id(mod)]
        for name, each in self.root.named_modules():
            if each is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What happens where a module is called: it is one step, or what it does is followed."""
        path = self.path_of_module(m)
        key = path if path not in self.module_stack else f"{path}@{len(self.module_stack)}"
        self.module_stack[key] = path, type(m)
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What a traced program gets for an attribute of a module: a parameter is not known, all else is."""
        named = self.root.named_parameters if isinstance(attr_val, Parameter) else None
        if named is None and self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            named = self.root.named_buffers
        for name, each in named() if named is not None else ():
            if each is attr_val:
                if name not in parameter_proxy_cache:
                    known = self.param_shapes_constant
                    make: Any = partial(ParameterProxy, self, name=name, param=attr_val) if known else None
                    parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)
                return parameter_proxy_cache[name]
        return attr_val

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """A node, which knows the modules it was recorded in."""
        node = super().create_node(*args, **kwargs)
        if self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        return node

    def create_arg(self, a: Any) -> Argument:
        """An argument of a node: a tensor is an attribute of the module, and becomes one if it is not."""
        if isinstance(a, Parameter):
            for name, each in self.root.named_parameters():
                if each is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._path_of_tensor(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the traced module has not."""
        i = 0
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        return f"{prefix}{i}"

    def _path_of_tensor(self, tensor: Tensor) -> str:
        for name, buffer in self.root.named_buffers():
            if buffer is tensor:
                return name
        if id(tensor) not in self._tensors:
            name = self.get_fresh_qualname("_tensor_constant")
            self._tensors[id(tensor)] = name
            setattr(self.root, name, tensor)
        return self._tensors[id(tensor)]

    # --- the trace

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of what a module or a function does."""
        is_module = isinstance(root, Module)
        if isinstance(root, Module):
            self.root: Any = root
            function: Any = type(root).forward
            self.root_module_name = type(root).__name__
        else:
            self.root, function, self.root_module_name = Module(), root, ""
        self._paths = {id(module): name for name, module in self.root.named_modules()}
        self._tensors = {
            id(value): f"{path}.{name}".lstrip(".") for path, module in self.root.named_modules()
            for name, value in vars(module).items() if isinstance(value, Tensor)
        }  # fmt: skip
        self.graph = Graph(tracer_cls=type(self))
        self.module_stack = OrderedDict()
        with border.functions_ask():
            function, args = self.create_args_for_root(function, is_module, concrete_args)
            with self._patched(function):
                result = self.create_arg(function(*args))
            self.create_node("output", "output", (result,), {}, type_expr=_annotations(function).get("return"))
        return self.graph

    @contextmanager
    def _patched(self, function: Any) -> Iterator[None]:
        """While a program is traced: calls of modules, their parameters, and functions that are to be recorded."""
        tracer, patches, cache = self, Patches(), dict[str, Any]()
        call, read = Module.__call__, Module.__getattribute__

        def traced_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            patches.functions(getattr(type(module).forward, "__globals__", {}), tracer._recorded)
            return tracer.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        def traced_read(module: Module, name: str) -> Any:
            value = read(module, name)
            return tracer.getattr(name, value, cache) if isinstance(value, Tensor) else value

        TRACING.append(self)
        with ExitStack() as at_the_end:
            at_the_end.callback(TRACING.pop)
            at_the_end.callback(patches.take_back)
            patches.attribute(Module, "__call__", traced_call)
            patches.attribute(Module, "__getattribute__", traced_read)
            patches.wrapped()
            patches.functions(getattr(inspect.unwrap(function), "__globals__", {}), self._recorded)
            for module in self._searched:
                patches.functions(vars(module), self._recorded)
            yield

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """The function to call, and what to call it with: a proxy for each of its arguments that stays unknown."""
        inner = inspect.unwrap(root_fn)
        code: CodeType = inner.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:count])
        args: list[Any] = []
        if is_module:
            if not names:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            names.pop(0)
            args.append(self.root)
        given = concrete_args or {}
        if not isinstance(given, dict):
            given = dict(zip(names, given, strict=False))
        signature = inspect.signature(inner).parameters
        args += [self._input(name, signature[name], given, inner) for name in names]
        flags = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        rest = code.co_varnames[count : count + flags.bit_count()]
        stars = ["*"] * bool(flags & inspect.CO_VARARGS) + ["**"] * bool(flags & inspect.CO_VARKEYWORDS)
        for star, name in zip(stars, rest, strict=True):
            args.append(self.create_proxy("placeholder", star + name, (), {}))
        if flags or code.co_kwonlyargcount:
            root_fn = _by_position(inner, len(args))
        return root_fn, args

    def _input(self, name: str, parameter: Any, given: dict[str, Any], function: Any) -> Any:
        default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
        if name not in given or given[name] is PH:
            return self.create_proxy("placeholder", name, default, {}, type_expr=_annotations(function).get(name))
        value = given[name]
        if isinstance(value, (list, tuple, dict)):
            raise NotImplementedError(f"concrete_args: {name!r} is {a_kind(value)}; pass its parts one by one")
        proxy: Any = self.create_proxy("placeholder", f"{name}_1", default, {})
        message = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
        elif isinstance(value, (bool, int, float)) and not isinstance(value, Tensor):
            symbolic._assert(proxy == value, message)
        else:
            warnings.warn(f"no check was added that {name} is what it was specialized to", stacklevel=4)
        return value


def _annotations(function: Any) -> dict[str, Any]:
    """The types that a program gives its arguments; PyTorch's own layers have others than ours."""
    inner = inspect.unwrap(function)
    return {} if (inner.__module__ or "").startswith("pellucid.nn") else getattr(inner, "__annotations__", {})


def _by_position(function: Any, count: int) -> Any:
    """A function that takes `*args`, `**kwargs` and what is given by name as arguments by position."""
    flags = function.__code__.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    code = function.__code__.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """The program of a module or a function: called with values that are not known, it is written down.

    >>> import pellucid as torch
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = torch.nn.Linear(2, 3)
    ...     def forward(self, x):
    ...         return torch.relu(self.linear(x) + 1)
    >>> print(symbolic_trace(Net()).code.strip())
    def forward(self, x):
        linear = self.linear(x);  x = None
        add = linear + 1;  linear = None
        relu = torch.relu(add);  add = None
        return relu
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
