"""Forward mode: a Dual array is a value and the direction it moves in, carried side by side through every operation.

`Dual(x, t)` is x + t·ε with ε² = 0, so f(x + t·ε) = f(x) + f'(x)·t·ε: the second part is the Jacobian-vector product.
A Dual sits under Tensor like an ndarray and is recorded like one, so backward can walk through forward mode. The
gradient of a Dual is a Dual again, with its parts swapped: if G = (gradient of the tangent) + (gradient of the
primal)·ε, the ordinary rule f'(X)ᵀG of dual numbers gives both gradients at once,

    f'(x + t·ε)ᵀ (g₀ + g₁·ε) = Jᵀg₀ + (Jᵀg₁ + (∂J/∂x · t)ᵀ g₀)·ε.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid import printing
from pellucid.core.careful import compute
from pellucid.core.kinds import Kind, foreign, layers, moved, pattern
from pellucid.core.primitive import BOUND, Primitive, general, multilinear
from pellucid.core.provenance import here
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.errors import explain
from pellucid.transforms.levels import (
    belongs,
    check_room,
    entered_from_outside,
    layer,
    next_level,
    owned,
    write_back,
)
from pellucid.transforms.tree import flatten


class Dual(Kind):
    """An array with its tangent; a tangent of None is zero."""

    __slots__ = ("adjoint", "dtype", "given", "level", "primal", "shape", "tangent")
    spreads = True

    def __init__(self, primal: Any, tangent: Any, level: int, adjoint: bool = False) -> None:
        self.primal = primal if isinstance(primal, Kind) else np.asanyarray(primal)
        self.tangent = tangent if tangent is None or isinstance(tangent, Kind) else np.asanyarray(tangent)
        self.level = level
        self.adjoint = adjoint
        self.given: Tensor | None = None  # the tensor that the user made the tangent of, to be given back
        self.shape = tuple(self.primal.shape)
        self.dtype = foreign(self.primal.dtype)

    def layers(self) -> dict[int, Kind]:
        return {**layers(self.primal), **layers(self.tangent), self.level: self}

    def admit(self, tensor: Tensor) -> Tensor:
        return as_dual(tensor, False, self.level)  # type: ignore[no-any-return]

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        from pellucid.transforms.custom import run_inside

        return run_inside(function, args, self)

    def overwrite(self, value: Any, name: str) -> Any:
        check_room(value, self.level, name)
        return value if layer(value, self.level) is not None else as_dual(owned(value), False, self.level)

    def moved(self, levels: Mapping[int, int]) -> "Dual":
        tangent = None if self.tangent is None else moved(self.tangent, levels)
        return Dual(moved(self.primal, levels), tangent, levels.get(self.level, self.level), self.adjoint)

    def pattern(self) -> np.ndarray:
        return pattern(self.primal)

    def detached(self) -> Any:
        return self.primal.detached() if isinstance(self.primal, Kind) else self.primal

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
        if _is_constant(p):
            return y
        if all(tangent is None for tangent in tangents):
            t = None
        else:
            t = pushed_forward(p)(tangents, y, primals, params)
        if p.outputs == 1:
            return _dual(y, t, level, adjoint)
        return tuple(_dual(part, None if t is None else t[i], level, adjoint) for i, part in enumerate(y))

    def __repr__(self) -> str:
        if isinstance(self.primal, Kind):
            return f"Dual(primal={self.primal!r}, tangent={self.tangent!r}, level={self.level})"
        tangent = zeros_like(self.primal) if self.tangent is None else self.tangent
        shown = repr(tangent) if isinstance(tangent, Kind) else printing.format_tensor(tangent, [])
        return printing.format_tensor(self.primal, [f"tangent={shown}"])


def _is_constant(p: Primitive) -> bool:
    return p.pullback is None and all(rule is None for rule in p.rules)


def _dual(y: Any, t: Any, level: int, adjoint: bool) -> Any:
    """One result with its tangent; results that are integers have none."""
    return y if np.dtype(y.dtype).kind in "biu" else Dual(y, t, level, adjoint)


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
        boundary=True,
    )
)

# A constant of the level: a Dual without tangent.
as_dual = bind(
    multilinear(
        "as_dual",
        lambda a, adjoint, level: a if belongs(a, level) else Dual(a, None, level, adjoint),
        lambda g, adjoint, level: _take_tangent(g, level),
        boundary=True,
        elementwise=True,
    )
)

primal_part = bind(
    multilinear(
        "primal_part",
        lambda a, level: _part(a, level, "primal"),
        lambda g, level: make_dual(zeros_like(g), g, True, level),
        boundary=True,
        elementwise=True,
    )
)

tangent_part = bind(
    multilinear(
        "tangent_part",
        lambda a, level: _part(a, level, "tangent"),
        lambda g, level: as_dual(g, True, level),
        boundary=True,
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
    before = [dual.array for dual in duals]
    returned = func(*structure.unflatten(duals))
    for primal, dual, array in zip(flat_primals, duals, before, strict=True):
        if dual.array is not array and dual.array.shape == array.shape:
            write_back(primal, _primal_of(dual, level))
    aux: tuple[Any, ...] = ()
    if has_aux:
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise RuntimeError(f"{JVP}: output of function f should be a tuple: (output, aux) if has_aux is True")
        returned, aux_tree = returned
        leaves, aux_structure = flatten(aux_tree)
        aux = (aux_structure.unflatten([_primal_of(leaf, level) for leaf in leaves]),)
    outputs, out_structure = flatten(returned)
    if returned is None or not outputs:
        raise RuntimeError(f"{JVP}: Expected f to be a function that has non-empty output (got output = {returned})")
    values = [_primal_of(_checked_output(out), level) for out in outputs]
    slopes = [_tangent_of(out, level, strict) for out in outputs]
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
    made: Tensor = make_dual(primal, moving, False, level)
    dual: Any = layer(made, level)
    dual.given = tangent
    return made


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


def _primal_of(out: Any, level: int) -> Any:
    return primal_part(out, level) if isinstance(out, Tensor) and layer(out, level) is not None else out


def _tangent_of(out: Tensor, level: int, strict: bool) -> Tensor:
    if layer(out, level) is None and strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    if layer(out, level) is None:
        return zeros_like(out)  # type: ignore[no-any-return]
    return tangent_part(out, level)  # type: ignore[no-any-return]
