"""Dual numbers: forward mode. A number a + b*eps with eps*eps = 0 carries its derivative b along with its value a.

The parts may be dual numbers themselves: then the derivative has a derivative.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from pellucid.scalar import plain

Part = Any  # a number, or a Dual


class Dual:
    """The number `real + dual*eps`.

    >>> x = Dual(1.5, 1.0)  # the derivative of x with respect to itself is 1
    >>> y = x * x * x * x.sin()
    >>> round(y.real, 6), round(y.dual, 6)
    (3.366546, 6.971829)
    """

    __slots__ = ("dual", "real")

    def __init__(self, real: Part, dual: Part = 0.0) -> None:
        self.real, self.dual = real, dual

    def __repr__(self) -> str:
        return f"DualNumber({self.real} + {self.dual}*eps)"

    # --- arithmetic: in each product eps*eps is left out

    def __add__(self, other: Part) -> "Dual":
        other = lifted(other)
        return Dual(self.real + other.real, self.dual + other.dual)

    def __mul__(self, other: Part) -> "Dual":
        other = lifted(other)
        return Dual(self.real * other.real, self.real * other.dual + self.dual * other.real)

    def __neg__(self) -> "Dual":
        return Dual(-self.real, -self.dual)

    def __sub__(self, other: Part) -> "Dual":
        return self + -lifted(other)

    def __truediv__(self, other: Part) -> "Dual":
        return self * lifted(other) ** -1

    def __pow__(self, power: float) -> "Dual":
        if not isinstance(power, (int, float)):
            raise TypeError(
                f"the power must be an int or a float, not {type(power).__name__}: a ** b is exp(b * log a)"
            )
        if isinstance(self.real, Dual):
            slope = self.real ** (power - 1) * power if power else 0.0
            return Dual(self.real**power, slope * self.dual)
        return Dual(plain.power(self.real, power), plain.slope_of_power(self.real, power) * self.dual)

    def __rsub__(self, other: Part) -> "Dual":
        return lifted(other) - self

    def __rtruediv__(self, other: Part) -> "Dual":
        return lifted(other) / self

    __radd__, __rmul__ = __add__, __mul__

    # --- functions: f(a + b*eps) = f(a) + f'(a)*b*eps

    def exp(self) -> "Dual":
        y = exp(self.real)
        return Dual(y, y * self.dual)

    def log(self) -> "Dual":
        return Dual(log(self.real), self.dual / self.real)

    def sin(self) -> "Dual":
        return Dual(sin(self.real), cos(self.real) * self.dual)

    def cos(self) -> "Dual":
        return Dual(cos(self.real), -sin(self.real) * self.dual)

    def tanh(self) -> "Dual":
        y = tanh(self.real)
        return Dual(y, (1 - y * y) * self.dual)

    def sigmoid(self) -> "Dual":
        y = sigmoid(self.real)
        return Dual(y, y * (1 - y) * self.dual)

    def relu(self) -> "Dual":
        return Dual(self.real * 0.0, self.dual * 0.0) if value_of(self) <= 0 else self

    def sqrt(self) -> "Dual":
        return self**0.5

    def __abs__(self) -> "Dual":
        return self * (math.copysign(1.0, value_of(self)) if value_of(self) else 0.0)


DualNumber = Dual


def lifted(number: Part) -> Dual:
    """A plain number is a dual number that does not change."""
    return number if isinstance(number, Dual) else Dual(number)


def value_of(number: Part) -> float:
    """The plain number inside, however deep."""
    while isinstance(number, Dual):
        number = number.real
    return float(number)


def _function(name: str, of_number: Callable[[float], float]) -> Callable[[Part], Part]:
    """A function of numbers that also takes dual numbers (and Values)."""

    def function(x: Part) -> Part:
        return getattr(x, name)() if hasattr(x, name) else of_number(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of a number, a Dual or a Value."
    return function


exp, log = _function("exp", plain.exp), _function("log", plain.log)
sin, cos = _function("sin", math.sin), _function("cos", math.cos)
tanh, sqrt = _function("tanh", math.tanh), _function("sqrt", math.sqrt)
sigmoid = _function("sigmoid", plain.sigmoid)
relu = _function("relu", lambda x: max(x, 0.0))


def derivative(function: Callable[[Any], Any], at: float, order: int = 1) -> float:
    """The derivative of a function of one number, of any order, from one evaluation on nested dual numbers.

    >>> derivative(lambda x: x**3, 2.0), derivative(lambda x: x**3, 2.0, order=2)
    (12.0, 12.0)
    """
    x: Part = at
    for _ in range(order):
        x = Dual(x, 1.0)
    y = function(x)
    for _ in range(order):
        y = lifted(y).dual
    return value_of(y)


def gradient(function: Callable[..., Any], point: Sequence[float]) -> tuple[list[float], int]:
    """The gradient of a function of n numbers, and how many passes it took: one for each of them.

    Reverse mode needs a single backward pass for all of them. That is why it is used where there are many inputs and
    one result, and forward mode where there are few inputs.

    >>> gradient(lambda a, b: (a + b) * b, [2.0, 3.0])
    ([3.0, 8.0], 2)
    """
    slopes = []
    for seeded in range(len(point)):
        numbers = [Dual(x, 1.0 if i == seeded else 0.0) for i, x in enumerate(point)]
        slopes.append(value_of(lifted(function(*numbers)).dual))
    return slopes, len(slopes)
