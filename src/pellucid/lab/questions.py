"""Questions: what `quizzes.yaml` may hold. Every text stands there in English and in Spanish.

    single, multiple   choices, each marked `right: yes` or `right: no`
    numeric            an `answer`, and the snippet (`compute`) that leaves it in `answer`
    free               a `worked` trace to compare with; with `parts`, one number for each part is asked for
    code               `starter` code to complete, a `solution`, and a `check` that is run after the learner's code

A part whose number is a sum over paths names them, so that a learner can be told which one is missing.
"""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.lab.cards import DATA, TOPICS, Card
from pellucid.lab.reading import LabError, Node, read

LANGUAGES = ("en", "es")
NUMBERED = re.compile(r"q-(\d\d)-\d\d")
ALWAYS = ["id", "topic", "kind", "question", "explain"]
REQUIRED = {
    "single": ["choices"],
    "multiple": ["choices"],
    "numeric": ["answer", "compute"],
    "free": ["worked"],
    "code": ["starter", "solution", "check"],
}
OPTIONAL = {
    "single": ["compute"], "multiple": ["compute"], "numeric": ["tolerance"], "free": ["parts", "compute"], "code": [],
}  # fmt: skip

# The topics of the quizzes in the order of their numbers: those of the cards, and three that go across them.
QUIZZES = {
    **TOPICS,
    "exercises": {"en": "Exercises", "es": "Ejercicios"},
    "interview": {"en": "Questions of an interview", "es": "Preguntas de una entrevista"},
    "scenarios": {"en": "What would you do?", "es": "¿Qué harías?"},
}

Text = dict[str, str]  # by language
MOST_PATHS = 12


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers to choose from."""

    text: Text
    right: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A number that is asked for, and the paths whose contributions add up to it."""

    name: str
    value: float
    paths: tuple[tuple[Text, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One question; what its kind does not have is empty."""

    id: str
    topic: str
    kind: str
    question: Text
    explain: Text
    predict: Text | None = None
    choices: tuple[Choice, ...] = ()
    parts: tuple[Part, ...] = ()
    tolerance: float = 1e-3
    worked: Text | None = None
    compute: str | None = None
    starter: str | None = None
    solution: str | None = None
    check: str | None = None

    def answer(self, language: str) -> str:
        """The right answer as text."""
        if self.choices:
            letters = "abcdefghij"
            return "\n".join(f"{letters[i]}) {c.text[language]}" for i, c in enumerate(self.choices) if c.right)
        if self.kind == "numeric":
            return f"{self.parts[0].value:g}"
        if self.worked:
            return self.worked[language]
        return self.solution or ""

    def card(self, language: str) -> Card:
        """This question as a drill card."""
        choices = [f"- {choice.text[language]}" for choice in self.choices]
        front = "\n".join([self.question[language], *choices])
        return Card(self.id, self.topic, front, f"{self.answer(language)}\n{self.explain[language]}")


def read_questions(path: str | Path | None = None) -> list[Question]:
    """Read a file of questions; those that come with Pellucid, unless a file is named.

    >>> read_questions()[0].id
    'q-01-01'
    """
    found: dict[str, Question] = {}
    for node in read(path or DATA / "quizzes.yaml").fields(["questions"])["questions"].items():
        question = _question(node)
        if question.id in found:
            raise node.place.error(f"the id {question.id!r} stands here twice")
        found[question.id] = question
    return list(found.values())


def chosen(questions: list[Question], topic: str | None, id: str | None) -> list[Question]:
    """The questions of a topic, or the one with an id, or all."""
    if topic is not None and topic not in QUIZZES:
        raise LabError(f"there is no topic {topic!r}: choose one of {', '.join(QUIZZES)}")
    if id is not None and id not in {question.id for question in questions}:
        near = difflib.get_close_matches(id, [question.id for question in questions], n=1)
        hint = f"did you mean {near[0]}?" if near else f"they are {questions[0].id} to {questions[-1].id}"
        raise LabError(f"there is no question {id!r}: {hint}")
    found = [question for question in questions if topic in (None, question.topic) and id in (None, question.id)]
    if not found:
        raise LabError(f"{id} is no question of the topic {topic}")
    return found


def _question(node: Node) -> Question:
    if not isinstance(node.content, dict) or "kind" not in node.content:
        raise node.place.error("a question needs a `kind`", f"one of {', '.join(REQUIRED)}")
    kind = node.content["kind"].choice(REQUIRED)
    fields = node.fields([*ALWAYS, *REQUIRED[kind]], ["predict", *OPTIONAL[kind]])
    topic = fields["topic"].choice(QUIZZES)
    texts: dict[str, Any] = {name: _text(fields[name]) for name in ("predict", "worked") if name in fields}
    texts |= {name: fields[name].text() for name in ("compute", "starter", "solution", "check") if name in fields}
    return Question(
        _numbered(fields["id"], topic), topic, kind, _text(fields["question"]), _text(fields["explain"]),
        choices=_choices(fields["choices"], kind) if "choices" in fields else (),
        parts=_parts(fields), tolerance=fields["tolerance"].number() if "tolerance" in fields else 1e-3,
        **texts,
    )  # fmt: skip


def _numbered(node: Node, topic: str) -> str:
    """An id like q-07-01, whose first number is that of its topic."""
    text, number = node.text(), list(QUIZZES).index(topic) + 1
    found = NUMBERED.fullmatch(text)
    if not found or int(found[1]) != number:
        raise node.place.error(f"{text[:40]!r} is no id for the topic {topic}", f"q-{number:02}-01")
    return text


def _text(node: Node) -> Text:
    return {language: each.text() for language, each in node.fields(LANGUAGES).items()}


def _choices(node: Node, kind: str) -> tuple[Choice, ...]:
    choices = []
    for each in node.items():
        fields = each.fields([*LANGUAGES, "right"])
        text = {language: fields[language].text() for language in LANGUAGES}
        choices.append(Choice(text, fields["right"].choice(["yes", "no"]) == "yes"))
    right = sum(choice.right for choice in choices)
    if not 2 <= len(choices) <= 10 or right == 0 or (kind == "single" and right > 1):
        wanted = "exactly one right" if kind == "single" else "at least one right"
        raise node.place.error(f"2 to 10 choices are wanted here, {wanted}")
    return tuple(choices)


def _parts(fields: dict[str, Node]) -> tuple[Part, ...]:
    if "answer" in fields:
        return (Part("answer", fields["answer"].number()),)
    return tuple(_part(node) for node in fields["parts"].items()) if "parts" in fields else ()


def _part(node: Node) -> Part:
    fields = node.fields(["name", "value"], ["paths"])
    paths: list[tuple[Text, float]] = []
    for each in fields["paths"].items() if "paths" in fields else []:
        if len(paths) == MOST_PATHS:
            raise each.place.error(f"at most {MOST_PATHS} paths may stand here: every choice of them is compared")
        path = each.fields([*LANGUAGES, "value"])
        paths.append(({language: path[language].text() for language in LANGUAGES}, path["value"].number()))
    return Part(fields["name"].text(), fields["value"].number(), tuple(paths))
