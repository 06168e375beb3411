"""Reverse mode as functions of functions: grad, vjp, linearize. The function runs, then the tape is walked back."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.backward import gradients
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array, current_node
from pellucid.transforms.forward import zeros_like
from pellucid.transforms.scope import Scope, chosen, filled, recording, replaced, without_aux
from pellucid.transforms.tree import flatten


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function that returns one number, as a function.

    >>> import pellucid as torch
    >>> slope = torch.func.grad(torch.sin)
    >>> slope(torch.tensor(0.0)), torch.func.grad(slope)(torch.tensor(0.0))
    (tensor(1.), tensor(-0.))
    """
    with_value = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        grads, value = with_value(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Like `grad`, with the function's value beside the gradient.

    >>> import pellucid as torch
    >>> torch.func.grad_and_value(lambda x: x * x)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """
    api = "grad_and_value(f)(*args)"

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(args, argnums)
        scope = Scope()
        with recording():
            leaves, structure = flatten(tuple(args[i] for i in positions))
            inputs = [scope.argument(leaf) for leaf in leaves]
            arguments = replaced(args, positions, structure.unflatten(inputs))
            output, aux = without_aux(func(*arguments, **kwargs), has_aux, api)
            grads = filled(pulled_back(scope, [_scalar(output, api)], [None], inputs), inputs)
        found = structure.unflatten(grads)
        result = scope.release((found[0] if isinstance(argnums, int) else found, output, aux))
        return (result[0], result[1:]) if has_aux else result[:2]

    return wrapped


def _scalar(output: Any, api: str) -> Tensor:
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{api}: Expected f(*args) to return a Tensor, got {type(output)}")
    rank = len(output.array.shape)
    if rank:
        raise RuntimeError(
            f"{api}: Expected f(*args) to return a scalar Tensor, got tensor with {rank} dims. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    return output


def pulled_back(
    scope: Scope, outputs: Sequence[Tensor], seeds: Sequence[Any], inputs: Sequence[Tensor], retain: bool = False
) -> list[Tensor | None]:
    """The gradients of outputs with respect to a call's arguments, recorded if somebody outside may ask."""
    pairs = [(y, seed) for y, seed in zip(outputs, seeds, strict=True) if current_node(y) is not None]
    if not pairs:
        return [None] * len(inputs)
    live = [y for y, _ in pairs]
    given = [seed for _, seed in pairs]
    seen = scope.seen_outside([*live, *(seed for seed in given if seed is not None)])
    return gradients(live, given, inputs, retain_graph=seen or retain, create_graph=seen)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and the function that pulls a gradient of the value back to the inputs.

    >>> import pellucid as torch
    >>> value, pull_back = torch.func.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]))
    >>> pull_back(torch.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    output, aux, pull_back = pullback_at(func, primals, tuple(range(len(primals))), has_aux)
    return (output, pull_back, aux) if has_aux else (output, pull_back)


def pullback_at(
    func: Callable[..., Any], args: tuple[Any, ...], positions: tuple[int, ...], has_aux: bool
) -> tuple[Any, ...]:
    """The value of a function at some arguments, what it returned beside it, and the pull-back to the chosen ones."""
    scope = Scope()
    with recording():
        leaves, structure = flatten(tuple(args[i] for i in positions))
        inputs = [scope.argument(leaf) for leaf in leaves]
        arguments = replaced(args, positions, structure.unflatten(inputs))
        output, aux = without_aux(func(*arguments), has_aux, "vjp(f, *primals)")
        outputs, out_structure = flatten(output)
        _check_outputs(outputs, "vjp(f, *primals)")
        ends = [wrap(current_array(y), current_node(y)) for y in outputs]  # the user may write to what is handed out

    def pull_back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, given = flatten(cotangents)
        if given != out_structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {given}, primal output: {out_structure}"
            )
        inside = Scope()
        inside.own = scope.own
        inside.outer = modes.current() if scope.outer.grad else scope.outer
        grads = filled(pulled_back(inside, ends, seeds, inputs, retain=True), inputs)
        return structure.unflatten([inside.release(g) for g in grads])

    return scope.release(output), scope.release(aux), pull_back


def _check_outputs(outputs: Sequence[Any], api: str) -> None:
    if not outputs:
        raise RuntimeError(f"{api}: Expected f to be a function that has non-empty output (got output = {outputs})")
    for out in outputs:
        if not isinstance(out, Tensor):
            raise RuntimeError(f"{api}: expected f(*primals) to return only tensors, got unsupported type {type(out)}")
        if np.dtype(out.array.dtype).kind in "biu":
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{out.dtype}"  # type: ignore[attr-defined]
            )


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function at a point, and its derivative there as a function of tangents.

    The function runs once. Pulling back is linear in the gradient, so its own pull-back is the derivative: the second
    function walks a recorded graph and does not run `func` again.

    >>> import pellucid as torch
    >>> value, derivative = torch.func.linearize(lambda x: x * x, torch.tensor(3.0))
    >>> value, derivative(torch.tensor(1.0)), derivative(torch.tensor(2.0))
    (tensor(9.), tensor(6.), tensor(12.))
    """
    scope = Scope()
    leaves, structure = flatten(primals)
    with recording():
        inputs = [scope.argument(leaf) for leaf in leaves]
        output = func(*structure.unflatten(inputs))
        outputs, out_structure = flatten(output)
        _check_outputs(outputs, "linearize(f, *primals)")
        seeds = [scope.argument(zeros_like(wrap(y.array))) for y in outputs]
        pulled = _linear_pull_back(outputs, seeds, inputs)

    def derivative(*tangents: Any) -> Any:
        given, found = flatten(tangents)
        if found != structure:
            raise RuntimeError(
                "Expected the tangents to have the same pytree structure as the primals. "
                f"tangents: {found}, primals: {structure}"
            )
        for i, (tangent, primal) in enumerate(zip(given, leaves, strict=True)):
            _check_alike(i, tangent, primal)
        live = [(g, given[i]) for i, g in enumerate(pulled) if g is not None]
        pushed = pulled_back(scope, [g for g, _ in live], [v for _, v in live], seeds, retain=True)
        return scope.release(out_structure.unflatten(filled(pushed, seeds)))

    return scope.release(output), derivative


def _linear_pull_back(outputs: Sequence[Tensor], seeds: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Any]:
    """The gradients of the inputs, recorded as linear functions of the seeds."""
    live = [(y, seed) for y, seed in zip(outputs, seeds, strict=True) if current_node(y) is not None]
    if not live:
        return [None] * len(inputs)
    return gradients([y for y, _ in live], [seed for _, seed in live], inputs, True, True)


def _check_alike(index: int, tangent: Any, primal: Tensor) -> None:
    for what in ("shape", "dtype"):
        mine, expected = getattr(tangent, what), getattr(primal, what)
        if mine != expected:
            raise RuntimeError(
                f"tangent:{index} with {what} {mine} in flattened pytree doesn't match the {what} {expected} of the "
                "corresponding primal."
            )
