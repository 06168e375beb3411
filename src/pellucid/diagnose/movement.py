"""How far the parameters moved with every step, by an optimizer or by hand, and which rate was set meanwhile."""

import linecache
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.diagnose.events import OptimizerInfo, Parameter, Pass, Scheduled, Update, norm_of
from pellucid.diagnose.finding import Related, Spot
from pellucid.diagnose.trace import Trace

SMALL = 1_000_000  # elements of a parameter that is compared from pass to pass
RATE_SET = re.compile(r"""\[\s*["']lr["']\s*\]\s*[-+*/]?=[^=]""")  # group["lr"] = ...


@dataclass
class Step:
    """One change of the parameters."""

    number: int  # the pass whose gradients were applied
    ratio: float  # the norm of the change against the norm of the parameters
    norm: float  # the norm of the parameters
    rate: float  # 0 when made by hand
    with_gradient: bool = True  # whether there was a gradient to apply


class ByHand:
    """Measures steps that no optimizer makes, by comparing parameters in passes that follow each other."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._before: dict[Parameter, Any] = {}
        self._number = -1

    def look(self, done: Pass, trace: Trace) -> None:
        """Compare with the pass before, if that was looked at."""
        event = done.backward
        free = [] if event is None else [p for p in event.reached if not p.optimizers and math.prod(p.shape) <= SMALL]
        now = {p: t.array for p in free if (t := p.tensor()) is not None and isinstance(t.array, np.ndarray)}
        if done.number == self._number + 1:
            self._compare(now, done.number - 1)
        self._before, self._number = {p: array.copy() for p, array in now.items()}, done.number

    def _compare(self, now: dict[Parameter, Any], number: int) -> None:
        both = [(self._before[p], array) for p, array in now.items() if p in self._before]
        both = [(old, new) for old, new in both if old.shape == new.shape]
        if not both:
            return
        with np.errstate(all="ignore"):
            moved = float(np.sqrt(sum(norm_of(new - old) ** 2 for old, new in both)))
        size = float(np.sqrt(sum(norm_of(old) ** 2 for old, _ in both)))
        self.steps.append(Step(number, moved / (size + 1e-12), size, 0.0))

    def place(self, trace: Trace) -> Spot | None:
        """The line that makes the steps."""
        updates = [event for event in trace.updates if event.optimizer is None and event.with_gradient and event.number]
        return updates[-1].spot if updates else None


def steps_of(trace: Trace, info: OptimizerInfo) -> list[Step]:
    """The steps that an optimizer made."""
    return [
        Step(event.number - 1, event.ratio, event.parameter_norm, event.rate, bool(event.with_gradient))
        for event in trace.loop
        if isinstance(event, Update) and event.optimizer is info
    ]


def rate_set_at(trace: Trace, info: OptimizerInfo, wrong: Step) -> tuple[Spot, tuple[Related, ...]]:
    """The line that made the rate wrong: a scheduler's if it changed the rate a lot, else the optimizer's."""
    made = Related(info.spot, f"the optimizer, with lr={info.rate:.3g}")
    schedules = [event for event in trace.loop if isinstance(event, Scheduled)]
    change = wrong.rate / (info.rate or 1e-300)
    if schedules and not 0.1 <= change <= 3:
        stepped = next((event for event in schedules[1:] if event.spot != schedules[0].spot), None)
        here = () if stepped is None else (Related(stepped.spot, "the scheduler steps here"),)
        return schedules[0].spot, (made, *here)
    by_hand = None if schedules or 0.3 <= change <= 3 else _line_setting_rate(info.spot.file)
    return (info.spot, ()) if by_hand is None else (by_hand, (made,))


def _line_setting_rate(file: str) -> Spot | None:
    """The only line of a file that writes a learning rate into a parameter group."""
    lines = [n for n, text in enumerate(linecache.getlines(file), 1) if RATE_SET.search(text)]
    return Spot(file, lines[0]) if len(lines) == 1 else None
