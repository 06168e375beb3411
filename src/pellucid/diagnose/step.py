"""One step of a backward pass, and the gradients that came of all of them: what `backward_steps` hands out."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pellucid.core.backward import copied, of_dtype, receiver_of
from pellucid.core.kinds import Kind
from pellucid.core.primitive import TABLE
from pellucid.core.provenance import Place
from pellucid.core.tensor import Bundle, Node, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.diagnose.naming import Label, Names, number, operation_of, short
from pellucid.diagnose.pulling import Puller, inner, is_one_number, norm

__all__ = ["Gradients", "Step"]

Sent = tuple[Node, Any, Any]  # an input's node, the gradient sent to it, its total so far

# What becomes of a gradient in operations that are not elementwise, as one would say it.
MAPS = {
    "matmul": "times the other factor, transposed", "mm": "times the other factor, transposed",
    "bmm": "times the other factor, transposed",
    "sum": "spread over what was summed", "mean": "spread over what was averaged, divided by how many",
    "expand": "summed over what was repeated", "reshape": "reshaped back", "view": "reshaped back",
    "transpose": "transposed back", "t": "transposed back", "permute": "permuted back", "stack": "cut into its pieces",
    "cat": "cut into its pieces", "clone": "passed on",
}  # fmt: skip


class Step:
    """One operation of the backward pass: what came in, what it sends on. All gradients shown are copies."""

    def __init__(self, node: Node, g: Any, sent: list[Sent], names: Names, root: str) -> None:
        self.node = node
        self._g, self._names, self._root = g, names, root
        # A gradient that goes into one of several results' common operation is a Bundle: see core/tensor.py.
        self._sent = [(parent, d, total) for parent, d, total in sent if type(d) is not Bundle]

    @property
    def op(self) -> str:
        """The operation's name, such as `mul`."""
        return operation_of(self.node)

    @property
    def label(self) -> Label:
        """The operation as the user wrote it."""
        return self._names.label(self.node)

    @property
    def place(self) -> Place:
        """The line of the forward pass that recorded the operation."""
        return self.node.place

    @property
    def module(self) -> str:
        """The module that ran it (`model.fc1`), or an empty string."""
        return self._names.module(self.node)

    @property
    def grads(self) -> tuple[Tensor | None, ...]:
        """The gradient of every result, None where none came."""
        parts = self._g.listed() if type(self._g) is Bundle else [self._g]
        return tuple(None if part is None else wrap(copied(inner(part))) for part in parts)

    @property
    def grad(self) -> Tensor:
        """The gradient that came in; of an operation with several results, all that came, flattened into one."""
        came = [g for g in self.grads if g is not None]
        return came[0] if len(came) == 1 else wrap(np.concatenate([g.array.ravel() for g in came]))

    @property
    def outgoing(self) -> list[tuple[str, Tensor]]:
        """The gradient sent to each input that wants one, with the input's name."""
        return [(self._called(node), wrap(copied(inner(d)))) for node, d, _ in self._sent]

    @property
    def accumulated(self) -> list[tuple[str, Tensor]]:
        """The total so far at each of these inputs, this step included."""
        return [(self._called(node), wrap(copied(inner(total)))) for node, _, total in self._sent]

    @property
    def local(self) -> list[Tensor | str | None]:
        """The local derivative for each of `outgoing`.

        A Tensor for elementwise operations and wherever there are only single numbers; for others a few words on
        what becomes of the gradient; None for a function with a backward of its own, which is run only once.
        """
        if self.node.primitive.name not in TABLE:
            return [None for _ in self._sent]
        derivatives = self._derivatives()
        if derivatives is not None:
            return [wrap(copied(d)) for d in derivatives]
        return [self._in_words(d) for _, d, _ in self._sent]

    def _derivatives(self) -> list[Any] | None:
        """The local derivatives as arrays, where one number (per element) is all there is to say."""
        p, g = self.node.primitive, self._g
        if type(g) is Bundle or isinstance(g, Kind):
            return None
        one = np.ones_like(g)
        wanted = [i for i, parent in enumerate(self.node.inputs) if parent is not None]
        if p.elementwise:
            return [d for _, d in Puller().results(self.node, one, wanted)]
        if np.size(g) == 1 and all(np.size(inner(d)) == 1 for _, d, _ in self._sent):
            found = [d for _, _, d in Puller().pull(self.node, one)]
            return found if len(found) == len(self._sent) else None
        return None

    def _in_words(self, d: Any) -> str:
        came = " and ".join(str(tuple(g.array.shape)) for g in self.grads if g is not None)
        return f"{MAPS.get(self.op, f'by the rule of {self.op}')}: {came} → {tuple(inner(d).shape)}"

    def _called(self, node: Node) -> str:
        return self._names.label(node).full

    # --- in words

    def __str__(self) -> str:
        """One sentence with numbers.

        >>> import pellucid as torch
        >>> w = torch.tensor(3.0, requires_grad=True)
        >>> loss = w ** 2
        >>> str(next(torch.backward_steps(loss))).split(": ")[-1]
        '∂loss/∂w = 1 × 6 = 6'
        """
        label = self.label
        source = f" in {label.name or label.source}" if label.name or (label.source and not label.module) else ""
        module = f" of {label.module}" if label.module else ""
        came = "" if is_one_number(self._g) else f"a gradient of norm {number(norm(self._g))} comes in; "
        parts = [self._equation(*each) for each in zip(self._sent, self.local, strict=True)]
        return f"{self.op}{module}{source} at {short(self.place)}: {came}{'; '.join(parts)}"

    def _equation(self, sent: Sent, local: Tensor | str | None) -> str:
        """What one input gets: an equation of numbers, or a norm."""
        node, d, total = sent
        symbol = f"∂{self._root}/∂{self._called(node)}"
        if is_one_number(self._g) and is_one_number(d):
            factor = f"{_item(self._g)} × {_factor(local)} = " if isinstance(local, Tensor) else ""
            more = "" if total is d else f" (total so far {_item(total)})"
            return f"{symbol} = {factor}{_item(d)}{more}"
        more = "" if total is d else f" (total so far: norm {number(norm(total))})"
        return f"{symbol} gets norm {number(norm(d))}, shape {tuple(inner(d).shape)}{more}"

    def __repr__(self) -> str:
        return f"<Step {self}>"


def _item(array: Any) -> str:
    return number(float(np.asarray(array).item()))


def _factor(local: Tensor) -> str:
    """A number that follows a ×: in parentheses if it is negative."""
    text = _item(local.array)
    return f"({text})" if text.startswith("-") else text


class Gradients(Mapping[Tensor, Tensor]):
    """Gradients by tensor: `grads[w]` is what `w.grad` would be after backward on a tensor without one.

    >>> import pellucid as torch
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.backward_steps((w * w).sum()).finish()
    {w: tensor([2., 4.])}
    """

    def __init__(self, by_node: dict[Node, Any], names: Names) -> None:
        self.by_node = by_node
        self._names = names

    def __getitem__(self, tensor: Tensor) -> Tensor:
        g = self.by_node.get(current_node(tensor))  # type: ignore[arg-type]
        if g is None:
            raise KeyError("no gradient has arrived at this tensor")
        return wrap(copied(of_dtype(g, tensor)))

    def __iter__(self) -> Iterator[Tensor]:
        return (tensor for node in self.by_node if (tensor := receiver_of(node)) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        named = [(self._names.label(current_node(tensor)).target, g) for tensor, g in self.items()]  # type: ignore[arg-type]
        return "{" + ", ".join(f"{name}: {g!r}" for name, g in named) + "}"
