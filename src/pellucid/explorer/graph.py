"""A graph as the explorer draws it: boxes (Item), their uses (Edge), the steps of the backward pass (Move)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from pellucid.errors import printable

__all__ = ["FEW", "LIVE", "Edge", "Graph", "Item", "Move", "number"]

UNKNOWN = "…"  # an input or a param that nobody kept
SHORT = 18  # characters of a formula that may stand for a name

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@", "mm": "@", "mv": "@", "bmm": "@",
    "dot": "@", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!=", "rsub_number": "-",
}  # fmt: skip
SPELLED = {
    "neg": "-{0}", "pow_number": "{0} ** {1}", "pow_of_number": "{1} ** {0}", "reciprocal": "1 / {0}",
    "mul_number": "{0} * {1}", "div_number": "{0} / {1}",
    "detach": "{0}.detach()", "t": "{0}.T", "pick": "{0}[{1}]",
}  # fmt: skip

OPEN = frozenset((  # spelled without parentheses around them
    "neg", "pow_number", "pow_of_number", "reciprocal", "mul_number", "div_number",
))  # fmt: skip

# The rows that the page computes by itself when a value is changed: static/interpreter.js has the same list.
LIVE = frozenset((
    "add", "sub", "mul", "div", "pow", "pow_number", "pow_of_number", "rsub_number", "neg", "reciprocal", "exp", "log",
    "sqrt", "abs", "tanh", "sigmoid", "relu", "sin", "cos", "tan", "square", "log1p", "expm1", "where", "maximum",
    "minimum", "gt", "lt", "ge", "le", "eq", "ne", "detach", "clone", "cast", "softplus", "silu", "clamp", "leaky_relu",
    "rsqrt", "sinh", "cosh", "sum_all", "mean_all",
))  # fmt: skip

LIVE_ARRAYS = frozenset((
    "mm", "mv", "dot", "linear", "linear_with_bias", "sum", "mean", "reshape", "unsafe_view", "unsqueeze", "squeeze0",
    "squeeze1", "squeeze2", "permute", "transpose", "t", "expand", "softmax", "log_softmax", "mse_loss",
))  # fmt: skip
FEW = 64  # numbers of a given array that the page is told
MOST_NUMBERS = 4096  # and of an array that it computes


def number(value: float) -> str:
    """A number with four significant digits; whole numbers up to a million in full.

    >>> number(0.268941), number(-12.0), number(2e-9), number(1234567.0)
    ('0.2689', '-12', '2e-9', '1.235e6')
    """
    if not isfinite(value):
        return "NaN" if value != value else "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


@dataclass(slots=True, eq=False)
class Item:
    """One box: a leaf, a constant or an operation with its result."""

    row: str  # the row of the table; "leaf", "constant", "detach"
    op: str  # the same as users write it
    inputs: list["Item | float | None"] = field(default_factory=list)  # a number: a constant; None: not known
    params: tuple[Any, ...] = ()  # those that mean something to a reader
    arguments: tuple[Any, ...] = ()  # all that the row takes after its inputs
    hidden: dict[int, Any] = field(default_factory=dict)  # inputs that are not drawn: what an operation made for itself
    result: int = 0  # of an operation with several results, which one this is
    picked: bool = False  # its several results are boxes of their own
    saved: int = 0  # bytes that it keeps for backward
    took: int | None = None  # nanoseconds, forward
    pulled: int | None = None  # nanoseconds, backward
    name: str = ""  # the variable that holds it
    value: Any = None  # an ndarray, or None where nobody kept it
    grad: Any = None
    shape: tuple[int, ...] = ()
    needs: bool = False  # takes part in backward
    place: Any = None  # a Place
    module: str = ""
    kind: str = ""  # the class of the module that ran it
    badge: str = ""
    symbol: str = ""  # the gradient as a formula
    beside: Any = None  # a gradient from elsewhere, and how far ours is from it
    moves: list[list[int]] | None = None  # where its elements come from, if it only moves them: see moves.py
    born: float = 0
    index: int = -1
    called: str = ""  # what sentences call it
    formula: str = ""

    @property
    def equation(self) -> str:
        """`c = a * b`, or the formula alone where no variable holds the result."""
        return f"{self.name} = {self.formula}" if self.name and self.formula else self.name or self.formula or self.op

    @property
    def is_operation(self) -> bool:
        return self.row not in ("leaf", "constant")


@dataclass(slots=True, eq=False)
class Edge:
    """One use of a value by an operation, and what backward sends along it."""

    source: int
    target: int
    slot: int
    local: float | None = None  # the local derivative, where everything is a single number
    upstream: float | None = None
    sent: float | None = None  # the contribution, where it is a single number
    norm: float = 0.0
    words: str = ""
    carries: bool = False  # whether a gradient goes along here


@dataclass(slots=True, eq=False)
class Move:
    """One step of the backward pass: the operation whose gradient is passed on, and the edges it goes along."""

    item: int
    edges: list[Edge]


class Graph:
    """Items in the order of computation, leaves first; edges in the order of their inputs."""

    def __init__(self, items: Sequence[Item], root: Item) -> None:
        _make_printable(items)
        root.name = root.name or _free_name(items)
        self.items = sorted(items, key=lambda item: (item.is_operation, item.row == "constant", item.born))
        for index, item in enumerate(self.items):
            item.index = index
        self.root = root.index
        self.edges = [
            Edge(source.index, item.index, slot)
            for item in self.items
            for slot, source in enumerate(item.inputs)
            if isinstance(source, Item)
        ]
        self.moves: list[Move] = []
        self.arriving: list[list[Edge]] = [[] for _ in self.items]  # the contributions to each, as they come
        self.seeded = False  # the gradient of a result with several elements starts at one everywhere
        self.notes: list[str] = []
        self.program: Any = None  # a Program, where the operations can be run again
        _call(self.items)

    @property
    def live(self) -> bool:
        """Whether the page can compute everything again when a value is changed."""
        return all(
            _is_given(item) and np.size(item.value) == 1 and (not item.is_operation or item.row in LIVE)
            for item in self.items
        )

    @property
    def arrays(self) -> bool:
        """Whether the page can do so with small arrays."""
        return all(
            _is_given(item)
            and np.size(item.value) <= (MOST_NUMBERS if item.is_operation else FEW)
            and (not item.is_operation or item.row in LIVE or item.row in LIVE_ARRAYS or item.moves is not None)
            for item in self.items
        )

    def move(self, item: int, edges: list[Edge]) -> None:
        """Add a step of the backward pass."""
        self.moves.append(Move(item, edges))
        for edge in edges:
            edge.carries = True
            self.arriving[edge.source].append(edge)


def _is_given(item: Item) -> bool:
    """Whether the page knows a value and what it was made from."""
    if item.value is None or None in item.inputs:
        return False
    kind = np.asarray(item.value).dtype.kind
    if item.row == "cast":  # its params are dtypes; among the floating ones it changes nothing that can be seen
        return kind == "f"
    usual = item.row != "softplus" or item.arguments == (1.0, 20.0)
    told = item.moves is not None or len(item.params) == len(item.arguments or item.params)
    return kind in "fb" and usual and told


def _make_printable(items: Sequence[Item]) -> None:
    """Names of variables, modules and operations may hold control characters, and all sentences are made of them."""
    for item in items:
        item.name, item.op, item.module = printable(item.name), printable(item.op), printable(item.module)


def _free_name(items: Sequence[Item]) -> str:
    """What to call a result that no variable holds."""
    taken = {item.name for item in items}
    return next(name for name in ("y", "result", "the result") if name not in taken)


def _call(items: Sequence[Item]) -> None:
    """Give every item a formula and a name to be called by, each unlike the others."""
    taken: dict[str, int] = {}
    for item in items:
        if item.is_operation:
            item.formula = written(item, [_argument(source) for source in item.inputs])
        called = item.name or _brief(item)
        taken[called] = taken.get(called, 0) + 1
        item.called = called if taken[called] == 1 else f"{called} ({taken[called]})"


def _argument(source: "Item | float | None") -> str:
    if source is None:
        return UNKNOWN
    return source.called if isinstance(source, Item) else number(source)


def _brief(item: Item) -> str:
    if not item.is_operation:
        return "input" if item.row == "leaf" else item.op
    if item.module:
        return f"{item.module}:{item.op}"
    if len(item.formula) > SHORT:
        return item.op
    return f"({item.formula})" if item.row in INFIX or item.row in OPEN else item.formula


def written(item: Item, arguments: Sequence[str]) -> str:
    """An operation with its arguments: `a * b`, `b ** 2`, `tanh(x)`.

    >>> written(Item("pow_number", "pow", params=(2,)), ["b"])
    'b ** 2'
    """
    if item.row == "rsub_number":
        arguments = arguments[::-1]
    if item.row in INFIX and len(arguments) == 2:
        return f"{arguments[0]} {INFIX[item.row]} {arguments[1]}"
    if item.row in SPELLED:
        return SPELLED[item.row].format(*arguments, *item.params, UNKNOWN)
    if item.row in ("select", "slice") and item.arguments:
        return f"{arguments[0]}[{_index_text(item.arguments[0])}]"
    bare = [_bare(argument) for argument in arguments if argument != UNKNOWN]
    return f"{item.op}({', '.join(bare)})"


def _index_text(index: tuple[Any, ...]) -> str:
    """What stands between the brackets.

    >>> _index_text((slice(None), slice(1, None), Ellipsis)), _index_text((slice(None, None, 2), None, -1))
    (':, 1:', '::2, None, -1')
    """
    shown = index[:-1] if len(index) > 1 and index[-1] is Ellipsis else index
    return ", ".join(map(_part_text, shown))


def _part_text(part: Any) -> str:
    if not isinstance(part, slice):
        return "..." if part is Ellipsis else str(part)
    start, stop, step = ("" if each is None else str(each) for each in (part.start, part.stop, part.step))
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _bare(argument: str) -> str:
    """Inside a call an argument needs no parentheses of its own.

    >>> _bare("(x > 0)"), _bare("(a + b) * (c)")
    ('x > 0', '(a + b) * (c)')
    """
    depth = 0
    for place, letter in enumerate(argument):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return argument[1:-1] if place == len(argument) - 1 and letter == ")" and place else argument
    return argument
