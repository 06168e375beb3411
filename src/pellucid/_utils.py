"""torch._utils: gradients as one long vector, as programs that send them from process to process want them."""

from collections.abc import Sequence
from typing import Any

from pellucid.ops.join import cat


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """All elements, one tensor's after another's.

    >>> import pellucid as torch
    >>> _flatten_dense_tensors([torch.ones(2), torch.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    return cat([each.reshape(-1) for each in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """The parts of a long vector, in the shapes of the tensors that it was made of.

    >>> import pellucid as torch
    >>> _unflatten_dense_tensors(torch.arange(4.0), [torch.ones(2), torch.zeros(1, 2)])
    (tensor([0., 1.]), tensor([[2., 3.]]))
    """
    parts = flat.split([each.numel() for each in tensors])
    return tuple(part.view(each.shape) for part, each in zip(parts, tensors, strict=True))
