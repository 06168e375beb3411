"""The lab's questions on the page. The lab is this package's neighbour: the command line hands its questions over.

    Quiz(read_questions(), grade, keep, PHRASES, QUIZZES)

What is asked, how it is judged and what is said about it stay the lab's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Quiz"]

KINDS_WITH_KEY = ("single", "multiple", "numeric", "free")  # what a saved page can judge; programs it cannot run


class Quiz:
    """Questions, who judges an answer, and who keeps a question as a drill card."""

    def __init__(
        self, questions: Sequence[Any], grade: Callable[[Any, str, str], Any],
        keep: Callable[[Any, str], None] | None = None, phrases: Mapping[str, Mapping[str, str]] | None = None,
        topics: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:  # fmt: skip
        self.questions = {question.id: question for question in questions}
        self.grade, self.keep = grade, keep
        self.phrases, self.topics = phrases or {}, topics or {}

    def as_json(self, key: bool = False) -> dict[str, Any]:
        """What the page asks; with the `key` also the answers, for a page that has nobody to ask."""
        chosen = [each for each in self.questions.values() if not key or each.kind in KINDS_WITH_KEY]
        questions = [_asked(each) | (_key(each) if key else {}) for each in chosen]
        keeps = self.keep is not None and not key
        return {"questions": questions, "phrases": self.phrases, "topics": self.topics, "keeps": keeps}

    def judged(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The verdict on {"id": ..., "answer": ..., "language": ...}; `again` says that it could not be read."""
        question, language = self._question(content)
        answer = content.get("answer")
        if not isinstance(answer, str):
            raise ValueError('expected {"id": "q-01-01", "answer": "text", "language": "en"}')
        try:
            verdict = self.grade(question, answer, language)
        except ValueError as error:
            return {"again": str(error)}
        return {
            "right": verdict.right, "remarks": list(verdict.remarks), "printed": verdict.printed,
            "answer": question.answer(language), "explain": question.explain[language],
        }  # fmt: skip

    def kept(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a question as a drill card."""
        question, language = self._question(content)
        if self.keep is None:
            raise ValueError("cards cannot be kept here")
        self.keep(question, language)
        return {"kept": question.id}

    def _question(self, content: Mapping[str, Any]) -> tuple[Any, str]:
        question = self.questions.get(str(content.get("id")))
        if question is None:
            raise ValueError(f"there is no question {str(content.get('id'))[:40]!r}")
        language = content.get("language", "en")
        if language not in question.question:
            raise ValueError(f"the language must be one of {', '.join(question.question)}")
        return question, str(language)


def _asked(question: Any) -> dict[str, Any]:
    told = {
        "id": question.id, "topic": question.topic, "kind": question.kind, "question": question.question,
        "predict": question.predict, "choices": [choice.text for choice in question.choices],
        "parts": [part.name for part in question.parts], "starter": question.starter,
    }  # fmt: skip
    return {name: value for name, value in told.items() if value}


def _key(question: Any) -> dict[str, Any]:
    """What is right, and what is said then."""
    numbers = [
        {"value": part.value, "paths": [{"text": text, "value": value} for text, value in part.paths]}
        for part in question.parts
    ]
    return {
        "right": [choice.right for choice in question.choices], "numbers": numbers, "tolerance": question.tolerance,
        "answer": {language: question.answer(language) for language in question.question},
        "explain": question.explain,
    }  # fmt: skip
