"""A finding: what is wrong, where, the evidence that was measured, and the fix; as text and as JSON."""

import linecache
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Literal

from pellucid.core.provenance import Place
from pellucid.diagnose.rewriting import bare
from pellucid.errors import printable

__all__ = ["Finding", "Related", "Spot"]

Severity = Literal["error", "warning", "info"]
SPOTS: dict[tuple[int, int], tuple[CodeType, "Spot"]] = {}  # by code object and offset: a loop comes by a line often
LINES: dict[tuple[str, int], "Spot"] = {}  # one spot for each line: dicts know it again without comparing


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of the user's code, as a file and a number.

    >>> str(Spot("train.py", 12))
    'train.py:12'
    """

    file: str
    line: int

    @classmethod
    def of(cls, place: "Place | Spot") -> "Spot":
        """The spot of a place the engine remembered."""
        if isinstance(place, Spot):
            return place
        known = SPOTS.get((id(place.code), place.lasti))
        if known is None:  # the code object is kept beside it: another one cannot get its identity
            spot = cls(place.filename, place.line)
            known = SPOTS[id(place.code), place.lasti] = place.code, LINES.setdefault((spot.file, spot.line), spot)
        return known[1]

    def __hash__(self) -> int:
        return self.line  # rules count by spots; a hash of both takes three times as long

    @property
    def source(self) -> str:
        """The source line itself, stripped; empty when the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def code(self) -> str:
        """The source line without its comment, for a fix."""
        return bare(self.source)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that belongs to a finding, and the part it plays: "module created here"."""

    spot: Spot
    role: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, in the vocabulary of the doctor (docs/doctor: the codes are a contract).

    >>> cut = Finding("detached", Spot("train.py", 12), "h is cut off by detach()", "w.grad is None", "h = layer(x)")
    >>> cut.as_json()["line"]
    12
    """

    code: str
    spot: Spot  # where the user's code calls the guilty operation
    message: str  # one sentence: what happened
    evidence: str  # what was measured, in numbers
    fix: str  # what to change; lines that start with "- " and "+ " are a small diff
    severity: Severity = "error"
    related: tuple[Related, ...] = field(default=())
    since: int = 0  # the pass in which it was first measured, counted from 0
    independent: bool = False  # no other finding can be the cause of it

    def as_json(self) -> dict[str, Any]:
        """The form that editors and other tools read."""
        return {
            "code": self.code, "file": self.spot.file, "line": self.spot.line, "message": self.message,
            "evidence": self.evidence, "fix": self.fix, "severity": self.severity,
            "related": [{"file": r.spot.file, "line": r.spot.line, "role": r.role} for r in self.related],
        }  # fmt: skip

    def at(self, severity: Severity) -> "Finding":
        """The same finding, taken more or less seriously."""
        return replace(self, severity=severity)

    def __str__(self) -> str:
        source = self.spot.source
        lines = [f"{self.severity}[{self.code}] {self.message}", f"  where:    {self.spot}"]
        if source:
            lines.append(f"            {source}")
        lines.append(f"  evidence: {self.evidence}")
        first, *rest = self.fix.splitlines()
        lines += [f"  fix:      {first}", *(f"            {line}" for line in rest)]
        lines += [f"  see also: {r.spot} ({r.role})" for r in self.related]
        return printable("\n".join(lines))
