"""A primitive is one row: what it computes, how it differentiates, how it batches, how it compiles.

Rules are ordinary expressions over operators and other primitives, so the same rule runs on ndarrays (first
order), on Tensors (higher order) and on the other kinds of array (Dual, Batched, Traced). A rule's parameters
after `g` name what the operation keeps for it: `y` the output, `a b c` the inputs, `a_shape` only a shape; then
come the operation's own params. An input that needs no gradient has its rule's values not kept at all.

For complex numbers the walk hands a rule its saved values conjugated (PyTorch's convention: the gradient is the
conjugate of the Wirtinger derivative), so a rule is written as for real numbers.
"""

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

Rule = Callable[..., Any]
Array = Any  # ndarray, or another kind of array that answers the same operators

TABLE: dict[str, "Primitive"] = {}
BOUND: dict[str, Callable[..., Any]] = {}  # name -> the function that record.bind made of the row

INPUTS = "abcd"
ARRAYS = frozenset(("y", *INPUTS, "inputs", "kept"))  # kept: the saved tensors of a custom function
SAVEABLE = frozenset((*ARRAYS, *(f"{name}_shape" for name in INPUTS), "shapes", "needs"))


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """One operation of the engine; see the module's text for the meaning of a rule."""

    name: str
    forward: Callable[..., Array]  # (*arrays, *params) -> array; variadic: (arrays, *params)
    rules: tuple[Rule | None, ...]  # per input: (g, *kept, *params) -> gradient; None: not differentiable
    jvp: Callable[..., Any] | None  # (tangents, y, inputs, params) -> tangent of y
    pullback: Rule | None = None  # instead of rules: (g, *kept, *params) -> one gradient per input
    batch: Callable[..., Any] | None = None  # see transforms/batch.py; None: one slice at a time
    dtypes: str = "any"  # how input dtypes meet: any, equal, promote, numbers (promote, but no truth values), float
    view: bool = False  # shares memory with its first input
    outputs: int = 1  # more than one: forward returns a tuple; 0: a tuple of as many as it likes
    lower: Any = None  # an LLVM opcode or intrinsic, or the operation spelled with other primitives
    hint: Callable[..., tuple[str | None, str | None]] | None = None  # (shapes, params) -> why it failed, what to try
    grad_name: str = ""  # what PyTorch calls the node, e.g. MulBackward0
    grad_names: Callable[[Any], str] | None = None  # the same where it depends on the shape of the result
    elementwise: bool = False  # works on each element alone: batches and broadcasts by itself
    boundary: str = ""  # leads "in"to a kind of array or "out" of it; its last param is the kind's level
    edges: tuple[tuple[int, Any, int], ...] = ()  # (input, the rule to call, how many values it takes after g)
    keeps: bool = False  # whether any rule keeps an array
    large: "Primitive | None" = None  # the same row for large arrays, with kernels that the cores share
    gather: Callable[..., Any] | None = None  # of such a row: all rules at once, adding to sums (large.products)
    renews: bool = False  # a kept result that was overwritten is computed again: the rules keep every input too
    unread: int = 0  # how many of its first results no rule reads: nobody minds if they are overwritten
    half: str = ""  # the row that works out its last input from its first, with its params: moments for layer norm
    straight: bool = field(init=False)  # the walk calls the rules one by one

    def __post_init__(self) -> None:
        """Work out once what the walk asks of every node."""
        object.__setattr__(self, "straight", self.pullback is None and self.gather is None)

    @property
    def variadic(self) -> bool:
        """Takes one sequence of arrays instead of a fixed number."""
        return self.pullback is not None and not self.rules

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def register(primitive: Primitive) -> Primitive:
    """Put a row into the table; two rows of one name are a mistake."""
    if primitive.name in TABLE:
        raise ValueError(f"there is already a primitive called {primitive.name}")
    TABLE[primitive.name] = primitive
    return primitive


def kept_names(rule: Rule | None) -> tuple[str, ...]:
    """What a rule asks the operation to keep, read off its parameter names.

    >>> kept_names(lambda g, y, a_shape, axes: g)
    ('y', 'a_shape')
    """
    return tuple(name for name in parameters(rule)[1:] if name in SAVEABLE)


def parameters(rule: Rule | None) -> tuple[str, ...]:
    """The parameter names of a rule (inspect.signature would cost 30 µs a rule at import).

    >>> parameters(lambda g, y: g * y)
    ('g', 'y')
    """
    if rule is None:
        return ()
    original = getattr(rule, "conjugates", rule)
    code: CodeType = original.__code__
    return code.co_varnames[: code.co_argcount]


def takes_params(p: Primitive) -> bool:
    """Whether a row has params beside its inputs, read off its rules (a row without rules may have some)."""
    rules = [rule for rule in p.rules if rule is not None]
    if not rules:
        return not isinstance(getattr(p.forward, "__wrapped__", p.forward), np.ufunc)
    return any(name not in SAVEABLE for name in parameters(rules[0])[1:])


def same(g: Array) -> Array:
    """The rule of an input that is passed on as it is; the walk knows it and saves the call."""
    return g


SUFFIX = re.compile(r"_(all|(of_)?number|dim|with_bias|bias)$|(?<=squeeze)\d$")

# Rows that users reach by another name. Helpers without a gradient are not here: nobody wrote them.
WRITTEN = {
    "attention": "scaled_dot_product_attention", "clamp_above": "clamp", "clamp_below": "clamp",
    "clamp_between": "clamp", "clamp_max_tensor": "clamp", "clamp_min_tensor": "clamp", "col2im": "fold",
    "cross_entropy_2d": "cross_entropy", "div_floor": "div", "div_trunc": "div", "drawn_bernoulli": "bernoulli",
    "drawn_normal": "normal", "drawn_poisson": "poisson", "drop": "masked_fill", "elman": "rnn",
    "embedding_weighed": "embedding_bag", "euclidean_dist": "cdist", "gelu_tanh": "gelu", "im2col": "unfold",
    "index_mask": "index", "keep": "where", "linalg_vector_norm": "norm", "log_sigmoid": "logsigmoid",
    "masked_fill_by_tensor": "masked_fill", "nll_loss_2d": "nll_loss", "replace": "copy_", "resample": "interpolate",
    "round_decimals": "round", "rrelu_with_noise": "rrelu", "safe_softmax": "softmax", "scatter_sum": "scatter_reduce",
    "scatter_value": "scatter", "unsafe_view": "view", "view_dtype": "view", "write_view": "in-place write",
}  # fmt: skip


def as_written(name: str) -> str:
    """The name of a row as users write it.

    >>> as_written("sum_all"), as_written("linear_with_bias"), as_written("drawn_bernoulli")
    ('sum', 'linear', 'bernoulli')
    """
    return WRITTEN.get(name) or SUFFIX.sub("", name)


def backward_name(name: str) -> str:
    """PyTorch's name of the node that an operation records.

    >>> backward_name("log_softmax")
    'LogSoftmaxBackward0'
    """
    return "".join(part[:1].upper() + part[1:] for part in name.split("_") if part) + "Backward0"


def elementwise(name: str, forward: Callable[..., Array], *rules: Rule | None, **columns: Any) -> Primitive:
    """A row whose Jacobian is diagonal: the rule that pulls a gradient back also pushes a tangent forward."""

    def jvp(tangents: Sequence[Array], y: Array, inputs: Sequence[Array], params: tuple[Any, ...]) -> Array:
        return add_up(
            rule(stretch(t, y), *kept_values(rule, y, inputs), *params)
            for rule, t in zip(rules, tangents, strict=True)
            if t is not None and rule is not None
        )

    columns.setdefault("dtypes", "promote" if len(rules) > 1 else "float")
    columns["elementwise"] = True
    return _row(name, forward, rules, jvp, columns)


def multilinear(name: str, forward: Callable[..., Array], *rules: Rule | None, **columns: Any) -> Primitive:
    """A row that is linear in each input: pushing a tangent forward is the operation itself."""

    def jvp(tangents: Sequence[Array], y: Array, inputs: Sequence[Array], params: tuple[Any, ...]) -> Array:
        operation = BOUND[name]
        return add_up(
            operation(*inputs[:i], t, *inputs[i + 1 :], *params) for i, t in enumerate(tangents) if t is not None
        )

    return _row(name, forward, rules, jvp, columns)


def general(name: str, forward: Callable[..., Array], *rules: Rule | None, jvp: Any, **columns: Any) -> Primitive:
    """A row that writes both derivatives itself: `rules` (or one `pullback`) and `jvp`."""
    return _row(name, forward, rules, jvp, columns)


def constant(name: str, forward: Callable[..., Array], inputs: int, **columns: Any) -> Primitive:
    """A row without derivative: comparisons, argmax, rounding to integers."""
    return _row(name, forward, (None,) * inputs, None, columns)


def _row(
    name: str,
    forward: Callable[..., Array],
    rules: tuple[Rule | None, ...],
    jvp: Any,
    columns: dict[str, Any],
) -> Primitive:
    columns.setdefault("grad_name", backward_name(name))
    columns["keeps"] = any(kept in ARRAYS for rule in (*rules, columns.get("pullback")) for kept in kept_names(rule))
    shared, gather = columns.pop("large", None), columns.pop("gather", None)  # its forward and its rules
    if shared is not None:
        edges = edges_of(shared[1:])
        columns["large"] = Primitive(name, shared[0], shared[1:], jvp, edges=edges, gather=gather, **columns)
    return register(Primitive(name, forward, rules, jvp, edges=edges_of(rules), **columns))


def edges_of(rules: Sequence[Rule | None]) -> tuple[tuple[int, Rule | None, int], ...]:
    """The rules in the form the walk reads them.

    >>> [(i, arity) for i, rule, arity in edges_of((lambda g, b: g * b, lambda g: g))]
    [(0, 1), (1, 0)]
    """
    for rule in rules:
        if rule is not None and getattr(rule, "conjugates", rule).__code__.co_flags & TAKES_STAR:
            raise TypeError("a rule names its parameters one by one: the table reads them")
    return tuple((i, called(rule), 0 if rule is None else len(parameters(rule)) - 1) for i, rule in enumerate(rules))


def called(rule: Rule | None) -> Rule | None:
    """What the walk calls: for a rule that is nothing but `g * x` the operator itself, which takes 90 ns less.

    >>> called(lambda g, b: g * b), called(same) is same
    (<built-in function mul>, True)
    """
    code = getattr(rule, "__code__", None)
    return operator.mul if code is not None and code.co_code == PRODUCT.co_code else rule


PRODUCT = (lambda g, x: g * x).__code__  # instructions and the places of locals: whatever has them does the same


TAKES_STAR = 0x04 | 0x08  # the code flags of *args and **kwargs


@cache
def renamed(p: Primitive, grad_name: str) -> Primitive:
    """The same row, whose nodes bear another name."""
    return replace(p, grad_name=grad_name, grad_names=None)


@cache
def conjugated(p: Primitive) -> Primitive:
    """The same row for complex numbers, whose rules see what they saved conjugated."""
    rules = tuple(conjugating(rule) for rule in p.rules)
    return replace(p, rules=rules, edges=edges_of(rules), pullback=conjugating(p.pullback), large=None)


def conjugating(rule: Rule | None) -> Rule | None:
    """The same rule for complex numbers: it sees its saved arrays, and factors among its params, conjugated."""
    if rule is None or len(parameters(rule)) == 1:
        return rule

    def conjugated_rule(g: Array, *kept: Any) -> Any:
        return rule(g, *(conjugate(value) for value in kept))

    conjugated_rule.conjugates = rule  # type: ignore[attr-defined]
    return conjugated_rule


def conjugate(value: Any) -> Any:
    """Conjugate an array or a number (or each of a tuple of arrays) if it is complex; anything else stays."""
    if type(value) is complex:
        return value.conjugate()
    if isinstance(value, tuple) and value and hasattr(value[0], "dtype"):
        return tuple(conjugate(v) for v in value)
    if hasattr(value, "dtype") and value.dtype is not None and _is_complex(value.dtype):
        return value.conj()
    return value


def _is_complex(dtype: Any) -> bool:
    kind = getattr(dtype, "kind", None)  # NumPy's dtype says 'c'; ours says is_complex
    return kind == "c" if kind is not None else bool(dtype.is_complex)


def kept_values(rule: Rule, y: Array, inputs: Sequence[Array]) -> tuple[Any, ...]:
    """The values a rule names, taken from a call at hand instead of from a node."""
    at_hand: dict[str, Any] = {"y": y, "inputs": tuple(inputs)}
    for letter, value in zip(INPUTS, inputs, strict=False):
        at_hand[letter] = value
        at_hand[f"{letter}_shape"] = tuple(value.shape)
    at_hand["shapes"] = tuple(tuple(value.shape) for value in inputs) if "shapes" in kept_names(rule) else ()
    at_hand["needs"] = (True,) * len(inputs)
    return tuple(at_hand[name] for name in kept_names(rule))


def stretch(t: Array, y: Array) -> Array:
    """Broadcast the tangent of a broadcast input to the shape of the result."""
    if tuple(t.shape) == tuple(y.shape):
        return t
    return BOUND["expand"](t, tuple(y.shape))


def add_up(terms: Iterable[Array]) -> Array:
    """Sum the terms without a zero to begin with; no term at all gives None (no tangent)."""
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total
