"""doctor: watch a training run, then say what is wrong with it, the most likely root cause first."""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import isfinite
from types import TracebackType
from typing import Any

from pellucid.core.provenance import PACKAGE_FOLDER
from pellucid.diagnose.events import Crash, Pass
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.instruments import listening
from pellucid.diagnose.naming import plural
from pellucid.diagnose.ranking import ranked
from pellucid.diagnose.rules import Rule, all_rules
from pellucid.diagnose.trace import Trace

__all__ = ["Stop", "doctor"]

CLOSELY = frozenset((0, 1, 2, 3, 4, 6))  # passes that every rule looks at; later ones are sampled
PATIENCE = 5  # passes in a row without finite gradients after which a run has clearly failed
COLLECTED = 50_000  # new objects after which Python looks for cycles among them
LONGER = 50  # the same for a loss that is NaN while its gradients are finite: the model still changes


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let Python's search for cycles wait until a few passes are over.

    What is written down of a pass lives until its end, and dies then without a search; searches on the way would go
    through thousands of living things again and again (a tenth of the time of a recurrence written by hand).
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], COLLECTED) if before[0] else 0, *before[1:])  # 0: the script wants none
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Stop(BaseException):
    """The doctor has seen enough; not an Exception, so that a script's own `except Exception` lets it through."""


class doctor:
    """Watch the training inside the block; afterwards `findings` has what is wrong, root cause first.

    >>> import pellucid as torch
    >>> model = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    >>> with torch.doctor() as d:
    ...     for _ in range(4):  # nobody calls optimizer.zero_grad()
    ...         loss = model(torch.ones(2, 3)).square().mean()
    ...         loss.backward()
    ...         optimizer.step()
    >>> [finding.code for finding in d.findings]
    ['missing-zero-grad']
    """

    def __init__(
        self, *, steps: int | None = None, seconds: float | None = None, stop_when_failed: bool = False,
        rules: Sequence[type[Rule]] | None = None,
    ) -> None:  # fmt: skip
        self.steps, self.seconds, self.stop_when_failed = steps, seconds, stop_when_failed
        self.rules = [kind() for kind in (all_rules() if rules is None else rules)]
        self._looking = [rule for rule in self.rules if type(rule).look is not Rule.look]
        self.trace = Trace(self._look)
        if seconds is not None:
            self.trace.on_call = self._look_at_the_clock
        self.findings: list[Finding] = []
        self.failures: dict[str, Exception] = {}  # rules that failed themselves, by code
        self.stopped = ""  # why the run was ended, if the doctor ended it
        self._failed, self._patience = 0, PATIENCE

    # --- watching

    def __enter__(self) -> "doctor":
        self._began = time.monotonic()
        self._run, self._listening = ExitStack(), ExitStack()
        self._run.enter_context(collecting_rarely())
        self._listening.enter_context(listening(self.trace))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._listening.close()
        if error is not None and not isinstance(error, (Stop, SystemExit, KeyboardInterrupt)):
            last = self.trace.open.backward
            self.trace.crash = Crash(error, spot_of(error), last is not None and last.error is error)
        with self._run:  # what the script has left behind is still there for the rules
            self._conclude()
        return isinstance(error, Stop)

    def _look(self, done: Pass) -> None:
        """A pass has ended: let the rules look at it if it is one of the first, a sample, or a bad one."""
        event = done.backward
        bad = event is not None and not (isfinite(event.loss) and isfinite(event.gradient_norm))
        looked = done.number in CLOSELY or _sampled(done.number) or (bad and self._failed < PATIENCE)
        if looked:
            self.trace.measure(done)
        if event is not None and done.scaled_out_of_range:
            self.trace.loop.remove(event)  # the scaler leaves its step out
        else:
            self._failed = self._failed + 1 if bad or done.bad_gradients else 0
            self._patience = LONGER if _changes(done) else PATIENCE
            if looked:
                self._all_look(done)
        self._stop_if_enough(done.number + 1)

    def _all_look(self, done: Pass) -> None:
        for rule in self._looking:
            try:
                rule.look(done, self.trace)
            except Exception as error:  # a mistake in one rule must not take the others' findings away
                self.failures[rule.code] = error

    def _stop_if_enough(self, passes: int) -> None:
        if self.steps is not None and passes >= self.steps:
            self.stopped = f"after {plural(passes, 'backward pass')}, as asked"
        elif self._is_late():
            self.stopped = f"after {self.seconds:g} seconds, as asked"
        elif self.stop_when_failed and self._failed >= self._patience:
            self.stopped = f"the loss or a gradient was not finite {self._failed} times in a row"
        if self.stopped:
            raise Stop(self.stopped)

    def _is_late(self) -> bool:
        return self.seconds is not None and time.monotonic() - self._began >= self.seconds

    def _look_at_the_clock(self) -> None:
        """A model is called: an evaluation may take long, and has no backward after which to look."""
        if self._is_late():
            self._stop_if_enough(self.trace.open.number)

    # --- concluding

    def _conclude(self) -> None:
        if self.trace.open.operations or self.trace.open.backward is not None:
            self.trace.measure(self.trace.open)
            self._all_look(self.trace.open)
        self.trace.name_in_whole_models()
        found: list[Finding] = []
        for rule in self.rules:
            try:
                found += rule.findings(self.trace)
            except Exception as error:
                self.failures[rule.code] = error
        late = {rule.code for rule in self.rules if not rule.at_once}
        self.findings = ranked(found, {rule.code: rule.explains for rule in self.rules}, late)
        if self.trace.crash is not None and not self.errors:
            self.findings.insert(0, unexplained(self.trace.crash))
        self.trace.open.forget()

    @property
    def errors(self) -> list[Finding]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def as_json(self) -> dict[str, Any]:
        """The findings in the form that docs/doctor.md describes."""
        return {"findings": [finding.as_json() for finding in self.findings]}

    def __repr__(self) -> str:
        return str(self)  # what a notebook shows at the end of a cell

    def __str__(self) -> str:
        if not self.findings and not self.failures:
            passes = len(self.trace.backwards)
            return f"No findings in {passes} backward pass{'' if passes == 1 else 'es'}."
        failed = [f"the rule {code} failed itself, please report it: {e!r}" for code, e in self.failures.items()]
        return "\n\n".join([*(str(finding) for finding in self.findings), *failed])


def unexplained(crash: Crash) -> Finding:
    """A crash that no rule knows the cause of: its own message has to explain it, ours by its lines why and try."""
    said = crash.said.splitlines() or [""]
    parts = {label: rest.strip() for label, _, rest in (line.strip().partition(":") for line in said[1:])}
    ours = "where" in parts
    return Finding(
        "crash", crash.spot, f"the script stopped here with {type(crash.error).__name__}: {said[0]}",
        (parts.get("why") if ours else " ".join(line.strip() for line in said[1:])) or "the error says no more",
        (ours and parts.get("try")) or "mend this line; the traceback above shows how it was reached",
    )  # fmt: skip


def _changes(done: Pass) -> bool:
    """Whether the gradients of a pass are finite and not nothing."""
    event = done.backward
    return event is not None and not done.bad_gradients and 0 < event.gradient_norm < float("inf")


def _sampled(number: int) -> bool:
    """Later passes that are looked at: every tenth up to 100, every hundredth up to 1000, and so on."""
    scale = 10
    while scale * 10 <= number:
        scale *= 10
    return number % scale == 0


def spot_of(error: BaseException) -> Spot:
    """The innermost line of the user's code that an error passed through; where it cannot be parsed, that line."""
    found = Spot("<unknown>", 0)
    if isinstance(error, SyntaxError) and error.filename:
        found = Spot(error.filename, error.lineno or 0)
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith((PACKAGE_FOLDER, "<frozen")) and "runpy" not in name:
            found = Spot(name, trace.tb_lineno)
        trace = trace.tb_next
    return found
