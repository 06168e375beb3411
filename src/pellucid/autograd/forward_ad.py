"""Forward mode by hand: make dual tensors, compute with them, take their tangents.

>>> import pellucid as torch
>>> from pellucid.autograd import forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0))
...     forward_ad.unpack_dual(x * x)
UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain
from pellucid.transforms import forward
from pellucid.transforms.levels import layer, next_level

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

# The levels entered and not yet left, outermost first; PyTorch numbers them from 0.
LEVELS: ContextVar[tuple[int, ...]] = ContextVar("pellucid_dual_levels", default=())


class UnpackedDualTensor(NamedTuple):
    """The two parts of a dual tensor; the tangent is None for a tensor that does not move.

    >>> import pellucid as torch
    >>> from pellucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     moving = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     parts = forward_ad.unpack_dual(moving * moving)
    >>> parts.primal, parts.tangent
    (tensor(9.), tensor(6.))
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin a level of forward mode and return its number.

    >>> import pellucid as torch
    >>> from pellucid.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> x = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    >>> forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
    >>> forward_ad.exit_dual_level(level=level)
    """
    LEVELS.set((*LEVELS.get(), next_level()))
    return len(LEVELS.get()) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level entered last: tangents made in it can no longer be unpacked.

    >>> import pellucid as torch
    >>> from pellucid.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> x = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    >>> forward_ad.exit_dual_level(level=level)
    >>> forward_ad.unpack_dual(x).tangent is None
    True
    """
    levels = LEVELS.get()
    if not levels or (level is not None and level != len(levels) - 1):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    LEVELS.set(levels[:-1])


class dual_level:
    """A level of forward mode for the length of a `with` block (or of a decorated function). Levels may be nested.

    >>> import pellucid as torch
    >>> from pellucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    ...     print(forward_ad.unpack_dual(x.exp()).tangent)  # exp is its own derivative
    tensor(7.3891)
    """

    def __enter__(self) -> int:
        self.number = enter_dual_level()
        return self.number

    def __exit__(self, *error: object) -> None:
        exit_dual_level(level=self.number)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return function(*args, **kwargs)

        return wrapped


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor together with the direction it moves in.

    >>> import pellucid as torch
    >>> from pellucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))  # x[0] moves
    ...     print(forward_ad.unpack_dual(x * x).tangent)
    tensor([2., 0.])
    """
    levels = LEVELS.get()
    if not levels:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if np.dtype(value.array.dtype).kind in "biu":
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")  # type: ignore[attr-defined]
    inside = levels[-1 if level is None else level]
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if layer(value, inside) is not None:
            raise RuntimeError(
                explain(
                    f"Making a dual Tensor of a {name} that already has a forward gradient at the same level is not "
                    "supported",
                    str(here()),
                    try_="take its parts first: unpack_dual(x).primal",
                )
            )
    return forward.enter(tensor, tangent, inside)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a dual tensor, both differentiable backward.

    >>> import pellucid as torch
    >>> from pellucid.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     value, tangent = forward_ad.unpack_dual(x**2)
    >>> value, tangent
    (tensor(9.), tensor(6.))
    """
    levels = LEVELS.get()
    if not levels:
        return UnpackedDualTensor(tensor, None)
    inside = levels[-1 if level is None else level]
    dual = layer(tensor, inside)
    if dual is None:
        return UnpackedDualTensor(tensor, None)
    tangent = None if dual.tangent is None else forward.leave_tangent(tensor, inside)
    return UnpackedDualTensor(forward.leave_primal(tensor, inside), tangent)
