"""What is said of a backward that returns the wrong number, kind or shape of gradients."""

import inspect
from itertools import combinations
from typing import Any

import numpy as np

from pellucid.core.backward import expands_to
from pellucid.core.function.context import Call
from pellucid.core.provenance import Place
from pellucid.errors import explain


def _where(call: Call) -> str:
    code = inspect.unwrap(call.function._own_backward()).__code__
    node = call.node() if call.node is not None else None
    applied = "" if node is None else f"\n         applied at {node.place}"
    return f"{call.function.__qualname__}.backward, defined at {Place(code, 0).text}{applied}"


def wrong_count(call: Call, count: int) -> str:
    """Backward returned too few or too many."""
    return explain(
        f"function {call.function._row.grad_name} returned an incorrect number of gradients "
        f"(expected {len(call.inputs)}, got {count})",
        _where(call),
        "backward returns one gradient per argument of forward",
        "return None for every argument that is not a tensor or needs no gradient",
    )


def not_a_tensor(call: Call, index: int, value: Any) -> str:
    """Backward returned something that is no tensor."""
    return explain(
        f"expected Variable or None (got {type(value).__name__})",
        _where(call),
        f"{call.function._row.grad_name} returned it as the gradient of argument {index} of forward",
        "return a Tensor of the argument's shape, or None",
    )


def for_no_tensor(call: Call, index: int) -> str:
    """Backward returned a gradient of an argument that is no tensor."""
    return explain(
        f"function {call.function._row.grad_name} returned a gradient different than None at position {index + 1}, "
        "but the corresponding forward input was not a Variable",
        _where(call),
        try_=f"return None at position {index + 1}",
    )


def wrong_shape(call: Call, index: int, got: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Backward returned a gradient of another shape than the argument's."""
    why, try_ = diagnosis(got, shape)
    return explain(
        f"Function {call.function._row.grad_name} returned an invalid gradient at index {index} - "
        f"got {list(got)} but expected shape compatible with {list(shape)}",
        _where(call),
        why,
        try_,
    )


def wrong_kind(call: Call, index: int, got: Any, dtype: Any) -> str:
    """Backward returned a complex gradient of a real argument, or integers for a complex one."""
    return explain(
        f"Function {call.function._row.grad_name} returned an invalid gradient at index {index} - got {got} but "
        f"expected a gradient of {dtype}",
        _where(call),
        "the gradient of a real tensor is real, and that of a complex tensor is no integer",
        "return grad.real" if got.is_complex else f"return grad.to({dtype})",
    )


def diagnosis(got: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, str]:
    """Why a gradient has another shape than its tensor, and the cure.

    >>> diagnosis((3, 4), (3,))[1]
    'sum over the broadcast dimensions: grad.sum(dim=1)'
    """
    extra = len(got) - len(shape)
    for axes in combinations(range(len(got)), extra) if 0 <= extra <= 3 else ():
        if expands_to(shape, tuple(m for i, m in enumerate(got) if i not in axes)):
            why = f"forward broadcast this input from {shape} to {got}, and its backward does not sum over that"
            return why, f"sum over the broadcast dimensions: {_summing(got, shape, axes)}"
    if extra <= 0 and all(n in (1, m) for n, m in zip(got, shape[-extra:], strict=True)):
        return "the gradient was reduced, the input was not", f"spread it again: grad.expand({shape})"
    if sorted(got) == sorted(shape):
        return "the same sizes in another order", "transpose it back, e.g. grad.mT"
    if np.prod(got, dtype=np.int64) == np.prod(shape, dtype=np.int64):
        return "the same number of elements in another shape", f"grad.reshape({shape})"
    return "a gradient has the shape of the tensor it belongs to", f"compute a gradient of shape {shape}"


def _summing(got: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> str:
    left = [m for i, m in enumerate(got) if i not in axes]
    kept = tuple(i for i, (n, m) in enumerate(zip(shape, left, strict=True)) if n == 1 != m)
    steps = [f".sum(dim={axes[0] if len(axes) == 1 else axes})"] if axes else []
    steps += [f".sum(dim={kept[0] if len(kept) == 1 else kept}, keepdim=True)"] if kept else []
    return "grad" + "".join(steps)
