"""Custom functions inside jvp and vmap: their own static rules, or rules derived from what they have.

Inside vmap a function without a `vmap` of its own runs its forward on the Batched arrays, operation by operation.
Inside jvp a function without a `jvp` of its own gets it from its backward: v -> Jᵀv is linear, and the derivative of
⟨Jᵀv, t⟩ with respect to v is J·t.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.core import backward, careful, function, inplace, modes
from pellucid.core.function import Function, FunctionCtx
from pellucid.core.kinds import plain
from pellucid.core.primitive import BOUND, Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, pick, wrap
from pellucid.core.views import current_node
from pellucid.errors import explain
from pellucid.transforms.batch import Batched, out_of_batch
from pellucid.transforms.forward import Dual
from pellucid.transforms.levels import belongs
from pellucid.transforms.tree import map_tree


class VmapInfo(NamedTuple):
    """What a static `vmap` learns about the batch."""

    batch_size: int
    randomness: str


def run_inside(cls: type[Function], args: tuple[Any, ...], kind: Any) -> tuple[FunctionCtx | None, Any] | None:
    """Run a custom function on arrays of a kind; None: the kind has no say, forward runs as it is."""
    if isinstance(kind, Dual):
        return push_forward(cls, args, kind.level)
    if isinstance(kind, Batched) and cls._overrides("vmap"):
        return None, run_batched(cls, args, kind)
    return None


# --- jvp


def push_forward(cls: type[Function], args: tuple[Any, ...], level: int) -> tuple[FunctionCtx, Any]:
    """The outputs with the tangents that the function itself defines."""
    primals = tuple(_own_memory(_part(value, level, "primal")) for value in args)
    inner, values = function.run_forward(cls, primals)
    if inner is None:
        inner = function.context_of(cls, primals, values)
    tangents = [_own_memory(_part(value, level, "tangent")) for value in args]
    outputs = values if isinstance(values, tuple) else (values,)
    changed = {i: p for i, p in enumerate(primals) if any(p is tensor for tensor in inner._call.dirty)}
    slopes = _slopes(cls, inner, args, tangents, outputs, changed)
    duals = tuple(
        wrap(Dual(y.array, None if t is None else t.array, level)) if _moves(y, inner) else y
        for y, t in zip(outputs, slopes, strict=True)
    )
    ctx = _context_of_duals(cls, args, duals, changed) if modes.is_grad_enabled() else inner
    duals = _changed_inputs(ctx, args, outputs, duals, changed)
    return ctx, duals if isinstance(values, tuple) else duals[0]


def _own_memory(part: Any) -> Any:
    """A primal or tangent whose memory a forward or jvp may write to: a Dual is immutable, and others may share it."""
    return wrap(inplace.copied(part.array)) if isinstance(part, Tensor) else part


def _changed_inputs(
    ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...], duals: tuple[Any, ...], changed: dict[int, Any]
) -> tuple[Any, ...]:
    """The outputs, among them the very arguments that forward changed in place, now that they have their new values."""
    results = list(duals)
    for i, primal in changed.items():
        for k, output in enumerate(outputs):
            if output is primal:
                inplace.write(args[i], duals[k].array, ctx._call.function.__name__)
                results[k] = args[i]
    ctx._call.dirty = tuple(args[i] for i in changed)
    return tuple(results)


def _part(value: Any, level: int, name: str) -> Any:
    """The primal or the tangent of an argument; other arguments as they are (tangent: None)."""
    if isinstance(value, Tensor) and belongs(value.array, level):
        part = getattr(value.array, name)
        return None if part is None else wrap(part)
    return wrap(value.array) if name == "primal" and isinstance(value, Tensor) else value if name == "primal" else None


def _moves(output: Any, ctx: FunctionCtx) -> bool:
    fixed = any(output is tensor for tensor in ctx._call.fixed)
    return isinstance(output, Tensor) and np.dtype(output.array.dtype).kind not in "biu" and not fixed


def _context_of_duals(
    cls: type[Function], args: tuple[Any, ...], duals: tuple[Any, ...], changed: dict[int, Any]
) -> FunctionCtx:
    """For backward through forward mode: the context of a run on the duals, so that what it saved moves too.

    An argument that forward changes in place is lent another tensor for this run: its own is written to once.
    """
    lent = tuple(wrap(value.array, current_node(value)) if i in changed else value for i, value in enumerate(args))
    ctx, returned = function.run_plainly(cls, lent)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    call = ctx._call

    def replaced(tensors: Sequence[Any]) -> tuple[Any, ...]:
        own = [*((args[i], lent[i]) for i in changed), *zip(duals, outputs, strict=True)]
        return tuple(next((mine for mine, theirs in own if theirs is t), t) for t in tensors)

    call.to_save, call.fixed = replaced(call.to_save), replaced(call.fixed)
    return ctx


def _slopes(
    cls: type[Function],
    ctx: FunctionCtx,
    args: tuple[Any, ...],
    tangents: list[Any],
    outputs: tuple[Any, ...],
    changed: dict[int, Any],
) -> Sequence[Any]:
    """The tangents of the outputs: by the static jvp, or derived from backward."""
    call = ctx._call
    if not cls._overrides("jvp"):
        with function.alive(call, call.to_save), modes.switched(grad=True):
            return _derived(cls, ctx, tangents, outputs)
    shown = [
        _zeros_for(value) if t is None and call.materialize else t for value, t in zip(args, tangents, strict=True)
    ]
    with function.alive(call, call.to_save_forward), modes.switched(grad=False):
        returned = cls.jvp(ctx, *shown)
    slopes = returned if isinstance(returned, tuple) else (returned,)
    _check_slopes(cls, ctx, outputs, slopes)
    for i, primal in changed.items():
        if any(y is primal and t is not shown[i] for y, t in zip(outputs, slopes, strict=True)):
            raise RuntimeError(
                explain(
                    f"{cls.__name__} changes an input in place, so its jvp function must modify the corresponding "
                    "gradient inplace too and return it",
                    str(here()),
                    f"the jvp returned another tensor than the tangent of argument {i}",
                )
            )
    return slopes


def _check_slopes(cls: type[Function], ctx: FunctionCtx, outputs: tuple[Any, ...], slopes: tuple[Any, ...]) -> None:
    """Refuse what jvp returned if it does not fit the outputs of forward."""
    if len(slopes) != len(outputs):
        raise RuntimeError(
            explain(
                f"Function {cls.__name__} returned {len(slopes)} gradients from jvp, expected {len(outputs)}",
                str(here()),
                "jvp returns one tangent per output of forward",
                "return None for an output that is no tensor or does not move",
            )
        )
    for k, (y, t) in enumerate(zip(outputs, slopes, strict=True)):
        if t is not None and not _moves(y, ctx):
            raise RuntimeError(
                explain(
                    f"the jvp of {cls.__name__} returned a tangent of output {k}, which is not differentiable",
                    str(here()),
                    try_="You should return None at that position instead",
                )
            )
        if t is not None and np.dtype(t.array.dtype).kind in ("biu" if np.dtype(y.array.dtype).kind == "c" else "biuc"):
            raise RuntimeError(
                explain(
                    f"the jvp of {cls.__name__} returned a tangent of {t.dtype} for output {k}, which is {y.dtype}",
                    str(here()),
                )
            )
        if t is not None and tuple(t.array.shape) != tuple(y.array.shape):
            raise RuntimeError(
                explain(
                    f"the jvp of {cls.__name__} returned a tangent of shape {tuple(t.array.shape)} for output {k}, "
                    f"expected the output's shape {tuple(y.array.shape)}",
                    str(here()),
                )
            )


def _derived(cls: type[Function], ctx: FunctionCtx, tangents: list[Any], outputs: tuple[Any, ...]) -> list[Any]:
    """J·t as the derivative of ⟨Jᵀv, t⟩ with respect to v."""
    directions = [_leaf(_zeros_for(y)) if _moves(y, ctx) else None for y in outputs]
    needs = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(t is not None for t in tangents)
    try:
        returned = cls._run_backward(ctx, directions)
    except RuntimeError as problem:  # such as numpy() of what requires grad here, though not in an ordinary backward
        raise _no_jvp(cls) from problem
    else:
        pulled = function.fitted(ctx, returned)
    finally:
        ctx.needs_input_grad = needs
    pairs = [(d, t) for d, t in zip(pulled, tangents, strict=True) if d is not None and t is not None]
    if pairs and all(current_node(d) is None for d, _ in pairs):
        raise _no_jvp(cls)
    moving = [(d, t) for d, t in pairs if current_node(d) is not None]
    wanted = [v for v in directions if v is not None]
    if not moving:
        return [None] * len(outputs)
    found = iter(backward.gradients([d for d, _ in moving], [t for _, t in moving], wanted, False, False))
    return [None if v is None else next(found) for v in directions]


def _no_jvp(cls: type[Function]) -> Exception:
    return NotImplementedError(
        explain(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD.",
            str(here()),
            f"the backward of {cls.__name__} is not made of tensor operations, so no jvp can be derived from it",
            "add a static jvp(ctx, *tangents), or use reverse mode",
        )
    )


def _zeros_for(value: Any) -> Tensor | None:
    """Zeros like a tensor that can move; None for anything else."""
    if not isinstance(value, Tensor) or np.dtype(value.array.dtype).kind in "biu":
        return None
    return wrap(np.zeros(value.array.shape, plain(value.array.dtype)))


# --- vmap


def run_batched(cls: type[Function], args: tuple[Any, ...], kind: Batched) -> Any:
    """The outputs by the function's own vmap, recorded as one node that runs it again for backward."""
    tensors = tuple(value for value in args if isinstance(value, Tensor))
    lower = _unstacked_all(args, kind.level)
    with modes.switched(grad=False):
        returned, axes = _called(cls, args, lower, kind)
    several = isinstance(returned, tuple)
    outputs = returned if several else (returned,)
    arrays = [_stacked(y, axis, kind.level) for y, axis in zip(outputs, axes, strict=True)]
    node = None
    if modes.is_grad_enabled() and any(current_node(t) is not None for t in tensors):
        shape = None if several else tuple(arrays[0].shape)
        saved = (tuple(t.array for t in tensors), cls, args, kind)
        node = careful.new_node(ROW, tuple(map(current_node, tensors)), (saved,), shape, here())
    results = tuple(
        wrap(a, None if node is None else node if not several else pick(node, i, len(arrays), tuple(a.shape)))
        for i, a in enumerate(arrays)
    )
    return results if several else results[0]


def _unstacked_all(tree: Any, level: int) -> Any:
    """The arguments, also those in lists and dictionaries, as the static `vmap` takes them: with their batch axes."""
    return map_tree(lambda value: _unstacked(value, level), tree)


def _unstacked(value: Any, level: int) -> Any:
    if not isinstance(value, Tensor):
        return value
    return wrap(value.array.value if belongs(value.array, level) else value.array)


def _stacked(output: Tensor, axis: int | None, level: int) -> Any:
    if axis is None:
        return output.array
    order = (axis, *(i for i in range(len(output.array.shape)) if i != axis))
    return Batched(output.array if axis == 0 else BOUND["permute"](output.array, order), level)


def _called(
    cls: type[Function], args: tuple[Any, ...], lower: tuple[Any, ...], kind: Batched
) -> tuple[Any, tuple[int | None, ...]]:
    """Call the static vmap: (outputs, one batch axis per output)."""
    in_dims = map_tree(lambda v: 0 if isinstance(v, Tensor) and belongs(v.array, kind.level) else None, args)
    answer = cls.vmap(VmapInfo(kind.batch_size, "error"), in_dims, *lower)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise RuntimeError(
            explain(
                f"Expected the vmap staticmethod of {cls.__name__} to have two returns, an output and out_dims",
                str(here()),
                try_="return outputs, out_dims",
            )
        )
    returned, out_dims = answer
    several = isinstance(returned, tuple)
    fits = (
        len(out_dims) == len(returned) if several and isinstance(out_dims, tuple) else not isinstance(out_dims, tuple)
    )
    if not fits:
        raise RuntimeError(
            explain(
                f"the vmap staticmethod of {cls.__name__} returned an incompatible (output, out_dims) tuple",
                str(here()),
                f"out_dims is {out_dims} for " + (f"{len(returned)} outputs" if several else "one output"),
                "return one int or None per output",
            )
        )
    return returned, out_dims if isinstance(out_dims, tuple) else (out_dims,) * (len(returned) if several else 1)


def _pull_back(g: Any, inputs: tuple[Any, ...], cls: type[Function], args: tuple[Any, ...], kind: Batched) -> list[Any]:
    """Run the static vmap again, recorded, and walk back through it."""
    parts = list(g) if isinstance(g, list) else [g]
    if any(isinstance(part, Tensor) for part in parts):
        raise NotImplementedError(
            explain(
                f"a second derivative through the vmap staticmethod of {cls.__name__} is not offered",
                str(here()),
                try_="leave the staticmethod out: forward then runs batched by itself, to any order",
            )
        )
    given = iter(inputs)
    lower = [
        _leaf(_unstacked(wrap(next(given)), kind.level)) if isinstance(v, Tensor) else _unstacked_all(v, kind.level)
        for v in args
    ]
    with modes.switched(grad=True):
        returned, axes = _called(cls, args, tuple(lower), kind)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    rows = zip(outputs, axes, parts, strict=True)
    roots = [(y, _seed(part, axis, kind)) for y, axis, part in rows if part is not None]
    adjoint = any(belongs(part, kind.level) and part.adjoint for part in parts)
    leaves = [value for value in lower if isinstance(value, Tensor)]
    found = backward.gradients([y for y, _ in roots], [wrap(s) for _, s in roots], leaves, False, False)
    tensors = [value for value in args if isinstance(value, Tensor)]
    return [
        None if d is None else Batched(d.array, kind.level, adjoint) if belongs(value.array, kind.level) else d.array
        for d, value in zip(found, tensors, strict=True)
    ]


def _leaf(tensor: Any) -> Tensor:
    """A tensor that requires grad, if its dtype can."""
    integer = np.dtype(tensor.array.dtype).kind in "biu"
    return tensor if integer else tensor.requires_grad_()  # type: ignore[attr-defined, no-any-return]


def _seed(part: Any, axis: int | None, kind: Batched) -> Any:
    """A gradient with its batch axis where the output has it."""
    return part if axis is None else out_of_batch(part, axis, kind.batch_size, kind.level)


ROW = Primitive(
    "custom_vmap", function.no_forward, (), None, pullback=_pull_back, keeps=True, grad_name="CustomVmapBackward"
)
