"""Functions of plain numbers, where Python's own would overflow, give a complex number or say too little."""

import math
from numbers import Real

Number = int | float


def number(data: object) -> Number:
    """What a Value can hold: one real number (NumPy's become Python's)."""
    if isinstance(data, (int, float)):
        return data
    if isinstance(data, Real):
        return float(data)
    raise TypeError(f"a Value holds one number, and goes together with a number or a Value, not with {_kind(data)}")


def _kind(data: object) -> str:
    return f"{type(data).__name__}: take its number with .item()" if hasattr(data, "item") else type(data).__name__


def exp(x: Number) -> float:
    """The exponential; where Python's would raise, inf."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def log(x: Number) -> float:
    """The logarithm, of positive numbers only."""
    if x <= 0:
        raise ValueError("log is only defined for positive scalar values")
    return math.log(x)


def sigmoid(x: Number) -> float:
    """1 / (1 + exp(-x)), without overflow and with all its digits on both sides.

    >>> sigmoid(-1000.0), sigmoid(0.0), sigmoid(-40.0) > 0
    (0.0, 0.5, True)
    """
    e = math.exp(-abs(x))
    return (1.0 if x >= 0 else e) / (1 + e)


def power(x: Number, n: Number) -> Number:
    """x ** n; Python would give a complex number for a negative x and a fraction."""
    y: Number | complex = x**n
    if isinstance(y, complex):
        raise ValueError(f"a power that is no whole number is only defined for positive scalar values: {x} ** {n}")
    return y


def slope_of_power(x: Number, n: Number) -> Number:
    """The derivative of x ** n; at 0 that of the square root is inf."""
    if not x and 0 < n < 1:
        return math.inf
    return n * power(x, n - 1) if n else 0.0
