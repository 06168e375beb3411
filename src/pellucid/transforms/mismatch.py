"""Why an analytic and a numeric Jacobian differ: the mistakes people make, each with its own fingerprint.

A suspicion is a function of the evidence that returns a sentence, or None when it does not apply. They are asked
in order of certainty, and the first two that apply are told.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.core.departures import DEPARTURES
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import explain
from pellucid.transforms.differences import STEPS, from_reals, moved, reals

if TYPE_CHECKING:
    from pellucid.transforms.check import Case


@dataclass(frozen=True)
class Evidence:
    """What is known about a mismatch: both Jacobians, and where they differ most."""

    case: "Case"
    output: int
    variable: int
    analytic: np.ndarray  # one row per output real, one column per input real
    numeric: np.ndarray
    row: int
    column: int

    @property
    def tensor(self) -> Tensor:
        return self.case.variables[self.variable][1]

    def near(self, a: Any, b: Any) -> bool:
        """Equal up to the tolerance of the check (or three digits, where that is coarser)."""
        return bool(np.allclose(a, b, max(self.case.rtol, 1e-3), self.case.atol))


def report(case: "Case", output: int, variable: int, analytic: np.ndarray, numeric: np.ndarray, mode: str = "") -> str:
    """The message of a mismatch: where, both values, the error, and the diagnosis."""
    difference = np.abs(analytic - numeric)
    difference = np.where(np.isnan(difference), np.inf, difference)
    row, column = (int(i) for i in np.unravel_index(int(difference.argmax()), difference.shape))
    evidence = Evidence(case, output, variable, analytic, numeric, row, column)
    position, tensor = case.variables[variable]
    scale = np.abs(analytic) + np.abs(numeric) + 1e-8
    with np.errstate(all="ignore"):
        relative = float(np.max(np.where(np.isinf(difference), np.inf, difference / scale)))
    where = index_text(tensor.array, column)
    first = f"Jacobian mismatch for output {output} with respect to input {position}{', ' if mode else ''}{mode}"
    facts = (
        f"at {where} of input {position} (element {row} of the output): "
        f"analytical {analytic[row, column]:.6g}, numerical {numeric[row, column]:.6g}\n"
        f"         largest absolute error {difference.max():.3g}, largest relative error {relative:.3g}\n"
        f"         analytical: {table(analytic)}\n         numerical:  {table(numeric)}"
    )
    return explain(first, facts, "; ".join(diagnosis(evidence)), ADVICE)


ADVICE = "compare a small deterministic input element by element; PyTorch, where at hand, is the sharper oracle"


def index_text(array: np.ndarray, column: int) -> str:
    """An input real as an index, such as `[0, 2]` or `[0].imag`."""
    parts = 2 if array.dtype.kind == "c" else 1
    index = [int(i) for i in np.unravel_index(column // parts, array.shape)]
    return f"{index}{('.real', '.imag')[column % 2] if parts == 2 else ''}"


def table(jacobian: np.ndarray) -> str:
    """A Jacobian on one line; a large one is cut short."""
    return np.array2string(jacobian, precision=4, threshold=20, edgeitems=2, max_line_width=200).replace("\n", "")


def not_repeatable(pass_: str, output: int, one: np.ndarray, other: np.ndarray) -> str:
    """The message when two runs at one point differ."""
    largest = float(np.max(np.abs(reals(one) - reals(other))))
    first = (
        f"{pass_} is not reentrant, i.e., running it twice with the same input gives different values (output {output})"
    )
    why = (
        f"the function is non-deterministic: two runs differ by {largest:.3g}. Dropout, random augmentation, a random "
        "mask or state that changes at each call (batch norm in training mode) is inside it"
    )
    cure = "call .eval(), draw the random numbers outside the function, or seed the generator inside it; or nondet_tol"
    return explain(first, None, why, cure)


# --- forward mode, the third opinion


def forward_function(case: "Case") -> Callable[[int, Tensor], list[Tensor]]:
    """A function (variable, tangent) -> tangents of the outputs that are checked."""
    from pellucid.transforms.forward import jvp

    def push(variable: int, tangent: Tensor) -> list[Tensor]:
        position = case.variables[variable][0]

        def of_one(value: Tensor) -> tuple[Tensor, ...]:
            result = case.func(*case.inputs[:position], value, *case.inputs[position + 1 :])
            result = result if isinstance(result, (tuple, list)) else (result,)
            return tuple(y for y in result if isinstance(y, Tensor) and np.dtype(y.array.dtype).kind not in "biu")

        _, tangents = jvp(of_one, (case.variables[variable][1],), (tangent,))
        return list(tangents)

    return push


def forward_jacobian(case: "Case", variable: int) -> list[np.ndarray]:
    """Per output: the Jacobian with respect to one variable by forward mode."""
    push = forward_function(case)
    array = case.variables[variable][1].array
    columns = [
        [reals(t.array) for t in push(variable, wrap(from_reals(unit, array)))] for unit in np.eye(reals(array).size)
    ]
    if not columns:
        return [np.zeros((y.size, 0)) for y in case.values()]
    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


# --- suspicions


def diagnosis(evidence: Evidence) -> list[str]:
    """What probably went wrong, the surest suspicions first."""
    found = []
    for suspicion in SUSPICIONS:
        sentence = suspicion(evidence)
        if sentence is not None:
            found.append(sentence)
        if len(found) == 2 or (sentence is not None and suspicion is step_size):  # then there is no mistake to name
            break
    return [*found, *third_opinion(evidence)] or ["no known pattern fits: the backward rule gives a wrong value"]


def single_precision(e: Evidence) -> str | None:
    """float32 carries 7 digits; a difference of two nearby values keeps 1 or 2 of them."""
    dtype = e.tensor.array.dtype
    if dtype.itemsize >= (16 if dtype.kind == "c" else 8):
        return None
    return (
        f"the input is {e.tensor.dtype}: about 7 digits, of which a difference over a step of {e.case.eps:g} loses "  # type: ignore[attr-defined]
        "all but one or two (cancellation). float32 is the reason, not necessarily the gradient: check in float64"
    )


def undefined(e: Evidence) -> str | None:
    """The function has no finite value there, or only on one side of it: there is nothing to compare with."""
    below, at_point, above = np.isfinite(one_element(e, e.case.eps))
    if below and at_point and above:
        return None
    if not at_point or not (below or above):
        return "the function is not defined there: its value is NaN or infinite; move the point into its domain"
    side = "below" if above else "above"
    return f"the point is on the edge of the function's domain: {side} it the value is NaN or infinite; move it inside"


def detached(e: Evidence) -> str | None:
    """The analytic gradient is zero everywhere although the function depends on the input."""
    if np.any(e.analytic) or e.near(e.numeric, 0):
        return None
    sentence = "the gradient is zero or missing although the function depends on the input: the graph is cut"
    before = len(DEPARTURES)
    e.case.func(*e.case.inputs)
    if DEPARTURES and (len(DEPARTURES) > before or len(DEPARTURES) == DEPARTURES.maxlen):
        cut = DEPARTURES[-1]
        return f"{sentence} (detached by {cut.by} of {cut.source} at {cut.entered})"
    return f"{sentence} (detach, .data, item, NumPy, no_grad, or a custom backward that returns None or zeros)"


def broadcast(e: Evidence) -> str | None:
    """An input stretched over the output whose gradient counts only some of the outputs, or their mean."""
    outputs, inputs = e.numeric.shape
    if outputs <= inputs or e.near(e.analytic, e.numeric):
        return None
    counted = np.any(e.analytic, axis=1)
    if counted.any() and not counted.all() and e.near(e.analytic[counted], e.numeric[counted]):
        return (
            f"only {int(counted.sum())} of {outputs} outputs reach the gradient: a missing sum over a broadcast "
            "dimension (the input was stretched; its gradient is the sum over the copies)"
        )
    return None


def constant_factor(e: Evidence) -> str | None:
    """The analytic Jacobian is the numeric one times a constant."""
    weight = float((e.numeric * e.numeric).sum())
    if weight == 0 or not np.isfinite(weight):
        return None
    factor = float((e.analytic * e.numeric).sum()) / weight
    if abs(factor - 1) < 1e-3 or abs(factor) < 1e-6 or not e.near(e.analytic, factor * e.numeric):
        return None
    if abs(factor + 1) < 1e-3:
        return "the sign is wrong: analytical = -1 × numerical"
    return f"a constant factor: analytical = {_fraction(factor)} × numerical{_mean_or_sum(e, factor)}"


def _fraction(factor: float) -> str:
    """A factor as people would have written it: -2, 1/64, 3/2; any other as a decimal number."""
    for n in range(1, 65):
        top = round(factor * n)
        simple = n == 1 or abs(top) == 1 or max(abs(top), n) <= 12
        if top and simple and abs(factor * n - top) < 1e-3 * n:
            return f"{top}" if n == 1 else f"{top}/{n}"
    return f"{factor:.4g}"


def _mean_or_sum(e: Evidence, factor: float) -> str:
    sizes = {n for value in e.case.inputs if isinstance(value, Tensor) for n in (*value.array.shape, value.array.size)}
    for size in sorted(sizes - {0, 1, 2}):
        if abs(factor * size - 1) < 1e-3:
            return (
                f" (1/{size}: a mean where a sum belongs, or a missing sum over a broadcast dimension of size {size})"
            )
        if abs(factor - size) < 1e-3:
            return (
                f" ({size} is a size of the inputs: a sum where a mean belongs, or a contribution counted {size} times)"
            )
    return ""


def conjugated(e: Evidence) -> str | None:
    """The gradient of a complex input has the wrong sign in its imaginary part, or in that of the slope."""
    rows, columns = e.numeric.shape
    if e.tensor.array.dtype.kind != "c":
        return None
    guesses = [e.numeric * np.tile([1.0, -1.0], columns // 2)]
    if rows % 2 == 0:  # of a complex output every slope is a block of two by two
        guesses.append(e.numeric.reshape(rows // 2, 2, columns // 2, 2).swapaxes(1, 3).reshape(rows, columns))
    if not any(e.near(e.analytic, guess) for guess in guesses):
        return None
    return "conjugated: where y = f(z) is differentiable the gradient is g * f'(z).conj(), not g * f'(z)"


def transposed(e: Evidence) -> str | None:
    """The gradient has the right numbers in transposed places."""
    shape = e.tensor.array.shape
    if len(shape) >= 2 and shape[-1] == shape[-2] > 1 and e.tensor.array.dtype.kind != "c":
        numeric = e.numeric.reshape(-1, *shape).swapaxes(-1, -2).reshape(e.numeric.shape)
        if e.near(e.analytic, numeric):
            return "transposed: the gradient has the right numbers with its last two dimensions swapped"
    if e.numeric.shape[0] == e.numeric.shape[1] > 1 and e.near(e.analytic, e.numeric.T):
        return "transposed: the analytical Jacobian is the numerical one transposed (J·g where Jᵀ·g belongs)"
    return None


def swapped(e: Evidence) -> str | None:
    """The gradient belongs to another input."""
    for other, (position, tensor) in enumerate(e.case.variables):
        if other == e.variable or reals(tensor.array).size != e.numeric.shape[1]:
            continue
        if e.near(e.analytic, e.case.numeric(other)[e.output]):
            mine = e.case.variables[e.variable][0]
            return f"swapped: this is the gradient of input {position}, returned for input {mine}"
    return None


def one_element(e: Evidence, step: float) -> tuple[float, float, float]:
    """The worst output element with the worst input element moved down, not moved, and moved up."""
    array = e.tensor.array
    values = []
    for move in (-step, 0.0, step):
        with moved(array, e.column, move):
            values.append(float(e.case.values()[e.output][e.row]))
    return values[0], values[1], values[2]


def kink(e: Evidence) -> str | None:
    """The slopes from the left and from the right differ, and go on differing as the step shrinks."""
    gaps = []
    for step in (e.case.eps, e.case.eps / 10):
        below, here_value, above = one_element(e, step)
        left, right = (here_value - below) / step, (above - here_value) / step
        gaps.append((abs(right - left), left, right))
    (wide, left, right), (narrow, *_) = gaps
    if wide < 1e-2 * (abs(left) + abs(right)) or wide < 10 * e.case.atol or narrow < 0.5 * wide:
        return None
    slack = 0.1 * wide  # at a kink backward answers something from the one slope to the other
    if not min(left, right) - slack <= e.analytic[e.row, e.column] <= max(left, right) + slack:
        return None
    return (
        f"a kink: the slope is {left:.4g} from the left and {right:.4g} from the right, so no single number is "
        "the derivative there; move the point away from it"
    )


def step_size(e: Evidence) -> str | None:
    """Another step size agrees with the analytic value: the step is at fault, not the gradient."""
    exact = float(e.analytic[e.row, e.column])
    errors = {}
    for step in STEPS:
        below, _, above = one_element(e, step)
        errors[step] = abs((above - below) / (2 * step) - exact)
    best = min(errors, key=errors.__getitem__)
    if not errors[best] <= e.case.atol + e.case.rtol * abs(exact) or not np.isfinite(exact):
        return None
    if best < e.case.eps:
        return f"the step {e.case.eps:g} is too large (truncation): with eps={best:g} both agree to {errors[best]:.2g}"
    return f"the step {e.case.eps:g} is too small (cancellation): with eps={best:g} both agree to {errors[best]:.2g}"


def third_opinion(e: Evidence) -> list[str]:
    """Whether forward mode sides with the differences.

    That it sides with backward says little: the forward mode of a custom function is made from its backward.
    """
    try:
        forward = forward_jacobian(e.case, e.variable)[e.output]
    except Exception:  # an opinion is welcome, not needed: the function may not run in forward mode
        return []
    if forward.shape == e.numeric.shape and e.near(forward, e.numeric):
        return ["forward mode agrees with the differences: the backward rule is at fault"]
    return []


SUSPICIONS: Sequence[Callable[[Evidence], str | None]] = (
    single_precision,
    undefined,
    detached,
    broadcast,
    kink,
    step_size,
    constant_factor,
    conjugated,
    transposed,
    swapped,
)
