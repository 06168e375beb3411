"""NumPy's functions on tensors: where `np.concatenate([x, y])` finds what it means.

The functions stand in four files by topic: `reductions`, `shapes`, `elements` and `products`, each under NumPy's name
and with NumPy's parameters. A few that only look at values or write them out (`np.save`, `np.array2string`) get the
values as an ndarray, which a tensor that requires grad refuses.
"""

import inspect
from typing import Any

import numpy as np

from pellucid.core.attributes import attribute
from pellucid.core.tensor import Tensor
from pellucid.interop import elements, products, reductions, shapes
from pellucid.interop.vocabulary import NAMED, Function, unsupported

TOPICS = (reductions, shapes, elements, products)

FOUND: dict[Function, Function | None] = {}  # NumPy's functions met so far, and what stands for them
LOOKING = frozenset(
    (
        np.array2string, np.array_repr, np.array_str, np.may_share_memory, np.save, np.savetxt, np.savez,
        np.savez_compressed, np.shares_memory,
    )
)  # fmt: skip


@attribute
def __array_function__(self: Tensor, function: Function, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What NumPy asks a tensor when one of its functions meets one.

    >>> import numpy as np, pellucid as torch
    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> np.concatenate([x, np.zeros((1, 2), np.float32)], axis=1)
    tensor([[1., 2., 0., 0.]], grad_fn=<CatBackward0>)
    >>> np.mean(x, axis=1, keepdims=True)
    tensor([[1.5000]], grad_fn=<MeanBackward1>)
    """
    if not all(issubclass(kind, (Tensor, np.memmap)) or kind is np.ndarray for kind in types):
        return NotImplemented
    if function in LOOKING:
        return function(*_as_arrays(args), **_as_arrays(kwargs))
    if function not in FOUND:  # by name, because NumPy has some functions twice: with `like=` and without
        FOUND[function] = NAMED.get(name_of(function).removeprefix("np."))
    counterpart = FOUND[function]
    if counterpart is None:
        raise unsupported(f"{name_of(function)} is not there for tensors")
    given = {name: value for name, value in kwargs.items() if value is not np._NoValue}  # type: ignore[attr-defined]
    try:
        return counterpart(*args, **given)
    except TypeError as error:
        raise _explained(function, counterpart, args, given, error) from error


def _as_arrays(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.numpy()
    if isinstance(tree, dict):
        return {key: _as_arrays(value) for key, value in tree.items()}
    return type(tree)(map(_as_arrays, tree)) if type(tree) in (list, tuple) else tree


def _explained(function: Function, counterpart: Function, args: Any, kwargs: Any, error: TypeError) -> TypeError:
    """An argument that only NumPy's function has, said in our words; any other error as it is."""
    try:
        inspect.signature(counterpart).bind(*args, **kwargs)
    except TypeError as mismatch:
        return unsupported(f"{name_of(function)} is not there for tensors with these arguments: {mismatch}")
    return error


def name_of(function: Function) -> str:
    """How users write a function of NumPy.

    >>> name_of(np.linalg.inv)
    'np.linalg.inv'
    """
    return f"{function.__module__}.{function.__name__}".replace("numpy.", "np.", 1)
