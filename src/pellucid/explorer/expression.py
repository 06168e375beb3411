"""What is typed into the playground: a few lines of arithmetic, read with an allow-list and never executed.

`a = 2`, `h = tanh(a * b)`, and last an expression or an assignment. Names that are not assigned are leaves of value 1.
"""

import ast
from collections.abc import Mapping
from typing import Any, NoReturn

from pellucid.scalar.value import Value

__all__ = ["ExpressionError", "is_ordinary", "value_of"]

FUNCTIONS = ("tanh", "relu", "exp", "log", "sigmoid", "sin", "cos", "sqrt", "abs")
LONGEST, MOST_PARTS, DEEPEST, LARGEST_POWER = 1000, 300, 250, 100
LARGEST = 1e300  # all is computed with floats: an integer could grow until nothing else has room


class ExpressionError(ValueError):
    """What was typed cannot be computed; the message says what and where."""


def value_of(text: str, values: Mapping[str, float] | None = None) -> Value:
    """The Value that some lines of arithmetic compute; `values` are the numbers of the leaves.

    >>> y = value_of("(a + b) * b", {"a": 2, "b": 3})
    >>> y.backward()
    >>> y.data, sorted((leaf.label, leaf.grad) for leaf in y.graph() if not leaf._inputs)
    (15.0, [('a', 3.0), ('b', 8.0)])
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"this is too long: at most {LONGEST} characters, not {len(text)}")
    for name, number in (values or {}).items():
        if not is_ordinary(number):
            raise ExpressionError(f"{name[:60]} must be an ordinary number, at most {LARGEST:g}")
    text = text.strip()
    try:
        statements = ast.parse(text).body
    except (RecursionError, MemoryError):
        raise ExpressionError(f"{text[:60]}: this is nested too deeply; give a part of it a name") from None
    except (SyntaxError, ValueError) as error:
        raise ExpressionError(f"{text[:60]}: this is no arithmetic: {getattr(error, 'msg', error)}") from None
    if not statements:
        raise ExpressionError("type an expression, for example (a + b) * b")
    _check_size(statements)
    return _Reader(text, values or {}).read(statements)


def is_ordinary(number: Any) -> bool:
    """Whether something is a number that floats can compute with.

    >>> is_ordinary(2), is_ordinary(10**400), is_ordinary(float("nan")), is_ordinary(True), is_ordinary("2")
    (True, False, False, False, False)
    """
    return type(number) in (int, float) and abs(number) <= LARGEST


def _check_size(statements: list[ast.stmt]) -> None:
    """Few parts, not too deep: whoever walks through them goes down a call for each level."""
    parts = 0
    waiting: list[tuple[ast.AST, int]] = [(statement, 0) for statement in statements]
    while waiting:
        node, depth = waiting.pop()
        parts += 1
        if parts > MOST_PARTS * 3:
            raise ExpressionError(f"this has too many parts: at most {MOST_PARTS}")
        if depth > DEEPEST:
            raise ExpressionError(f"this is nested more than {DEEPEST} deep; give a part of it a name")
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


class _Reader:
    """Computes with Values, statement by statement."""

    def __init__(self, text: str, values: Mapping[str, float]) -> None:
        self.text, self.values = text, values
        self.names: dict[str, Value] = {}

    def read(self, statements: list[ast.stmt]) -> Value:
        result = Value(0.0)
        for statement in statements:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=expression):
                    result = self._named(name, expression)
                case ast.Expr(value=expression):
                    result = self.value(expression)
                case _:
                    self._refuse(statement, "write an expression, or name = expression")
        return result

    def _named(self, name: str, expression: ast.expr) -> Value:
        """A name for a result; a number alone is a leaf, whose value may be given anew."""
        if isinstance(expression, ast.Constant):
            number = self.values.get(name, self._number(expression))
            self.names[name] = Value(float(number), label=name)
        else:
            computed = self.value(expression)
            fresh = computed if computed._inputs and not computed.label else computed * 1.0
            fresh.label = name
            self.names[name] = fresh
        return self.names[name]

    def value(self, node: ast.expr) -> Value:
        """What an expression computes; this calls itself once for each level, and nothing in between."""
        try:
            match node:
                case ast.Constant():
                    return Value(self._number(node))
                case ast.Name(id=name):
                    return self._leaf(name)
                case ast.UnaryOp(op=ast.USub(), operand=operand):
                    return -self.value(operand)
                case ast.BinOp(left=left, op=ast.Pow(), right=right):
                    return self.value(left) ** self._power(right)
                case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op, right=right):
                    # A number that meets a Value stays in the formula and is no box.
                    one: Any = self._number(left) if isinstance(left, ast.Constant) else self.value(left)
                    other: Any = self._number(right) if isinstance(right, ast.Constant) else self.value(right)
                    either = isinstance(one, Value) or isinstance(other, Value)
                    return ARITHMETIC[type(op)](one if either else Value(one), other)  # type: ignore[no-any-return]
                case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                    given = self.value(argument)
                    return abs(given) if name == "abs" else getattr(given, name)()  # type: ignore[no-any-return]
        except ExpressionError:
            raise
        except OverflowError:
            self._refuse(node, "this is too large: numbers end at 1.8e308")
        except (ZeroDivisionError, ValueError) as error:
            self._refuse(node, str(error))
        return self._refuse(node, f"only + - * / **, numbers, names and {', '.join(FUNCTIONS)} can be used")

    def _leaf(self, name: str) -> Value:
        if name in FUNCTIONS:
            raise ExpressionError(f"{name} is a function: write {name}(...)")
        return self.names.setdefault(name, Value(float(self.values.get(name, 1.0)), label=name))

    def _power(self, node: ast.expr) -> float:
        match node:
            case ast.Constant():
                power = self._checked(node)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as number):
                power = -self._checked(number)
            case _:
                self._refuse(node, "a power must be a number; a ** b is exp(b * log(a))")
        if abs(power) > LARGEST_POWER:
            raise ExpressionError(f"the power {power:g} is too large: at most {LARGEST_POWER}")
        return power

    def _number(self, node: ast.Constant) -> float:
        return float(self._checked(node))

    def _checked(self, node: ast.Constant) -> float:
        """A number as it is written: 2, not 2.0."""
        if not is_ordinary(node.value):
            self._refuse(node, f"only ordinary numbers can be used, at most {LARGEST:g}")
        return node.value  # type: ignore[return-value]

    def _refuse(self, node: ast.AST, why: str) -> NoReturn:
        raise ExpressionError(f"{(ast.get_source_segment(self.text, node) or '')[:60]}: {why}")


ARITHMETIC: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
