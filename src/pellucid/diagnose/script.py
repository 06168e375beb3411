"""`pellucid doctor script.py`: run a script under the doctor and tell what was found."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.diagnose.doctor import doctor
from pellucid.diagnose.naming import plural
from pellucid.diagnose.postmortem import post_mortem
from pellucid.shim import run_script

__all__ = ["examine"]


def examine(
    script: str, arguments: Sequence[str] = (), *, steps: int | None = None, seconds: float | None = None,
    json_file: str | None = None, report: str | None = None,
) -> int:  # fmt: skip
    """Run a script, print the findings and write them down; the exit status is 1 when there are errors."""
    watch = doctor(steps=steps, seconds=seconds, stop_when_failed=True)
    exit_code: Any = 0
    try:
        run_script(script, arguments, watch)
    except SystemExit as ending:  # a script may end itself; that is no finding
        exit_code = ending.code
    except KeyboardInterrupt:
        watch.stopped = "interrupted"
    if json_file:
        Path(json_file).write_text(json.dumps(watch.as_json(), indent=2) + "\n", encoding="utf-8")
    if report:
        Path(report).write_text(post_mortem(watch, script, arguments), encoding="utf-8")
    sys.stdout.flush()
    print(told(watch, script, exit_code))  # last: nobody may read it any more, as with `| head`
    return 1 if watch.errors else 0


def told(watch: doctor, script: str, exit_code: Any) -> str:
    """What the terminal shows after the script's own output."""
    passes = max(len(watch.trace.backwards), watch.trace.open.number)  # those of torch.func are in no loop
    head = f"--- pellucid doctor: {os.path.basename(script)}, {plural(passes, 'backward pass')}"
    lines = [head + (f"; stopped: {watch.stopped}" if watch.stopped else "")]
    if exit_code not in (0, None):
        lines.append(f"the script ended itself with status {exit_code}")
    counts = {kind: sum(f.severity == kind for f in watch.findings) for kind in ("error", "warning", "info")}
    lines.append(", ".join(f"{n} {kind}{'s' if n != 1 and kind != 'info' else ''}" for kind, n in counts.items()))
    return "\n".join(lines) + (f"\n\n{watch}" if watch.findings or watch.failures else "")
