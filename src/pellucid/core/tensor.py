"""Tensor: an array and the node that made it. Node: one recorded call. Data only; the algorithms live elsewhere.

A node keeps what its rules asked for and never the Tensor itself, and a leaf holds its Tensor weakly: so there are
no reference cycles, and a graph is freed the moment its last tensor goes away.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.core.aliasing import tick
from pellucid.core.primitive import Primitive, renamed
from pellucid.core.provenance import Place


class Handle:
    """Removes a hook again, also from dictionaries of flags; also a context manager that removes it at the end."""

    __slots__ = ("_hooks", "flags", "key")

    def __init__(
        self,
        hooks: "OrderedDict[int, Callable[..., Any]]",
        hook: Callable[..., Any] | None = None,
        *,
        extra_dict: Any = (),
    ) -> None:
        self.key = tick()
        self._hooks = weakref.ref(hooks)
        self.flags: tuple[Any, ...] = (extra_dict,) if isinstance(extra_dict, dict) else tuple(extra_dict or ())
        if hook is not None:
            hooks[self.key] = hook

    @property
    def id(self) -> int:
        """The key under which a class with hooks of its own keeps this one."""
        return self.key

    @property
    def hooks_dict_ref(self) -> Any:
        """The hooks that this one is among, weakly: None when called after they are gone."""
        return self._hooks

    def remove(self) -> None:
        for hooks in (self._hooks(), *self.flags):
            if hooks is not None:
                hooks.pop(self.key, None)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, int, tuple[Any, ...]]:
        """Copied or pickled along with its hooks, a handle belongs to the copies."""
        return self._hooks(), self.key, self.flags

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.key, *flags = state  # PyTorch leaves them out where there are none
        self.flags = tuple(flags[0]) if flags else ()
        self._hooks = weakref.ref(Hooks() if hooks is None else hooks)


class Hooks(OrderedDict[int, Callable[..., Any]]):
    """Hooks in the order in which they were added; weakly referable, for the sake of Handle."""

    def add(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        handle = Handle(self, hook)
        if prepend:
            self.move_to_end(handle.key, last=False)
        return handle


OWN_DTYPE = "own"  # a gradient has the dtype of its tensor


class Extra:
    """What few nodes carry: hooks, a tensor that wants its gradient kept."""

    __slots__ = (
        "after",
        "before",
        "gradient_dtype",
        "metadata",
        "on_gradient",
        "post_accumulate",
        "retain",
        "unpack",
    )

    def __init__(self) -> None:
        self.on_gradient = Hooks()  # of the tensor: grad -> grad
        self.before = Hooks()  # of the node: grad_outputs -> grad_outputs
        self.after = Hooks()  # of the node: (grad_inputs, grad_outputs) -> grad_inputs
        self.post_accumulate = Hooks()  # of a leaf: called with the tensor once .grad is there
        self.retain: weakref.ref[Tensor] | None = None
        self.gradient_dtype: Any = OWN_DTYPE  # of a leaf: the NumPy dtype of its gradient; None: as it arrives
        self.metadata: dict[Any, Any] = {}
        self.unpack: Callable[[Any], Any] | None = None  # saved-tensor hooks: how to get a kept value back


class Node:
    """One recorded call: the primitive, the nodes that fed it, and what each of its rules asked to keep.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> node = (x * x).exp().grad_fn
    >>> node.name(), [after.name() for after, _ in node.next_functions]
    ('ExpBackward0', ['MulBackward0'])
    """

    __slots__ = (
        "__weakref__",
        "born",
        "code",
        "extra",
        "inputs",
        "lasti",
        "primitive",
        "saved",
        "shape",
        "stretched",
    )

    primitive: Primitive
    inputs: tuple["Node | None", ...]  # None: no gradient wanted there
    saved: Any  # per input: what its rule takes after g (see keep.py); or Freed
    shape: tuple[int, ...] | None  # of the result; None when there are several results
    stretched: bool  # an input was broadcast: its gradient may have to be summed back
    born: int  # creation number: a topological order, and the node's name for people
    code: CodeType
    lasti: int
    extra: Extra | None

    def name(self) -> str:
        """PyTorch's name for this node, such as MulBackward0."""
        node = self.inputs[0] if self.primitive is PICK else self
        p: Primitive = node.primitive  # type: ignore[union-attr]
        return p.grad_name if p.grad_names is None else p.grad_names(node.shape)  # type: ignore[union-attr]

    @property
    def place(self) -> Place:
        """The user's line that made this node."""
        return Place(self.code, self.lasti)

    @property
    def next_functions(self) -> tuple[tuple["Node | None", int], ...]:
        """The nodes that gradients go to next, with the number of the output they belong to."""
        return tuple(step_over_pick(parent) for parent in self.inputs)

    @property
    def requires_grad(self) -> bool:
        """True: what needs no gradient is not recorded."""
        return True

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes about this node."""
        return extra_of(self).metadata

    def register_prehook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_outputs)` before this node's backward; it may return other gradients."""
        return extra_of(self).before.add(hook)

    def register_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node's backward; it may return other gradients."""
        return extra_of(self).after.add(hook)

    def __repr__(self) -> str:
        return f"<{self.name()} object, op {self.born} at {self.place.text}>"


class Leaf(Node):
    """Where gradients come to rest: the end of the graph at a tensor that the user made."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: "Tensor", place: Place) -> None:
        self.tensor: Callable[[], Tensor | None] = weakref.ref(tensor)
        self.primitive = ACCUMULATE
        self.inputs = ()
        self.saved = ()
        self.shape = tuple(tensor.array.shape)
        self.stretched = False
        self.born = tick()
        self.code, self.lasti = place.code, place.lasti
        self.extra = None

    @property
    def variable(self) -> "Tensor | None":
        """The tensor whose `.grad` this node fills."""
        return self.tensor()


def nobody() -> None:
    """What a leaf says whose tensor gets no gradient: it is frozen, or a dead end."""


class DeadEnd(Leaf):
    """The leaf of a view that was made while nothing was recorded: it requires grad as its base does, and gets none.

    Its row has no rules: a walk passes by and leaves nothing, where it leaves a gradient at other leaves.
    """

    __slots__ = ()

    def __init__(self, tensor: "Tensor", place: Place) -> None:
        super().__init__(tensor, place)
        self.primitive, self.tensor = PASSED_BY, nobody


def _accumulate(*_: Any) -> Any:  # pragma: no cover (a row must have a forward; nothing runs this one)
    raise AssertionError("a leaf is never run, only filled")


ACCUMULATE = Primitive("accumulate_grad", _accumulate, (), None, grad_name="AccumulateGrad")
PASSED_BY = Primitive("dead_end", _accumulate, (), None, grad_name="DeadEnd")


class Bundle(dict[int, Any]):
    """The gradients of an operation with several results, by the number of the result, as far as they have arrived.

    Each is filed by its own `pick`, so a sum of bundles files on in the first one: n results cost n steps, not n².
    """

    __slots__ = ("outputs",)
    shape = None

    def __init__(self, index: int, g: Any, outputs: int) -> None:
        super().__init__({index: g})
        self.outputs = outputs

    def __add__(self, other: "Bundle") -> "Bundle":
        for index, g in other.items():
            self[index] = self[index] + g if index in self else g
        return self

    def listed(self) -> list[Any]:
        """One gradient per result, None where none has arrived."""
        return [self.get(index) for index in range(self.outputs)]


def _put(g: Any, index: int, outputs: int) -> Bundle:
    return Bundle(index, g, outputs)


PICK = Primitive("pick", _accumulate, (_put,), None, edges=((0, _put, 2),), grad_name="Pick")


def pick(node: Node, index: int, outputs: int, shape: tuple[int, ...]) -> Node:
    """The node of one result among several: it files its gradient under the result's number."""
    picked: Node = object.__new__(Node)
    picked.primitive = PICK
    picked.inputs = (node,)
    picked.saved = ((index, outputs),)
    picked.shape = shape
    picked.stretched = False
    picked.born = tick()
    picked.code, picked.lasti, picked.extra = node.code, node.lasti, None
    return picked


def picked_from(node: Node) -> Node:
    """The node of an operation: one of several results has a node of its own, which picks it."""
    return node.inputs[0] or node if node.primitive is PICK else node


def step_over_pick(node: Node | None) -> tuple[Node | None, int]:
    """The operation behind a node, and which of its results the node stands for."""
    if node is not None and node.primitive is PICK:
        return with_class(node.inputs[0]), node.saved[0][0]
    return with_class(node), 0


def with_class(node: Node | None) -> Node | None:
    """The node as users see it: of a class that bears its name, so that `type(y.grad_fn).__name__` is MulBackward0.

    The class is given when somebody looks, as recording has no time for it.
    """
    kind = type(node)
    if node is not None and (kind is Node or kind is Leaf):
        node.__class__ = class_named(kind is Leaf, node.name())
    return node


def bearing(name: str, result: "Tensor") -> "Tensor":
    """The result of several operations that are one in PyTorch, and have one node there: the last bears its name."""
    node = result.node
    if node is not None:
        last = node.inputs[0] if node.primitive is PICK else node
        last.primitive = renamed(last.primitive, name)  # type: ignore[union-attr]
    return result


@cache
def class_named(leaf: bool, name: str) -> type[Node]:
    """A subclass of Node (or Leaf) that differs in its name only."""
    return type(name, (Leaf if leaf else Node,), {"__slots__": ()})


def extra_of(node: Node) -> Extra:
    """The rare parts of a node, made when first asked for."""
    if node.extra is None:
        node.extra = Extra()
    return node.extra


class GivenBack(Exception):
    """A walk asked a node for values that an earlier one had given back; the user is told of it by another error."""

    def __init__(self, freed: "Freed") -> None:
        self.freed = freed  # what the earlier walk has left in its nodes


class Freed:
    """What a node keeps after its saved values were given back: the line of the backward that took them."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code, self.lasti = code, lasti

    def __getitem__(self, index: int) -> Any:
        """Stands where the values stood, so that a walk need not ask first whether they are there (0.3 µs a chain)."""
        raise GivenBack(self)

    @property
    def place(self) -> Place:
        """The user's line that took them."""
        return Place(self.code, self.lasti)


class Cut:
    """Why a tensor has no graph although its inputs had one."""

    __slots__ = ("behind", "born", "by", "entered", "frozen", "leaf", "leaves", "origin", "source")
    inference = False  # a Mode, which may stand in the same place, may say otherwise

    def __init__(self, by: str, entered: Place, source: str = "", frozen: bool = False) -> None:
        self.by = by  # detach, argmax, ...
        self.entered = entered
        self.source = source  # the name of the node that was left behind
        self.frozen = frozen  # not cut off: asked for no gradient
        self.leaf: Leaf | None = None  # of a frozen tensor: what graphs of before end in, for when it is thawed
        self.born = tick()
        self.behind = 0  # the number of the node that was left behind
        self.leaves: tuple[int, ...] = ()  # the leaves it depended on, see core/departures.py
        self.origin: weakref.ref[Node] | None = None  # the node itself where its leaves were too many to look for

    @property
    def beyond(self) -> "Cut":
        """Why tensors computed from the one that was cut have no graph either."""
        return self


class View:
    """How a tensor looks at the memory of another: the tensor that owns the history, and the steps from there."""

    __slots__ = ("_base", "base_array", "base_node", "born", "forbids", "steps")

    def __init__(self, base: "Tensor", steps: tuple[tuple[Primitive, tuple[Any, ...]], ...], forbids: str) -> None:
        self._base = base
        self.base_node: Any = base.node
        self.base_array = base.array  # a base that holds another one looks at other memory, or is of another kind now
        self.steps = steps
        self.born = tick()
        self.forbids = forbids  # why an in-place operation on this view cannot be recorded; empty: it can

    @property
    def base(self) -> "Tensor":
        """The tensor that the steps start from. One that was reshaped in place since (`t_`) is a view itself now."""
        base = self._base
        return base if base.window is None else base.window._base

    def rebuilt(self) -> bool:
        """Whether the base holds another kind of array than when the view was last renewed."""
        array = self.base.array
        return array is not self.base_array and not isinstance(array, np.ndarray)

    def renew(self, source: "Tensor") -> None:
        """Take note of the history that the base, or who stands in for it, has now: the view has it too."""
        self.base_node, self.base_array, self.born = source.node, source.array, tick()


class Operators:
    """The vocabulary of array code. The rows of the table attach their methods here, so that a Tensor and every
    other kind of array (Dual, Batched, Traced) answer the same operators."""

    __slots__ = ()


class Tensor(Operators):
    """An n-dimensional array that remembers how it was computed.

    >>> import pellucid
    >>> x = pellucid.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("__dict__", "__weakref__", "_aside", "_grad", "_left", "array", "cut", "node", "window")
    shown_as = "tensor"  # what a tensor of this class is called when it is printed

    array: Any  # the ndarray (or another kind of array)
    node: Node | None  # how it was computed; None: it does not require grad
    _grad: "Tensor | None"
    window: View | None  # set on views whose base may be changed in place
    cut: Any  # a Cut or a Mode: why there is no node
    _aside: bool  # set on another tensor's `.data` only: PyTorch does not count the writes to it
    _left: Any  # set on what was given other memory only: what its views go on with, see views.py

    def __init__(self, data: Any = (), *, requires_grad: bool = False, **options: Any) -> None:
        if hasattr(self, "array"):  # a subclass has made it already
            return
        made = self.from_data(data, **options)
        self.array, self.node, self._grad, self.window, self.cut = made.array, None, None, None, None
        if requires_grad:
            self.requires_grad_(requires_grad)

    @staticmethod
    def from_data(data: Any, **options: Any) -> "Tensor":
        """Make a tensor of whatever the user has; ops/construct.py gives the body."""
        raise NotImplementedError

    if TYPE_CHECKING:  # the rows of the table and core/attributes.py attach the other methods

        def __getattr__(self, name: str) -> Any: ...


new = object.__new__


def wrap(array: Any, node: Node | None = None, cut: Any = None) -> Tensor:
    """Put an array into a Tensor without looking at it: the engine's own constructor."""
    tensor: Tensor = new(Tensor)
    tensor.array = array
    tensor.node = node
    tensor._grad = None
    tensor.window = None
    tensor.cut = cut
    return tensor
