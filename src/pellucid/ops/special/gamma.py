"""The gamma function's relatives: the incomplete gamma functions, the multivariate one, the zeta function.

PyTorch does not know their derivative with respect to the first argument; asking for it is an error, here too.
"""

import math
from typing import Any

import numpy as np
import scipy.special

from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.ops.arguments import refusal
from pellucid.ops.compare import pairs
from pellucid.ops.elementwise import digamma, exp, lgamma, log
from pellucid.ops.operation import Draw, Sample, binary, call, operation, unary_samples
from pellucid.ops.special.kernel import real


def _unknown(what: str, why: str) -> Any:
    """A rule for a derivative that has no known closed form."""

    def rule(g: Any) -> Any:
        raise refusal(NotImplementedError, f"the derivative for '{what}' is not implemented.", why, "detach() it")

    return rule


def _density(g: Any, a: Any, b: Any) -> Any:
    """The density of the gamma distribution: the slope of igamma along its second argument."""
    return g * exp((a - 1) * log(b) - b - lgamma(a))


def _second_of_pairs(draw: Draw) -> list[Sample]:
    """Pairs of which only the second wants a gradient."""
    return [call(sample.args[0].detach(), *sample.args[1:]) for sample in pairs(draw)]


# The test of in-place forms makes every sample part of a graph first.
FIRST = {"in_place_form_agrees": "its first argument, the one written to, has no derivative"}


NO_CLOSED_FORM = "this derivative has no closed form"

igamma = binary(
    "igamma", real(scipy.special.gammainc), _unknown("igamma: input", NO_CLOSED_FORM), _density,
    samples=_second_of_pairs, aliases=("torch.special.gammainc",), domain=(0.3, 4.0), unclaimed=FIRST,
    tensors=2, doc="""Lower incomplete gamma function: the share of a gamma distribution of shape `input` below `other`.

    >>> import pellucid as torch
    >>> torch.igamma(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([0.8647])
    """,
)  # fmt: skip
igammac = binary(
    "igammac", real(scipy.special.gammaincc), _unknown("igammac: input", NO_CLOSED_FORM),
    lambda g, a, b: -_density(g, a, b), samples=_second_of_pairs, aliases=("torch.special.gammaincc",),
    domain=(0.3, 4.0), unclaimed=FIRST, tensors=2,
    doc="Upper incomplete gamma function: 1 - igamma, exact where that is small.",
)  # fmt: skip


def _zeta_samples(draw: Draw) -> list[Sample]:
    return [*_second_of_pairs(draw), call(draw(2, 3).detach(), 1.5), call(2.5, draw(3))]


zeta = binary(
    "zeta", real(scipy.special.zeta, "zeta"), _unknown("zeta", NO_CLOSED_FORM),
    lambda g, a, b: -g * a * zeta(a + 1, b), dtypes="float", module="torch.special", inplace=False,
    samples=_zeta_samples, grad_name="SpecialZetaBackward0", domain=(1.3, 4.0),
    doc="""Hurwitz' zeta function: the sum of 1 / (k + other) ** input over k = 0, 1, 2, ...

    >>> import pellucid as torch
    >>> torch.special.zeta(torch.tensor([2.0]), torch.tensor([1.0]))
    tensor([1.6449])
    """,
)  # fmt: skip


# --- the logarithm of the multivariate gamma function: a sum of lgamma at steps of a half


def _mvlgamma(a: np.ndarray, p: int) -> Any:
    total = np.full(a.shape, p * (p - 1) / 4 * math.log(math.pi), a.dtype)
    for step in range(p):
        total += lgamma(np.asarray(a - a.dtype.type(step / 2)))
    return total


def _mvlgamma_rule(g: Any, a: Any, p: int) -> Any:
    slope = digamma(a)
    for step in range(1, p):
        slope = slope + digamma(a - step / 2)
    return g * slope


_mvlgamma_row = bind(elementwise("mvlgamma", real(_mvlgamma), _mvlgamma_rule))


def _mvlgamma_samples(draw: Draw) -> list[Sample]:
    return [call(*sample.args, p) for p, sample in zip((1, 2, 3, 5) * 3, unary_samples(draw), strict=False)]


@operation(samples=_mvlgamma_samples, aliases=("torch.special.multigammaln",), domain=(2.3, 6.0), inplace=True)
def mvlgamma(input: Any, p: int) -> Any:
    """Logarithm of the multivariate gamma function of dimension p.

    >>> import pellucid as torch
    >>> torch.mvlgamma(torch.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if input.array.dtype.kind == "b":
        raise refusal(RuntimeError, "The input tensor may not be a boolean tensor.")
    if p < 1:
        raise refusal(RuntimeError, f"p has to be greater than or equal to 1, but got {p}")
    return _mvlgamma_row(input, int(p))
