"""A lab: a page of ours that says what to learn and brings the starter, the hints and the solution; and its criteria.

A page is markdown. Its first heading is the title, the text below it what is learned; then come sections:

    ## Predict              the question to answer before anything is run
    ## Reveal               why the answer is what it is
    ## File: value.py       a file of the starter, as one fenced block
    ## Hint                 any number of them, one for each time the learner asks
    ## Solution: value.py   a file of the reference solution
"""

import difflib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.errors import explain
from pellucid.lab.reading import LabError

TEXTS = Path(__file__).parent / "texts"
ORDER = (
    "build-value", "gradient-check", "two-layer-backprop", "broken-training", "clipping", "vanishing-and-exploding",
    "checkpointing", "custom-functions",
)  # fmt: skip


class Unmet(Exception):
    """A criterion does not hold; the message tells the learner why."""


def expect(condition: Any, reason: str) -> None:
    """What has to hold, and what the learner is told if it does not.

    >>> expect(1 + 1 == 2, "arithmetic is broken")
    """
    if not condition:
        raise Unmet(reason)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of the checklist: what it says, and the function that raises Unmet (or fails) where it does not hold."""

    text: str
    check: Callable[[Any], None]  # takes the Work of running.py


class Criteria(list[Criterion]):
    """The checklist of a lab; as a decorator it takes a function up.

    >>> criteria = Criteria()
    >>> @criteria("one and one is two")
    ... def adds(work):
    ...     expect(1 + 1 == 2, "it is not")
    >>> [criterion.text for criterion in criteria]
    ['one and one is two']
    """

    def __call__(self, text: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        def taken_up(check: Callable[[Any], None]) -> Callable[[Any], None]:
            self.append(Criterion(text, check))
            return check

        return taken_up


@dataclass(slots=True)
class Lab:
    """What the page of a lab says."""

    name: str
    title: str
    lesson: str
    question: str = ""
    reveal: str = ""
    files: dict[str, str] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)
    solution: dict[str, str] = field(default_factory=dict)

    @property
    def checks(self) -> Any:
        """The module with the lab's `criteria` and the `truth()` that a prediction is compared with."""
        return importlib.import_module(f"pellucid.lab.labs.checks.{self.name.replace('-', '_')}")

    @property
    def criteria(self) -> Criteria:
        """The checklist."""
        criteria: Criteria = self.checks.criteria
        return criteria


def all_labs() -> list[Lab]:
    """Every lab, in the order in which they are best done."""
    return [find(name) for name in ORDER]


def find(name: str) -> Lab:
    """The lab of a name; another name is a LabError that offers the nearest.

    >>> find("clipping").title
    'Clip gradients, by value and by norm'
    """
    if name not in ORDER:
        near = difflib.get_close_matches(name.lower().replace("_", "-").replace(" ", "-"), ORDER, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"the labs are {', '.join(ORDER)}"
        raise LabError(explain(f"there is no lab {name!r}", why=hint, try_="pellucid lab list"))
    return parsed(name, (TEXTS / f"{name}.md").read_text(encoding="utf-8"))


def parsed(name: str, page: str) -> Lab:
    """Read a page.

    >>> lab = parsed("sum", "# Add up\\n\\nLearn to add.\\n\\n## Hint\\n\\nUse +.\\n")
    >>> lab.title, lab.lesson, lab.hints
    ('Add up', 'Learn to add.', ['Use +.'])
    """
    sections = list(_sections(page))
    title, lesson = sections[0]
    lab = Lab(name, title, lesson)
    for heading, body in sections[1:]:
        kind, _, file = heading.partition(": ")
        if kind == "File":
            lab.files[file] = _fenced(body)
        elif kind == "Solution":
            lab.solution[file] = _fenced(body)
        elif kind == "Hint":
            lab.hints.append(body)
        elif kind == "Predict":
            lab.question = body
        elif kind == "Reveal":
            lab.reveal = body
        else:
            raise LabError(f"{name}.md: a section {heading!r} has no meaning")
    return lab


def _sections(page: str) -> Iterator[tuple[str, str]]:
    """Headings and what stands below them; what looks like a heading inside a fenced block is none."""
    heading, fence = "", ""
    body: list[str] = []
    for line in page.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = "`" * (len(line) - len(line.lstrip("`")))
        elif line.startswith(("# ", "## ")):
            if heading:
                yield heading, "\n".join(body).strip()
            heading, body = line.lstrip("# "), []
            continue
        body.append(line)
    yield heading, "\n".join(body).strip()


def _fenced(body: str) -> str:
    """The inside of the one fenced block of a section."""
    return "\n".join(body.splitlines()[1:-1]) + "\n"
