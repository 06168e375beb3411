"""The post-mortem of a run, in markdown: symptom, measurements, first invalid value, cause, fix, test to keep."""

import os
import re
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from pellucid.diagnose.doctor import doctor
from pellucid.diagnose.events import Backward
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.naming import plural

__all__ = ["post_mortem"]


def post_mortem(watch: doctor, script: str, arguments: Sequence[str] = ()) -> str:
    """The report of a run, to be kept beside the fix.

    >>> import pellucid as torch
    >>> with torch.doctor() as watch:
    ...     torch.ones(2, requires_grad=True).sum().backward()
    >>> print(post_mortem(watch, "train.py").splitlines()[0])
    # Post-mortem: train.py
    """
    parts = [f"# Post-mortem: {os.path.basename(script)}", _symptom(watch), _measurements(watch), _first_bad(watch)]
    causes = [finding for finding in watch.findings if finding.severity != "info"]
    parts += [_cause(number, finding) for number, finding in enumerate(causes, 1)]
    consequences = [finding for finding in watch.findings if finding.severity == "info"]
    if consequences:
        told = "\n".join(f"- `{f.code}` at {_short(f)}: {f.message}" for f in consequences)
        parts.append(f"## Consequences, and remarks\n\n{told}")
    parts.append(_test_to_keep(script, arguments, causes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _symptom(watch: doctor) -> str:
    lines = []
    crash = watch.trace.crash
    if crash is not None:
        said = crash.said.splitlines()
        lines.append(f"The script crashed at {crash.spot}: `{type(crash.error).__name__}: {said[0] if said else ''}`.")
    losses = watch.trace.losses
    bad = next((i for i, loss in enumerate(losses) if not np.isfinite(loss)), None)
    if bad is not None:
        lines.append(f"The loss was {losses[bad]} in pass {bad}.")
    elif losses:
        lines.append(f"The loss went from {losses[0]:.4g} to {losses[-1]:.4g} in {plural(len(losses), 'pass')}.")
    if watch.stopped:
        lines.append(f"The run was stopped: {watch.stopped}.")
    if not watch.findings:
        lines.append("Nothing was found.")
    return "## Symptom\n\n" + "\n".join(lines or ["No backward pass ran."])


def _measurements(watch: doctor) -> str:
    passes = watch.trace.backwards
    if not passes:
        return ""
    rows = ["| pass | loss | gradient norm | update / parameters | rate |", "| --- | --- | --- | --- | --- |"]
    return "## Measurements\n\n" + "\n".join(rows + [_row(watch, event) for event in _some(passes)])


def _row(watch: doctor, event: Backward) -> str:
    update = next((u for u in watch.trace.updates if u.order > event.order), None)
    moved, rate = (f"{update.ratio:.3g}", f"{update.rate:.3g}") if update is not None else ("", "")
    return f"| {event.number} | {event.loss:.4g} | {event.gradient_norm:.3g} | {moved} | {rate} |"


def _some(events: list[Backward], most: int = 12) -> list[Backward]:
    """The first ones, the last ones, and some between."""
    if len(events) <= most:
        return events
    chosen = {*range(4), *np.linspace(4, len(events) - 1, most - 4).astype(int).tolist()}
    chosen.update(next(([i] for i, event in enumerate(events) if _is_bad(event)), ()))
    return [events[i] for i in sorted(chosen)]


def _is_bad(event: Backward) -> bool:
    return not np.isfinite([event.loss, event.gradient_norm]).all()


def _first_bad(watch: doctor) -> str:
    bad = [event for event in watch.trace.backwards if _is_bad(event)]
    if not bad:
        return ""
    first = bad[0]
    what = f"loss {first.loss:.4g}, gradient norm {first.gradient_norm:.4g}"
    later = f"{plural(len(bad) - 1, 'later pass')} with such numbers" if len(bad) > 1 else "no later pass was run"
    return f"## First invalid value\n\nPass {first.number}, `backward()` at {first.spot}: {what}; {later}."


def _cause(number: int, finding: Finding) -> str:
    source = f"\n\n```python\n{finding.spot.source}\n```" if finding.spot.source else ""
    related = "".join(f"\n- {r.role}: {r.spot}" for r in finding.related)
    return (
        f"## Cause {number}: `{finding.code}` at {_short(finding)}\n\n{finding.message}.{source}\n\n"
        f"**Evidence.** {finding.evidence}.{related}\n\n**Fix.** {_marked_up(finding.fix)}"
    )


def _marked_up(fix: str) -> str:
    """A fix with its lines of code as a diff, and its words as text."""
    code = [line.startswith(("- ", "+ ", "  ")) for line in fix.splitlines()]
    parts = []
    for is_code, lines in groupby(zip(code, fix.splitlines(), strict=True), key=lambda pair: pair[0]):
        text = "\n".join(line for _, line in lines)
        parts.append(f"```diff\n{text}\n```" if is_code else text)
    return "\n\n".join(parts)


def _short(finding: Finding) -> str:
    return f"{os.path.basename(finding.spot.file)}:{finding.spot.line}"


def _test_to_keep(script: str, arguments: Sequence[str], causes: list[Finding]) -> str:
    """A test that fails while the causes are there: it runs as far as they were first seen, and a little on."""
    codes = ", ".join(repr(code) for code in sorted({finding.code for finding in causes}))
    name = re.sub(r"\W", "_", os.path.splitext(os.path.basename(script))[0])
    steps = 20 + max((finding.since for finding in causes), default=0)
    given = "".join(f", {argument!r}" for argument in (script, *(("--", *arguments) if arguments else ())))
    healthy = f"not found & {{{codes}}}" if codes else "not found"
    return f"""## The test to keep

```python
import json
import subprocess
import sys


def test_{name}_is_healthy(tmp_path):
    out = tmp_path / "findings.json"
    command = [sys.executable, "-m", "pellucid", "doctor", "--steps", "{steps}", "--json", str(out){given}]
    subprocess.run(command, check=False)
    found = {{each["code"] for each in json.loads(out.read_text())["findings"] if each["severity"] != "info"}}
    assert {healthy}
```"""
