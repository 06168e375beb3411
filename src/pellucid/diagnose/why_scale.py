"""Why a gradient is tiny or huge: the gain of every operation on its way from the loss."""

import numpy as np

from pellucid.diagnose.edges import Edge, cancels, flat, length, values_of
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.naming import number, operation_of, plural, short
from pellucid.diagnose.why_missing import Case
from pellucid.diagnose.why_zero import SATURATING, freed_graph, neutral, percent

__all__ = ["exploding", "is_huge", "is_tiny", "vanishing"]

TINY, TINY_BESIDE, HUGE = 1e-8, 1e-5, 1e4
REDUCTIONS = ("mean", "sum", "mse", "cross_entropy", "nll", "huber", "smooth_l1", "binary_cross_entropy", "pick")


def _largest(array: np.ndarray) -> float:
    return float(np.abs(array).max()) if array.size else 0.0


def is_tiny(case: Case, values: np.ndarray) -> bool:
    """Tiny against the tensor itself, or against the gradients nearer to the loss."""
    own = max(_largest(np.asarray(case.tensor.array, np.float64)), 1e-3)
    if _largest(values) < TINY * min(own, 1.0):
        return True
    if case.passage is None:
        return False
    near = [_largest(flat(edge.g)) for edge in case.passage.edges if not edge.name.startswith(REDUCTIONS)]
    return bool(near) and _largest(values) < TINY_BESIDE * max(near)


def is_huge(case: Case, values: np.ndarray) -> bool:
    """Huge against the tensor itself."""
    return _largest(values) > HUGE * max(_largest(np.asarray(case.tensor.array, np.float64)), 1.0)


def vanishing(case: Case, values: np.ndarray) -> Finding:
    """The finding for a gradient that shrinks on its way."""
    if case.passage is None:
        return freed_graph(case, "vanishing-gradient", f"is tiny (at most {number(_largest(values))})")
    path = [edge for edge in case.passage.strongest() if not edge.name.startswith(REDUCTIONS)]
    path = path or case.passage.strongest()
    edge = min(path, key=lambda each: each.gain)
    alone = _alone(edge, path)
    if alone and edge.name in SATURATING and _share_flat(edge) >= 0.9:
        return _saturated(case, edge)
    if alone and cancels(edge):
        return neutral(case, edge, f"is tiny (at most {number(_largest(values))})")
    return Finding(
        "vanishing-gradient",
        Spot.of(edge.node.place),
        f"{case.name}.grad is tiny: it shrinks on the way from the loss, most of all in {operation_of(edge.node)} at "
        f"{short(edge.node.place)}",
        _from_to(case, edge, path),
        ONE_FACTOR if alone else BY_LAYERS,
    )


ONE_FACTOR = (
    "this one operation makes it small: look at what it multiplies with (a coefficient, a scale, a divisor), or "
    "scale the loss"
)
BY_LAYERS = (
    "use relu or gelu instead of sigmoid or tanh between layers, residual connections, LayerNorm, and an "
    "initialisation that keeps the scale (nn.init.xavier_uniform_, kaiming_normal_)"
)


def _alone(edge: Edge, path: list[Edge]) -> bool:
    """Whether this one operation makes nearly all of the difference."""
    total = length(path[-1].d) / (length(path[0].g) or 1.0)
    return edge.gain < 1e-3 and edge.gain <= max(total, 1e-300) ** 0.5


def _share_flat(edge: Edge) -> float:
    """The part of the units whose derivative is nearly zero."""
    g, d = flat(edge.g), flat(edge.d)
    if g.shape != d.shape or not g.size:
        return 1.0
    return float((np.abs(d) < 0.01 * np.abs(g).max()).mean())


def _saturated(case: Case, edge: Edge) -> Finding:
    array = values_of(edge.node).get("y")
    between = "" if array is None else f"; its results lie between {number(array.min())} and {number(array.max())}"
    return Finding(
        "saturated-activation",
        Spot.of(edge.node.place),
        f"{case.name}.grad is tiny because {operation_of(edge.node)} at {short(edge.node.place)} is saturated",
        f"{percent(_share_flat(edge))} of its units let less than a hundredth of the gradient through, "
        f"together {number(edge.gain)} of it{between}",
        "scale its inputs down (smaller weights, normalised data, LayerNorm), or use relu",
    )


def exploding(case: Case, values: np.ndarray) -> Finding:
    """The finding for a gradient that grows on its way."""
    if case.passage is None:
        return freed_graph(case, "exploding-gradient", f"is huge (up to {number(_largest(values))})")
    path = case.passage.strongest()
    edge = max(path, key=lambda each: each.gain)
    return Finding(
        "exploding-gradient",
        Spot.of(edge.node.place),
        f"{case.name}.grad is huge: it grows on the way from the loss, most of all in {operation_of(edge.node)} at "
        f"{short(edge.node.place)}",
        _from_to(case, edge, path),
        "normalise the data and the activations (LayerNorm), use smaller weights or fewer repeated products; "
        "nn.utils.clip_grad_norm_ limits the damage",
    )


def _from_to(case: Case, edge: Edge, path: list[Edge]) -> str:
    return (
        f"norm {number(length(path[0].g))} at the loss, {number(length(path[-1].d))} at {case.name}, over "
        f"{plural(len(path), 'operation')}; this one multiplies it by {number(edge.gain)}"
    )
