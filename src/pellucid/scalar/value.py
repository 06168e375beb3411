"""Value: a number that remembers how it was computed, and backpropagation through it. The whole engine is this file.

Every operation makes a new Value that knows its inputs and the derivative of the operation with respect to each of
them: a local derivative, one number. `backward()` multiplies local derivatives along every path and adds up the paths.
"""

import math
from itertools import count
from operator import attrgetter

from pellucid.scalar import plain


class Value:
    """A number in a graph.

    >>> w, x, b = Value(2.0, label="w"), Value(3.0, label="x"), Value(1.0, label="b")
    >>> y = (w * x + b) ** 2
    >>> y.backward()
    >>> y.data, w.grad, x.grad, b.grad
    (49.0, 42.0, 28.0, 14.0)
    """

    __slots__ = ("__weakref__", "_inputs", "_local", "_made", "_op", "data", "grad", "label")

    def __init__(
        self, data: plain.Number, _children: tuple["Value", ...] = (), _op: str = "", label: str = "",
        _local: tuple[plain.Number, ...] = (),
    ) -> None:  # fmt: skip
        self.data = data if _children else plain.number(data)
        self.grad = 0.0
        self.label = label
        self._inputs = _children
        self._local = _local  # the derivative of this value with respect to each input
        self._op = _op
        self._made = tick()  # values are made inputs first: the order of creation is an order of computation

    @property
    def _prev(self) -> set["Value"]:
        """The values this one was computed from."""
        return set(self._inputs)

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"

    # --- the backward pass

    def _backward(self) -> None:
        """Pass this value's gradient on to its inputs: added, never assigned, as an input may be used elsewhere too."""
        for value, local in zip(self._inputs, self._local, strict=True):
            value.grad += local * self.grad

    def backward(self) -> None:
        """Add the derivative of this value with respect to every value it depends on to their `grad`.

        A node passes its gradient on only after all its consumers have: newest first.
        """
        order = self.graph()
        for node in order:
            if len(node._local) != len(node._inputs):
                raise ValueError(f"{node} ({node._op}) has {len(node._inputs)} inputs: _local= takes a derivative each")
            if node._inputs:
                node.grad = 0.0  # what is between keeps nothing of an earlier pass; the leaves add up
        self.grad += 1.0
        for node in reversed(order):
            node._backward()

    def graph(self) -> list["Value"]:
        """Every value this one depends on and itself, inputs before results. No recursion: any depth will do."""
        found, waiting = {self}, [self]
        while waiting:
            for value in waiting.pop()._inputs:
                if value not in found:
                    found.add(value)
                    waiting.append(value)
        return sorted(found, key=attrgetter("_made"))

    # --- arithmetic: the result, the inputs, the sign, the local derivatives

    def __add__(self, other: "Value | plain.Number") -> "Value":
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, (self, other), "+", "", (1.0, 1.0))

    def __mul__(self, other: "Value | plain.Number") -> "Value":
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, (self, other), "*", "", (other.data, self.data))

    def __pow__(self, power: plain.Number) -> "Value":
        if not isinstance(power, (int, float)):
            raise TypeError(
                f"the power must be an int or a float, not {type(power).__name__}: a ** b is exp(b * log a)"
            )
        x = self.data
        return Value(plain.power(x, power), (self,), f"**{power}", "", (plain.slope_of_power(x, power),))

    def __sub__(self, other: "Value | plain.Number") -> "Value":
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data - other.data, (self, other), "-", "", (1.0, -1.0))

    def __truediv__(self, other: "Value | plain.Number") -> "Value":
        other = other if isinstance(other, Value) else Value(other)
        y = self.data / other.data
        return Value(y, (self, other), "/", "", (1 / other.data, -y / other.data))

    def __neg__(self) -> "Value":
        return Value(-self.data, (self,), "neg", "", (-1.0,))

    def __rsub__(self, other: plain.Number) -> "Value":
        return Value(other) - self

    def __rtruediv__(self, other: plain.Number) -> "Value":
        return Value(other) / self

    __radd__, __rmul__ = __add__, __mul__

    # --- functions

    def relu(self) -> "Value":
        off = self.data <= 0  # at exactly 0 the derivative is 0, and NaN stays NaN, as in PyTorch
        return Value(0.0 if off else self.data, (self,), "relu", "", (0.0 if off else 1.0,))

    def tanh(self) -> "Value":
        y = math.tanh(self.data)
        return Value(y, (self,), "tanh", "", (1 - y * y,))

    def sigmoid(self) -> "Value":
        y = plain.sigmoid(self.data)
        return Value(y, (self,), "sigmoid", "", (y * (1 - y),))

    def exp(self) -> "Value":
        y = plain.exp(self.data)
        return Value(y, (self,), "exp", "", (y,))

    def log(self) -> "Value":
        return Value(plain.log(self.data), (self,), "log", "", (1 / self.data,))

    def sqrt(self) -> "Value":
        return self**0.5

    def sin(self) -> "Value":
        return Value(math.sin(self.data), (self,), "sin", "", (math.cos(self.data),))

    def cos(self) -> "Value":
        return Value(math.cos(self.data), (self,), "cos", "", (-math.sin(self.data),))

    def __abs__(self) -> "Value":
        return Value(abs(self.data), (self,), "abs", "", (math.copysign(1.0, self.data) if self.data else 0.0,))


tick = count().__next__
