"""Weight normalisation: a weight as a direction and a length, one length per slice along a dimension."""

from typing import Any

from pellucid.core.tensor import bearing
from pellucid.ops.convert import as_type
from pellucid.ops.linalg.norms import vector_norm
from pellucid.ops.nn.normalise import wide_dtype
from pellucid.ops.operation import COMPOSED, call, operation


@operation(
    samples=lambda draw: [
        call(draw(3, 2)), call(draw(3, 2), 2, 1), call(draw(2, 3, 2), 2, -1), call(draw(4), 2, 0),
        call(draw(2, 3, 2), 1, 0), call(draw(2, 3, 2), 2, 1),
    ],
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm of each slice along one dimension, or with dim -1 of everything; shaped to broadcast against it.

    >>> import pellucid as torch
    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return vector_norm(v, pow)
    if v.ndim == 1:  # each slice is one number
        return v.abs()
    return vector_norm(v, pow, [i for i in range(v.ndim) if i != dim], keepdim=True)


@operation(
    samples=lambda draw: [
        call(draw(3, 2), draw(3, 1)), call(draw(3, 2), draw(1, 2), 1), call(draw(2, 3, 2), draw(2, 1, 1), 0),
        call(draw(2, 3, 2), draw(1, 1, 2), 2),
    ],
    methods=(),
    unclaimed={**COMPOSED, "second_order_equals_torch": "PyTorch's own gradgradcheck of it fails; differences agree"},
)  # fmt: skip
def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """The weight of direction v and length g.

    >>> import pellucid as torch
    >>> torch._weight_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]]))
    tensor([[6., 8.]])
    """
    wide, length = as_type(v, wide_dtype(v)), as_type(g, wide_dtype(g))
    result = as_type(wide * (length / norm_except_dim(wide, 2, dim)), v.dtype)
    return bearing("WeightNormInterfaceBackward0", result)
