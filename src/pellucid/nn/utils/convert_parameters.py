"""All parameters as one vector, and back."""

from collections.abc import Iterable
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.ops.join import cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All parameters flattened and joined into one vector.

    >>> import pellucid as torch
    >>> torch.nn.utils.parameters_to_vector([torch.ones(2), torch.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Give parameters the values of one vector, which they share from then on.

    >>> import pellucid as torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> torch.nn.utils.vector_to_parameters(torch.tensor([2.0, 3.0]), layer.parameters())
    >>> layer(torch.tensor([10.0])).item()
    23.0
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    begin = 0
    for parameter in parameters:
        size = parameter.numel()
        parameter.data = vec.narrow(0, begin, size).view_as(parameter).data
        begin += size
