"""Node: one step of a graph, which knows what it takes and who takes it."""

import builtins
import re
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from pellucid import symbolic
from pellucid.core.tensor import Tensor
from pellucid.fx.public import functions, in_torch, qualified_name

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target: TypeAlias = Callable[..., Any] | str
Argument: TypeAlias = Any
LEGAL = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
SIDE_EFFECTS: set[Any] = {symbolic._assert}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say of a function that its calls are to stay in a graph even if nobody uses their results.

    >>> has_side_effect(print) is print
    True
    """
    SIDE_EFFECTS.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """The same lists, tuples, dictionaries and slices, with `fn` of everything that is in them.

    >>> map_aggregate(([1, 2], {"a": 3}), lambda each: 10 * each)
    ([10, 20], {'a': 30})
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(each, fn) for each in a]
        return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts) if type(a) is not tuple else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(each, fn) for each in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Argument, fn: Callable[["Node"], Argument]) -> Argument:
    """The same arguments with `fn` of every node among them.

    >>> import pellucid as torch
    >>> x = torch.fx.Graph().placeholder("x")
    >>> map_arg(([x, 1], {"y": x}), lambda node: node.name)
    (['x', 1], {'y': 'x'})
    """
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


def type_repr(kind: Any) -> str:
    """The text of an annotation."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        return "torch.Tensor" if kind is Tensor else f"{in_torch(kind.__module__)}.{kind.__qualname__}"
    return "..." if kind is ... else repr(kind).replace("pellucid.core.tensor.", "torch.")


def shown(argument: Any) -> str:
    """The text of an argument in a graph's listing."""
    if isinstance(argument, Node):
        return f"%{argument.name}"
    if isinstance(argument, (list, tuple)):
        inside = ", ".join(shown(each) for each in argument)
        if isinstance(argument, list):
            return f"[{inside}]"
        return f"({inside},)" if len(argument) == 1 else f"({inside})"
    if isinstance(argument, dict):
        return "{" + ", ".join(f"{key}: {shown(value)}" for key, value in argument.items()) + "}"
    return str(argument)


def is_builtin(value: Any) -> bool:
    """Whether every program finds something under its name.

    >>> is_builtin(len), is_builtin(is_builtin)
    (True, False)
    """
    return vars(builtins).get(getattr(value, "__name__", "")) is value


def shown_target(target: Any) -> str:
    """The text of a target in a graph's listing."""
    if isinstance(target, str):
        return target
    if is_builtin(target):
        return f"builtins.{target.__name__}"
    name = qualified_name(target)
    return name.replace("_operator.", "operator.", 1) if name.startswith("_operator.") else name


def suggested_name(target: Any) -> str:
    """What to call the result of a target.

    >>> import pellucid as torch
    >>> import operator
    >>> suggested_name("layer1.0.someConv"), suggested_name(torch.linalg.norm), suggested_name(operator.add)
    ('layer1_0_some_conv', 'linalg_norm', 'add')
    """
    if callable(target):
        known = functions().get(target) if isinstance(target, types.FunctionType) else None
        name = known.rpartition(".")[2] if known else getattr(target, "__name__", type(target).__name__)
    else:
        name = target
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
    name = re.sub(r"^\*+", "_", name)
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1], name.replace(".", "_"))
    return snake.lower()


class Node:
    """A step of a graph: which kind (`op`), of what (`target`), with what (`args`, `kwargs`).

    >>> import pellucid as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    >>> x, relu, add, output = graph.nodes
    >>> relu.op, relu.target is torch.relu, relu.args, list(relu.users)
    ('call_function', True, (x,), [add])
    """

    def __init__(
        self, graph: Any, name: str, op: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:  # fmt: skip
        if op not in LEGAL:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a "
                "Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a str "
                "is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._inputs: dict[Node, None] = {}
        self._prev, self._next, self._erased = self, self, False
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._set_arguments(map_arg(tuple(args), lambda each: each), map_arg(dict(kwargs), lambda each: each))

    # --- what it takes, and who takes it

    @property
    def args(self) -> tuple[Argument, ...]:
        """The arguments by position; to be assigned as a whole."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._set_arguments(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name; to be assigned as a whole."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set_arguments(self._args, dict(kwargs))

    def _set_arguments(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for each in self._inputs:
            each.users.pop(self, None)
        self._args, self._kwargs, self._inputs = args, kwargs, {}
        map_arg((args, kwargs), lambda each: self._inputs.setdefault(each))
        for each in self._inputs:
            each.users.setdefault(self)

    @property
    def all_input_nodes(self) -> list["Node"]:
        """The nodes among its arguments, each once."""
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Put another argument in a position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put one more argument before a position."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Take another node wherever one is taken."""
        args, kwargs = map_arg((self.args, self.kwargs), lambda each: new_input if each is old_input else each)
        self._set_arguments(args, kwargs)

    def replace_all_uses_with(
        self, replace_with: "Node", delete_user_cb: Callable[["Node"], bool] = lambda user: True, *,
        propagate_meta: bool = False,
    ) -> list["Node"]:  # fmt: skip
        """Let all who take this node take another; the nodes that were changed.

        >>> import pellucid as torch
        >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
        >>> x, relu, add, output = graph.nodes
        >>> relu.replace_all_uses_with(x), add.args
        ([add], (x, 1))
        """
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- its place

    @property
    def next(self) -> "Node":
        """The node after it."""
        return self._next

    @property
    def prev(self) -> "Node":
        """The node before it."""
        return self._prev

    def prepend(self, x: "Node") -> None:
        """Move a node to the place before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: "Node") -> None:
        """Move a node to the place after this one."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    # --- what it says

    @property
    def stack_trace(self) -> str | None:
        """Where it was recorded, if somebody has written that down."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does something else than computing its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in SIDE_EFFECTS or qualified_name(self.target).startswith("torch.ops.profiler.")  # type: ignore[arg-type]
        if self.op == "call_module" and self.graph.owning_module is not None:
            return bool(getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False))
        return False

    def format_node(self, *args: Any, **kwargs: Any) -> str | None:
        """Its line in the listing of its graph.

        >>> import pellucid as torch
        >>> [node.format_node() for node in torch.fx.symbolic_trace(lambda x: abs(x)).graph.nodes][1]
        '%abs_1 : [num_users=1] = call_function[target=operator.abs](args = (%x,), kwargs = {})'
        """
        if self.op == "output":
            return f"return {self.args[0]}"
        kind = f"{type_repr(self.type)} " if self.type is not None else ""
        start = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={shown_target(self.target)}]"
        if self.op == "placeholder":
            return start + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return start
        return f"{start}(args = {shown(self.args)}, kwargs = {shown(self.kwargs)})"

    def __repr__(self) -> str:
        return self.name


def nodes_of(argument: Argument) -> Iterator[Node]:
    """The nodes among arguments, as often as they are there."""
    found: list[Node] = []
    map_arg(argument, found.append)
    yield from found
