"""Forward mode: a Dual array is a value and the direction it moves in, carried side by side through every operation.

`Dual(x, t)` is x + t·ε with ε² = 0, so f(x + t·ε) = f(x) + f'(x)·t·ε: the second part is the Jacobian-vector product.
A Dual sits under Tensor like an ndarray and is recorded like one, so backward can walk through forward mode. The
gradient of a Dual is a Dual again, with its parts swapped: if G = (gradient of the tangent) + (gradient of the
primal)·ε, the ordinary rule f'(X)ᵀG of dual numbers gives both gradients at once,

    f'(x + t·ε)ᵀ (g₀ + g₁·ε) = Jᵀg₀ + (Jᵀg₁ + (∂J/∂x · t)ᵀ g₀)·ε.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from pellucid import printing
from pellucid.core import modes
from pellucid.core.aliasing import owner_of
from pellucid.core.careful import compute, seen_from
from pellucid.core.inplace import write_part
from pellucid.core.kinds import Kind, bare, foreign, layers, memory_of, moved, pattern, plain, with_room
from pellucid.core.primitive import BOUND, TABLE, Primitive, general, multilinear
from pellucid.core.provenance import here
from pellucid.core.record import bind
from pellucid.core.tensor import Freed, Leaf, Node, Tensor, View, wrap
from pellucid.core.views import Steps, current_array, current_node, looked_up, lost, way_in
from pellucid.errors import explain
from pellucid.ops.convert import clone_row
from pellucid.transforms.levels import (
    Roots,
    apart,
    belongs,
    check_room,
    entered_from_outside,
    layer,
    looks_at,
    next_level,
)
from pellucid.transforms.tree import flatten


class Dual(Kind):
    """An array with its tangent; a tangent of None is zero."""

    __slots__ = ("adjoint", "dtype", "level", "primal", "shape", "tangent")
    spreads = True

    def __init__(self, primal: Any, tangent: Any, level: int, adjoint: bool = False) -> None:
        self.primal = primal if isinstance(primal, Kind) else np.asanyarray(primal)
        self.tangent = tangent if tangent is None or isinstance(tangent, Kind) else np.asanyarray(tangent)
        self.level = level
        self.adjoint = adjoint
        self.shape = tuple(self.primal.shape)
        self.dtype = foreign(self.primal.dtype)

    def layers(self) -> dict[int, Kind]:
        return {**layers(self.primal), **layers(self.tangent), self.level: self}

    def admit(self, tensor: Tensor) -> Tensor:
        return as_dual(tensor, False, self.level)  # type: ignore[no-any-return]

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        from pellucid.transforms.custom import run_inside

        return run_inside(function, args, self)

    def memory(self) -> list[np.ndarray]:
        return [*memory_of(self.primal), *memory_of(self.tangent)]

    def read_by(self, g: Any, node: Node) -> list[np.ndarray]:
        """Without the tangent where the gradient of the primal is all that asks for it, and nobody asks for that."""
        part = layer(g, self.level) if isinstance(g, (Kind, Tensor)) else None
        moving = part is None or not part.adjoint or any(array.any() for array in memory_of(part.primal))
        return self.memory() if moving and primal_has_history(node, self.level) else memory_of(self.primal)

    def overwrite(self, value: Any, name: str, note: Callable[[np.ndarray, str], None]) -> None:
        check_room(value, self.level, name)
        write_part(self.primal, _part(value, self.level, "primal"), name, note)
        if self.tangent is not None and not stands_still(self.level):
            moving = value.tangent if belongs(value, self.level) else zeros_like(self.tangent)
            write_part(self.tangent, moving, name, note)

    def bare(self) -> Any:
        primal = bare(self.primal)
        return primal if self.tangent is None else Dual(primal, bare(self.tangent), self.level, self.adjoint)

    def with_room(self, value: Any) -> Any:
        primal, tangent = with_room(self.primal, _part(value, self.level, "primal")), self.tangent
        if belongs(value, self.level) and tangent is None:
            tangent = _tangent_like(self.primal, value.tangent)
        elif belongs(value, self.level):
            tangent = with_room(tangent, value.tangent)
        same = primal is self.primal and tangent is self.tangent
        return self if same else Dual(primal, tangent, self.level, self.adjoint)

    def around(self, array: Any) -> Any:
        return Dual(with_room(array, self.primal), _tangent_like(array, self.tangent), self.level)

    def ways_out(self) -> tuple[Callable[[Tensor], Tensor], ...]:
        return (lambda tensor: leave_primal(tensor, self.level)), (lambda tensor: leave_tangent(tensor, self.level))

    def back_in(self, way_out: Primitive, outside: Tensor, inside: Tensor) -> Tensor:
        if way_out is TABLE["primal_part"]:
            return make_dual(outside, tangent_part(inside, self.level), False, self.level)  # type: ignore[no-any-return]
        return make_dual(primal_part(inside, self.level), outside, False, self.level)  # type: ignore[no-any-return]

    def moved(self, levels: Mapping[int, int]) -> "Dual":
        tangent = None if self.tangent is None else moved(self.tangent, levels)
        return Dual(moved(self.primal, levels), tangent, levels.get(self.level, self.level), self.adjoint)

    def pattern(self) -> np.ndarray:
        return pattern(self.primal)

    def detached(self) -> Any:
        return self.primal.detached() if isinstance(self.primal, Kind) else self.primal

    def given(self, values: Any) -> Any:
        primal = self.primal.given(values) if isinstance(self.primal, Kind) else values
        return Dual(primal, self.tangent, self.level, self.adjoint)

    def concrete(self, what: str) -> np.ndarray:
        """Python code that looks at the values sees the primal ones, as in PyTorch."""
        return self.primal.concrete(what) if isinstance(self.primal, Kind) else self.primal

    def apply(self, p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run an operation on the primals, and push the tangents through its derivative."""
        level = self.level
        adjoint = any(belongs(array, level) and array.adjoint for array in arrays)
        primals = tuple(array.primal if belongs(array, level) else array for array in arrays)
        tangents = tuple(array.tangent if belongs(array, level) else None for array in arrays)
        y = compute(p, primals, params)
        if _is_constant(p) and adjoint and p.outputs == 1:  # zeros, which must leave the level as other gradients do
            return _dual(y, None, level, True)
        if _is_constant(p) or stands_still(level):
            return y
        if all(tangent is None for tangent in tangents):
            t = None
        else:
            t = pushed_forward(p)(tangents, y, primals, params)
        parts, slopes = ((y,), (t,)) if p.outputs == 1 else (y, (None,) * len(y) if t is None else t)
        if not (looks_at(p, parts, primals) and looks_at(p, slopes, tangents)):  # a view is one in both, or in neither
            parts = tuple(apart(part, *primals) for part in parts)
            slopes = tuple(apart(slope, *parts, *primals, *tangents) for slope in slopes)
        made = tuple(_dual(part, slope, level, adjoint) for part, slope in zip(parts, slopes, strict=True))
        return made[0] if p.outputs == 1 else made

    def __repr__(self) -> str:
        if isinstance(self.primal, Kind):
            return f"Dual(primal={self.primal!r}, tangent={self.tangent!r}, level={self.level})"
        tangent = zeros_like(self.primal) if self.tangent is None else self.tangent
        shown = repr(tangent) if isinstance(tangent, Kind) else printing.format_tensor(tangent, [])
        return printing.format_tensor(self.primal, [f"tangent={shown}"])


def _tangent_like(array: Any, tangent: Any) -> Any:
    """A tangent of zeros for an array, with room for another tangent: one for each example where that has one."""
    zeros = zeros_like(array)
    for level, kind in sorted(layers(tangent).items()):
        if kind.batched and level not in layers(zeros):
            zeros = kind.repeated(zeros)
    return with_room(zeros, tangent)


# The levels whose tangents stop where the user switches recording off, each with the switch that it began under.
RECORDED_ONLY: ContextVar[Mapping[int, Any]] = ContextVar("recorded_only", default=MappingProxyType({}))


def stands_still(level: int) -> bool:
    """Whether tangents of a level are not pushed forward now: inference_mode stops them, no_grad does not.

    A `jvp` that is called under inference_mode is meant to work; the older one of autograd.functional, which PyTorch
    computes from two backward passes, heeds no_grad.
    """
    mode = modes.MODE.get()
    if mode is None or mode.grad:
        return False
    if mode.inference and level not in modes.MOVED_ANYWAY.get():
        return True
    heeds = RECORDED_ONLY.get()
    return level in heeds and mode.region is not heeds[level]


@contextmanager
def including(variable: ContextVar[Any], more: Any) -> Iterator[None]:
    """Have more in a set or mapping for as long as a function runs."""
    token = variable.set(variable.get() | more)
    try:
        yield
    finally:
        variable.reset(token)


def heeding_no_grad(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function for `jvp` in which no_grad stops tangents as it stops gradients."""

    def heeding(*duals: Tensor) -> Any:
        with including(RECORDED_ONLY, {current_array(duals[0]).level: modes.current().region}):
            return func(*duals)

    return heeding


def _is_constant(p: Primitive) -> bool:
    return p.pullback is None and all(rule is None for rule in p.rules)


def _dual(y: Any, t: Any, level: int, adjoint: bool) -> Any:
    """One result with its tangent; results that are integers have none."""
    if np.dtype(y.dtype).kind in "biu":
        return y
    if t is not None and t.dtype != y.dtype:  # a rule has added a number of a wider dtype, which does not move
        t = BOUND["cast"](t, plain(y.dtype), plain(t.dtype))
    return Dual(y, t, level, adjoint)


def pushed_forward(p: Primitive) -> Callable[..., Any]:
    """The forward derivative of a row, or the error that it has none."""
    if p.jvp is None:
        raise NotImplementedError(
            explain(
                f"Trying to use forward AD with {p.name} that does not support it",
                str(here()),
                "its row in the table has no jvp",
                "use reverse mode instead, e.g. func.vjp, jacrev or autograd.grad",
            )
        )
    return p.jvp


def zeros_like(array: Any) -> Any:
    """Zeros of the same shape, dtype and kind."""
    return BOUND["zeros_like"](array)


# --- the ways in and out of a level, recorded so that backward finds its way through


def _part(array: Any, level: int, name: str) -> Any:
    if belongs(array, level):
        part = getattr(array, name)
        return zeros_like(array.primal) if part is None else part
    return array if name == "primal" else zeros_like(array)


def _take_tangent(g: Any, level: int) -> Any:
    """The gradient of an ordinary array that was taken into a level."""
    return tangent_part(g, level) if entered_from_outside(g, level) else g


def _take_primal(g: Any, level: int) -> Any:
    """The gradient of a tangent; a walk inside the level does not ask for it."""
    return primal_part(g, level) if entered_from_outside(g, level) else zeros_like(g)


def _make_dual_jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    a, b = (zeros_like(x) if t is None else t for t, x in zip(tangents, inputs, strict=True))
    return make_dual(a, b, *params)


# An array and its tangent become a Dual.
make_dual = bind(
    general(
        "make_dual",
        lambda a, b, adjoint, level: Dual(a, b, level, adjoint),
        lambda g, adjoint, level: _take_tangent(g, level),
        lambda g, adjoint, level: _take_primal(g, level),
        jvp=_make_dual_jvp,
        batch=lambda op, a, b, adjoint, level: op(a, b, adjoint, level),
        boundary="in",
        view=True,
    )
)

# A constant of the level: a Dual without tangent.
as_dual = bind(
    multilinear(
        "as_dual",
        lambda a, adjoint, level: a if belongs(a, level) else Dual(a, None, level, adjoint),
        lambda g, adjoint, level: _take_tangent(g, level),
        boundary="in",
        elementwise=True,
        view=True,
    )
)

primal_part = bind(
    multilinear(
        "primal_part",
        lambda a, level: _part(a, level, "primal"),
        lambda g, level: make_dual(zeros_like(g), g, True, level),
        boundary="out",
        elementwise=True,
    )
)

tangent_part = bind(
    multilinear(
        "tangent_part",
        lambda a, level: _part(a, level, "tangent"),
        lambda g, level: as_dual(g, True, level),
        boundary="out",
        elementwise=True,
    )
)


# --- jvp

JVP = "jvp(f, primals, tangents)"


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of a function, and how it moves when its inputs move along the tangents.

    >>> import pellucid as torch
    >>> value, slope = torch.func.jvp(lambda x: x * x, (torch.tensor(3.0),), (torch.tensor(1.0),))
    >>> value, slope
    (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    flat_primals, structure = flatten(primals)
    flat_tangents, tangent_structure = flatten(tangents)
    if structure != tangent_structure:
        raise RuntimeError(
            explain(
                f"{JVP}: Expected primals and tangents to have the same python structure",
                str(here()),
                f"primals are {structure}, tangents are {tangent_structure}",
                "give one tangent for every primal, in the same containers",
            )
        )
    _check_tensors(flat_primals, "primals")
    _check_tensors(flat_tangents, "tangents")
    level = next_level()
    duals = [enter(x, t, level) for x, t in zip(flat_primals, flat_tangents, strict=True)]
    with including(modes.MOVED_ANYWAY, {level}) if modes.current().inference else nullcontext():
        returned = func(*structure.unflatten(duals))
    still = Roots(lambda base: _still_part(base, level))
    moving = Roots(lambda base: clone_row(tangent_part(base, level), "K"))  # nodes that keep it keep one of their own
    aux: tuple[Any, ...] = ()
    if has_aux:
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise RuntimeError(f"{JVP}: output of function f should be a tuple: (output, aux) if has_aux is True")
        returned, aux_tree = returned
        leaves, aux_structure = flatten(aux_tree)
        aux = (aux_structure.unflatten([_primal_of(leaf, level, still) for leaf in leaves]),)
    outputs, out_structure = flatten(returned)
    if returned is None or not outputs:
        raise RuntimeError(f"{JVP}: Expected f to be a function that has non-empty output (got output = {returned})")
    values = [_primal_of(_checked_output(out), level, still) for out in outputs]
    slopes = [_tangent_of(out, level, strict, moving) for out in outputs]
    return out_structure.unflatten(values), out_structure.unflatten(slopes), *aux


def enter(primal: Tensor, tangent: Tensor, level: int) -> Tensor:
    """Make a dual tensor, after checking that the tangent fits."""
    if tuple(primal.array.shape) != tuple(tangent.array.shape):
        raise RuntimeError(
            explain(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(primal.array.shape)} while the given forward gradient is of "
                f"size {list(tangent.array.shape)}.",
                str(here()),
                "a tangent says how every element of the primal moves",
            )
        )
    if np.dtype(primal.array.dtype).kind not in "fcV":
        raise ValueError(f"Expected primal to be floating point or complex, but got: {primal.dtype}")  # type: ignore[attr-defined]
    moving: Any = tangent
    if primal.array.dtype != tangent.array.dtype:  # float32 beside float64: it moves as float64
        if np.dtype(tangent.array.dtype).kind == "c":
            raise RuntimeError(
                f"Expected tangent to have the dtype of its primal, {primal.dtype}, got {tangent.dtype}"  # type: ignore[attr-defined]
            )
        moving = moving.to(primal.dtype)  # type: ignore[attr-defined]
        moving.came_as = tangent  # what unpack_dual gives back
    alone = [kind for level, kind in sorted(layers(primal.array).items()) if kind.batched and not layer(tangent, level)]
    if alone:  # it needs room for one tangent per example
        moving = clone_row(reduce(lambda tensor, kind: kind.admit(tensor), alone, moving), "K")
    elif not layers(moving.array) and (lies := _lies(primal)) != _lies(moving):
        moving = clone_row(moving, "K")  # PyTorch goes on with a copy that lies in its memory as the primal does
        moving.array = _laid(moving.array, *lies) if lies else moving.array
    return make_dual(primal, moving, False, level)  # type: ignore[no-any-return]


def _lies(tensor: Tensor) -> tuple[int, int, tuple[int, ...]] | None:
    """How a tensor lies in its memory: how large that is, where the tensor begins there, its strides."""
    array = next(iter(memory_of(current_array(tensor))), None)
    if array is None:
        return None
    owner = owner_of(array)
    if any(stride < 0 for stride in array.strides):  # a result that NumPy has flipped: in PyTorch it is a copy
        return owner.nbytes, 0, np.empty(array.shape, array.dtype).strides
    return owner.nbytes, array.ctypes.data - owner.ctypes.data, array.strides


def _laid(array: np.ndarray, size: int, begin: int, strides: tuple[int, ...]) -> np.ndarray:
    """A copy of an array that lies in memory of its own in a given way; one that would overlap itself stays dense."""
    if 0 in strides:
        return array
    room: np.ndarray = np.ndarray(array.shape, array.dtype, np.zeros(size, np.uint8), begin, strides)
    room[...] = array
    return room


def _check_tensors(leaves: Sequence[Any], name: str) -> None:
    if not leaves:
        raise RuntimeError(f"{JVP}: Expected {name} to contain at least one Tensor.")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{JVP}: Expected {name} to only contain Tensors, got {type(leaf)}")


def _checked_output(out: Any) -> Tensor:
    if not isinstance(out, Tensor):
        raise RuntimeError(f"{JVP}: expected f(*args) to return only tensors, got unsupported type {type(out)}")
    return out


def _primal_of(out: Any, level: int, roots: Roots) -> Any:
    return leave_primal(out, level, roots) if isinstance(out, Tensor) and layer(out, level) is not None else out


def _tangent_of(out: Tensor, level: int, strict: bool, roots: Roots) -> Tensor:
    if layer(out, level) is None and strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    if layer(out, level) is None:
        return zeros_like(out)  # type: ignore[no-any-return]
    return leave_tangent(out, level, roots)


def leave_primal(tensor: Tensor, level: int, roots: Roots | None = None) -> Tensor:
    """The values of a tensor of a level: a view of what the tensor is a view of outside, else of the tensor itself.

    At the end of a call what it is a view of inside is one of the `roots` outside.
    """
    steps, at = way_in(tensor, level)
    if at is None:
        return _left(tensor, level, _still_part, TABLE["primal_part"], roots)
    assert tensor.window is not None
    view = tensor.window
    return _seen_outside(tensor, level, _still_part, view.base, (*steps[:at], *steps[at + 1 :]), view)


def leave_tangent(tensor: Tensor, level: int, roots: Roots | None = None) -> Tensor:
    """The tangent of a tensor of a level: the user's own or a view of it, else as in `leave_primal`."""
    steps, at = way_in(tensor, level)
    if at is None:
        return _left(tensor, level, tangent_part, TABLE["tangent_part"], roots)
    given, further = steps[at][1][0], steps[at + 1 :]
    if not isinstance(given, Tensor):  # a constant of the level
        return tangent_part(tensor, level)  # type: ignore[no-any-return]
    if not further:
        return getattr(given, "came_as", given)
    before = given.window
    start, so_far = (given, ()) if before is None else (before.base, before.steps)
    return _seen_outside(tensor, level, tangent_part, start, (*so_far, *further), before)


def _seen_outside(tensor: Tensor, level: int, part: Any, start: Tensor, steps: Steps, before: View | None) -> Tensor:
    """A part of a view from inside of a level at a tensor outside: the same view, from outside.

    `before` is a view from the same start; if that was given other memory since, it is not the one to look at.
    """
    view = tensor.window
    assert view is not None
    steps = steps or ALIAS
    own = view.forbids or (before is not None and lost(before))  # forbidden: it has another history
    out = part(tensor, level) if own else looked_up(start, steps)
    return seen_from(out, start, steps, view.forbids, before)


def primal_has_history(node: Node, level: int) -> bool:
    """Whether the primal of a result inside of a level depends on tensors that require grad, not its tangent alone."""
    found, stack = {node}, [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf) or type(node.saved) is Freed:
            return True
        if node.primitive.boundary == "in" and any(kept is not None and kept[-1] == level for kept in node.saved):
            if node.inputs[0] is not None:
                return True
            continue
        for parent in node.inputs:
            if parent is not None and parent not in found:
                found.add(parent)
                stack.append(parent)
    return False


def _still_part(tensor: Tensor, level: int) -> Tensor:
    """The primal of a tensor, without history where only the tangent has one."""
    node = current_node(tensor)
    alone = node is not None and not primal_has_history(node, level)
    return primal_part(wrap(current_array(tensor)) if alone else tensor, level)  # type: ignore[no-any-return]


def _left(tensor: Tensor, level: int, part: Any, row: Primitive, roots: Roots | None) -> Tensor:
    """A part of a tensor whose memory belongs to its level."""
    view = tensor.window
    base, steps, forbids = (tensor, (), "") if view is None else (view.base, view.steps, view.forbids)
    if roots is None:
        return seen_from(part(tensor, level), base, (*steps, (row, (level,))), forbids)
    return roots.of(base) if view is None else _seen_outside(tensor, level, part, roots.of(base), steps, None)


ALIAS = ((TABLE["alias"], ((...,),)),)
