"""Patterns that meet what people type or write into files take time in proportion to its length, never its square."""

import ast
import importlib
import pkgutil
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest

import pellucid
import pellucid.explorer
import pellucid.lab
from pellucid.lab.grading import LONGEST, grade
from pellucid.lab.labs.checks import broken_training
from pellucid.lab.labs.folder import agrees
from pellucid.lab.questions import Part, Question, read_questions
from pellucid.lab.reading import LabError

SIZE = 20_000  # takes a millisecond, the square of it half a second and more
PIECES = [
    "a", "_", "1", " ", "\n", "\t", ",", ";", "=", ":", ".", "-", "+", "e", "`", "\\", "#", "q-", "## ", "## a ", "a ",
    "a=", "a= ", "= ", "1,", "1.", "1e", "(", "[", "*", "é", "a\n", " \n", "##", "##\n", "## \n", "a b", "{", "{a",
    "a:", "grad>", "//", "/**", "Backward", "Backward1", "aA", "\r\n", "\u2028", "less than ", "below ", "random", "· ",
    ".0", "0.", "a.", "a[", "[a]", "[ ", "np.a(", "float(a", "torch.", "tensor([a", ".exp()", "1 / (1 + ", "['lr'",
    "a_1",
]  # fmt: skip
HOSTILE = [
    start + piece * (SIZE // len(piece)) + end for piece in PIECES for start in ("", "## a", "a") for end in ("", "!")
]


SOURCES = Path(pellucid.__file__).parent
CALLS = ("compile", "match", "search", "fullmatch", "split", "sub", "subn", "findall", "finditer")


def calls_of_re(file):
    """Where a file gives a pattern to `re`."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=called)) if called in CALLS:
                yield node


def modules(package):
    yield package
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not each.name.endswith("__main__"):
            yield importlib.import_module(each.name)


def patterns():
    """Those of the modules, and those of the page, whose syntax is the same. Not page.py's: it reads our own files."""
    for package in (pellucid.lab, pellucid.explorer):
        for module in modules(package):
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern) and module.__name__ != "pellucid.explorer.page":
                    yield f"{module.__name__}.{name}", value
    for file in sorted((Path(pellucid.explorer.__file__).parent / "static").glob("*.js")):
        for number, text in enumerate(re.findall(r"(?<=[(= ])/([^/*\s][^/\n]*)/g?(?=[,).;])", file.read_text())):
            yield f"{file.name}:{number}", re.compile(text)
    for file in sorted(SOURCES.rglob("*.py")):
        folder = file.relative_to(SOURCES).parts[0]
        if folder in ("lab", "explorer", "testing"):  # the last reads what it has written itself
            continue
        for call in calls_of_re(file):
            module = ".".join(("pellucid", *file.relative_to(SOURCES).with_suffix("").parts))
            with suppress(NameError):  # made of a name that is not the module's: it stands for itself, escaped
                text = eval(ast.unparse(call.args[0]), vars(importlib.import_module(module)))
                start = r"\A" if call.func.attr in ("match", "fullmatch") else ""  # tried nowhere else
                yield f"{module}:{call.lineno}", re.compile(f"{start}(?:{text})", re.MULTILINE)


PATTERNS = dict(patterns())


def test_the_patterns_are_found():
    assert {"pellucid.lab.grading.ASSIGNMENT", "pellucid.lab.labs.folder.NUMBER", "search.js:1"} <= PATTERNS.keys()
    assert len(PATTERNS) >= 60 and sum(name.startswith("pellucid.diagnose.") for name in PATTERNS) >= 20


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_time_in_proportion(name):
    for text in HOSTILE:
        began = time.process_time()
        for _ in PATTERNS[name].finditer(text):
            pass
        PATTERNS[name].fullmatch(text)
        assert time.process_time() - began < 0.3, (name, text[:20])


def test_no_pattern_hides_in_a_call():
    """One that is written where it is used would not be found above."""
    for package in (pellucid.lab, pellucid.explorer):
        for file in Path(package.__file__).parent.rglob("*.py"):
            assert [call.lineno for call in calls_of_re(file) if call.func.attr != "compile"] == [], file.name


# --- answers

DIAMOND = Question("q", "scalar", "free", {}, {}, parts=(Part("a", 3.0), Part("b", 8.0)))
MILLION = ["a" * 10**6, "a " * 500_000, "a=" * 500_000, "1" * 10**6, " " * 10**6, "a =" + " " * 10**6, "a=1," * 250_000]


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize(
    "question", [DIAMOND, *{each.kind: each for each in read_questions()}.values()], ids=lambda q: q.kind
)
def test_an_answer_of_a_million_letters_is_told_to_be_too_long(question, language):
    began = time.process_time()
    for answer in MILLION:
        with pytest.raises(LabError, match=r"100[,.]?000"):
            grade(question, answer, language)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("answer", [each[:LONGEST] for each in MILLION], ids=range(len(MILLION)))
def test_the_longest_answer_that_is_read_is_read_at_once(answer):
    began = time.process_time()
    with suppress(LabError):
        grade(DIAMOND, answer, limit=0.5)
    assert time.process_time() - began < 2


def test_assignments_are_read_as_before():
    for answer in (
        "a = 3, b = 8",
        "a=3;b=8",
        "a: 3\nb: 8",
        "so a = 3 , and b= 8 ",
        "a=1,a=3,b=8",
        "\ta\n=\n3,b=8",
        "c=1/0,a=3,b=8",
    ):
        assert grade(DIAMOND, answer).right, answer
    assert grade(DIAMOND, "a = 3").remarks == ("b: no number was given for it",)
    assert not grade(DIAMOND, "ab = 3, b = 8").right


def test_only_what_is_asked_for_is_computed(monkeypatch):
    """Each is a program that is run: a thousand of them would take an hour."""
    runs = []
    monkeypatch.setattr(
        "pellucid.lab.grading.run", lambda code, *rest, **more: runs.append(code) or {"values": {"answer": 3.0}}
    )
    grade(DIAMOND, ", ".join(f"x{i} = 1+{i}" for i in range(1000)) + ", a = 1+2, a = 2+1")
    assert runs == ["answer = (2+1)"]


def test_a_question_of_many_paths_is_refused(tmp_path):
    paths = "".join(f"\n          - {{en: p{i}, es: q{i}, value: {i}}}" for i in range(13))
    file = tmp_path / "questions.yaml"
    file.write_text(
        "questions:\n  - id: q-01-01\n    topic: scalar\n    kind: free\n    question: {en: a, es: b}\n"
        "    worked: {en: a, es: b}\n    parts:\n      - name: a\n        value: 1\n        paths:" + paths
        + "\n    explain: {en: a, es: b}\n"
    )  # fmt: skip
    with pytest.raises(LabError, match="at most 12 paths"):
        read_questions(file)


# --- labs


def test_a_prediction_of_a_million_letters():
    began = time.process_time()
    for text in MILLION:
        assert not agrees(text, "7") and not agrees(text, "norm")
    assert time.process_time() - began < 5


def test_headings_of_a_post_mortem():
    class Work:
        def __init__(self, text):
            self.written = text

        def text(self, name):
            return self.written

    found = broken_training._sections(
        Work("# x\n## Symptom  \nbad\n\n##  Cause\nlog\n##\n## \nno heading\n###  deep\n")
    )
    assert found == {"Symptom": "bad", "Cause": "log\n##\n## \nno heading\n###  deep"}
    began = time.process_time()
    for hostile in ("## " + "a" + " " * 10**6 + "b", "##" + " " * 10**6, "## a\n" * 10**5, "##\n" * 10**5):
        broken_training._sections(Work(hostile))
    assert time.process_time() - began < 5
