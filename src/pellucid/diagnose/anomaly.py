"""Where the first bad number came from: the operation that made a NaN or an Inf out of finite values, and the cure.

A Watcher looks at every operation and at every gradient. `first_bad` then goes back from a loss (or gradient) that is
not finite, through the operations that only passed the bad value on, to the one that made it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from pellucid.core.attention import first_bad as bad_element
from pellucid.core.primitive import TABLE, Primitive, as_written
from pellucid.core.provenance import here
from pellucid.core.tensor import PICK, Node, Tensor
from pellucid.diagnose.cures import Symptom, cure_of, meeting
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.nn.modules.calls import module_of

__all__ = ["Bad", "Watcher", "first_bad"]

CHOOSE = frozenset(
    ("where", "keep", "drop", "masked_fill", "masked_fill_by_tensor", "masked_select", "index_mask", "index_put")
)  # operations that leave elements out: what is in them is invisible in forward, not in backward
FILL = frozenset(("fill", "masked_fill", "masked_fill_by_tensor", "where", "constant_pad_nd", "full", "scatter_value"))


MOVES = frozenset(("index", "index_mask", "index_select", "take_along", "clone", "cast", "stack", "cat"))


class Call:
    """What a Watcher remembers of an operation for the sake of its backward."""

    __slots__ = ("inputs", "module", "name", "params", "place", "takes")

    def __init__(self, node: Node, inputs: Any, params: tuple[Any, ...], takes: tuple[int, ...], module: str) -> None:
        self.name, self.place = operation_of(node).primitive.name, node.place
        self.inputs, self.params, self.takes, self.module = inputs, params, takes, module


@dataclass(eq=False)
class Bad:
    """A value that is not finite: who made it, where in it, out of what."""

    name: str  # the operation; empty for a value that came from outside
    label: str  # NaN or Inf
    index: tuple[int, ...]
    out: Any  # the bad array
    inputs: tuple[Any, ...]  # the arrays it was made of
    params: tuple[Any, ...]
    spot: Spot
    module: str
    sources: "tuple[Bad, ...]" = ()  # those of the inputs that were bad already
    intended: bool = False  # an infinity that somebody wrote down: a mask
    backward: bool = False
    hidden: bool = False  # made in a branch that was not selected
    onward: tuple[Call, ...] = ()  # of a gradient: the operations between this one and the loss
    function: str = ""  # of a value that came in: the custom function that made it, in words

    @property
    def made(self) -> str:
        """The operation in words."""
        return f"backward of {as_written(self.name)}" if self.backward else as_written(self.name)

    @property
    def moves(self) -> bool:
        """Whether the operation only takes elements out of its input: a batch of a data set."""
        return self.name in MOVES or (self.name in TABLE and TABLE[self.name].view)


class Watcher:
    """An observer that finds the first values that are not finite, in forward and in backward.

    >>> import pellucid as torch
    >>> from pellucid.core import modes
    >>> x = torch.tensor([1.0, 0.0], requires_grad=True)
    >>> watcher = Watcher()
    >>> with modes.switched(observers=(watcher,)):
    ...     loss = x.log().sum()
    >>> first_bad(watcher, loss).code
    'log-of-zero'
    """

    def __init__(self) -> None:
        self.module: str | None = None  # the module that is running, if somebody else knows it
        self.bad: dict[
            int, tuple[Any, Bad]
        ] = {}  # by the tensor's id; the tensor is kept, so that the id stays its own
        self.calls: dict[int, Call] = {}  # by the number of the node's birth
        self.functions: dict[int, str] = {}  # custom functions whose results were given, by the tensor's id
        self.in_backward: Bad | None = None

    def operation(self, p: Primitive, tensors: Any, params: tuple[Any, ...], outs: Any) -> None:
        """Look at the results of an operation."""
        node = next((out.node for out in outs if out.node is not None), None)
        module = self.module if self.module is not None else _module(node)
        arrays = tuple(tensor.array for tensor in tensors)
        takes = tuple(tensor.node.born for tensor in tensors if tensor.node is not None)
        for out in outs:
            if out.node is not None:
                call = self.calls[out.node.born] = Call(out.node, arrays, params, takes, module)
                self.calls[operation_of(out.node).born] = call
            found = bad_element(out.array)
            if found is not None:
                spot = Spot.of(here() if node is None else node.place)
                sources = tuple(self._source(t, spot, module) for t in tensors if bad_element(t.array) is not None)
                bad = Bad(p.name, *found, out.array, arrays, params, spot, module, sources)
                masks = all(source.intended for source in sources)
                bad.intended = found[0] == "Inf" and masks and (bool(sources) or p.name in FILL)
                self.bad[id(out)] = out, bad

    def _source(self, tensor: Tensor, spot: Spot, module: str) -> Bad:
        known = self.bad.get(id(tensor))
        if known is not None:
            return known[1]
        label, index = bad_element(tensor.array) or ("NaN", ())
        bad = Bad("", label, index, tensor.array, (), (), spot, module, function=self.functions.get(id(tensor), ""))
        bad.intended = label == "Inf" and tensor.node is None  # a mask of zeros and infinities
        self.bad[id(tensor)] = tensor, bad
        return bad

    def write(self, target: Tensor, name: str) -> None:
        """A tensor was written: what is bad in it now was made by the operation before."""
        latest = next(reversed(self.bad.values()), None)
        found = bad_element(target.array)
        if found is None:
            self.bad.pop(id(target), None)
        elif latest is not None and latest[1].label == found[0]:
            self.bad[id(target)] = target, latest[1]

    def gradient(self, node: Node, g: Any, parent: Node, d: Any) -> None:
        """Look at a gradient that a node sends on."""
        if self.in_backward is not None or isinstance(g, list):
            return
        found, incoming = bad_element(np.asarray(_array(d))), np.asarray(_array(g))
        if found is None or bad_element(incoming) is not None:
            return
        call = self.calls.get(node.born) or Call(node, (), (), (), _module(node))
        bad = Bad(node.primitive.name, *found, _array(d), call.inputs, call.params, Spot.of(node.place), call.module)
        bad.backward = True
        same = incoming.shape == np.shape(bad.out)
        bad.onward = tuple(self._onward(node.born))
        bad.hidden = same and incoming[bad.index] == 0 and any(call.name in CHOOSE for call in bad.onward[:16])
        if not bad.hidden:
            bad.sources = tuple(self._given_bad(call))
        self.in_backward = bad

    def _given_bad(self, call: Call) -> Iterator[Bad]:
        """The bad values that an operation got in forward, in which something else made them."""
        for array in call.inputs:
            made = (bad for _, bad in self.bad.values() if bad.out is array and not bad.intended)
            yield from islice(made, 1)

    def _onward(self, born: int) -> Iterator[Call]:
        """The operations that a result goes into, directly and further on, in the order in which they ran."""
        reached = {born}
        for number, call in sorted(self.calls.items()):
            if number > born and not reached.isdisjoint(call.takes):
                reached.add(number)
                yield call


def operation_of(node: Node) -> Node:
    """The node of the operation, for a node that stands for one of its results."""
    return node.inputs[0] if node.primitive is PICK and node.inputs[0] is not None else node


def _array(value: Any) -> Any:
    return getattr(value, "array", value)


def _module(node: Node | None) -> str:
    found = None if node is None else module_of(node)
    return "" if found is None else found[0] or type(found[1]).__name__


def chain_of(bad: Bad) -> list[Bad]:
    """From a bad value back to the one that was made of finite values (or came in)."""
    chain = [bad]
    while chain[-1].sources:
        worse = [source for source in chain[-1].sources if source.label == "NaN"]
        rest = worse or [source for source in chain[-1].sources if not source.intended]
        if not rest:
            break
        chain.append(rest[0])
    return chain


def first_bad(watcher: Watcher, loss: Tensor | None = None) -> Finding | None:
    """The cause of a loss or of a gradient that is not finite; None when all is well."""
    known = watcher.bad.get(id(loss)) if loss is not None else None
    if known is None and watcher.in_backward is not None:
        return finding_of(chain_of(watcher.in_backward), "the gradient")
    if known is None and loss is None:
        known = next((each for each in watcher.bad.values() if not each[1].intended), None)
    return None if known is None else finding_of(chain_of(known[1]), "the loss")


def finding_of(chain: list[Bad], what: str) -> Finding:
    """The finding for a chain that ends at the origin."""
    origin = chain[-1]
    if not origin.name:
        return _given(chain, what)
    code, cause, fix = cure_of(
        Symptom(
            origin.name,
            origin.label,
            origin.backward,
            origin.hidden,
            meeting(origin.inputs, np.shape(origin.out), origin.index),
        )
    )
    inside = f" in {origin.module}" if origin.module else ""
    message = f"{cause}{inside}, and {what} is not finite"
    steps = [(bad.spot, bad.made) for bad in reversed(chain[:-1])]
    steps += [(Spot.of(call.place), as_written(call.name)) for call in origin.onward]
    return Finding(code, origin.spot, message, evidence_of(origin), fix, related=_onward(origin.spot, steps))


def _onward(origin: Spot, steps: Iterable[tuple[Spot, str]]) -> tuple[Related, ...]:
    """The lines on which a bad value goes on."""
    related, seen = [], {origin}
    for spot, name in steps:
        if spot not in seen:
            seen.add(spot)
            related.append(Related(spot, f"goes on into {name}"))
    return tuple(related)


def _given(chain: list[Bad], what: str) -> Finding:
    """The finding for a value that was bad when it came in: it enters at the first operation that computes with it."""
    origin = chain[-1]
    entry = next((i for i in reversed(range(len(chain) - 1)) if not chain[i].moves), len(chain) - 1)
    enters = chain[entry]
    taken = () if enters.spot == origin.spot else (Related(origin.spot, "it is taken from the data here"),)
    code, cause, fix = cure_of(Symptom("", origin.label, False, False, []))
    if origin.function:
        cause = f"{origin.function}, gave {origin.label}"
        fix = "look into it: its operations are not recorded, but `pellucid doctor` follows a script into them"
    steps = [(bad.spot, bad.made) for bad in reversed(chain[:entry])]
    onward = _onward(enters.spot, steps)
    return Finding(
        code, enters.spot, f"{cause}, and {what} is not finite", evidence_of(origin), fix, related=(*taken, *onward)
    )


def evidence_of(bad: Bad) -> str:
    """What was measured: the first bad element, and the numbers it was made of."""
    value = np.asarray(bad.out)[bad.index]
    place = f"index {bad.index} of shape {np.shape(bad.out)}" if np.shape(bad.out) else "a number"
    count = int((~np.isfinite(np.asarray(bad.out, np.float64))).sum()) if np.asarray(bad.out).dtype.kind == "f" else 1
    made = ", ".join(f"{element:.3g}" for element in meeting(bad.inputs, np.shape(bad.out), bad.index))
    of = f"({count:,} of {np.size(bad.out):,} elements are not finite)"
    if not bad.name:
        return f"{'its result' if bad.function else 'what came in'} holds {value:.3g} at {place} {of}"
    text = f"{bad.made} gave {value:.3g} at {place} {of}"
    return f"{text}; the input there is {made}" if made else text
