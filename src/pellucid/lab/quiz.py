"""`pellucid quiz`: questions in the terminal, judged by computing, explained after each answer."""

from collections.abc import Iterable
from pathlib import Path

from pellucid.lab.grading import Verdict, grade
from pellucid.lab.phrases import say
from pellucid.lab.progress import Progress
from pellucid.lab.questions import Question
from pellucid.lab.reading import LabError, read_text
from pellucid.lab.terminal import tell, typed


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
                tell(say(language, "kept", id=question.id))
            print(flush=True)
    except Quit:
        pass
    tell(say(language, "score", right=right, asked=asked))
    if right < asked and progress is None:
        tell(say(language, "offer"))
    return right, asked


def ask(question: Question, language: str) -> Verdict:
    """Ask one question, judge the answer and explain it."""
    tell(f"{question.id}  {question.question[language]}")
    if question.predict:
        tell(say(language, "predict", text=question.predict[language]))
        _line(say(language, "ready"))
    for letter, choice in zip("abcdefghij", question.choices, strict=False):
        tell(f"  {letter}) {choice.text[language]}")
    verdict = _judged(question, language)
    print(verdict.printed, end="")
    for remark in verdict.remarks:
        tell(f"  {remark}")
    tell(say(language, "right" if verdict.right else "wrong"))
    if not verdict.right and not (question.kind == "free" and not question.parts):
        tell(say(language, "answer") + "\n" + question.answer(language))
    tell(question.explain[language])
    return verdict


def _judged(question: Question, language: str) -> Verdict:
    """Ask until the answer can be read as one."""
    while True:
        try:
            return grade(question, _answer(question, language), language)
        except LabError as error:
            tell(str(error))


def _answer(question: Question, language: str) -> str:
    if question.kind == "code":
        return _program(question, language)
    if question.kind == "free" and not question.parts:
        _line(say(language, "free"))
        tell(question.answer(language))
        return _agreement(language)
    names = ", ".join(part.name for part in question.parts)
    return _line(say(language, "parts" if question.kind == "free" else question.kind, names=names))


def _agreement(language: str) -> str:
    """Yes or no; anything else is asked again."""
    while True:
        reply = _line(say(language, "agree")).lower()
        if reply.startswith((say(language, "yes"), "n")):
            return reply


def _program(question: Question, language: str) -> str:
    """Lines up to one with only a dot, or the text of a file."""
    tell(say(language, "code", id=question.id))
    print(question.starter)
    first = _line("> ", strip=False)
    while first.strip() == "@":
        tell(_written(question, language))
        first = _line("> ", strip=False)
    if first.startswith("@"):
        return _file(first[1:].strip(), language)
    lines = []
    while first.strip() != ".":
        lines.append(first)
        first = _line("> ", strip=False)
    return "\n".join(lines)


def _written(question: Question, language: str) -> str:
    """Put the beginning of a program into a file, for the learner's own editor; never over one that is there."""
    name = f"{question.id}.py"
    try:
        with open(name, "x", encoding="utf-8") as file:
            file.write(f"{question.starter}\n")
    except OSError as error:
        return say(language, "unwritten", text=name, why=error.strerror)
    return say(language, "written", text=name)


def _file(name: str, language: str) -> str:
    try:
        return read_text(Path(name))
    except LabError:
        raise LabError(say(language, "unopened", text=name)) from None


def _line(prompt: str, strip: bool = True) -> str:
    """What was typed; Quit on `q` and at the end of the input."""
    text = typed(prompt)
    if text is None or text.strip().lower() == "q":
        raise Quit
    return text.strip() if strip else text
