"""Custom operations: a class with a static forward and a static backward, used through `apply`.

Forward runs unrecorded. Its context then becomes one node, whose pullback calls the user's backward with Tensors:
joined to the graph when a graph of the gradient is asked for, plain otherwise. So a backward written with tensor
operations is itself differentiable. What backward returns is checked against what forward was given.
"""

import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from pellucid.core import aliasing, careful, inplace, modes
from pellucid.core.attention import attend
from pellucid.core.hooks import as_tensor
from pellucid.core.kinds import Kind, plain
from pellucid.core.primitive import BOUND, Primitive
from pellucid.core.provenance import Place, here
from pellucid.core.saved import saved_values
from pellucid.core.tensor import Cut, Leaf, Node, Tensor, View, pick, wrap
from pellucid.core.views import current_array, current_node
from pellucid.errors import explain

Result = tuple[tuple[int, ...], np.dtype]  # the shape and dtype of one output of forward


class Call:
    """What the engine knows about one call; the context keeps it apart from the user's own attributes."""

    __slots__ = (
        "__weakref__",
        "dirty",
        "fixed",
        "function",
        "homes",
        "inputs",
        "materialize",
        "node",
        "outputs",
        "to_save",
        "to_save_forward",
    )  # fmt: skip

    def __init__(self, function: type["Function"], args: Sequence[Any]) -> None:
        self.function = function
        self.inputs: tuple[Result | None, ...] = tuple(_described(value) for value in args)
        self.outputs: tuple[Result | None, ...] | None = None  # None: forward returned one tensor, not a tuple
        self.to_save: tuple[Tensor | None, ...] = ()
        self.to_save_forward: tuple[Tensor | None, ...] = ()
        self.dirty: tuple[Tensor, ...] = ()
        self.fixed: tuple[Tensor, ...] = ()  # marked as not differentiable
        self.materialize = True
        self.homes: tuple[Node | int | None, ...] = ()  # per saved tensor: its node, or the number of the output it is
        self.node: weakref.ref[Node] | None = None

    @property
    def place(self) -> str:
        """The line where the class defines its backward."""
        code = inspect.unwrap(backward_of(self.function)).__code__
        return Place(code, 0).text


def _described(value: Any) -> Result | None:
    return (tuple(value.array.shape), value.array.dtype) if isinstance(value, Tensor) else None


class FunctionCtx:
    """What forward hands to backward: saved tensors, and any attribute you like."""

    needs_input_grad: tuple[bool, ...]
    _call: Call

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward: they are watched for in-place writes and freed after use."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise TypeError(
                    explain(
                        f"save_for_backward can only save variables, but argument {i} is of type {kind}",
                        str(here()),
                        try_="set anything else as an attribute: ctx.factor = factor",
                    )
                )
        self._call.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp, which reads them as `saved_tensors`."""
        self._call.to_save_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward was given."""
        call = self._call
        live = LIVE.get()
        if live is not None and live[0] is call:
            return live[1]
        node = call.node() if call.node is not None else None
        return () if node is None else _saved_tensors(call, node, saved_values(node)[0][0])

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward changed in place; they must be among its outputs."""
        self._call.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._call.fixed = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for an output that no gradient reached."""
        self._call.materialize = bool(value)

    def name(self) -> str:
        """The name of the node, such as `SquareBackward`."""
        return self._call.function._row.grad_name

    def __repr__(self) -> str:
        return f"<context of {self._call.function.__name__}>"


class BackwardNode(Node):
    """The node of a custom operation; what is not its own it asks of the context."""

    __slots__ = ("ctx",)
    ctx: FunctionCtx

    def __getattr__(self, name: str) -> Any:
        if name == "ctx":
            raise AttributeError(name)
        return getattr(self.ctx, name)


class Function:
    """Base of custom operations: static `forward` and `backward`, called through `apply`.

    >>> import pellucid as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    generate_vmap_rule = False
    _row: Primitive
    _row_without_memory: Primitive
    _backward_cls: type[BackwardNode]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = f"{cls.__name__}Backward"
        cls._row = Primitive(cls.__name__, no_forward, (), None, pullback=pull_back, grad_name=name, keeps=True)
        cls._row_without_memory = replace(cls._row, keeps=False)
        cls._backward_cls = type(name, (BackwardNode,), {"__slots__": (), "__module__": cls.__module__})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            explain(
                "Legacy autograd function with non-static forward method is deprecated",
                str(here()),
                "a custom operation is called through its class",
                f"{type(self).__name__}.apply(...)",
            )
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result: `forward(ctx, *args)`, or `forward(*args)` together with `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill the context after a forward that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of every argument of forward, None for those that are not tensors."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of every output, given those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Return the batched result and where its batch dimensions are."""
        raise NotImplementedError("You tried to vmap over a custom autograd.Function without vmap support.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record one node whose backward is the class's own."""
        args = admitted(_positional(cls, args, kwargs))
        ctx, returned = run_forward(cls, args)
        if ctx is None:
            return returned
        if isinstance(returned, Tensor):
            return joined(ctx, args, (returned,))[0]
        if not isinstance(returned, tuple):
            return returned
        ctx._call.outputs = tuple(_described(value) for value in returned)
        return joined(ctx, args, returned)


def no_forward(*_: Any) -> Any:
    """The forward of a row that only `apply` runs."""
    raise AssertionError("a custom operation runs through apply")


def overrides(cls: type[Function], method: str) -> bool:
    """Whether a class has a method of its own."""
    return getattr(cls, method) is not getattr(Function, method)


def backward_of(cls: type[Function]) -> Callable[..., Any]:
    """The user's backward, under either of its two names."""
    return cls.vjp if overrides(cls, "vjp") and not overrides(cls, "backward") else cls.backward


def _positional(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of forward in order, defaults and keywords included."""
    separate = overrides(cls, "setup_context")
    if not kwargs and not separate:
        return args
    bound = inspect.signature(cls.forward).bind(*(() if separate else (None,)), *args, **kwargs)
    bound.apply_defaults()
    return bound.args if separate else bound.args[1:]


# --- forward


def run_forward(cls: type[Function], args: tuple[Any, ...]) -> tuple[FunctionCtx | None, Any]:
    """Run forward, on other kinds of array by the class's static rules; no context: outputs are recorded already."""
    kinds = [v.array for v in args if isinstance(v, Tensor) and isinstance(v.array, Kind)]
    if kinds:
        answer: tuple[FunctionCtx | None, Any] | None = max(kinds, key=lambda kind: kind.level).custom(cls, args)
        if answer is not None:
            return answer
    return run_plainly(cls, args)


def admitted(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, those with history taken into the level of the others."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    if not modes.is_grad_enabled() or not any(isinstance(tensor.array, Kind) for tensor in tensors):
        return args
    taken = iter(careful.admitted(tensors, [current_array(tensor) for tensor in tensors]))
    return tuple(next(taken) if isinstance(value, Tensor) else value for value in args)


def run_plainly(cls: type[Function], args: tuple[Any, ...]) -> tuple[FunctionCtx, Any]:
    """Run forward unrecorded on whatever the arguments are, with a context of its own."""
    if not overrides(cls, "setup_context"):
        ctx = _new_context(cls, args)
        with modes.recording(False):
            return ctx, cls.forward(ctx, *args)
    with modes.recording(False):
        returned = cls.forward(*args)
    return context_of(cls, args, returned), returned


def context_of(cls: type[Function], args: tuple[Any, ...], returned: Any) -> FunctionCtx:
    """The context that setup_context makes of a call's arguments and outputs."""
    ctx = _new_context(cls, args)
    with modes.recording(False):
        cls.setup_context(ctx, args, returned)
    return ctx


def _new_context(cls: type[Function], args: tuple[Any, ...]) -> FunctionCtx:
    ctx = FunctionCtx()
    ctx._call = Call(cls, args)
    ctx.needs_input_grad = tuple(isinstance(value, Tensor) and current_node(value) is not None for value in args)
    return ctx


def joined(ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of forward, joined to the graph by one node."""
    call = ctx._call
    tensors = tuple(value for value in args if isinstance(value, Tensor))
    recording = modes.is_grad_enabled() and any(ctx.needs_input_grad)
    if call.dirty:
        _check_dirty(call, outputs, recording)
    node = _new_node(ctx, tensors, outputs) if recording else None
    results: list[Any] = []
    for i, value in enumerate(outputs):
        if isinstance(value, Tensor):
            value = _output(call, tensors, value, _node_of_output(call, node, i, value), results)
        results.append(value)
    call.to_save, call.dirty, call.fixed = (), (), ()
    mode = modes.MODE.get()
    if mode is not None:
        made = tuple(value for value in results if isinstance(value, Tensor))
        attend(call.function._row, tensors, (), made, mode)
    return tuple(results)


def _new_node(ctx: FunctionCtx, tensors: tuple[Tensor, ...], outputs: tuple[Any, ...]) -> Node:
    call = ctx._call
    cls = call.function
    for tensor in call.to_save:
        if tensor is not None:
            careful.rejoin(cls._row, tensor)
    call.homes = tuple(None if t is None else _home(t, outputs) for t in call.to_save)
    kept = tuple(None if t is None else current_array(t) for t in call.to_save)
    row = cls._row if kept else cls._row_without_memory
    parents = tuple(current_node(tensor) for tensor in tensors)
    shape = tuple(outputs[0].array.shape) if call.outputs is None else None
    node = careful.new_node(row, parents, ((kept, ctx),), shape, here(), cls._backward_cls)
    assert isinstance(node, BackwardNode)
    node.ctx = ctx
    call.node = weakref.ref(node)
    careful.watch_saved(node, modes.current())
    return node


def _home(tensor: Tensor, outputs: tuple[Any, ...]) -> Node | int | None:
    """Where the gradient of a saved tensor belongs: an output by its number, so that no cycle is made."""
    for i, output in enumerate(outputs):
        if output is tensor:
            return i
    return current_node(tensor)


def _node_of_output(call: Call, node: Node | None, index: int, value: Tensor) -> Node | None:
    """The node of one output, or None if it has no gradient."""
    if node is None or np.dtype(value.array.dtype).kind in "biu" or _among(value, call.fixed):
        return None
    if call.outputs is None:
        return node
    return pick(node, index, len(call.outputs), tuple(value.array.shape))


def _among(value: Any, tensors: Sequence[Any]) -> bool:
    return any(value is tensor for tensor in tensors)


CUSTOM_VIEW = (
    "it was made inside the custom function {} (or is an input returned as it was), "
    "whose backward an in-place operation would bypass"
)


def _output(call: Call, inputs: tuple[Tensor, ...], value: Tensor, node: Node | None, before: Sequence[Any]) -> Tensor:
    """One output with its history: the very tensor if it is new or was changed in place, else another of its memory."""
    if _among(value, call.dirty):
        if node is not None:
            inplace.rebase(value, node, wrap(value.array, node))
        return value
    forbids = "" if node is None else CUSTOM_VIEW.format(call.function.__name__)
    if _among(value, inputs) or _among(value, before) or value.node is not None:
        value = _alias(value, forbids)
    elif value.window is not None:
        value.window.forbids = forbids or value.window.forbids
    value.node = node
    if node is not None:
        value.cut = None
    elif _among(value, call.fixed):
        value.cut = Cut(f"{call.function.__name__} (mark_non_differentiable)", here())
    return value


def _alias(value: Tensor, forbids: str) -> Tensor:
    """A tensor of the same memory."""
    view = value.window
    alias = wrap(current_array(value), None, value.cut)
    alias.window = View(value, (), forbids) if view is None else View(view.base, view.steps, forbids or view.forbids)
    return alias


def _check_dirty(call: Call, outputs: tuple[Any, ...], recording: bool) -> None:
    """Refuse inputs changed in place whose history cannot follow; note the write of the others."""
    name = call.function.__name__
    for tensor in call.dirty:
        if not _among(tensor, outputs):
            raise RuntimeError(
                explain(
                    "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                    "that are modified inplace must all be outputs of the Function.",
                    str(here()),
                    f"{name}.forward marked an input of shape {tuple(tensor.array.shape)} as dirty",
                    "return the changed input itself",
                )
            )
        if recording:
            if isinstance(current_node(tensor), Leaf):
                raise RuntimeError(
                    explain(
                        f"{name}: a leaf Variable that requires grad has been used in an in-place operation.",
                        str(here()),
                        "its gradient would belong to a value that no longer exists",
                        "call it on a clone(), or under torch.no_grad()",
                    )
                )
            if tensor.window is not None:
                inplace.check_view(tensor, name)
        if isinstance(tensor.array, np.ndarray):
            aliasing.note_write(tensor.array, name)


# --- backward


def pull_back(g: Any, kept: tuple[Any, ...], ctx: FunctionCtx) -> list[Any]:
    """The pullback of every custom operation: run the user's backward and check what it returns."""
    call = ctx._call
    parts = list(g) if call.outputs is not None else [g]
    create_graph = any(isinstance(part, Tensor) for part in parts)
    node = call.node() if call.node is not None else None
    assert node is not None
    with modes.recording(create_graph), alive(call, _saved_tensors(call, node, kept)):
        returned = backward_of(call.function)(ctx, *_incoming(call, node, parts))
    grads = checked(call, returned)
    return grads if create_graph else [None if d is None else current_array(d) for d in grads]


# The call whose backward or jvp is running, and its saved tensors: at hand, and each thread's own.
LIVE: ContextVar[tuple[Call, tuple[Tensor | None, ...]] | None] = ContextVar("pellucid_live_call", default=None)


@contextmanager
def alive(call: Call, tensors: tuple[Tensor | None, ...]) -> Iterator[None]:
    """While the user's code runs, `ctx.saved_tensors` is at hand."""
    token = LIVE.set((call, tensors))
    try:
        yield
    finally:
        LIVE.reset(token)


def _saved_tensors(call: Call, node: Node, kept: Sequence[Any]) -> tuple[Tensor | None, ...]:
    """Saved arrays as tensors again, each joined to where it came from."""
    return tuple(
        None if array is None else wrap(array, _home_node(call, node, home, array))
        for array, home in zip(kept, call.homes, strict=True)
    )


def _home_node(call: Call, node: Node, home: Node | int | None, array: Any) -> Node | None:
    if not isinstance(home, int):
        return home
    if np.dtype(array.dtype).kind in "biu":
        return None
    return node if call.outputs is None else pick(node, home, len(call.outputs), tuple(array.shape))


def _incoming(call: Call, node: Node, parts: Sequence[Any]) -> list[Tensor | None]:
    """The gradients as backward takes them: Tensors, zeros for those that did not arrive."""
    results = call.outputs if call.outputs is not None else ((node.shape or (), np.dtype(np.float32)),)
    return [
        as_tensor(part) if part is not None else _zeros(result) if call.materialize else None
        for part, result in zip(parts, results, strict=True)
    ]


def _zeros(result: Result | None) -> Tensor | None:
    return None if result is None else wrap(np.zeros(result[0], plain(result[1])))


def checked(call: Call, returned: Any) -> list[Tensor | None]:
    """What backward returned for each tensor argument, if it fits the arguments of forward."""
    values = returned if isinstance(returned, tuple) else (returned,)
    count = len(call.inputs)
    surplus = values[count:]
    if len(values) < count or any(value is not None for value in surplus):
        raise RuntimeError(_wrong_count(call, len(values)))
    grads = []
    for i, (value, given) in enumerate(zip(values, call.inputs, strict=False)):
        if value is not None and not isinstance(value, Tensor):
            raise RuntimeError(_not_a_tensor(call, i, value))
        if given is not None:
            grads.append(None if value is None else _fitting(call, i, value, given))
        elif value is not None:
            raise RuntimeError(_for_no_tensor(call, i))
    return grads


def _fitting(call: Call, index: int, value: Tensor, given: Result) -> Tensor:
    """A gradient of the argument's shape, in the argument's dtype."""
    shape, dtype = given
    if tuple(value.array.shape) != shape:
        raise RuntimeError(_wrong_shape(call, index, tuple(value.array.shape), shape))
    if value.array.dtype == dtype:
        return value
    cast: Tensor = BOUND["cast"](value, plain(dtype), plain(value.array.dtype))
    return cast


# --- messages about a wrong backward


def _where(call: Call) -> str:
    node = call.node() if call.node is not None else None
    applied = "" if node is None else f"\n         applied at {node.place}"
    return f"{call.function.__qualname__}.backward, defined at {call.place}{applied}"


def _wrong_count(call: Call, count: int) -> str:
    return explain(
        f"function {call.function._row.grad_name} returned an incorrect number of gradients "
        f"(expected {len(call.inputs)}, got {count})",
        _where(call),
        "backward returns one gradient per argument of forward",
        "return None for every argument that is not a tensor or needs no gradient",
    )


def _not_a_tensor(call: Call, index: int, value: Any) -> str:
    return explain(
        f"expected Variable or None (got {type(value).__name__})",
        _where(call),
        f"{call.function._row.grad_name} returned it as the gradient of argument {index} of forward",
        "return a Tensor of the argument's shape, or None",
    )


def _for_no_tensor(call: Call, index: int) -> str:
    return explain(
        f"function {call.function._row.grad_name} returned a gradient different than None at position {index + 1}, "
        "but the corresponding forward input was not a Variable",
        _where(call),
        try_=f"return None at position {index + 1}",
    )


def _wrong_shape(call: Call, index: int, got: tuple[int, ...], shape: tuple[int, ...]) -> str:
    why, try_ = diagnosis(got, shape)
    return explain(
        f"Function {call.function._row.grad_name} returned an invalid gradient at index {index} - "
        f"got {list(got)} but expected shape compatible with {list(shape)}",
        _where(call),
        why,
        try_,
    )


def diagnosis(got: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, str]:
    """Why a gradient has another shape than its tensor, and the cure.

    >>> diagnosis((4, 3), (3,))[1]
    'sum over the broadcast dimensions: grad.sum(dim=0)'
    """
    extra = len(got) - len(shape)
    if extra >= 0 and all(n in (1, m) for n, m in zip(shape, got[extra:], strict=True)):
        why = f"forward broadcast this input from {shape} to {got}, and its backward does not sum over that"
        return why, f"sum over the broadcast dimensions: {_summing(got, shape, extra)}"
    if extra <= 0 and all(n in (1, m) for n, m in zip(got, shape[-extra:], strict=True)):
        return "the gradient was reduced, the input was not", f"spread it again: grad.expand({shape})"
    if sorted(got) == sorted(shape):
        return "the same sizes in another order", "transpose it back, e.g. grad.mT"
    if np.prod(got, dtype=np.int64) == np.prod(shape, dtype=np.int64):
        return "the same number of elements in another shape", f"grad.reshape({shape})"
    return "a gradient has the shape of the tensor it belongs to", f"compute a gradient of shape {shape}"


def _summing(got: tuple[int, ...], shape: tuple[int, ...], extra: int) -> str:
    leading = tuple(range(extra))
    kept = tuple(i for i, (n, m) in enumerate(zip(shape, got[extra:], strict=True)) if n == 1 != m)
    steps = [f".sum(dim={leading[0] if len(leading) == 1 else leading})"] if leading else []
    steps += [f".sum(dim={kept[0] if len(kept) == 1 else kept}, keepdim=True)"] if kept else []
    return "grad" + "".join(steps)


# --- once_differentiable


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that a backward is not itself differentiable: differentiating it is an error, not a wrong number.

    >>> import pellucid as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2
    """

    @wraps(backward)
    def once(ctx: FunctionCtx, *grads: Any) -> Any:
        with modes.recording(False):
            returned = backward(ctx, *grads)
        if not modes.is_grad_enabled():
            return returned
        parents = tuple(current_node(t) for t in (*grads, *ctx.saved_tensors) if isinstance(t, Tensor))
        if not any(parent is not None for parent in parents):
            return returned
        name = ctx._call.function.__name__
        if not isinstance(returned, tuple):
            return _refusing(returned, parents, name)
        return tuple(_refusing(value, parents, name) for value in returned)

    return once


def _refusing(value: Any, parents: tuple[Node | None, ...], name: str) -> Any:
    """The same value, joined to the graph by a node that refuses to be differentiated."""
    if not isinstance(value, Tensor):
        return value
    return wrap(value.array, careful.new_node(ONCE, parents, ((name,),), tuple(value.array.shape), here()))


def _refuse_twice(g: Any, name: str) -> Any:
    raise RuntimeError(
        explain(
            f"trying to differentiate twice a function that was marked with @once_differentiable: {name}",
            str(here()),
            "its backward was run without recording",
            "write the backward with tensor operations and leave @once_differentiable out",
        )
    )


ONCE = Primitive("once_differentiable", no_forward, (), None, pullback=_refuse_twice, grad_name="OnceDifferentiable")
