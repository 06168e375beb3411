"""The quizzes as a page to read; docs/build.py writes it, in English and in Spanish."""

import re

from pellucid.lab.export import masked
from pellucid.lab.questions import QUIZZES, Question, read_questions

CODE = re.compile(r"(`[^`\n]+`)")
HEADS = {
    "en": """# Quizzes

{count} questions on {topics} topics. Take them with `pellucid quiz`, which computes what you answer and tells you which
path of a gradient you left out; `--cards` turns what you missed into drill cards. [En español](cuestionarios.md).

This page is made by `python docs/build.py` from src/pellucid/lab/data/quizzes.yaml.""",
    "es": """# Cuestionarios

{count} preguntas sobre {topics} temas. Respóndelas con `pellucid quiz --lang es`, que calcula lo que respondes y te
dice qué camino de un gradiente has olvidado; `--cards` convierte los fallos en tarjetas. [In English](quizzes.md).

Esta página la escribe `python docs/build.py` a partir de src/pellucid/lab/data/quizzes.yaml.""",
}
WORDS = {
    "en": {"predict": "Pause and predict", "answer": "Answer", "start": "Complete this program:"},
    "es": {"predict": "Pausa y predice", "answer": "Respuesta", "start": "Completa este programa:"},
}


def quiz_page(language: str) -> str:
    """Every question with its answer folded away.

    >>> quiz_page("en").splitlines()[0]
    '# Quizzes'
    """
    questions = read_questions()
    lines = [HEADS[language].format(count=len(questions), topics=len(QUIZZES))]
    for number, (topic, title) in enumerate(QUIZZES.items(), 1):
        lines += ["", f"## {number:02} {title[language]}"]
        for question in questions:
            if question.topic == topic:
                lines += _question(question, language)
    return "\n".join(lines) + "\n"


def _question(question: Question, language: str) -> list[str]:
    words = WORDS[language]
    lines = ["", f"### {question.id}", "", shown(question.question[language])]
    if question.predict:
        lines += ["", f"*{words['predict']}:* {shown(question.predict[language])}"]
    if question.choices:
        lines += ["", *(f"- {letter}) {shown(c.text[language])}" for letter, c in zip("abcdefghij", question.choices))]
    if question.starter:
        lines += ["", words["start"], "", *_fenced(question.starter)]
    lines += ["", f"<details><summary>{words['answer']}</summary>", ""]
    lines += _fenced(question.answer(language)) if question.kind == "code" else [_listed(question, language)]
    return [*lines, "", shown(question.explain[language]), "", "</details>"]


def shown(text: str) -> str:
    """Text for a page: only what stands between backticks is markup.

    >>> print(shown("`a*b` is a*b"))
    `a*b` is a\\*b
    """
    return "".join(part if part.startswith("`") else masked(part) for part in CODE.split(text))


def _listed(question: Question, language: str) -> str:
    answer = shown(question.answer(language))
    return "\n".join(f"- {line}" for line in answer.split("\n")) if question.choices else answer


def _fenced(source: str) -> list[str]:
    """Source to read; a ```python block would be run by the tests, where the name torch belongs to PyTorch."""
    return ["```text", source, "```"]
