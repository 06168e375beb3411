"""why: one verdict on a gradient that is missing, zero, not finite, tiny or huge."""

from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from pellucid.core.departures import RUNS
from pellucid.core.provenance import Place, getframe, outside
from pellucid.core.tensor import Node, Tensor
from pellucid.core.views import current_node
from pellucid.diagnose.edges import flat, is_freed, passage
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.naming import collected_names, number, parameter_names, plain_names
from pellucid.diagnose.why_missing import Case, changed_since, cleared_since, missing
from pellucid.diagnose.why_nonfinite import nonfinite
from pellucid.diagnose.why_scale import exploding, is_huge, is_tiny, vanishing
from pellucid.diagnose.why_zero import zero
from pellucid.errors import a_kind
from pellucid.nn.modules.module import Module

__all__ = ["Verdict", "why"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of `why`: one cause with its line, what was measured, and the fix.

    >>> verdict = Verdict(Finding("detached", Spot("train.py", 12), "h is cut off", "w.grad is None", "use h itself"))
    >>> verdict.code, str(verdict.spot)
    ('detached', 'train.py:12')
    """

    finding: Finding

    @property
    def code(self) -> str:
        """The cause in the vocabulary of the doctor; `ok` when nothing is wrong."""
        return self.finding.code

    @property
    def spot(self) -> Spot:
        """The line to look at."""
        return self.finding.spot

    @property
    def message(self) -> str:
        return self.finding.message

    @property
    def evidence(self) -> str:
        return self.finding.evidence

    @property
    def fix(self) -> str:
        return self.finding.fix

    def as_json(self) -> dict[str, Any]:
        """The form that editors and other tools read."""
        return self.finding.as_json()

    def __str__(self) -> str:
        return str(self.finding)

    def __repr__(self) -> str:
        return f"<Verdict {self.code} at {self.spot}>"


def why(tensor: Tensor, loss: Tensor | None = None) -> Verdict:
    """Say why the gradient of a tensor is None, zero, NaN or Inf, tiny or huge: the cause, the line, the fix.

    After a step `why(parameter)` is enough for a gradient that is missing. To find the operation that makes a
    gradient zero or NaN the values of the graph are needed: give the loss, before its backward has freed them.

    >>> import pellucid as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> v = torch.ones(2, requires_grad=True)
    >>> loss = ((w * 2).detach() * v).sum()
    >>> loss.backward()
    >>> torch.why(w).code
    'detached'
    """
    if not isinstance(tensor, Tensor):
        hint = "; ask about one of its parameters, or check_gradient_flow(model)" if isinstance(tensor, Module) else ""
        raise TypeError(f"why: expected a Tensor, got {type(tensor).__name__}{hint}")
    if loss is not None and not isinstance(loss, Tensor):
        raise TypeError(f"why: the loss is {a_kind(loss)}; give the tensor itself, not loss.item()")
    frame = outside(getframe(1))
    asked_at = Place(frame.f_code, frame.f_lasti)
    return Verdict(_judged(Case(tensor, current_node(tensor), _name(tensor, frame), loss, _root(loss), asked_at)))


def _name(tensor: Tensor, frame: FrameType) -> str:
    """What the user calls a tensor."""
    scopes = [dict(frame.f_locals)] + ([] if frame.f_locals is frame.f_globals else [dict(frame.f_globals)])
    for scope in scopes:
        for find in (plain_names, collected_names, parameter_names):
            name = next((name for name, each in find(scope) if each is tensor), "")
            if name:
                return name
    return "tensor"


def _root(loss: Tensor | None) -> Node | None:
    """The node of the loss; without one, that of the latest backward, if somebody still holds it."""
    if loss is not None:
        return current_node(loss)
    return RUNS[-1][0]() if RUNS else None


def _judged(case: Case) -> Finding:
    """Look at the gradient that the loss gives, then at the one there is; explain its absence if there is none."""
    grad = case.tensor._grad
    measured = _measured(case) if case.loss is not None or grad is not None else None
    asked = None if measured is None or case.loss is None else _of_values(case, measured)
    if asked is not None:
        return asked
    if grad is None:
        return missing(case)
    found = _of_values(case, grad.array)
    if found is not None and measured is not None and _of_values(case, measured) is None:
        return changed_since(case, grad.array) or found  # the graph gives a good gradient
    return found or _nothing_wrong(case, grad.array)


def _measured(case: Case) -> np.ndarray | None:
    """The elements of the gradient that the loss would give, if the graph is there and connected."""
    root, node = case.root, case.node
    if root is None or node is None or not case.connected or is_freed(root):
        return None
    found = passage(root, node)
    if node not in found.gradients:  # a custom function returned None for it
        return None
    case.passage = found
    return flat(found.arrived)


def _of_values(case: Case, values: np.ndarray) -> Finding | None:
    """What is wrong with these numbers, or None."""
    values = values.astype(np.float64) if values.dtype.kind not in "c" else np.abs(values)
    if not np.isfinite(values).all():
        return nonfinite(case, values)
    if not values.size:
        return None
    if not values.any():
        return cleared_since(case) if case.passage is None and case.zeroed else zero(case)
    if is_tiny(case, values):
        return vanishing(case, values)
    return exploding(case, values) if is_huge(case, values) else None


def _nothing_wrong(case: Case, values: np.ndarray) -> Finding:
    length = float(np.linalg.norm(values.astype(np.float64, copy=False).ravel()))
    return Finding(
        "ok",
        case.made_at,
        f"nothing is wrong with the gradient of {case.name}",
        f"its norm is {number(length)}, all {values.size} elements are finite, "
        f"{np.count_nonzero(values)} of them are not zero",
        "no change needed",
        "info",
    )
