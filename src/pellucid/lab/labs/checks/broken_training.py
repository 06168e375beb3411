"""The broken loop: measurements against ours, the doctor on the fixed script, a rubric for the post-mortem."""

import json
import math
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pellucid.lab.elsewhere import run_within, tail
from pellucid.lab.labs.lab import Criteria, expect, find
from pellucid.lab.labs.mutants import run_tests
from pellucid.lab.labs.running import Work

criteria = Criteria()
SECTIONS = ("Symptom", "Measurements", "First bad step", "Cause", "Fix", "Regression test")
VAGUE = re.compile(r"\b(unstable|instability|somehow|for some reason|random(ly)?|weird|strange)\b", re.IGNORECASE)
NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.IGNORECASE)
HEADING = re.compile(r"^##[^\S\n]++(\S.*)$", re.MULTILINE)
BELOW_ZERO = re.compile(r"negative|below (0|zero)|less than (0|zero)|< ?0")
LIMIT = 20.0  # seconds for one run of the learner's script


def truth() -> str:
    """The first step whose loss is not finite."""
    rows = _observed(3)
    return str(next(row["step"] for row in rows if not math.isfinite(row["loss"])))


def _observed(steps: int) -> list[dict[str, Any]]:
    """The solution's own measurements."""
    from pellucid.shim import as_torch

    lab = find("broken-training")
    space: dict[str, Any] = {}
    with as_torch():
        exec(compile(lab.files["data.py"], "data.py", "exec"), space)
        body = lab.solution["observe.py"].replace("from data import batch\n", "")
        exec(compile(body, "observe.py", "exec"), space)
        rows: list[dict[str, Any]] = space["observe"](steps)
    return rows


@criteria("data.py and broken.py are as they were")
def untouched(work: Work) -> None:
    starter = find("broken-training").files
    changed = [name for name in ("data.py", "broken.py") if work.text(name) != starter[name]]
    expect(not changed, f"{', '.join(changed)} was changed: the failure must stay where it was found")


@criteria("observe(3) measures the broken loop: loss, smallest output and gradient norm of every step")
def observed(work: Work) -> None:
    given, wanted = work.named("observe.py", "observe")(3), _observed(3)
    expect(len(given) == 3, f"observe(3) gives {len(given)} rows")
    for mine, ours in zip(given, wanted):
        for key, value in ours.items():
            same = key in mine and (mine[key] == value or _near(float(mine[key]), float(value)))
            expect(same, f"step {ours['step']}: {key} is {mine.get(key, 'missing')}, we measured {value:.4g}")


def _near(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-3)


@criteria("first_bad_step finds the first row that is not finite")
def first_bad(work: Work) -> None:
    find_first = work.named("observe.py", "first_bad_step")
    fine = {"loss": 1.0, "grad_norm": 1.0}
    rows = [{"step": 0, **fine}, {"step": 1, **fine, "grad_norm": math.inf}, {"step": 2, **fine, "loss": math.nan}]
    expect(find_first(rows) == 1, f"for a norm of inf in step 1 and a NaN in step 2 it says {find_first(rows)}")
    expect(find_first(rows[:1]) is None, "for rows without a bad one it should give None")
    expect(find_first(_observed(2)) == 0, "for the broken loop it should say 0")


def _trained(work: Work) -> tuple[list[float], list[int]]:
    """The losses of the learner's training, and the batches that it asked for."""
    data: Any = work.module("data.py")
    original, asked = data.batch, []

    def batch(step: int) -> Any:
        asked.append(step)
        return original(step)

    data.batch = batch
    try:
        return list(work.named("train.py", "losses")), asked
    finally:
        data.batch = original


@criteria("train.py trains on all 50 batches: every loss finite, the last ones on average less than 0.7 of the first")
def trains(work: Work) -> None:
    losses, asked = _trained(work)
    expect(sorted(set(asked)) == list(range(50)), "train.py does not train on every batch from 0 to 49 (25 included)")
    expect(len(losses) == 50, f"losses has {len(losses)} numbers, not 50")
    bad = next((i for i, loss in enumerate(losses) if not math.isfinite(loss)), None)
    expect(bad is None, f"the loss of step {bad} is {losses[bad or 0]}")
    end = sum(losses[-5:]) / 5
    expect(end < 0.7 * losses[0], f"the loss was {losses[0]:.3g} at first and is {end:.3g} at the end")


@criteria("the doctor has nothing left to say about train.py")
def healthy(work: Work) -> None:
    work.text("train.py")
    with tempfile.TemporaryDirectory(prefix="pellucid-doctor-") as scratch:
        for file in work.folder.glob("*.py"):
            shutil.copy(file, scratch)
        printed, findings = Path(scratch) / "printed", Path(scratch) / "findings.json"
        command = ["-P", "-m", "pellucid", "doctor", "train.py", "--json", str(findings)]
        status = run_within(command, Path(scratch), printed, LIMIT)
        expect(status is not None, f"train.py took more than {LIMIT:g} seconds")
        expect(findings.is_file(), tail(printed).strip())
        found = json.loads(findings.read_text(encoding="utf-8"))["findings"]
    told = [f"{Path(f['file']).name}:{f['line']}: {f['code']}: {f['message']} ({f['evidence']})" for f in found]
    expect(not told, "\n".join(told))


@criteria("test_train.py passes with your train.py, and fails with the broken one")
def regression_test(work: Work) -> None:
    work.text("test_train.py")
    sources = (None, find("broken-training").files["broken.py"])
    said, broken = run_tests(work.folder, "test_train.py", sources, changed="train.py", as_torch=True, limit=LIMIT)
    expect(said, "test_train.py has no function named test_...")
    failed = [f"{name}: {reason}" for name, reason in said.items() if reason]
    expect(not failed, "\n".join(failed))
    expect(any(broken.values()), "with broken.py in the place of train.py your test still passes")


# --- the post-mortem


def _sections(work: Work) -> dict[str, str]:
    """What stands under each heading of the post-mortem."""
    parts = [part.strip() for part in HEADING.split(work.text("postmortem.md"))]
    return dict(zip(parts[1::2], parts[2::2]))


@criteria("postmortem.md says something under each of its six headings, and nothing vague")
def complete(work: Work) -> None:
    sections = _sections(work)
    for name in SECTIONS:
        expect(name in sections, f"the heading '## {name}' is missing")
        expect(len(sections[name].split()) >= 5, f"there is nothing under '{name}' yet")
        vague = VAGUE.search(sections[name])
        expect(vague is None, f"'{vague and vague[0]}' under '{name}' explains nothing: say what was measured")


@criteria("its measurements are numbers, the smallest output of step 0 (with two digits) among them")
def measured(work: Work) -> None:
    numbers = [float(text) for text in NUMBER.findall(_sections(work).get("Measurements", ""))]
    expect(len(numbers) >= 3, f"there are {len(numbers)} numbers under 'Measurements'; at least 3 are wanted")
    smallest = _observed(1)[0]["output_min"]
    expect(any(abs(number - smallest) < 0.01 for number in numbers), "the smallest output of step 0 is not among them")


@criteria("it names the first bad step, the cause (what the logarithm was taken of), and the test")
def causes(work: Work) -> None:
    sections = _sections(work)
    step = NUMBER.findall(sections.get("First bad step", ""))
    expect(step and float(step[0]) == 0, f"'First bad step' says {step[0] if step else 'no number'}")
    cause = sections.get("Cause", "").lower()
    told = "log" in cause and BELOW_ZERO.search(cause)
    expect(told, "'Cause' does not say what the logarithm was taken of")
    expect("zero_grad" in sections.get("Fix", ""), "'Fix' does not mention the gradients that were never cleared")
    expect("test_train" in sections.get("Regression test", ""), "'Regression test' does not name test_train.py")
