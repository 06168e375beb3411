"""functorch: the transforms of `torch.func` and, from before `functional_call`, models taken apart into functions.

>>> import pellucid as torch
>>> from pellucid.functorch import grad, make_functional
>>> function, parameters = make_functional(torch.nn.Linear(2, 1))
>>> gradients = grad(lambda parameters, x: function(parameters, x).sum())(parameters, torch.ones(3, 2))
>>> gradients[1]
tensor([3.])
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pellucid as torch
from pellucid.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)
from pellucid.transforms.stateless import check_alike

__all__ = [
    "combine_state_for_ensemble", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "linearize", "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def make_functional_with_buffers(model: Any, disable_autograd_tracking: bool = False) -> tuple[Any, Any, Any]:
    """A function of (parameters, buffers, *inputs), and copies of the model's own parameters and buffers."""
    model = copy.deepcopy(model)
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    if disable_autograd_tracking:
        model.requires_grad_(False)

    def function(given: Sequence[Any], others: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        state = {**dict(zip(parameters, given, strict=True)), **dict(zip(buffers, others, strict=True))}
        return functional_call(model, state, args, kwargs)

    return function, tuple(parameters.values()), tuple(buffers.values())


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[Callable[..., Any], Any]:
    """A function of (parameters, *inputs), and copies of the parameters of a model without buffers."""
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    function, parameters, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda given, *args, **kwargs: function(given, (), *args, **kwargs), parameters


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[Any, Any, Any]:
    """One function for models of one make, and their parameters and buffers stacked: `vmap` runs them at once.

    >>> models = [torch.nn.Linear(2, 1) for _ in range(3)]
    >>> function, parameters, buffers = combine_state_for_ensemble(models)
    >>> vmap(function, in_dims=(0, 0, None))(parameters, buffers, torch.ones(4, 2)).shape
    torch.Size([3, 4, 1])
    """
    check_alike(models, "combine_state_for_ensemble")
    parts = [make_functional_with_buffers(model) for model in models]
    stacked = [
        tuple(torch.stack(same).detach() for same in zip(*(part[i] for part in parts), strict=True)) for i in (1, 2)
    ]
    return parts[0][0], *stacked
