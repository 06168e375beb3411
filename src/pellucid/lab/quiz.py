"""`pellucid quiz`: questions in the terminal, judged by computing, explained after each answer."""

from collections.abc import Iterable
from pathlib import Path

from pellucid.lab.grading import Verdict, grade
from pellucid.lab.phrases import say
from pellucid.lab.progress import Progress
from pellucid.lab.questions import Question
from pellucid.lab.reading import LabError, read_text


class Quit(Exception):
    """The learner wants to stop."""


def take(questions: Iterable[Question], language: str = "en", progress: Progress | None = None) -> tuple[int, int]:
    """Ask questions until they are done or the learner stops; wrong answers become cards if there is a progress file.

    Says and returns how many were right, and how many were asked.
    """
    right = asked = 0
    try:
        for question in questions:
            verdict = ask(question, language)
            asked, right = asked + 1, right + verdict.right
            if not verdict.right and progress is not None:
                progress.add(question.card(language))
                print(say(language, "kept", id=question.id))
            print(flush=True)
    except Quit:
        print()
    print(say(language, "score", right=right, asked=asked))
    return right, asked


def ask(question: Question, language: str) -> Verdict:
    """Ask one question, judge the answer and explain it."""
    print(f"{question.id}  {question.question[language]}")
    if question.predict:
        _line(say(language, "predict", text=question.predict[language]) + "\n" + say(language, "ready"))
    for letter, choice in zip("abcdefghij", question.choices, strict=False):
        print(f"  {letter}) {choice.text[language]}")
    verdict = _judged(question, language)
    print(verdict.printed, end="")
    for remark in verdict.remarks:
        print(f"  {remark}")
    print(say(language, "right" if verdict.right else "wrong"))
    if not verdict.right and not (question.kind == "free" and not question.parts):
        print(say(language, "answer"), question.answer(language), sep="\n")
    print(question.explain[language])
    return verdict


def _judged(question: Question, language: str) -> Verdict:
    """Ask until the answer can be read as one."""
    while True:
        try:
            return grade(question, _answer(question, language), language)
        except LabError as error:
            print(error)


def _answer(question: Question, language: str) -> str:
    if question.kind == "code":
        return _program(question, language)
    if question.kind == "free" and not question.parts:
        _line(say(language, "free"))
        print(question.answer(language))
        return _line(say(language, "agree"))
    names = ", ".join(part.name for part in question.parts)
    return _line(say(language, "parts" if question.kind == "free" else question.kind, names=names))


def _program(question: Question, language: str) -> str:
    """Lines up to one with only a dot, or the text of a file."""
    print(say(language, "code"), question.starter, sep="\n")
    first = _line("> ", strip=False)
    if first.startswith("@"):
        return read_text(Path(first[1:].strip()))
    lines = []
    while first.strip() != ".":
        lines.append(first)
        first = _line("> ", strip=False)
    return "\n".join(lines)


def _line(prompt: str, strip: bool = True) -> str:
    """What was typed; Quit on `q` and at the end of the input."""
    try:
        text = input(prompt)
    except (EOFError, KeyboardInterrupt):
        raise Quit from None
    if text.strip().lower() == "q":
        raise Quit
    return text.strip() if strip else text
