"""Random draws whose distribution a tensor sets: Poisson, binomial, gamma.

NumPy's generators draw them, seeded by Pellucid's: the numbers are reproducible, and not PyTorch's.
"""

from typing import Any

import numpy as np
import scipy.special

from pellucid.core.attributes import concrete
from pellucid.core.primitive import constant, elementwise
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import refusal
from pellucid.ops.operation import READS_VALUES, call, operation
from pellucid.ops.random import randint

UNREPEATED = READS_VALUES | dict.fromkeys(
    ("forward_equals_torch", "gradient_equals_torch", "gradient_equals_differences", "second_order_equals_torch",
     "second_order_equals_differences", "forward_mode_is_the_adjoint", "batching_is_a_loop", "layout_does_not_matter",
     "single_precision_is_kept", "node_name"),
    "a draw is a number of its own: NumPy's generator gives it",
)  # fmt: skip


def source(generator: Any = None) -> np.random.Generator:
    """A generator of NumPy's, seeded by the next number of ours."""
    return np.random.default_rng(int(randint(0, 2**62, (1,), generator=generator).item()))


@operation(
    samples=lambda draw: [call(draw(2, 3, low=0.5, high=9.0)), call(draw(4, low=0.1, high=1.0)), call(draw(0))],
    methods=(), unclaimed=UNREPEATED,
)  # fmt: skip
def poisson(input: Any, generator: Any = None) -> Tensor:
    """How often something happens that happens `input` times on average.

    >>> import pellucid as torch
    >>> torch.poisson(torch.zeros(2))
    tensor([0., 0.])
    """
    rate = concrete(input, "poisson()")
    if rate.size and rate.min() < 0:
        raise refusal(RuntimeError, "invalid Poisson rate, expected rate to be non-negative")
    return wrap(np.asarray(source(generator).poisson(rate), rate.dtype))


@operation(
    samples=lambda draw: [call(draw.integers(3, high=9).double(), draw(3, low=0.1, high=0.9))],
    methods=(), unclaimed=UNREPEATED,
)  # fmt: skip
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """How many of `count` tries succeed, each with probability `prob`.

    >>> import pellucid as torch
    >>> torch.binomial(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor([3.])
    """
    tries, chance = concrete(count, "binomial()"), concrete(prob, "binomial()")
    return wrap(np.asarray(source(generator).binomial(tries.astype(np.int64), chance), tries.dtype))


def _slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """How a gamma number moves with the concentration when its place in the distribution stays: by differences."""
    wide, at = a.astype(np.float64), x.astype(np.float64)
    place = scipy.special.gammainc(wide, at)
    step = 1e-4 * wide
    up, down = (scipy.special.gammaincinv(wide + side * step, place) for side in (1, -1))
    return np.asarray((up - down) / (2 * step), a.dtype)


slope_row = bind(constant("gamma_slope", _slope, 2))
reparametrised_row = bind(
    elementwise(
        "standard_gamma", lambda a, b: np.array(b), lambda g, a, b: g * slope_row(a, b), None,
        grad_name="StandardGammaBackward0", dtypes="equal",
    )
)  # fmt: skip


@operation(
    name="_standard_gamma", methods=(), unclaimed=UNREPEATED,
    samples=lambda draw: [call(draw(2, 3, low=0.5, high=9.0)), call(draw(0))],
)  # fmt: skip
def standard_gamma(input: Any, generator: Any = None) -> Tensor:
    """Gamma numbers of the given concentrations and rate 1, differentiable by the concentration."""
    concentration = concrete(input, "_standard_gamma()")
    drawn = np.asarray(source(generator).standard_gamma(concentration), concentration.dtype)
    return reparametrised_row(input, wrap(drawn))  # type: ignore[no-any-return]
