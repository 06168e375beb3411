"""Judging answers. What a learner computes is run in a process of its own, with a time limit.

    python -m pellucid.lab.grading JOB RESULT

is that process: it reads code, a check and names from the file JOB, and writes to RESULT what became of them.
"""

import json
import math
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from pellucid.lab import elsewhere
from pellucid.lab.phrases import say
from pellucid.lab.questions import Part, Question
from pellucid.lab.reading import LabError

LIMIT = 20.0  # seconds; importing Pellucid on a busy machine takes one or two of them
PRINTED = 100_000  # bytes a program may print
DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")  # 0,5 in Spanish
# A name begins where no other letter stands before it, and is given back by nobody: each letter is looked at once.
ASSIGNMENT = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+[=:]\s*+([^,;\n]++)")
BETWEEN = re.compile(r"[\s,;]+")
LONGEST = 100_000  # characters of an answer


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and what is to be said about it."""

    right: bool
    remarks: tuple[str, ...] = ()
    printed: str = ""  # by the learner's program


def grade(question: Question, answer: str, language: str = "en", limit: float = LIMIT) -> Verdict:
    """Judge an answer; one that cannot be read as an answer is a LabError, so that it can be asked for again.

    >>> from pellucid.lab.questions import Part
    >>> paths = (({"en": "direct"}, 5.0), ({"en": "through the sum"}, 3.0))
    >>> diamond = Question("q", "scalar", "free", {}, {}, parts=(Part("a", 3.0), Part("b", 8.0, paths)))
    >>> grade(diamond, "a = 3, b = 5").remarks
    ('b: 5 is not the whole gradient; the path through the sum is missing',)
    """
    if len(answer) > LONGEST:
        raise LabError(say(language, "long", given=len(answer), most=LONGEST))
    answer = answer.strip()
    if language == "es" and question.parts and "(" not in answer:
        answer = DECIMAL_COMMA.sub(".", answer)
    return GRADERS[question.kind](question, answer, language, limit)


def _grade_choices(question: Question, answer: str, language: str, limit: float) -> Verdict:
    """Letters, in any order and with anything between them."""
    letters = set(BETWEEN.sub("", answer.lower()))
    known = {"abcdefghij"[i]: choice for i, choice in enumerate(question.choices)}
    if not letters or letters - known.keys() or (question.kind == "single" and len(letters) > 1):
        raise LabError(say(language, "unreadable", text=answer[:40]))
    extra = [letter for letter in sorted(letters) if not known[letter].right]
    remarks = [say(language, "extra", text=f"{letter})") for letter in extra]
    if not extra and any(choice.right and letter not in letters for letter, choice in known.items()):
        remarks.append(say(language, "lacking"))
    return Verdict(not remarks, tuple(remarks))


def _grade_number(question: Question, answer: str, language: str, limit: float) -> Verdict:
    part = question.parts[0]
    given = _number(answer, language, limit)
    remark = judged(part, given, question.tolerance, language)
    return Verdict(remark is None, (remark,) if remark else ())


def _grade_free(question: Question, answer: str, language: str, limit: float) -> Verdict:
    """Numbers by name; without parts the learner compares with the worked trace, and says `yes`."""
    if not question.parts:
        return Verdict(answer.lower().startswith(say(language, "yes")))
    found = dict(ASSIGNMENT.findall(answer))
    if not found:
        raise LabError(say(language, "unreadable", text=answer[:40]))
    asked = [part.name for part in question.parts if part.name in found]  # to compute others would only take time
    given = {name: _number(found[name].strip(), language, limit) for name in asked}
    remarks = [judged(part, given.get(part.name), question.tolerance, language) for part in question.parts]
    return Verdict(not any(remarks), tuple(remark for remark in remarks if remark))


def _grade_code(question: Question, answer: str, language: str, limit: float) -> Verdict:
    result = run(answer, question.check or "", language, limit)
    remarks = tuple(result["remarks"])
    return Verdict(not remarks, remarks, result["printed"])


GRADERS: dict[str, Callable[[Question, str, str, float], Verdict]] = {
    "single": _grade_choices,
    "multiple": _grade_choices,
    "numeric": _grade_number,
    "free": _grade_free,
    "code": _grade_code,
}


def judged(part: Part, given: float | None, tolerance: float, language: str) -> str | None:
    """What is wrong with a number, or None; a sum that lacks some of its paths is told which."""
    if given is None:
        return say(language, "absent", name=part.name)
    if _close(given, part.value, tolerance):
        return None
    for kept in range(1, len(part.paths)):
        for paths in combinations(part.paths, kept):
            if _close(given, sum(value for _, value in paths), tolerance):
                missing = ", ".join(text[language] for text, value in part.paths if (text, value) not in paths)
                return say(language, "missing", name=part.name, given=given, paths=missing)
    if _close(-given, part.value, tolerance):
        return say(language, "sign", name=part.name)
    return say(language, "off", name=part.name, given=given)


def _close(given: float, wanted: float, tolerance: float) -> bool:
    return math.isclose(given, wanted, rel_tol=tolerance, abs_tol=tolerance * min(1.0, abs(wanted)) or 1e-9)


def _number(text: str, language: str, limit: float) -> float:
    """A number, or an expression that is computed."""
    with suppress(ValueError):
        return float(text)
    if not text:
        raise LabError(say(language, "unreadable", text=text))
    result = run(f"answer = ({text})", "", language, limit, names=["answer"])
    value = result["values"].get("answer")
    if value is None:
        raise LabError("\n".join([say(language, "unreadable", text=text[:40]), *result["remarks"]]))
    return float(value)


# --- the process that runs a learner's program


def run(
    code: str, check: str, language: str = "en", limit: float = LIMIT, names: list[str] | None = None
) -> dict[str, Any]:
    """Run a program and a check of it elsewhere: the remarks, what was printed, and the numbers under some names.

    >>> run("y = 6 * 7", "", names=["y"])["values"]
    {'y': 42.0}
    """
    with tempfile.TemporaryDirectory(prefix="pellucid-quiz-") as folder:
        job, result, printed = (Path(folder) / name for name in ("job.json", "result.json", "printed.txt"))
        work = {"code": code, "check": check, "names": names or [], "language": language}
        job.write_text(json.dumps(work), encoding="utf-8")
        status = elsewhere.run(["-m", "pellucid.lab.grading", str(job), str(result)], Path(folder), printed, limit)
        if status is None:
            return {"values": {}, "remarks": [say(language, "late", limit=limit)], "printed": elsewhere.tail(printed)}
        try:
            found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # the program ended the process
            found = {"values": {}, "remarks": [say(language, "failed", text=say(language, "ended", status=status))]}
        return found | {"printed": elsewhere.tail(printed)}


def main(job: str, result: str) -> None:
    """Run a job in this process."""
    work = json.loads(Path(job).read_text(encoding="utf-8"))
    remarks: list[str] = []
    values = _run_here(work, remarks)
    Path(result).write_text(json.dumps({"values": values, "remarks": remarks}), encoding="utf-8")


def _run_here(work: dict[str, Any], remarks: list[str]) -> dict[str, float]:
    from pellucid.shim import as_torch

    language = work["language"]

    def expect(condition: Any, en: str, es: str) -> None:
        """What a check wants to hold, and what to say if it does not."""
        if not condition:
            remarks.append({"en": en, "es": es}[language])

    elsewhere.bounded(PRINTED)
    space: dict[str, Any] = {"__name__": "__main__"}
    with as_torch():
        try:
            exec(compile(work["code"], "<answer>", "exec"), space)
            exec(compile(work["check"], "<check>", "exec"), space | {"expect": expect})
            return {name: float(space[name]) for name in work["names"]}
        except Exception as error:
            remarks.append(say(language, "failed", text=_last_line(error, language)))
            return {}


def _last_line(error: Exception, language: str) -> str:
    """The error with the learner's line."""
    text = traceback.format_exception_only(error)[-1].strip()
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<answer>"]
    return say(language, "line", text=text, line=lines[-1]) if lines else text


if __name__ == "__main__":
    main(*sys.argv[1:])
