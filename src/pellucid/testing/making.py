"""make_tensor: a tensor of random numbers in a range, for tests."""

from typing import Any

import pellucid as torch
from pellucid.dtypes import dtype as _dtype

INTEGERS = {"uint8": (0, 10), "bool": (0, 2)}  # by default; other integers from -9 to 9


def make_tensor(
    *shape: Any, dtype: _dtype, device: Any, low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Random numbers of a dtype from low up to high, by default from -9 to 9.

    >>> torch.testing.make_tensor(2, 3, dtype=torch.float64, device="cpu", low=1, high=2).shape
    torch.Size([2, 3])
    """
    result: Any
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if not dtype.is_floating_point and not dtype.is_complex:
        least, most = INTEGERS.get(dtype.name, (-9, 10))
        result = torch.randint(int(least if low is None else low), int(most if high is None else high), tuple(sizes))
    else:
        start, end = -9.0 if low is None else low, 9.0 if high is None else high
        middle = complex(start, start) if dtype.is_complex else start
        uniform: Any = torch.rand(*sizes, dtype=dtype)
        result = uniform * (end - start) + middle
    result = result.to(dtype)
    if exclude_zero:
        result = torch.where(result == 0, torch.ones_like(result), result)
    if noncontiguous and result.numel() > 1:
        result = torch.stack([result, result], -1)[..., 0]
    return result.detach().requires_grad_() if requires_grad else result
