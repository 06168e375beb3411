"""Shares and gates: softmax and its kin as torch.nn.functional has them, gumbel_softmax, glu."""

import warnings
from typing import Any

from numpy import ndarray

from pellucid.core.flags import Truth
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops import softmax as shares
from pellucid.ops.arguments import ALL, axis_of, expect
from pellucid.ops.compare import only
from pellucid.ops.create import empty
from pellucid.ops.elementwise import sigmoid
from pellucid.ops.join import cat_row
from pellucid.ops.nn.activation import F
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.slicing import slice_row

# --- softmax


def _dimension(input: Any, dim: int | None, name: str) -> int:
    """The dimension asked for; leaving it out is allowed but old-fashioned."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


@operation(samples=shares.softmax_samples, module=F)
def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Exponentials divided by their sum along a dimension: positive numbers that add up to 1.

    >>> import pellucid as torch
    >>> torch.nn.functional.softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return shares.softmax(input, _dimension(input, dim, "softmax"), dtype)


@operation(samples=shares.softmax_samples, module=F)
def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Logarithm of the softmax along a dimension, without overflow or loss of precision.

    >>> import pellucid as torch
    >>> torch.nn.functional.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return shares.log_softmax(input, _dimension(input, dim, "log_softmax"), dtype)


@operation(samples=shares.softmax_samples, module=F, tensors=1)
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Softmax of the negative: the smallest element gets the largest share.

    >>> import pellucid as torch
    >>> torch.nn.functional.softmin(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return shares.softmax(-input, _dimension(input, dim, "softmin"), dtype)


def _gumbel_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(4)), call(draw(2, 3)), call(draw(2, 3), 0.5), call(draw(2, 3), dim=0), call(draw(2, 2, 3), tau=2.0),
        call(draw(0, 2)), call(draw(3, 2).mT),
    ]  # fmt: skip


@operation(samples=_gumbel_samples, module=F, unclaimed={"reads_values": "it draws random numbers"})
def gumbel_softmax(logits: Any, tau: float = 1, hard: Truth = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A random choice in proportion to exp(logits), made soft by a temperature; `hard` gives ones and zeros.

    A hard choice has the gradient of the soft one.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.gumbel_softmax(torch.tensor([0.0, 9.0]), hard=True)
    tensor([0., 1.])
    """
    noise = -empty(tuple(logits.shape), dtype=logits.dtype).exponential_().log()  # type: ignore[attr-defined]
    soft = shares.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = soft.max(dim, keepdim=True)[1]
    choice = (soft * 0).detach().scatter(dim, chosen, 1.0)
    return choice - soft.detach() + soft


# --- glu


def _halves(a: Any, axis: int) -> tuple[Any, Any]:
    middle = a.shape[axis] // 2
    before = (ALL,) * axis
    return slice_row(a, (*before, slice(0, middle), ...)), slice_row(a, (*before, slice(middle, None), ...))


def _glu(a: ndarray, axis: int) -> Any:
    first, gate = _halves(a, axis)
    return first * sigmoid(gate)


def _glu_rule(g: Any, a: Any, axis: int) -> Any:
    first, gate = _halves(a, axis)
    s = sigmoid(gate)
    open_part = g * s
    return cat_row((open_part, open_part * first * (1 - s)), axis)


def _glu_forward(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (first, gate), (t, u) = (_halves(x, *params) for x in (inputs[0], tangents[0]))
    s = sigmoid(gate)
    return s * t + first * s * (1 - s) * u


_glu_row = bind(
    general(
        "glu", only("f", _glu), _glu_rule, jvp=_glu_forward, dtypes="equal",
        batch=lambda op, a, axis: op(a, axis + 1),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(4)), call(draw(2, 6)), call(draw(4, 3), 0), call(draw(2, 4, 3), 1), call(draw(2, 4, 3), dim=-2),
        call(draw(0, 2)), call(draw(6, 2).mT), call(draw(2, 0)),
    ],
    module=F,
)  # fmt: skip
def glu(input: Any, dim: int = -1) -> Any:
    """The first half along a dimension times the sigmoid of the second: a gate.

    >>> import pellucid as torch
    >>> torch.nn.functional.glu(torch.tensor([1.0, 2.0, 0.0, 100.0]))
    tensor([0.5000, 2.0000])
    """
    expect(input.ndim > 0, "glu does not support 0-dimensional tensors")
    axis = axis_of(dim, input.ndim)
    size = input.shape[axis]
    expect(size % 2 == 0, f"Halving dimension must be even, but dimension {dim} is size {size}")
    return _glu_row(input, axis)
