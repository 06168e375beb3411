"""The doctor on a corpus of programs written without looking at its rules, as their users would write them.

A line of a broken program that ends in `# BUG: <code>` is one that the contract (shared/doctor-causes.md) says
to report. Several marks of one code in a program are the lines of one bug, any of which will do.
"""

import contextlib
import functools
import io
import re
import runpy
import warnings
from pathlib import Path

import pytest

from pellucid.diagnose.doctor import doctor
from pellucid.diagnose.finding import Finding
from pellucid.shim import as_torch

CORPUS = Path(__file__).resolve().parent / "doctor_corpus"
BROKEN = sorted((CORPUS / "broken").glob("*.py"))
HEALTHY = sorted((CORPUS / "healthy").glob("*.py"))

# Programs the doctor does not get right yet, with the reason.
MISSED: dict[str, str] = {}


@functools.cache
def diagnosis(path: Path) -> list[Finding]:
    """What the doctor says of a program that runs in silence, information left out."""
    watch = doctor(stop_when_failed=True)
    silence = io.StringIO()
    with (
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
        contextlib.suppress(Exception),
        warnings.catch_warnings(action="ignore"),
        as_torch(),
        watch,
    ):
        runpy.run_path(str(path), run_name="__main__")
    trace = watch.trace
    assert not watch.failures, watch
    assert trace.open.number or trace.asked_for or trace.crash, "nothing was trained, so nothing is proven"
    return [finding for finding in watch.findings if finding.severity != "info"]


def marks(path: Path) -> dict[str, list[int]]:
    """The lines to report, by code."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for code in re.findall(r"# BUG: ([\w-]+)", line):
            found.setdefault(code, []).append(number)
    return found


def matches(finding: Finding, code: str, lines: list[int]) -> bool:
    return finding.code == code and any(abs(finding.spot.line - line) <= 1 for line in lines)


def programs(paths: list[Path]) -> list:
    """The programs as test parameters; the missed ones are expected to fail."""

    def parameter(path: Path):
        reason = MISSED.get(path.stem)
        wanted = [pytest.mark.xfail(reason=reason, strict=False)] if reason else []
        return pytest.param(path, id=path.stem, marks=wanted)

    return [parameter(path) for path in paths]


@pytest.mark.parametrize("path", programs(BROKEN))
def test_every_bug_is_found_at_its_line(path):
    wanted = marks(path)
    assert wanted, "a broken program says where"
    findings = diagnosis(path)
    for code, lines in wanted.items():
        assert any(matches(finding, code, lines) for finding in findings), [str(one) for one in findings]


@pytest.mark.parametrize("path", programs(HEALTHY))
def test_a_healthy_program_is_clean(path):
    assert [str(finding) for finding in diagnosis(path)] == []


def test_most_bugs_are_the_first_finding():
    """A bug counts when it is at the top, or below no finding but the program's other bugs."""
    first = total = 0
    for path in BROKEN:
        wanted, findings = marks(path), diagnosis(path)
        total += len(wanted)
        for finding in findings[: len(wanted)]:
            first += any(matches(finding, code, lines) for code, lines in wanted.items())
    assert first / total >= 0.75, f"{first} of {total}"


def test_the_corpus_has_every_code_twice():
    codes = [code for path in BROKEN for code in marks(path)]
    assert len(HEALTHY) >= 28
    assert not {code for code in codes if codes.count(code) < 2}
    assert len(set(codes)) == 36
