"""Neuron, Layer, MLP: a network of Values, one number at a time."""

import random
from collections.abc import Sequence

from pellucid.scalar.plain import Number
from pellucid.scalar.value import Value


class Neuron:
    """A weighted sum of its inputs and a bias, through an activation.

    >>> neuron = Neuron(2, activation="tanh")
    >>> neuron.w[0].data, neuron.w[1].data, neuron.b.data = 1.0, -2.0, 0.5
    >>> neuron([3.0, 1.0]).data  # tanh(1 * 3 - 2 * 1 + 0.5)
    0.9051482536448664
    """

    def __init__(self, inputs: int, activation: str = "relu") -> None:
        self.w = [Value(random.uniform(-1, 1), label=f"w{i}") for i in range(inputs)]
        self.b = Value(0.0, label="b")
        if activation and not callable(getattr(Value, activation, None)):
            raise ValueError(f"there is no activation {activation!r}: name a method of Value, such as 'tanh', or ''")
        self.activation = activation

    def __call__(self, x: "Sequence[Value | Number]") -> Value:
        if len(x) != len(self.w):
            raise ValueError(f"{len(self.w)} inputs are wanted here, not {len(x)}")
        total = self.b
        for weight, value in zip(self.w, x, strict=True):
            total = total + weight * value
        return getattr(total, self.activation)() if self.activation else total

    def parameters(self) -> list[Value]:
        return [*self.w, self.b]


class Layer:
    """Neurons side by side, each of which sees all inputs.

    >>> layer = Layer(inputs=3, outputs=2)
    >>> len(layer([1.0, 2.0, 3.0])), len(layer.parameters())  # two numbers; 2 * (3 weights + a bias)
    (2, 8)
    """

    def __init__(self, inputs: int, outputs: int, activation: str = "relu") -> None:
        self.neurons = [Neuron(inputs, activation) for _ in range(outputs)]

    def __call__(self, x: "Sequence[Value | Number]") -> list[Value]:
        return [neuron(x) for neuron in self.neurons]

    def parameters(self) -> list[Value]:
        return [p for neuron in self.neurons for p in neuron.parameters()]


class MLP:
    """Layers behind one another; the last is linear.

    >>> random.seed(0)
    >>> net = MLP(2, [16, 16, 1])
    >>> len(net.parameters())
    337
    """

    def __init__(self, inputs: int, sizes: Sequence[int], activation: str = "relu") -> None:
        widths = [inputs, *sizes]
        last = len(sizes) - 1
        self.layers = [
            Layer(widths[i], size, activation if i < last else "") for i, size in enumerate(sizes)
        ]  # fmt: skip

    def __call__(self, x: "Sequence[Value | Number]") -> "Value | list[Value]":
        values = list(x)
        for layer in self.layers:
            values = list(layer(values))
        return values[0] if len(values) == 1 else values  # type: ignore[return-value]

    def parameters(self) -> list[Value]:
        return [p for layer in self.layers for p in layer.parameters()]

    def zero_grad(self) -> None:
        """Forget the gradients: they add up until somebody does."""
        for p in self.parameters():
            p.grad = 0.0
