"""Jacobians and Hessians: unit vectors pulled back or pushed forward, all of them in one batch."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.axes import permute_row
from pellucid.ops.create import with_room
from pellucid.ops.shape import reshape_row
from pellucid.ops.slicing import slice_row
from pellucid.transforms.batch import vmap
from pellucid.transforms.forward import jvp
from pellucid.transforms.reverse import pullback_at
from pellucid.transforms.scope import chosen, replaced
from pellucid.transforms.tree import Structure, flatten


def basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The unit vectors of several tensors taken together: per tensor, one slice for every element of all of them.

    Inside of vmap each example has its own, so that what is made of them alone may be written example by example.

    >>> import pellucid as torch
    >>> [tuple(t.shape) for t in basis([torch.ones(2), torch.ones(1, 3)])]
    [(5, 2), (5, 1, 3)]
    """
    sizes = [int(np.prod(t.array.shape, dtype=np.int64)) for t in tensors]
    units, begin = [], 0
    for tensor, size in zip(tensors, sizes, strict=True):
        unit = np.zeros((sum(sizes), size), plain_dtype(tensor))
        unit[np.arange(begin, begin + size), np.arange(size)] = 1
        units.append(wrap(with_room(unit.reshape(sum(sizes), *tensor.array.shape), tensor)))
        begin += size
    return units


def plain_dtype(tensor: Tensor) -> np.dtype:
    """The NumPy dtype of a tensor whatever kind of array it holds."""
    return tensor.dtype.numpy  # type: ignore[attr-defined, no-any-return]


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The Jacobian of a function by reverse mode: one walk for all outputs together, or for `chunk_size` at a time.

    >>> import pellucid as torch
    >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(args, argnums)
        _refuse_complex("jacrev", args, "inputs")
        output, aux, pull_back = pullback_at(functools.partial(func, **kwargs), args, positions, has_aux)
        outputs, out_structure = flatten(output)
        _refuse_complex("jacrev", outputs, "outputs")
        units = out_structure.unflatten(basis(outputs))
        rows = vmap(lambda unit: pull_back(unit), chunk_size=chunk_size)(units)
        by_input, in_structure = flatten(rows)
        blocks = [split_rows(columns, outputs) for columns in by_input]
        found = _nested(list(zip(*blocks, strict=True)), out_structure, in_structure, argnums)
        return (found, aux) if has_aux else found

    return wrapped


def split_rows(jacobian: Tensor, outputs: Sequence[Tensor]) -> list[Tensor]:
    """The rows of a Jacobian, shared out among the outputs: each gets out.shape + in.shape."""
    blocks, begin = [], 0
    for out in outputs:
        shape = tuple(out.array.shape)
        end = begin + int(np.prod(shape, dtype=np.int64))
        rows = slice_row(jacobian, (slice(begin, end),))
        blocks.append(reshape_row(rows, (*shape, *jacobian.array.shape[1:])))
        begin = end
    return blocks


def _nested(blocks: Sequence[Sequence[Any]], out: Structure, inside: Structure, argnums: Any) -> Any:
    """Blocks by output and input, as a pytree of outputs whose leaves are pytrees of inputs."""
    trees = [inside.unflatten(list(row)) for row in blocks]
    return out.unflatten([tree[0] if isinstance(argnums, int) else tree for tree in trees])


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The Jacobian of a function by forward mode, for all inputs together.

    >>> import pellucid as torch
    >>> torch.func.jacfwd(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(args, argnums)
        _refuse_complex("jacfwd", args, "inputs")
        primals = tuple(args[i] for i in positions)
        leaves, in_structure = flatten(primals)
        beside: list[Any] = []

        def of_some(*values: Any) -> Any:
            return func(*replaced(args, positions, values), **kwargs)

        def push_forward(unit: Any) -> Any:
            _, tangent, *aux = jvp(of_some, primals, unit, has_aux=has_aux)
            beside[:], shape = flatten(aux)
            beside.append(shape)
            return tangent, [leaf for leaf in beside if isinstance(leaf, Tensor)]

        columns, noted = vmap(push_forward, randomness=randomness)(in_structure.unflatten(basis(leaves)))
        by_output, out_structure = flatten(columns)
        _refuse_complex("jacfwd", by_output, "outputs")
        blocks = [split_columns(block, leaves) for block in by_output]
        found = _nested(blocks, out_structure, in_structure, argnums)
        return (found, _any_one(beside, noted)) if has_aux else found

    return wrapped


def _any_one(beside: list[Any], noted: list[Tensor]) -> Any:
    """What a function returned beside its output: the same for every unit vector, so that of the first will do."""
    *leaves, structure = beside
    tensors = iter(noted)
    shown = [slice_row(next(tensors), (0,)) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    return structure.unflatten(shown)[0]


def split_columns(jacobian: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The columns of a Jacobian (in front, as vmap leaves them), shared out among the inputs: out.shape + in.shape."""
    rank = len(jacobian.array.shape)
    behind = permute_row(jacobian, (*range(1, rank), 0))
    blocks, begin = [], 0
    for x in inputs:
        shape = tuple(x.array.shape)
        end = begin + int(np.prod(shape, dtype=np.int64))
        columns = slice_row(behind, (*(slice(None),) * (rank - 1), slice(begin, end)))
        blocks.append(reshape_row(columns, (*behind.array.shape[:-1], *shape)))
        begin = end
    return blocks


def _refuse_complex(api: str, tree: Any, name: str) -> None:
    for leaf in flatten(tree)[0]:
        if isinstance(leaf, Tensor) and np.dtype(leaf.array.dtype).kind == "c":
            raise RuntimeError(
                f"{api}: Expected all {name} to be real but received complex tensor. "
                "Consider using torch.view_as_real to convert the tensor to a real one."
            )


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """The matrix of second derivatives: forward mode over reverse mode.

    >>> import pellucid as torch
    >>> torch.func.hessian(lambda x: (x * x * x).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
