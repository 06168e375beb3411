"""The cures of bad numbers: for each kind of operation the doctor's code, the cause and the rewrite.

The doctor's rules, `why` and the replay of a recording all ask here what an operation did wrong.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pellucid.core.primitive import as_written

__all__ = ["Symptom", "cure_of", "meeting"]


class Symptom(NamedTuple):
    """What is known of the operation that made the first bad number."""

    row: str  # the operation; empty: the value came in from outside
    label: str  # NaN or Inf
    backward: bool
    hidden: bool  # made where nothing was selected
    elements: list[float]  # the input elements that met there, see `meeting`
    half: bool = False  # made in half precision

    @property
    def name(self) -> str:
        """The operation as users write it: `pow`, not `pow_number`."""
        return as_written(self.row)


Cure = tuple[str, str, str]  # code, cause, fix

LOGS = frozenset(
    ("log", "log2", "log10", "log1p", "xlogy", "xlog1py", "logit", "entr", "log_ndtr", "logaddexp", "log_sigmoid",
     "binary_cross_entropy")
)  # fmt: skip
DIVISIONS = frozenset(
    ("div", "reciprocal", "addcdiv", "div_floor", "div_trunc", "floor_divide", "remainder", "fmod", "rsqrt", "atan2",
     "moments", "batch_norm", "layer_norm", "group_norm", "rms_norm")
)  # fmt: skip
SPREADS = frozenset(("std", "std_mean", "var", "var_mean", "variance"))
MEANS = frozenset(("mean", "mean_all", "mse_loss", "cross_entropy", "cross_entropy_2d", "nll_loss", "nll_loss_2d"))
NORMS = frozenset(
    ("linalg_vector_norm", "dist", "euclidean_dist", "pairwise_distance", "cdist", "hypot", "std", "std_mean")
)
POWERS = frozenset(("pow", "pow_number", "pow_of_number"))
EXPONENTIALS = frozenset(("exp", "exp2", "expm1", "sinh", "cosh"))
SOFTMAXES = frozenset(("softmax", "safe_softmax", "log_softmax"))
BOUNDED = frozenset(("acos", "asin", "acosh", "atanh", "erfinv", "ndtri", "lgamma", "digamma"))


def cure_of(symptom: Symptom) -> Cure:
    """The code, the cause in words, and the fix.

    >>> cure_of(Symptom("log", "Inf", False, False, [0.0]))[0]
    'log-of-zero'
    >>> cure_of(Symptom("div", "NaN", True, False, [1.0, float("inf")]))[0]
    'overflow'
    """
    if not symptom.name:
        return _came_in(symptom)
    if symptom.hidden:
        return (
            "nan-in-unselected-branch",
            f"{symptom.name} has no finite derivative in elements that are not selected",
            "make the input safe first, then select: a double where\n"
            f"- torch.where(ok, {_of(symptom.name, 'x')}, other)\n"
            f"+ torch.where(ok, {_of(symptom.name, 'torch.where(ok, x, torch.ones_like(x))')}, other)",
        )
    if symptom.name not in SOFTMAXES and any(np.isinf(element) for element in symptom.elements):
        return _infinite(symptom)
    for names, cure in TABLE:
        if symptom.row in names:
            return cure(symptom)
    return _overflow(symptom)


def meeting(arrays: Iterable[Any], shape: tuple[int, ...], index: tuple[int, ...]) -> list[float]:
    """The elements of the inputs that met at an index of the result; where elements are mixed, the largest ones.

    >>> meeting([np.array([1.0, 2.0]), np.array(3.0)], (2,), (1,))
    [2.0, 3.0]
    """
    found = []
    for array in arrays:
        values = np.asarray(array)
        if values.dtype.kind not in "fiubV" or not values.size:
            continue
        values = values.astype(np.float64)
        try:
            found.append(float(np.broadcast_to(values, shape)[index]))
        except (ValueError, IndexError):
            found.append(float(values.flat[int(np.argmax(np.abs(values)))]))
    return found


def _of(name: str, x: str) -> str:
    """An operation as one writes it."""
    return {"div": f"a / {x}", "pow": f"{x} ** p"}.get(name, f"{name}({x})")


def _number(symptom: Symptom) -> str:
    return f"{symptom.elements[0]:.3g}" if symptom.elements else "its input"


def _came_in(symptom: Symptom) -> Cure:
    return (
        "nan-input",
        f"a tensor that the step starts from already holds {symptom.label}",
        "look at the data before it enters the model: assert torch.isfinite(x).all()",
    )


def _log(symptom: Symptom) -> Cure:
    if symptom.name == "binary_cross_entropy":
        fix = "give the scores themselves to F.binary_cross_entropy_with_logits"
    else:
        negative = symptom.elements and symptom.elements[0] < 0  # an epsilon does not help, but lets gradients pass
        safe = "x.clamp(min=1e-8)" if negative else "(x + 1e-8)"
        fix = (
            "of a softmax or a sigmoid take F.log_softmax or F.logsigmoid; elsewhere keep the input away from zero\n"
            f"- x.{symptom.name}()\n+ {safe}.{symptom.name}()"
        )
    what = "derivative of the log" if symptom.backward else symptom.name
    return "log-of-zero", f"the {what} of {_number(symptom)} was taken", fix


def _division(symptom: Symptom) -> Cure:
    divisor = symptom.elements[0 if symptom.name in ("reciprocal", "rsqrt") else -1] if symptom.elements else 0.0
    if abs(divisor) > 1e-30 and not symptom.backward:
        return _overflow(symptom)
    fix = "keep the divisor away from zero\n- a / b\n+ a / (b + 1e-8)     # or b.clamp(min=1e-8)"
    if symptom.backward:
        return "division-by-zero", f"the derivative of {symptom.name} divides by {divisor:.3g}", fix
    return "division-by-zero", f"something is divided by {divisor:.3g} here", fix


def _spread(symptom: Symptom) -> Cure:
    if symptom.backward:
        return _root(symptom)
    fix = "a spread needs two elements: use correction=0 (unbiased=False), or skip batches of one"
    return "division-by-zero", f"{symptom.name} was taken of a single element", fix


def _mean(symptom: Symptom) -> Cure:
    if symptom.label == "Inf":
        return _overflow(symptom)
    fix = "skip the batch when there is nothing to average, or divide by count.clamp(min=1)"
    return "division-by-zero", f"{symptom.name} was taken over no element at all", fix


def _root(symptom: Symptom) -> Cure:
    if not symptom.backward and symptom.name == "sqrt":
        fix = "- x.sqrt()\n+ x.clamp(min=0).sqrt()     # and an epsilon inside, if it can be exactly zero"
        return "sqrt-at-zero", f"the square root of {_number(symptom)} was taken", fix
    if not symptom.backward:
        return _overflow(symptom)
    fix = (
        "put an epsilon inside the root\n- x.sqrt()\n"
        "+ (x + 1e-12).sqrt()     # a norm: (x * x).sum(-1).add(1e-12).sqrt()"
    )
    return "sqrt-at-zero", f"the derivative of {symptom.name} at {_number(symptom)} is infinite", fix


def _power(symptom: Symptom) -> Cure:
    base = symptom.elements[0] if symptom.elements else 0.0
    if symptom.backward and base == 0:
        return _root(symptom)
    if base == 0:
        fix = "keep the base away from zero: x.clamp(min=1e-8)"
        return "division-by-zero", "zero was raised to a negative power", fix
    if base < 0 and symptom.label == "NaN":
        fix = "a negative number has no fractional power: use x.abs() or x.clamp(min=0) as the base"
        return "sqrt-at-zero", f"{base:.3g} was raised to a fractional power", fix
    return _overflow(symptom)


def _exponential(symptom: Symptom) -> Cure:
    fix = (
        "subtract the largest element first (softmax and logsumexp do), or clamp the exponent\n"
        f"- x.{symptom.name}()\n+ (x - x.amax(-1, keepdim=True)).{symptom.name}()"
    )
    return "overflow", f"{symptom.name} of {_number(symptom)} is beyond the largest number of its dtype", fix


def _softmax(symptom: Symptom) -> Cure:
    fix = "a row in which everything is masked has no softmax: mask with a large negative number instead of -inf"
    return "division-by-zero", f"{symptom.name} was taken of a row of which nothing is left", fix


def _bounded(symptom: Symptom) -> Cure:
    fix = f"keep the input inside the domain: x.clamp(-1 + 1e-6, 1 - 1e-6).{symptom.name}()"
    return "out-of-domain", f"{symptom.name} of {_number(symptom)} is undefined or infinite", fix


def _infinite(symptom: Symptom) -> Cure:
    """An operand was infinite before: no singular point of this operation is to blame, and no epsilon helps."""
    what = f"the derivative of {symptom.name}" if symptom.backward else symptom.name
    given = " and ".join(f"{element:.3g}" for element in symptom.elements)
    fix = (
        "find what made the infinity, and keep it finite there: a mask can be a large negative number instead of -inf, "
        "and an exponent can be clamped"
    )
    return "overflow", f"{what} has no value for {given}", fix


def _overflow(symptom: Symptom) -> Cure:
    what = f"backward of {symptom.name}" if symptom.backward else symptom.name
    if symptom.half:
        fix = "compute it in single precision: take .float() of what goes in"
        return "overflow", f"{what} left the range of float16, which ends at 65504", fix
    fix = (
        "make the numbers smaller before this line: a smaller learning rate, normalised inputs, clipped gradients "
        "(clip_grad_norm_), or float64"
    )
    return "overflow", f"{what} left the range of its dtype", fix


TABLE = (
    (LOGS, _log), (DIVISIONS, _division), (SPREADS, _spread), (MEANS, _mean), (POWERS, _power),
    (frozenset(("sqrt",)) | NORMS, _root), (EXPONENTIALS, _exponential), (BOUNDED, _bounded),
    (SOFTMAXES, _softmax),
)  # fmt: skip
