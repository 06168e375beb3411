"""Why a gradient is NaN or Inf: the first operation, forward or backward, that made such a number of finite ones."""

from typing import Any

import numpy as np

from pellucid.core.primitive import INPUTS
from pellucid.core.tensor import PICK, Leaf, Node
from pellucid.diagnose.cures import Symptom, cure_of, meeting
from pellucid.diagnose.edges import Edge, flat, values_of
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.naming import number, operation_of, short
from pellucid.diagnose.why_missing import Case
from pellucid.diagnose.why_zero import freed_graph

__all__ = ["nonfinite"]

HIDING = frozenset(
    ("where", "masked_fill", "masked_fill_by_tensor", "nan_to_num", "clamp", "clamp_min", "clamp_max", "mul")
)


def nonfinite(case: Case, values: np.ndarray) -> Finding:
    """The finding for a gradient with NaN or Inf."""
    bad = int((~np.isfinite(values)).sum())
    label = "NaN" if np.isnan(values).any() else "Inf"
    if case.passage is None:
        return freed_graph(case, "non-finite-gradient", f"holds {label} in {bad} of {values.size} elements")
    given = _bad_input(case)
    if given is not None:
        return given
    made = _first_forward(case) or _first_backward(case)
    if made is None:
        return freed_graph(case, "non-finite-gradient", f"holds {label} in {bad} of {values.size} elements")
    node, edge = made
    hidden_by = _hiding(case, node, edge)
    code, what, fix = cure_of(_symptom(node, edge, hidden_by is not None))
    hides = () if hidden_by is None else (Related(Spot.of(hidden_by.place), "this hides it in the forward pass only"),)
    return Finding(
        code,
        Spot.of(node.place),
        f"{case.name}.grad holds {label} because {what} at {short(node.place)}",
        f"{bad} of {values.size} elements are {label}; {_evidence(node, edge)}",
        fix,
        related=hides,
    )


# --- where it began


def _bad(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind in "fc" and not np.isfinite(array).all()


def _bad_input(case: Case) -> Finding | None:
    """A tensor that came from outside holds NaN or Inf already."""
    for node in case.graph:
        values = values_of(node)
        for letter, parent in zip(INPUTS, node.inputs, strict=False):
            outside = parent is None or isinstance(parent, Leaf)
            if outside and letter in values and _bad(values[letter]) and not _is_limit(values[letter]):
                return _given(case, node, values[letter], parent)
    return None


def _is_limit(array: np.ndarray) -> bool:
    """Minus infinity without NaN is how attention masks are written; plus infinity bounds a range."""
    return not np.isnan(array).any() and array.dtype.kind == "f"


def _given(case: Case, node: Node, array: np.ndarray, parent: Node | None) -> Finding:
    bad = int((~np.isfinite(array)).sum())
    what = "the parameter" if isinstance(parent, Leaf) else "the data"
    related = () if parent is None else (Related(Spot.of(parent.place), "the tensor was made here"),)
    return Finding(
        "nan-input",
        Spot.of(node.place),
        f"{case.name}.grad is not finite because {what} that enters {operation_of(node)} at {short(node.place)} "
        "holds NaN",
        f"{bad} of {array.size} elements of it are NaN or Inf, first at index {_first_index(array)}",
        "look at the data (assert torch.isfinite(x).all()); of a parameter: an earlier step broke it",
        related=related,
    )


def _first_index(array: np.ndarray) -> tuple[int, ...]:
    where = np.argwhere(~np.isfinite(array))
    return tuple(int(i) for i in where[0])


def _first_forward(case: Case) -> tuple[Node, None] | None:
    """The oldest operation whose result is not finite although all it is known to have got is."""
    used = _results_seen(case)
    for node in case.graph:
        if isinstance(node, Leaf) or node.primitive is PICK:
            continue
        values = values_of(node)
        result = values.get("y", used.get(node))
        result = _result(node, values) if result is None else result
        inputs = [values[letter] for letter in INPUTS if letter in values]
        if _bad(result) and not any(_bad(array) for array in inputs):
            return node, None
    return None


def _results_seen(case: Case) -> dict[Node, np.ndarray]:
    """The results that later operations kept as their inputs."""
    return {
        parent: kept[letter]
        for node in case.graph
        if (kept := values_of(node))
        for letter, parent in zip(INPUTS, node.inputs, strict=False)
        if parent is not None and letter in kept
    }


def _result(node: Node, values: dict[str, np.ndarray]) -> Any:
    """The result of an elementwise operation computed again, where it takes nothing but the inputs it kept."""
    p = node.primitive
    wanted = INPUTS[: len(p.rules)]
    if not p.elementwise or any(letter not in values for letter in wanted) or not isinstance(p.forward, np.ufunc):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(p.forward(*(values[letter] for letter in wanted)))


def _first_backward(case: Case) -> tuple[Node, Edge] | None:
    """The first step of backward that makes a gradient which is not finite of one that is."""
    assert case.passage is not None
    for edge in case.passage.edges:
        if np.isfinite(flat(edge.g)).all() and not np.isfinite(flat(edge.d)).all():
            return edge.node, edge
    return None


def _hiding(case: Case, node: Node, edge: Edge | None) -> Node | None:
    """The `where` (or mask) above an operation that sends back no gradient for its bad elements, if there is one."""
    above = case.passage.gradients.get(node) if case.passage is not None and edge is None else getattr(edge, "g", None)
    if above is None or (case.loss is not None and not np.isfinite(np.asarray(case.loss.array, np.float64)).all()):
        return None
    if not _sent_nothing(node, edge, np.asarray(above)):
        return None
    consumers: dict[Node, list[Node]] = {}
    for each in case.passage.edges if case.passage is not None else ():
        consumers.setdefault(each.parent, []).append(each.node)
    stack, seen = [node], {node}
    while stack:
        for consumer in consumers.get(stack.pop(), ()):
            if consumer.primitive.name in HIDING:
                return consumer
            if consumer not in seen:
                seen.add(consumer)
                stack.append(consumer)
    return None


def _sent_nothing(node: Node, edge: Edge | None, above: np.ndarray) -> bool:
    """Whether no gradient was meant for the elements that went bad."""
    values = values_of(node)
    result = _result(node, values) if "y" not in values else values["y"]
    bad = None if edge is None else ~np.isfinite(np.asarray(edge.d))
    if _bad(result):
        bad = ~np.isfinite(result)
    if bad is None or bad.shape != above.shape:
        return not above.any()
    return not above[bad].any()


# --- what kind of operation it is


def _symptom(node: Node, edge: Edge | None, hidden: bool) -> Symptom:
    """What is known of the operation: the elements of its inputs that met where it went bad."""
    values = values_of(node)
    inputs = [values[letter] for letter in INPUTS if letter in values]
    out = edge.d if edge is not None else values.get("y", _result(node, values))
    bad = ~np.isfinite(np.asarray(out, np.float64)) if out is not None else np.ones(())
    index = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
    nan = out is not None and bool(np.isnan(np.asarray(out, np.float64)).any())
    label = "NaN" if nan else "Inf"
    return Symptom(node.primitive.name, label, edge is not None, hidden, meeting(inputs, bad.shape, index))


def _evidence(node: Node, edge: Edge | None) -> str:
    """The numbers at the operation: what went in, what came out."""
    values = values_of(node)
    array = values.get("a", values.get("y"))
    if edge is None:
        first = f"{operation_of(node)} is the first operation of the forward pass with a result that is not finite"
    else:
        first = f"the gradient is finite when it reaches {operation_of(node)} and not behind it"
    if array is None or not array.size or not np.isfinite(array).any():
        return first
    role = "input" if "a" in values else "result"
    finite = array[np.isfinite(array)]
    return f"{first}; its {role} lies between {number(float(finite.min()))} and {number(float(finite.max()))}"
