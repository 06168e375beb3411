"""How many floating-point operations a row of the table takes, told by the shapes it ran on.

A multiplication with its addition counts two, as everywhere in the trade, and a bias nothing. Whatever is no product
counts one per element of the larger of its input and its output; what only moves or looks at elements is free.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from pellucid.core.primitive import Primitive
from pellucid.ops.einsum import contraction_order

__all__ = ["flops"]

Shape = tuple[int, ...]

# Rows that move elements, or make them out of nothing: no arithmetic.
FREE = frozenset((
    "alias", "block_diag", "bernoulli", "cast", "cat", "cauchy", "channel_shuffle", "clone", "constant_pad_nd",
    "diag_embed", "diagonal_scatter", "embedding", "exponential", "fill", "flip", "geometric", "identity_like",
    "im2col", "index", "index_copy", "index_fill", "index_put", "index_select", "into_batch", "log_normal",
    "masked_fill", "masked_fill_by_tensor", "masked_scatter", "masked_select", "nonzero", "normal", "one_hot",
    "out_of_batch", "pad_circular1d", "pad_circular2d", "pad_circular3d", "pixel_shuffle", "pixel_unshuffle",
    "put_together", "random", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "regroup", "repeat",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "roll", "rot90", "scatter", "scatter_value",
    "select_scatter", "shares", "slice_scatter", "split", "split_with_sizes", "stack", "take", "take_along",
    "tril", "triu", "unbind", "uniform", "unsafe_split", "unsafe_split_with_sizes", "zero", "zeros_like",
))  # fmt: skip


def flops(row: Primitive, inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
    """The floating-point operations of one call.

    >>> from pellucid.core.primitive import TABLE
    >>> flops(TABLE["mm"], [(2, 3), (3, 4)], (), [(2, 4)])
    48
    >>> flops(TABLE["exp"], [(2, 3)], (), [(2, 3)])
    6
    """
    if row.view or row.name in FREE:
        return 0
    if row.name in PRODUCTS and len(inputs) > 1:
        return 2 * PRODUCTS[row.name](inputs, params, outputs)
    return max((prod(shape) for shape in (*inputs, *outputs)), default=0)


def product(first: int) -> Callable[..., int]:
    """The multiplications of a matrix product whose left factor is the input of this number."""
    return lambda inputs, params, outputs: prod(outputs[0]) * inputs[first][-1]


def linear(inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
    return prod(outputs[0]) * inputs[1][-1]


def batches_added(inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
    return prod(inputs[1]) * inputs[2][-1]


def convolution(inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
    """Each element of the output meets one filter: its channels and its window."""
    return prod(outputs[0]) * prod(inputs[1][1:])


def transposed_convolution(inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
    """Each element of the input is spread by the filters of its channel."""
    return prod(inputs[0]) * prod(inputs[1][1:])


def attention(inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
    """Every query meets every key, and the weights of both every value."""
    query, key, value = inputs
    return prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def recurrent(states: int) -> Callable[..., int]:
    """Every step meets every weight; the weights stand after the input and the states."""

    def count(inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
        weights = [shape for shape in inputs[1 + states :] if len(shape) == 2]
        return inputs[0][0] * sum(prod(shape) for shape in weights)

    return count


def einsum(inputs: Sequence[Shape], params: tuple[Any, ...], outputs: Sequence[Shape]) -> int:
    """Operands are contracted two at a time: each pair costs the product of all sizes that occur in it."""
    terms, output = params
    sizes = {letter: n for term, shape in zip(terms, inputs) for letter, n in zip(term, shape)}
    left, total = [set(term) for term in terms], 0
    for places in contraction_order(tuple(inputs), terms, output) if len(inputs) > 2 else [(1, 0)]:
        letters = set().union(*(left.pop(place) for place in places))
        total += prod(sizes[letter] for letter in letters) if len(places) > 1 else 0
        left.append(letters & set(output).union(*left))
    return total


PRODUCTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("mm", "matmul", "bmm", "mv", "dot", "vdot"), product(0)),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), product(1)),
    **dict.fromkeys(("linear", "linear_with_bias"), linear),
    "attention": attention,
    "addr": lambda inputs, params, outputs: prod(outputs[0]),
    "addbmm": batches_added,
    "einsum": einsum,
    **dict.fromkeys(("convolution", "convolution_bias"), convolution),
    **dict.fromkeys(("convolution_transposed", "convolution_transposed_bias"), transposed_convolution),
    "elman": recurrent(1),
    "gru": recurrent(1),
    "lstm": recurrent(2),
}
