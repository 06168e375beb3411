"""The strong Wolfe line search: how far to go along a direction.

A point is good when the loss fell enough and the slope became flat enough. First points further and further out are
tried until one is good, or until a good one must lie between the last two; then that bracket is narrowed. The next
point is always the minimum of the cubic through values and slopes of two points.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

ENOUGH_DECREASE, FLAT_ENOUGH = 1e-4, 0.9
TRIES = 25


class Point(NamedTuple):
    """A point on the line: the step that leads there, the loss, the gradient, and the slope along the direction."""

    t: float
    loss: float
    gradient: np.ndarray
    slope: float


Evaluate = Callable[[float], Point]


def strong_wolfe(
    evaluate: Evaluate, start: Point, t: float, size: float, tolerance: float = 1e-9, most: int = TRIES
) -> tuple[Point, int]:
    """The point where to stop, and how often the loss was computed; `size` is the direction's largest element.

    After the first point at most `most` others are tried.

    >>> parabola = lambda t: Point(t, (t - 3) ** 2, np.array([2 * (t - 3)]), 2 * (t - 3))
    >>> point, tries = strong_wolfe(parabola, parabola(0.0), 1.0, 1.0)
    >>> (point.t, tries)
    (1.0, 1)
    """
    before, new = start, evaluate(t)
    for tries in range(most):
        if too_high(new, start) or (tries > 1 and new.loss >= before.loss):
            return _narrowed(evaluate, start, [before, new], size, tolerance, tries, most)
        if flat(new, start):
            return new, tries + 1
        if new.slope >= 0:
            return _narrowed(evaluate, start, [before, new], size, tolerance, tries, most)
        bounds = new.t + 0.01 * (new.t - before.t), new.t * 10
        before, new = new, evaluate(cubic_minimum(before, new, bounds))
    return (start if start.loss <= new.loss else new), most + 1


def too_high(point: Point, start: Point) -> bool:
    """Whether the loss did not fall as much as the slope at the start promised."""
    return point.loss > start.loss + ENOUGH_DECREASE * point.t * start.slope


def flat(point: Point, start: Point) -> bool:
    """Whether the slope became flat enough."""
    return abs(point.slope) <= -FLAT_ENOUGH * start.slope


def _narrowed(
    evaluate: Evaluate, start: Point, ends: list[Point], size: float, tolerance: float, tries: int, most: int
) -> tuple[Point, int]:
    """Narrow a bracket until a point in it is good, or the bracket is too small or the tries are used up."""
    computed = tries + 1
    stuck = False
    low = int(ends[0].loss > ends[1].loss)  # which end has the lower loss
    while tries < most and abs(ends[1].t - ends[0].t) * size >= tolerance:
        t, stuck = _kept_inside(cubic_minimum(ends[0], ends[1]), ends[0].t, ends[1].t, stuck)
        new = evaluate(t)
        computed, tries = computed + 1, tries + 1
        if too_high(new, start) or new.loss >= ends[low].loss:
            ends[1 - low] = new
            low = int(ends[0].loss > ends[1].loss)
            continue
        if flat(new, start):
            return new, computed
        if new.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = new
    return ends[low], computed


def _kept_inside(t: float, a: float, b: float, stuck: bool) -> tuple[float, bool]:
    """A step near an end of the bracket makes little progress: the second one in a row is moved inwards."""
    low, high = min(a, b), max(a, b)
    margin = 0.1 * (high - low)
    if min(high - t, t - low) >= margin:
        return t, False
    if not (stuck or t >= high or t <= low):
        return t, True
    return (high - margin if abs(t - high) < abs(t - low) else low + margin), False


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through the values and slopes of two points is lowest, within bounds."""
    lowest, highest = bounds or (min(a.t, b.t), max(a.t, b.t))
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = bend**2 - a.slope * b.slope
    if not square >= 0:
        return (lowest + highest) / 2
    root = square**0.5
    near, far = (a, b) if a.t <= b.t else (b, a)
    with np.errstate(divide="ignore", invalid="ignore"):  # a straight line is lowest at infinity
        part = float(np.divide(far.slope + root - bend, far.slope - near.slope + 2 * root))
    t = far.t - (far.t - near.t) * part
    return min(max(t, lowest), highest)


def as_point(t: float, loss: Any, gradient: np.ndarray, direction: np.ndarray) -> Point:
    """The point at a step, with its slope along the direction."""
    return Point(float(t), float(loss), gradient, float(gradient.dot(direction)))
