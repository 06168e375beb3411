"""Covariance and correlation of variables (rows) over observations (columns)."""

from operator import index as as_int
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.ops.arguments import expect, name_of, refuse
from pellucid.ops.complex_numbers import conj, view_as_complex, view_as_real
from pellucid.ops.diagonal import diagonal
from pellucid.ops.elementwise import sqrt
from pellucid.ops.matmul import matmul
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import sum
from pellucid.ops.select import clamp, clamp_min, kind_of
from pellucid.ops.shape import reshape, squeeze, unsqueeze


def _samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 4)), call(draw(4)), call(draw(1, 3)), call(draw.complex(2, 4)), call(draw(5, 2).mT),
        call(draw(2, 5)),
    ]  # fmt: skip


@operation(
    samples=lambda draw: [
        *_samples(draw), call(draw(2, 4), correction=0), call(draw(2, 3), fweights=draw.integers(3, low=1, high=4)),
        call(draw(2, 3), aweights=draw(3, low=0.5, high=1.5)),
        call(draw(3, 4), correction=2, fweights=draw.integers(4, low=1), aweights=draw(4, low=0.5, high=1.5)),
    ],
    unclaimed=COMPOSED,
)  # fmt: skip
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance matrix of variables; fweights say how often an observation counts, aweights how much.

    >>> import pellucid as torch
    >>> torch.cov(torch.tensor([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    expect(input.ndim <= 2, f"cov(): expected input to have two or fewer dimensions, but got {input.ndim}")
    refuse(input, "b", "cov(): bool dtype is not supported for input")
    table = input if input.ndim == 2 else reshape(input, (1, -1) if input.shape != (0,) else (1, 0))
    count = table.shape[1]
    _check_weights("fweights", fweights, "iu", "integral", count)
    _check_weights("aweights", aweights, "fV", "floating point", count)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    total = count if weights is None else sum(weights)
    weighted = table if weights is None else table * weights
    mean = sum(weighted, 1) / total
    freedom = _freedom(total, as_int(correction), weights, aweights)
    deviation = table - unsqueeze(mean, 1)
    scaled = deviation if weights is None else deviation * weights
    return squeeze(matmul(deviation, conj(scaled.mT)) / freedom)


def _check_weights(name: str, weights: Any, kinds: str, called: str, count: int) -> None:
    if weights is None:
        return
    expect(weights.ndim <= 1, f"cov(): expected {name} to have one or fewer dimensions, but got {weights.ndim}")
    what = f"cov(): expected {name} to have {called} dtype but got {name} with {name_of(weights)} dtype"
    expect(weights.array.dtype.kind in kinds, what)
    size = weights.numel()
    expect(size == count, f"cov(): expected {name} to have the same numel as there are observations: {size} != {count}")
    values = weights.array  # under a capture, or vmap, they are not for Python to look at
    negative = type(values) is ndarray and values.size and np.minimum.reduce(values, None) < 0
    expect(not negative, f"cov(): {name} cannot be negative")


def _freedom(total: Any, correction: int, weights: Any, aweights: Any) -> Any:
    """What the sum of products is divided by; nothing is left of it when there are too few observations."""
    if weights is None:
        return max(total - correction, 0)
    if aweights is None or correction == 0:
        return clamp_min(total - correction, 0)
    return clamp_min(total - correction * sum(weights * aweights) / total, 0)


@operation(samples=_samples, unclaimed=COMPOSED)
def corrcoef(input: Any) -> Any:
    """The correlation of each pair of variables: covariance divided by both standard deviations.

    >>> import pellucid as torch
    >>> torch.corrcoef(torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, -1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    expect(input.ndim <= 2, f"corrcoef(): expected input to have two or fewer dimensions but got {input.ndim}")
    matrix = cov(input)
    if not matrix.ndim:
        return matrix / matrix
    spread = sqrt(diagonal(matrix).real)
    ratio = matrix / unsqueeze(spread, 1) / spread
    if kind_of(ratio) == "c":
        return view_as_complex(clamp(view_as_real(ratio), -1, 1))
    return clamp(ratio, -1, 1)
