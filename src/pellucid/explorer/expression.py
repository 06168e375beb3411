"""What is typed into the playground: a few lines of arithmetic, read with an allow-list and never executed.

`a = 2`, `h = tanh(a * b)`, and last an expression or an assignment. Names that are not assigned are leaves of value 1.
"""

import ast
from collections.abc import Mapping
from typing import Any

from pellucid.scalar.value import Value

__all__ = ["ExpressionError", "value_of"]

FUNCTIONS = ("tanh", "relu", "exp", "log", "sigmoid", "sin", "cos", "sqrt", "abs")
LONGEST, MOST_PARTS, LARGEST_POWER = 1000, 300, 100


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
    try:
        statements = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"{text.strip()[:60]}: this is no arithmetic: {getattr(error, 'msg', error)}") from None
    if not statements:
        raise ExpressionError("type an expression, for example (a + b) * b")
    if sum(1 for statement in statements for _ in ast.walk(statement)) > MOST_PARTS * 3:
        raise ExpressionError(f"this has too many parts: at most {MOST_PARTS}")
    return _Reader(values or {}).read(statements)


class _Reader:
    """Computes with Values, statement by statement."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values = values
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
        try:
            return self._value(node)
        except (OverflowError, ZeroDivisionError, ValueError) as error:
            if isinstance(error, ExpressionError):
                raise
            raise ExpressionError(f"{ast.unparse(node)}: {error}") from None

    def _value(self, node: ast.expr) -> Any:
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
                return ARITHMETIC[type(op)](*self._operands(left, right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                return abs(self.value(argument)) if name == "abs" else getattr(self.value(argument), name)()
        return self._refuse(node, f"only + - * / **, numbers, names and {', '.join(FUNCTIONS)} can be used")

    def _operands(self, *sides: ast.expr) -> list[Any]:
        """Both sides, at least one as a Value: a number that meets a Value stays in the formula and is no box."""
        found: list[Any] = [
            self._number(side) if isinstance(side, ast.Constant) else self.value(side) for side in sides
        ]  # fmt: skip
        if not any(isinstance(each, Value) for each in found):
            found[0] = Value(found[0])
        return found

    def _leaf(self, name: str) -> Value:
        if name in FUNCTIONS:
            raise ExpressionError(f"{name} is a function: write {name}(...)")
        return self.names.setdefault(name, Value(float(self.values.get(name, 1.0)), label=name))

    def _power(self, node: ast.expr) -> float:
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        number = node.operand if isinstance(node, ast.UnaryOp) else node
        if not isinstance(number, ast.Constant):
            self._refuse(node, "a power must be a number; a ** b is exp(b * log(a))")
        power = self._number(number)  # type: ignore[arg-type]
        if abs(power) > LARGEST_POWER:
            raise ExpressionError(f"the power {power:g} is too large: at most {LARGEST_POWER}")
        return -power if negative else power

    def _number(self, node: ast.Constant) -> float:
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)) or abs(node.value) > 1e300:
            self._refuse(node, "only ordinary numbers can be used")
        return node.value  # type: ignore[return-value]

    def _refuse(self, node: ast.AST, why: str) -> Any:
        raise ExpressionError(f"{ast.unparse(node)[:60]}: {why}")


ARITHMETIC: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
