"""Why a gradient is zero: the operation at which it becomes zero on its way from the loss, judged by share of units."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.core.keep import arguments
from pellucid.core.primitive import INPUTS
from pellucid.core.saved import saved_values
from pellucid.core.tensor import PICK, Bundle, Leaf, Node
from pellucid.diagnose.edges import Edge, any_nonzero, cancels, flat, is_custom, length, share_nonzero, values_of
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.naming import number, operation_of, short
from pellucid.diagnose.pulling import Puller
from pellucid.diagnose.why_missing import Case

__all__ = ["freed_graph", "neutral", "percent", "zero"]

RECTIFIERS = frozenset(("relu", "threshold", "prelu", "hardshrink", "softshrink"))
CLAMPS = frozenset(
    ("clamp", "clamp_min", "clamp_max", "clamp_above", "clamp_below", "clamp_between", "clamp_min_tensor",
     "clamp_max_tensor", "hardtanh", "hardsigmoid", "hardswish", "maximum", "minimum", "fmax", "fmin")
)  # fmt: skip
CHOICES = frozenset(("maximum", "minimum", "fmax", "fmin"))
SATURATING = frozenset(
    ("sigmoid", "tanh", "softmax", "safe_softmax", "log_softmax", "log_sigmoid", "gelu", "gelu_tanh", "silu", "mish",
     "elu", "celu", "softplus", "erf", "erfc", "cross_entropy", "cross_entropy_2d",
     "binary_cross_entropy_with_logits", "logsumexp", "logaddexp", "attention", "glu")
)  # fmt: skip
RECURRENT = frozenset(("lstm", "gru", "elman"))
LOSSES_BY_CLASS = frozenset(("cross_entropy", "cross_entropy_2d"))
OVERWRITING = frozenset(("replace", "zero", "fill", "write_view"))
MASKS = frozenset(
    ("where", "masked_fill", "masked_fill_by_tensor", "masked_select", "masked_scatter", "drop", "keep", "index_mask",
     "tril", "triu", "take_along", "index_select", "index", "select", "slice", "max_all", "min_all", "max_dim",
     "min_dim", "amax", "amin", "topk", "sort", "nll_loss", "nll_loss_2d", "embedding", "take", "pick", "split",
     "split_with_sizes", "unbind", "cat", "stack", "index_add", "index_copy", "index_put", "put_add", "scatter",
     "scatter_add", "scatter_sum", "scatter_value", "put_along_add")
)  # fmt: skip
STEPS = frozenset(
    ("round", "round_decimals", "floor", "ceil", "trunc", "sign", "sgn", "div_floor", "div_trunc", "drawn_bernoulli")
)
FLAT = STEPS | {"fill", "zero"}  # their first input gets nothing, whatever the values
PRODUCTS = frozenset(
    ("mul", "mm", "bmm", "matmul", "mv", "dot", "linear", "linear_with_bias", "addmm", "baddbmm", "addmv", "addcmul",
     "einsum", "convolution", "convolution_bias", "convolution_transposed", "convolution_transposed_bias", "div",
     "prod", "prod_all", "cumprod", "lerp", "addr", "addbmm")
)  # fmt: skip
WITHIN = frozenset(("prod", "prod_all", "cumprod"))  # products of the elements of one tensor
ROUTES = frozenset(("cat", "stack", "pick", "reshape", "permute", "transpose", "write_view"))  # move elements only
UNDERFLOWING = frozenset(("exp", "exp2", "expm1", "pow_of_number", "cast"))
NEARLY_ALL = 0.9  # of the units: a rectifier that lets half of them through is a healthy one


def zero(case: Case) -> Finding:
    """The finding for a gradient that is there and is zero everywhere."""
    if case.passage is None:
        return _by_structure(case) or freed_graph(case, "zero-gradient", "is zero")
    edge = _stopper(case.passage.edges)
    if edge is not None and cancels(edge):
        return neutral(case, edge, "is zero")
    return cancelled(case) if edge is None else stopped(case, edge)


def freed_graph(case: Case, code: str, state: str) -> Finding:
    """The values that would show the cause are gone: say what is known, and how to ask."""
    return Finding(
        code,
        case.made_at,
        f"{case.name}.grad {state}; which operation makes it so cannot be told, as the values of the graph are gone",
        "backward() gives saved values back as it uses them",
        f"ask before backward: print(torch.why({case.name}, loss=loss)); or keep the values with "
        "loss.backward(retain_graph=True)",
    )


def _by_structure(case: Case) -> Finding | None:
    """What needs no values: every path leads through an operation whose derivative is zero everywhere."""
    node = case.gate(lambda node: node.inputs[1:] if node.primitive.name in FLAT else node.inputs)
    if node is None:
        return None
    code, what, fix = _step(operation_of(node)) if node.primitive.name in STEPS else OVERWRITTEN
    return Finding(
        code,
        Spot.of(node.place),
        f"{case.name}.grad is zero because {what} ({short(node.place)})",
        f"every path from the loss to {case.name} leads through it",
        fix,
    )


def _stopper(edges: list[Edge]) -> Edge | None:
    """The edge at which the gradient becomes zero: the one that stops the most units, and the strongest gradient."""
    ends = [edge for edge in edges if any_nonzero(edge.g) and not any_nonzero(edge.d)]
    if not ends:
        return None
    candidates = [edge for edge in ends if any(edge.name in names for names, _ in KINDS)] or ends
    if max(map(_drop, candidates)) < NEARLY_ALL / 2:  # the rest of a gradient that was stopped before
        lossy = (edge for edge in edges if edge.name in RECTIFIERS | CLAMPS | SATURATING)
        candidates = [edge for edge in lossy if _drop(edge) >= NEARLY_ALL] or candidates
    end = max(candidates, key=lambda edge: (_drop(edge), length(edge.g)))
    return _thinned_above(end, edges) if end.name in ROUTES else end


def _thinned_above(end: Edge, edges: list[Edge]) -> Edge:
    """The gradient ends where values were joined, as no element of this part was sent any: who sent none?"""
    node, found = end.node, end
    for edge in reversed(edges):
        if edge.parent is node:
            node, found = edge.node, edge
            if _drop(edge) > 0 and edge.name not in ROUTES:
                return edge
    if found.name in ROUTES or _drop(found) <= 0:  # nobody thinned it: all of this part was written over
        return end
    return found


def _drop(edge: Edge) -> float:
    return share_nonzero(edge.g) - share_nonzero(edge.d)


def cancelled(case: Case) -> Finding:
    """Every path carries a gradient; together they are zero."""
    assert case.passage is not None
    into = [edge for edge in case.passage.edges if not any_nonzero(case.passage.gradients.get(edge.parent, edge.d))]
    edge = into[0] if into else case.passage.edges[-1]
    places = ", ".join(sorted({short(each.node.place) for each in into if each.parent is edge.parent}))
    return Finding(
        "cancelled",
        Spot.of(edge.node.place),
        f"{case.name}.grad is zero because its contributions cancel each other",
        f"the gradients that come back over {places or short(edge.node.place)} add up to zero",
        "look whether a term is added and subtracted again, or the loss does not change with this tensor at all "
        "(a shift before a softmax or a normalisation)",
    )


def neutral(case: Case, edge: Edge, state: str) -> Finding:
    """The elements of the gradient cancel in one operation: the loss does not change with what comes before it."""
    operation, place = operation_of(edge.node), short(edge.node.place)
    return Finding(
        "cancelled",
        Spot.of(edge.node.place),
        f"{case.name}.grad {state} because its contributions cancel each other in {operation} at {place}",
        f"a gradient of norm {number(length(edge.g))} comes to {operation}, and {number(length(edge.d))} of it is left "
        "behind it; another gradient of this size would come through",
        "the loss does not change with this tensor: a bias right before BatchNorm or softmax has no effect "
        "(bias=False), and the sum of a softmax or of a normalised tensor is always the same",
    )


@dataclass(frozen=True, slots=True)
class Cause:
    """The operation to blame, what it kept, and the edge (its own, or a later one's) at which the gradient ends."""

    node: Node
    values: dict[str, np.ndarray]
    edge: Edge

    @property
    def earlier(self) -> bool:
        """It made zeros by which a later operation multiplies the gradient."""
        return self.node is not self.edge.node

    @property
    def operation(self) -> str:
        return operation_of(self.node)


def stopped(case: Case, edge: Edge) -> Finding:
    """The finding for the operation at which the gradient ends."""
    cause = _cause(edge)
    code, what, fix = _classified(cause)
    return Finding(
        code,
        Spot.of(cause.node.place),
        f"{case.name}.grad is zero because {what} ({short(cause.node.place)})",
        _evidence(cause),
        fix,
        related=(Related(case.made_at, f"{case.name} was made here"),),
    )


def _evidence(cause: Cause) -> str:
    edge = cause.edge
    if cause.earlier:
        later = f"{operation_of(edge.node)} at {short(edge.node.place)}"
        return f"its results are all zero, and {later} multiplies the gradient by them"
    before, behind = percent(share_nonzero(edge.g)), percent(share_nonzero(edge.d))
    text = f"{before} of the gradient's elements are not zero before {cause.operation}, {behind} behind it"
    for name, role in (("a", "its input"), ("y", "its result")):
        array = cause.values.get(name)
        if array is not None and array.size and array.dtype.kind == "f":
            return f"{text}; {role} lies between {number(float(array.min()))} and {number(float(array.max()))}"
    return text


def percent(share: float) -> str:
    """A share as people read it.

    >>> percent(0.9712), percent(0)
    ('97.1 %', '0 %')
    """
    return f"{number(round(share * 100, 1))} %"


# --- what kind of operation it is


def _cause(edge: Edge) -> Cause:
    """A product whose other factor is zero because an earlier operation made it so: that one is the cause."""
    values = values_of(edge.node)
    factor = _zero_factor(edge, values)
    maker = None if factor is None else edge.node.inputs[factor]
    while maker is not None and maker.inputs:
        kept = values_of(maker)
        if _lost_everything(maker, kept):
            return Cause(maker, kept, edge)
        maker = maker.inputs[0] if maker.primitive.view or maker.primitive is PICK else None
    return Cause(edge.node, values, edge)


def _lost_everything(node: Node, values: dict[str, np.ndarray]) -> bool:
    """Whether this operation gave zeros for inputs that were not zero."""
    return node.primitive.name in RECTIFIERS | CLAMPS | UNDERFLOWING or _nonzero_factors(node, values)


def _nonzero_factors(node: Node, values: dict[str, np.ndarray]) -> bool:
    inputs = [values[letter] for letter in INPUTS if letter in values]
    return node.primitive.name in PRODUCTS and len(inputs) > 1 and all(bool(np.all(array != 0)) for array in inputs)


def _zero_factor(edge: Edge, values: dict[str, np.ndarray]) -> int | None:
    """The number of the other input of a product that is zero everywhere."""
    if edge.name not in PRODUCTS:
        return None
    for i, letter in enumerate(INPUTS):
        array = values.get(letter)
        if i != edge.index and i < len(edge.node.inputs) and array is not None and not array.any():
            return i
    return None


Kind = tuple[str, str, str]


def _classified(cause: Cause) -> Kind:
    if not flat(cause.edge.d).size:
        return _empty(cause)
    for names, describe in KINDS:
        if cause.node.primitive.name in names:
            return describe(cause)
    return _flat(cause)


def _empty(cause: Cause) -> Kind:
    return (
        "masked",
        f"{cause.operation} is given no elements at all, so nothing that depends on it reaches the loss",
        "look why the batch, the index or the mask selects nothing, and skip such a batch",
    )


def _rectifier(cause: Cause) -> Kind:
    return (
        "dead-relu",
        f"every unit of {cause.operation} that leads to it is off",
        "lower the learning rate, start with a bias of zero and nn.init.kaiming_normal_, or use leaky_relu / gelu",
    )


def _clamp(cause: Cause) -> Kind:
    array = cause.values.get("a")
    if cause.node.primitive.name == "clamp_min" and array is not None and not (array > 0).any():
        return _rectifier(cause)
    if cause.node.primitive.name in CHOICES:
        return (
            "clamped",
            f"{cause.operation} takes its other argument everywhere",
            "look at both arguments: this one is never the one that counts (a bound that all values are beyond, the "
            "clipped part of a PPO loss)",
        )
    return (
        "clamped",
        f"the values lie outside the range of {cause.operation}, where it is constant",
        "clamp for display only, widen the range, or squash with tanh / sigmoid instead",
    )


def _saturated(cause: Cause) -> Kind:
    return (
        "saturated-activation",
        f"{cause.operation} is saturated: its inputs are so large that it is flat",
        "scale its inputs down (smaller weights, normalised data, LayerNorm), or give logits to a loss that wants them",
    )


def _recurrent(cause: Cause) -> Kind:
    """A recurrence whose other weights do get a gradient is not flat: the weight meets zeros."""
    sent = Puller().pull(cause.node, cause.edge.g)
    if any(any_nonzero(d) for _, _, d in sent):
        return (
            "multiplied-by-zero",
            f"{cause.operation} multiplies it by zeros: its input, or the state before its first step",
            "look at what it is given; a sequence of one step, from a state of zeros, teaches no recurrent weight",
        )
    return _saturated(cause)


def _class_loss(cause: Cause) -> Kind:
    """Flat where the model is sure of every sample, and where no sample counts."""
    counts = cause.values.get("c")
    if counts is None or counts.any():
        return _saturated(cause)
    return (
        "masked",
        f"{cause.operation} counts no sample: every target is ignore_index, or of a class with weight zero",
        "look at the targets of this batch: print((target != ignore_index).sum()); skip a batch without any",
    )


OVERWRITTEN = (
    "masked",
    "the values that depend on it are written over",
    "write into a copy, or keep the old values where they shall count: torch.where(ok, new, old)",
)


def _overwritten(cause: Cause) -> Kind:
    return OVERWRITTEN


def _masked(cause: Cause) -> Kind:
    return (
        "masked",
        f"{cause.operation} selects other elements: none that depends on it reaches the loss",
        "check the mask (or index): print(mask.float().mean())",
    )


def _stepped(cause: Cause) -> Kind:
    return _step(cause.operation)


def _step(operation: str) -> Kind:
    if operation == "bernoulli":
        what = "bernoulli draws zeros and ones: they do not change with a small change of its input"
    else:
        what = f"{operation} is a step function: its derivative is zero everywhere"
    return (
        "non-differentiable-op",
        what,
        f"leave it out on the way to the loss, or pass the gradient straight through: y = x + ({operation}(x) - x)"
        ".detach()",
    )


def _underflow(cause: Cause) -> Kind:
    half = any(array.dtype.itemsize == 2 for array in cause.values.values())
    return (
        "underflow",
        f"the result of {cause.operation} is too small for its dtype and became zero",
        "scale the loss before backward() (torch.amp.GradScaler), or compute this part in float32"
        if half
        else "stay in log space (log_softmax, logsumexp, sums of logs instead of products), or use a wider dtype",
    )


def _product(cause: Cause) -> Kind:
    if cause.earlier or _nonzero_in_wider(cause.edge) or _product_of_nonzero(cause):
        return _underflow(cause)
    letters = [letter for i, letter in enumerate(INPUTS) if i != cause.edge.index]
    others = [cause.values[letter] for letter in letters if letter in cause.values]
    if any(array.any() and np.isin(array, (0, 1)).all() for array in others):
        return _masked(cause)
    factor = _zero_factor(cause.edge, cause.values)
    parameter = factor is not None and isinstance(cause.node.inputs[factor], Leaf)
    return (
        "multiplied-by-zero",
        f"{cause.operation} multiplies it by {'a parameter that is zero' if parameter else 'zeros'}",
        "look at the other factor: a weight initialised with zeros, an input or a mask of zeros, a coefficient of zero",
    )


def _product_of_nonzero(cause: Cause) -> bool:
    """Whether the elements of one tensor, none of them zero, were multiplied with each other."""
    array = cause.values.get("a")
    return cause.node.primitive.name in WITHIN and array is not None and bool(np.all(array != 0))


def _flat(cause: Cause) -> Kind:
    if cause.node.primitive.elementwise and _nonzero_in_wider(cause.edge):
        return _underflow(cause)
    flat_there = "look at its input: it lies where the function is flat (at its minimum the loss has no gradient)"
    custom = f"look at what {cause.operation}.backward returns"
    return (
        "multiplied-by-zero",
        f"the derivative of {cause.operation} is zero there",
        custom if is_custom(cause.node) else flat_there,
    )


def _nonzero_in_wider(edge: Edge) -> bool:
    """Whether the same step, computed with more digits, gives a gradient where this one is zero."""
    p = edge.node.primitive
    if p.pullback is not None or type(edge.g) is Bundle:
        return False
    kept = arguments(p, saved_values(edge.node), edge.index)
    with np.errstate(all="ignore"):
        wide = flat(p.edges[edge.index][1](_wider(edge.g), *(_wider(value) for value in kept)))
    narrow = flat(edge.d)
    if wide.shape != narrow.shape:  # summed over a broadcast
        return bool(wide.any()) and not narrow.any()
    return bool(wide[narrow == 0].any())


def _wider(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f":
        return np.asarray(value, np.longdouble if value.dtype == np.float64 else np.float64)
    return value


KINDS: tuple[tuple[frozenset[str], Callable[[Cause], Kind]], ...] = (
    (RECTIFIERS, _rectifier), (CLAMPS, _clamp), (LOSSES_BY_CLASS, _class_loss), (SATURATING, _saturated),
    (RECURRENT, _recurrent), (MASKS, _masked), (STEPS, _stepped), (OVERWRITING, _overwritten),
    (UNDERFLOWING, _underflow), (PRODUCTS, _product),
)  # fmt: skip
