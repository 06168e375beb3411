"""The Python program of a graph."""

import builtins
import enum
import keyword
import math
import re
import types
from dataclasses import dataclass, field
from typing import Any

import pellucid
from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.fx.node import Node, is_builtin, nodes_of, type_repr
from pellucid.fx.public import qualified_name

__all__ = ["CodeGen", "PythonCode"]

# What every program finds under these names.
ALWAYS: dict[str, Any] = {
    "inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": pellucid, "device": dtypes.device,
    "fx_pytree": None, "pytree": None,
}  # fmt: skip

BINARY = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<",
    "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
    "le": "<=", "ge": ">=",
}  # fmt: skip
WRITTEN = {name: f"{{}} {sign} {{}}" for name, sign in BINARY.items()}
WRITTEN.update({"neg": "-{}", "pos": "+{}", "invert": "~{}", "getitem": "{}[{}]"})
IN_PLACE = {"i" + name.rstrip("_"): sign + "=" for name, sign in list(BINARY.items())[:13]}


@dataclass
class PythonCode:
    """A program, and what its names stand for."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


@dataclass
class Namespace:
    """Names that differ from each other, and from Python's own.

    >>> names = Namespace()
    >>> [names.create_name(each, None) for each in ("relu", "relu", "max", "layer.0", "0", "relu_5")]
    ['relu', 'relu_1', 'max_1', 'layer_0', '_0', 'relu_5']
    """

    used: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    known: dict[int, tuple[str, Any]] = field(default_factory=dict)  # by id: its name, and the object, kept alive

    def create_name(self, candidate: str, obj: Any) -> str:
        """A name like the candidate; the same for the same object, if there is one."""
        if obj is not None and id(obj) in self.known:
            return self.known[id(obj)][0]
        name = re.sub(r"[^0-9a-zA-Z_]", "_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = "_" + name
        numbered = re.fullmatch(r"(.+)_([0-9]+)", name)
        base = numbered[1] if numbered else name
        number = (int(numbered[2]) if numbered else 0) or self.counts.get(base, 0)
        while name in self.used or self._means_something(name, obj):
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        self.counts[base] = number
        if obj is not None:
            self.known[id(obj)] = name, obj
        return name

    def associate(self, name: str, obj: Any) -> None:
        """An object that has a name already."""
        self.used.add(name)
        self.known[id(obj)] = name, obj

    def rename(self, obj: Any, name: str) -> None:
        """An object gets another name."""
        self.used.discard(self.known.pop(id(obj), ("", None))[0])
        self.associate(name, obj)

    def _means_something(self, name: str, obj: Any) -> bool:
        if name in keyword.kwlist:
            return True
        if name in vars(builtins):
            return vars(builtins)[name] is not obj
        return name in ALWAYS and ALWAYS[name] is not obj


class CodeGen:
    """Writes the program of a graph: one line for each node, and a name is given up where it is used last."""

    def written(self, nodes: list[Node], root: str) -> PythonCode:
        """The program of some nodes, as a method `forward` of the object that is called `root`."""
        writer, given_up = _Writer(root), _given_up(nodes)
        body = [line for node in nodes for line in writer.lines(node, given_up)]
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = f"def forward({', '.join([root, *writer.parameters])}){writer.returns}:"
        inside = "".join(f"    {line}\n" for line in body or ["pass"])
        start = f"\n{wraps}\n\n"
        return PythonCode(f"{start}{head}\n{inside}    ", writer.globals, None, start.count("\n") + 1)


def _given_up(nodes: list[Node]) -> dict[Node, list[Node]]:
    """By node: those that nobody takes after it."""
    seen: set[Node] = set()
    given_up: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        for each in nodes_of((node.args, node.kwargs)):
            if each not in seen:
                seen.add(each)
                given_up.setdefault(node, []).append(each)
    return given_up


class _Writer:
    """What writing a program collects: its parameters, its global names, the functions that are wrapped."""

    def __init__(self, root: str) -> None:
        self.root, self.returns = root, ""
        self.parameters: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.names = Namespace()
        self.globals = dict(ALWAYS)
        for name, value in ALWAYS.items():
            self.names.associate(name, value) if value is not None else self.names.used.add(name)

    def lines(self, node: Node, given_up: dict[Node, list[Node]]) -> list[str]:
        """The lines of one node."""
        if node.op == "placeholder":
            return self.parameter(node)
        if node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.annotation(node.type)}"
            return [f"return {self.text(node.args[0])}"]
        done = [each.name for each in given_up.get(node, [])] + ([] if node.users else [node.name])
        forgotten = f";  {' = '.join([*done, 'None'])}" if done else ""
        kind = f" : {self.annotation(node.type)}" if node.type is not None else ""
        operation = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if operation in IN_PLACE and qualified_name(node.target).startswith("_operator."):  # type: ignore[arg-type]
            first, second = self.text(node.args[0]), self.text(node.args[1])
            return [f"{first} {IN_PLACE[operation]} {second};  {node.name}{kind} = {first}{forgotten}"]
        return [f"{node.name}{kind} = {self.expression(node)}{forgotten}"]

    def parameter(self, node: Node) -> list[str]:
        """A placeholder is a parameter; it gets its name in a line if it has another one."""
        target = str(node.target)
        kind = f" : {self.annotation(node.type)}" if node.type is not None else ""
        default = f" = {self.text(node.args[0])}" if node.args else ""
        self.parameters.append(f"{target}{kind}{default}")
        name = target.replace("*", "")
        return [f"{node.name} = {name}"] if name != node.name else []

    def expression(self, node: Node) -> str:
        """What stands behind the `=`."""
        if node.op == "get_attr":
            return path(self.root, str(node.target))
        if node.op == "call_method":
            rest = self.arguments(node.args[1:], node.kwargs)
            return f"{path(self.text(node.args[0]), str(node.target))}({rest})"
        if node.op == "call_module":
            return f"{path(self.root, str(node.target))}({self.arguments(node.args, node.kwargs)})"
        return self.call(node)

    def call(self, node: Node) -> str:
        """A function: an operator is written with its sign, an attribute with a dot."""
        name = qualified_name(node.target)  # type: ignore[arg-type]
        if name.startswith("_operator.") and name[10:] in WRITTEN and not node.kwargs:
            return WRITTEN[name[10:]].format(*(self.text(each) for each in node.args))
        if node.target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return f"{self.text(node.args[0])}.{node.args[1]}"
        known = self.known(name, node.target)
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(known)
        return f"{known}({self.arguments(node.args, node.kwargs)})"

    def arguments(self, args: Any, kwargs: Any) -> str:
        """The text between the parentheses of a call."""
        return ", ".join([*map(self.text, args), *(f"{key} = {self.text(value)}" for key, value in kwargs.items())])

    def known(self, name: str, value: Any) -> str:
        """The global name of something."""
        if name.startswith("torch.") and value is not dtypes.device and _is_at(name, value):
            return name
        if is_builtin(value):
            return str(value.__name__)
        found = self.names.create_name(name.replace(".", "_"), value)
        self.globals[found] = value
        return found

    def annotation(self, kind: Any) -> str:
        """The text of a type."""
        if kind is Tensor:
            return "torch.Tensor"
        origin, inner = getattr(kind, "__origin__", None), getattr(kind, "__args__", ())
        if origin is not None and inner and not isinstance(kind, types.UnionType):
            return f"{self.known(type_repr(origin), origin)}[{', '.join(self.annotation(each) for each in inner)}]"
        return "..." if kind is ... else self.known(type_repr(kind), kind)

    def text(self, value: Any) -> str:
        """An argument as it is written."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            parts = [self.text(each) for each in value]
            if hasattr(value, "_fields"):
                return f"{self.known(qualified_name(type(value)), type(value))}({', '.join(parts)})"
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(self.text(each) for each in value)}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.text(each)}" for key, each in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, enum.Enum):
            return f"{self.known(qualified_name(type(value)), type(value))}.{value.name}"
        if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
            return self.known(qualified_name(value), value)
        return repr(value)


def _is_at(name: str, value: Any) -> bool:
    """Whether a program finds something under a name such as torch.nn.functional.relu."""
    found: Any = pellucid
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found is value


def path(root: str, target: str) -> str:
    """An attribute of an attribute, also where a name is a number.

    >>> path("self", "layers.0.weight")
    'getattr(self.layers, "0").weight'
    """
    for name in target.split("."):
        root = f"{root}.{name}" if name.isidentifier() else f'getattr({root}, "{name}")'
    return root
