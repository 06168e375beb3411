"""The epsilon sweep: how wrong a central difference is for every step size, measured and drawn.

To the right the formula is to blame (truncation, growing with the square of the step), to the left the numbers are
(cancellation: two nearly equal values are subtracted, and what is left is divided by almost nothing).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pellucid.scalar import derivative
from pellucid.scalar.dual import sin

AT = 1.5
UNIT = 2.0**-53  # how far a float64 may be from the number that it stands for, relatively
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 420, 70, 24, 20, 56


def function(x):
    """x³ sin x, of a number, a Dual or a Value."""
    return x**3 * sin(x)


@dataclass(frozen=True)
class Sweep:
    """Step sizes, the error of the central difference for each, and the step that theory recommends."""

    steps: list[float]
    errors: list[float]
    theory: float

    @property
    def best(self) -> float:
        """The step with the smallest error."""
        return min(zip(self.errors, self.steps, strict=True))[1]


def central_difference(f: Callable[[float], float], x: float, step: float) -> float:
    return (f(x + step) - f(x - step)) / (2 * step)


def sweep(f: Callable = function, at: float = AT, finest: int = -14, per_decade: int = 6) -> Sweep:
    """Measure the error against the derivative that dual numbers give, which is exact to rounding."""
    exact = derivative(f, at)
    steps = [10 ** (exponent / per_decade) for exponent in range(finest * per_decade, 1)]
    errors = [abs(central_difference(f, at, step) - exact) for step in steps]
    # The error is about f''' h² / 6 + u |f| / h; its derivative is zero at h³ = 3 u |f| / |f'''|.
    theory = (3 * UNIT * abs(f(at)) / abs(derivative(f, at, order=3))) ** (1 / 3)
    return Sweep(steps, errors, theory)


def sweep_svg(measured: Sweep | None = None) -> str:
    """The sweep as a picture on two logarithmic axes; colours are those of the page it stands in."""
    measured = measured or sweep()
    smallest = 10.0**-16  # an error of exactly 0 has no logarithm
    x = _axis(min(measured.steps), max(measured.steps), LEFT, WIDTH - RIGHT)
    y = _axis(smallest, 10.0, HEIGHT - BOTTOM, TOP)
    points = [(x(h), y(max(e, smallest))) for h, e in zip(measured.steps, measured.errors, strict=True)]
    parts = [*_grid(x, y), _theory(measured, x, y), _curve(points), *_words(measured, x, y)]
    return (
        f'<svg class="sweep" viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="Error of a central difference against its step: it falls with the square of the step down to '
        f'about {measured.best:.0e}, and rises again below">{"".join(parts)}</svg>'
    )


def _axis(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Maps a number to its place on a logarithmic axis."""
    first, last = math.log10(low), math.log10(high)
    return lambda number: start + (math.log10(number) - first) / (last - first) * (end - start)


def _grid(x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    parts = []
    for exponent in range(-14, 1, 2):
        at = x(10.0**exponent)
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">1e{exponent}</text>')
    for exponent in range(-16, 1, 4):
        at = y(10.0**exponent)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">1e{exponent}</text>')
    return parts


def _curve(points: Sequence[tuple[float, float]]) -> str:
    dots = "".join(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.6"/>' for px, py in points)
    path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
    return f'<path class="curve" d="M{path}"/>{dots}'


def _theory(measured: Sweep, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    at = x(measured.theory)
    return (
        f'<path class="theory" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        f'<text x="{at + 6:.1f}" y="{TOP + 14}">theory: {measured.theory:.1e}</text>'
    )


def _words(measured: Sweep, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    return [
        f'<text class="label" x="{x(1e-10):.1f}" y="{y(2e-3):.1f}" text-anchor="middle">cancellation</text>',
        f'<text class="label" x="{x(1e-2):.1f}" y="{y(1e-9):.1f}" text-anchor="middle">truncation</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">step ε</text>',
        f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" text-anchor="middle">error</text>',
    ]
