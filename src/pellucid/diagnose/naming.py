"""What people call things: the variable a tensor is bound to, the piece of source an operation was written as."""

import ast
import linecache
import os
import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import inf, isfinite, log10
from operator import itemgetter
from types import CodeType, FrameType
from typing import Any

from pellucid.core.primitive import as_written
from pellucid.core.provenance import Place
from pellucid.core.tensor import PICK, Leaf, Node, Tensor
from pellucid.nn.modules.calls import CALLS, module_of, running
from pellucid.nn.modules.module import Module

__all__ = [
    "Label", "Names", "amount", "collected_names", "expression", "module_names", "number", "operation_of",
    "parameter_names", "plain_names", "plural", "short",
]  # fmt: skip

LONGEST = 48  # characters of source shown for one operation,
SHORT = 30  # and in a list of many
MANY = 1000  # tensors of one list or dictionary that are looked at for a name


# --- numbers and lines


def number(value: float) -> str:
    """A number with three significant digits; whole numbers up to a million in full.

    >>> number(6.971829), number(-12.0), number(2e-9)
    ('6.97', '-12', '2e-09')
    """
    if isfinite(value) and value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}"


def amount(count: int) -> str:
    """A number of paths for people, however large.

    >>> amount(12), amount(2**1000), amount(3**700)
    ('12', '2^1000', 'about 9.66e+333')
    """
    if count < 10**9:
        return f"{count:,}"
    if count & (count - 1) == 0:
        return f"2^{count.bit_length() - 1}"
    exponent, rest = divmod(log10(count), 1)
    return f"about {10**rest:.3g}e+{int(exponent)}"


def plural(count: int, noun: str) -> str:
    """So many of something.

    >>> plural(1, "tensor"), plural(2, "backward pass")
    ('1 tensor', '2 backward passes')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{amount(count)} {noun}{ending}"


def short(place: Place) -> str:
    """`demo.py:3`: the file as seen from the current folder if it lies inside it."""
    folder = os.getcwd() + os.sep
    name = place.filename
    return f"{name[len(folder) :] if name.startswith(folder) else name}:{place.line}"


# --- the source of an operation


def expression(code: CodeType, lasti: int) -> str:
    """The piece of source that a bytecode offset stands for; empty when the file or the columns are unknown."""
    return _expression(code.co_filename, code, lasti)


@lru_cache(maxsize=4096)
def _expression(filename: str, code: CodeType, lasti: int) -> str:  # equal code of two files is equal to Python
    position = next(islice(code.co_positions(), lasti // 2, None), None)
    if position is None or None in position:
        return ""
    line, last, start, end = position
    lines = [linecache.getline(filename, n).encode() for n in range(line, last + 1)]  # type: ignore[operator,arg-type]
    if not lines or not all(lines):
        return ""
    lines[-1] = lines[-1][:end]  # the columns count bytes
    lines[0] = lines[0][start:]
    return " ".join(part.decode(errors="replace").strip() for part in lines)


SHORT_NAMES = frozenset(
    ("t", "mm", "mv", "bmm", "to", "eq", "ne", "lt", "le", "gt", "ge")
)  # others are a user's `m(x)`
INDEXING = re.compile(r"select|slice|index|gather|take|narrow|getitem|unsqueeze|alias|diagonal")


def operation_of(node: Node) -> str:
    """The name of an operation as users write it: `sum`, not `sum_all`."""
    node = node.inputs[0] if node.primitive is PICK else node  # type: ignore[assignment]
    return as_written(node.primitive.name)


@lru_cache(maxsize=4096)
def says_it(text: str, operation: str) -> str:
    """How a piece of source says one operation: "infix", "call", or "" when it stands for more than that.

    >>> says_it("a*b + c", "add"), says_it("torch.sin(x)", "sin"), says_it("m(x)", "mul")
    ('infix', 'call', '')
    """
    try:
        tree: Any = ast.parse(text, mode="eval").body
    except SyntaxError:
        return "infix" if re.match(r"[\w.\[\]]++ *+\S+= ", text) else ""
    if isinstance(tree, (ast.BinOp, ast.UnaryOp)):
        return "infix"
    if isinstance(tree, ast.Subscript):
        return "call" if INDEXING.search(operation) else ""
    if not isinstance(tree, ast.Call):
        return ""
    called = getattr(tree.func, "attr", getattr(tree.func, "id", "")).strip("_")
    begins = operation.startswith(called) or called.startswith(operation)
    return "call" if called and begins and (len(called) > 2 or called in SHORT_NAMES) else ""


def clipped(text: str) -> str:
    """A piece of source, not longer than a reader wants; of a long call its arguments are left out.

    >>> clipped("functional.mse_loss(model(batch.features), batch.targets)")
    'functional.mse_loss(…)'
    """
    if len(text) <= LONGEST:
        return text
    if says_it(text, "") == "call":
        tree: Any = ast.parse(text, mode="eval").body
        called = ast.get_source_segment(text, tree.func) or ""
        return f"{called}(…)" if len(called) < LONGEST else f"….{getattr(tree.func, 'attr', '')}(…)"
    return f"{text[: LONGEST - 2].rstrip()} …"


@dataclass(frozen=True, slots=True)
class Label:
    """An operation (or a leaf) as people know it.

    >>> Label("a*b + c", "infix", "h", "add", None, "").via
    'h = (a*b + c)'
    """

    source: str  # the piece of source; empty when it cannot be read
    form: str  # infix, call, or empty: the source stands for more than this operation
    name: str  # the variable that holds the result, or empty
    operation: str
    place: Place | None
    module: str  # the path of the module that ran it, or empty

    @property
    def text(self) -> str:
        """The operation in a few words: its source, else what it is and where it stands."""
        if not self.source or (self.module and not self.form):
            return self.name or self.operation
        return clipped(self.source) if self.form else f"{self.operation} in {clipped(self.source)}"

    @property
    def via(self) -> str:
        """The operation inside a sentence: infix source in parentheses, after the name of its variable."""
        text = f"({self.text})" if self.form == "infix" else self.text
        return f"{self.name} = {text}" if self.name and self.form else self.name or text

    @property
    def target(self) -> str:
        """What a derivative is taken with respect to: the variable, else the source if it is short."""
        if self.name or not self.form or len(self.source) > SHORT:
            return self.name or self.operation
        return f"({self.source})" if self.form == "infix" else self.source

    @property
    def full(self) -> str:
        """The same with the module that ran it."""
        return f"{self.target} [{self.module}]" if self.module else self.target

    @property
    def at(self) -> str:
        return short(self.place) if self.place is not None else ""

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        place = self.place
        return {
            "operation": self.operation, "source": self.source, "name": self.name, "module": self.module,
            "file": place.filename if place else None, "line": place.line if place else None,
        }  # fmt: skip


# --- the variables of the user


class Names:
    """The names that tensors have in the user's frame; it holds the nodes, not the tensors.

    >>> import sys
    >>> import pellucid as torch
    >>> weight = torch.ones(2, requires_grad=True)
    >>> Names(sys._getframe()).of(weight.node)
    'weight'
    """

    def __init__(self, frame: FrameType) -> None:
        self._names: dict[Node, str] = {}
        self._spans: list[tuple[int, float]] | None = None
        self._modules: dict[int, str] = {}  # the modules' identities: they live as long as the frame
        scopes = [frame.f_locals] if frame.f_locals is frame.f_globals else [frame.f_locals, frame.f_globals]
        written = [
            {name: value for name, value in scope.items() if name.isidentifier() and name.strip("_")}
            for scope in scopes
        ]
        for find in (plain_names, collected_names, parameter_names):
            for scope in written:
                for name, tensor in find(scope):
                    if tensor.node is not None:
                        self._names.setdefault(tensor.node, name)
        for scope in written:
            for name, module in module_names(scope):
                self._modules.setdefault(id(module), name)

    def of(self, node: Node) -> str:
        """The variable that holds the result of a node, or an empty string."""
        return self._names.get(node, "")

    def label(self, node: Node, modules: bool = True) -> Label:
        """Everything people know about a node; looking for the module takes the longest."""
        name, place, operation = self.of(node), node.place, operation_of(node)
        if isinstance(node, Leaf):
            return Label("", "", name or f"the tensor made at {short(place)}", "leaf", place, "")
        source = expression(place.code, place.lasti)
        return Label(source, says_it(source, operation), name, operation, place, self.module(node) if modules else "")

    def module(self, node: Node) -> str:
        """The module that ran a node: as the user would write it, else its path or its class; empty outside of all."""
        if not self._in_a_module(node.born):
            return ""
        path, module = module_of(node) or ("", None)
        return "" if module is None else self._modules.get(id(module)) or path or type(module).__name__

    def _in_a_module(self, tick: int) -> bool:
        """Whether any module was running then: most nodes of a long graph are asked, and `module_of` looks at all."""
        if self._spans is None:
            self._spans = spans([*((start, end) for _, start, end in CALLS), *((start, inf) for start, _ in running())])
        last = bisect(self._spans, tick, key=itemgetter(0)) - 1
        return last >= 0 and tick < self._spans[last][1]


def spans(calls: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """The times in which any call was running: overlapping ones are joined.

    >>> spans([(5, 6), (1, 3), (2, 4)])
    [(1, 4), (5, 6)]
    """
    joined: list[tuple[int, float]] = []
    for start, end in sorted(calls):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


Named = Iterator[tuple[str, Tensor]]


def plain_names(scope: dict[str, Any]) -> Named:
    """Variables that hold a tensor; names with a leading underscore are the last choice."""
    for name in sorted(scope, key=lambda name: name.startswith("_")):
        if issubclass(type(scope[name]), Tensor):
            yield name, scope[name]


def collected_names(scope: dict[str, Any]) -> Named:
    """Tensors in the user's lists and dictionaries: `weights[0]`."""
    for name, value in scope.items():
        if type(value) not in (list, tuple, dict) or len(value) > MANY or name.startswith("_") or name == "Out":
            continue
        for key, item in value.items() if type(value) is dict else enumerate(value):
            if issubclass(type(item), Tensor):
                yield f"{name}[{key!r}]", item


def parameter_names(scope: dict[str, Any]) -> Named:
    """Parameters of the user's modules: `model.fc1.weight`."""
    for name, module in module_names(scope):
        for path, parameter in module.named_parameters(recurse=False):
            yield f"{name}.{path}", parameter


def module_names(scope: dict[str, Any]) -> Iterator[tuple[str, Module]]:
    """The user's modules and those inside them: `model`, `model.fc1`."""
    for name, value in scope.items():
        if issubclass(type(value), Module) and not name.startswith("_"):
            for path, module in value.named_modules():
                yield f"{name}.{path}" if path else name, module
