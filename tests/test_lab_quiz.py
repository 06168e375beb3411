"""The quizzes: every answer is computed, learners' numbers and programs are judged, and the mirror is current."""

import builtins
import contextlib
import itertools
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.lab.cards import TOPICS
from pellucid.lab.grading import grade
from pellucid.lab.mirror import quiz_page, shown
from pellucid.lab.phrases import PHRASES
from pellucid.lab.progress import Progress
from pellucid.lab.questions import LANGUAGES, QUIZZES, read_questions
from pellucid.lab.reading import LabError
from pellucid.lab.snippets import near, run_snippet, run_with

QUESTIONS = read_questions()
BY_ID = {question.id: question for question in QUESTIONS}
COMPUTED = [question for question in QUESTIONS if question.compute]
PROGRAMS = [question for question in QUESTIONS if question.kind == "code"]
ROOT = Path(__file__).resolve().parent.parent
SMALL = """questions:
  - id: q-01-01
    topic: scalar
    kind: single
    question: {en: One?, es: ¿Uno?}
    choices:
      - {en: yes, es: sí, right: yes}
      - {en: no, es: no, right: no}
    explain: {en: So it is., es: Así es.}
"""


# --- the questions


def test_every_topic_has_questions_of_several_kinds():
    assert len(QUESTIONS) >= 50
    for number, topic in enumerate(QUIZZES, 1):
        own = of_topic(topic)
        assert [question.id for question in own] == [f"q-{number:02}-{i:02}" for i in range(1, len(own) + 1)]
        if topic in TOPICS:
            assert len(own) >= 5 and len({question.kind for question in own}) >= 3, topic
            assert any(question.predict for question in own), topic


def of_topic(topic):
    return [question for question in QUESTIONS if question.topic == topic]


def test_exercises_interview_and_scenarios():
    """x cubed, the numerator of a softmax, relu against tanh; five questions of an interview, seven scenarios."""
    cube, softmax, relu = of_topic("exercises")
    assert "x**3" in cube.question["en"] and relu.kind == cube.kind == "code"
    assert grade(softmax, "x = 0.268941, z = -0.196612").remarks == (
        "x: 0.268941 is not the whole gradient; the path through the denominator is missing",
    )
    assert "again is 24" in grade(cube, cube.solution.replace("x.grad = 0.0\n", "")).remarks[0]
    assert [question.kind for question in of_topic("interview")] == ["free"] * 5
    assert all(question.worked and question.compute for question in of_topic("interview"))
    assert len(of_topic("scenarios")) == 7 and all(question.compute for question in of_topic("scenarios"))


@pytest.mark.parametrize(
    ("id", "words"),
    [("q-01-02", "w or b"), ("q-01-04", "contributions does a.grad"), ("q-10-05", "three hypotheses"),
     ("q-03-03", "shape of each factor")],
)  # fmt: skip
def test_pause_and_predict(id, words, monkeypatch, capsys):
    """The prompt comes before the choices and the answer, and waits."""
    _, text = quiz(monkeypatch, capsys, "--id", id)
    assert words in text and "Pause and predict" in text and BY_ID[id].explain["en"] not in text


def test_both_languages_differ():
    for question in QUESTIONS:
        for text in (question.question, question.explain):
            assert text["en"] != text["es"], question.id
        texts = [*filter(None, (question.predict, question.worked)), *(choice.text for choice in question.choices)]
        for text in [*texts, *(path for part in question.parts for path, _ in part.paths)]:
            assert text["es"].strip() and (text["en"] != text["es"] or is_program(text["en"])), text
    assert PHRASES["en"].keys() == PHRASES["es"].keys()
    assert all(PHRASES["en"][key] != PHRASES["es"][key] for key in PHRASES["en"])


def is_program(text):
    """Whether there is nothing in a text to translate."""
    return sum(word.isalpha() and len(word) > 2 for word in text.split()) < 3


def hold(question, names):
    if not question.parts:
        return
    answer = names["answer"] if isinstance(names["answer"], dict) else {"answer": names["answer"]}
    assert answer.keys() == {part.name for part in question.parts}
    for part in question.parts:
        assert near(answer[part.name], part.value, 1e-6)
        assert not part.paths or near(sum(value for _, value in part.paths), part.value, 1e-6)


@pytest.mark.parametrize("question", COMPUTED, ids=lambda question: question.id)
def test_the_answer_is_computed(question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hold(question, run_snippet(question.compute, question.id))


@pytest.mark.parametrize("question", COMPUTED, ids=lambda question: question.id)
def test_the_answer_is_true_of_pytorch(question, torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hold(question, run_with(torch, question.compute, question.id))


def test_what_is_numeric_is_computed():
    assert all(question.compute for question in QUESTIONS if question.parts)


@pytest.mark.parametrize("question", PROGRAMS, ids=lambda question: question.id)
def test_programs(question):
    verdict = grade(question, question.solution)
    assert verdict.right, verdict.remarks
    for language in LANGUAGES:
        assert not grade(question, question.starter, language).right


# --- grading


def test_the_diamond_is_judged_path_by_path():
    diamond = BY_ID["q-01-01"]
    assert grade(diamond, "a = 3, b = 8").right
    assert grade(diamond, "b: 8; a: 3").right
    assert grade(diamond, "a = 3, b = 5 + 3").right, "expressions are computed"
    verdict = grade(diamond, "a=3, b=5")
    assert not verdict.right and "through the sum" in verdict.remarks[0] and "missing" in verdict.remarks[0]
    assert "falta el camino directo" in grade(diamond, "a=3, b=3", "es").remarks[0]
    assert grade(diamond, "a=-3, b=8").remarks == ("a: the size is right, the sign is not",)
    assert grade(diamond, "a=3").remarks == ("b: no number was given for it",)
    assert grade(diamond, "a=4, b=9").remarks == ("a: 4 is not it", "b: 9 is not it")


def test_the_diamond_as_a_program():
    question = BY_ID["q-01-06"]
    wrong = question.solution.replace("dc * s + ds", "dc * s")
    assert grade(question, wrong).remarks == ("db lacks the path through the sum (3)",)
    assert grade(question, question.solution.replace("dc * s + ds", "ds")).remarks == ("db lacks the direct path (5)",)


def test_numbers():
    assert grade(BY_ID["q-03-04"], "1/6").right
    assert grade(BY_ID["q-03-04"], "0.1667").right
    assert not grade(BY_ID["q-03-04"], "0.17").right
    assert grade(BY_ID["q-10-03"], "0.25**20").right
    assert not grade(BY_ID["q-10-03"], "0").right
    assert not grade(BY_ID["q-01-02"], "nan").right
    assert not grade(BY_ID["q-01-02"], "inf").right
    assert grade(BY_ID["q-08-02"], "3/5").right
    assert grade(BY_ID["q-08-02"], "0,6", "es").right
    assert grade(BY_ID["q-11-02"], "x = 0,196612, z = -0,196612", "es").right
    with pytest.raises(LabError):
        grade(BY_ID["q-08-02"], "0,6")


@pytest.mark.parametrize("answer", ["", "forty two", "1 +", "[1]", "exit()", "1/0", "x" * 5000, "\x00", "'a'"])
def test_what_is_no_number_is_asked_again(answer):
    with pytest.raises(LabError, match="cannot be read as an answer"):
        grade(BY_ID["q-01-02"], answer)


def test_choices():
    single, multiple = BY_ID["q-01-03"], BY_ID["q-02-04"]
    assert grade(single, "b").right and grade(single, "B ").right and not grade(single, "a").right
    assert grade(multiple, "a, c d").right and grade(multiple, "dca").right
    assert grade(multiple, "ac").remarks == ("one that is right is missing",)
    assert grade(multiple, "abcd").remarks == ("b) is not right",)
    for answer in ("", "z", "ab", "?", "1"):
        with pytest.raises(LabError):
            grade(single, answer)


def test_programs_that_misbehave():
    question = BY_ID["q-01-06"]
    assert "NameError" in grade(question, "da = nothing").remarks[0]
    assert "(line 2)" in grade(question, "x = 1\ny = 1 / 0").remarks[0]
    assert "SyntaxError" in grade(question, "def").remarks[0]
    assert "ended the process with status 7" in grade(question, "import os; os._exit(7)").remarks[0]
    assert "(línea 1)" in grade(question, "1 / 0", "es").remarks[0]
    assert "RecursionError" in grade(question, "def f(): f()\nf()").remarks[0]
    assert not grade(question, "raise SystemExit").right
    assert grade(question, question.solution + "\nprint('hello')").printed == "hello\n"


LONG = {
    "letters": "a" * 60_000, "spaces": "a" + " " * 60_000, "names": "a " * 30_000, "signs": "=" * 60_000,
    "names and spaces": ("a" * 200 + " " * 200) * 150, "choices": "b, " * 20_000, "values": "z=1," * 15_000,
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_long_answer_is_read_in_time_proportional_to_its_length(text, language):
    begun = time.process_time()
    for question in (BY_ID["q-01-01"], *{each.kind: each for each in QUESTIONS if each.kind != "code"}.values()):
        with contextlib.suppress(LabError):
            grade(question, text, language)
    assert time.process_time() - begun < 2


def test_an_answer_that_is_too_long_is_not_read():
    with pytest.raises(LabError, match="at most 100,000 characters are read, not 100,001"):
        grade(BY_ID["q-01-01"], "a=3 b=8".ljust(100_001))


def test_a_question_with_too_many_paths_to_compare_is_refused(tmp_path):
    file = tmp_path / "quiz.yaml"
    text = (ROOT / "src" / "pellucid" / "lab" / "data" / "quizzes.yaml").read_text(encoding="utf-8")
    path = (
        "          - {en: through the sum (b is the other factor), es: por la suma (b es el otro factor), value: 3}\n"
    )
    for count in (12, 13):
        file.write_text(text.replace(path, path * (count - 1), 1), encoding="utf-8")
        if count == 12:
            assert len(read_questions(file)[0].parts[1].paths) == 12
        else:
            with pytest.raises(LabError, match="at most 12 paths may stand here"):
                read_questions(file)


def test_an_endless_program_is_stopped_with_its_children(tmp_path):
    note = tmp_path / "pid"
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        f"with open({str(note)!r}, 'w') as file:\n    file.write(str(child.pid))\n"
        "while True:\n    pass\n"
    )
    begun = time.monotonic()
    verdict = grade(BY_ID["q-01-06"], code, limit=4)
    assert verdict.remarks == ("the program was stopped after 4 seconds",)
    assert time.monotonic() - begun < 40
    assert _ended(Path(f"/proc/{note.read_text()}/stat"))


def test_a_program_that_sleeps_is_stopped_as_well():
    verdict = grade(BY_ID["q-01-06"], "import time\ntime.sleep(100)", limit=2)
    assert verdict.remarks == ("the program was stopped after 2 seconds",)


def _ended(state):
    """Whether a process is gone, or only waits to be collected."""
    for _ in range(50):
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


def test_what_a_program_prints_is_bounded():
    verdict = grade(BY_ID["q-01-06"], "while True:\n    print('x' * 1000)")
    assert not verdict.right and "File too large" in verdict.remarks[0] and len(verdict.printed) <= 2_000


# --- in the terminal


def quiz(monkeypatch, capsys, *arguments, answers=()):
    lines = iter(answers)

    def typed(prompt=""):
        print(prompt, end="")
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", typed)
    status = main(["quiz", *arguments])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def test_a_quiz(monkeypatch, capsys):
    answers = ["", "a=3, b=5", "", "42", "z", "b", "q"]
    status, text = quiz(monkeypatch, capsys, "--topic", "scalar", answers=answers)
    assert status == 0 and "2 of 3 right." in text
    assert "the path through the sum (b is the other factor) is missing" in text
    assert "Pause and predict" in text and "a + 2b" in text and "cannot be read as an answer: z" in text


def test_a_quiz_in_spanish(monkeypatch, capsys):
    _, text = quiz(monkeypatch, capsys, "--id", "q-01-03", "--lang", "es", answers=["a"])
    assert "Todavía no." in text and "0 de 1 correctas." in text and "Lo correcto es 7 = 6 + 1" in text


def test_a_free_answer_is_compared_with_the_worked_trace(monkeypatch, capsys):
    _, text = quiz(monkeypatch, capsys, "--id", "q-04-06", answers=["not a scalar", "y"])
    assert "y.sum().backward()" in text and "1 of 1 right." in text
    _, text = quiz(monkeypatch, capsys, "--id", "q-04-06", answers=["not a scalar", "perhaps", "no"])
    assert text.count("Does yours agree?") == 2 and "0 of 1 right." in text
    _, text = quiz(monkeypatch, capsys, "--id", "q-04-06", "--lang", "es", answers=["no sé", "n"])
    assert "0 de 1 correctas." in text


def test_a_program_is_typed_or_read_from_a_file(monkeypatch, capsys, tmp_path):
    solution = BY_ID["q-01-06"].solution
    _, text = quiz(monkeypatch, capsys, "--id", "q-01-06", answers=[*solution.splitlines(), "."])
    assert "1 of 1 right." in text
    file = tmp_path / "mine.py"
    file.write_text(solution)
    _, text = quiz(monkeypatch, capsys, "--id", "q-01-06", answers=["@nowhere.py", f"@{file}"])
    assert "nowhere.py is no file" in text and "1 of 1 right." in text
    monkeypatch.chdir(tmp_path)
    _, text = quiz(monkeypatch, capsys, "--id", "q-01-06", answers=["@", "@q-01-06.py"])
    assert "q-01-06.py is written" in text and "0 of 1 right." in text and "With --cards" in text
    assert Path("q-01-06.py").read_text() == f"{BY_ID['q-01-06'].starter}\n"
    _, text = quiz(monkeypatch, capsys, "--id", "q-01-06", answers=["@", *solution.splitlines(), "."])
    assert "q-01-06.py cannot be written: File exists" in text and "1 of 1 right." in text
    _, text = quiz(monkeypatch, capsys, "--id", "q-01-06", "--lang", "es", answers=["@nowhere.py"])
    assert "nowhere.py no es un archivo" in text


def test_a_wrong_answer_becomes_a_card(monkeypatch, capsys, tmp_path):
    data = str(tmp_path / "drill.sqlite3")
    _, text = quiz(monkeypatch, capsys, "--id", "q-01-03", "--cards", "--data", data, answers=["a"])
    assert "Kept as the drill card q-01-03." in text
    quiz(monkeypatch, capsys, "--id", "q-01-02", "--cards", "--data", data, answers=["", "42"])
    with Progress.opened(data) as progress:
        (card,) = progress.added()
    assert card.id == "q-01-03" and "6 or 1, whichever comes last" in card.back and "7 = 6 + 1" in card.back
    assert main(["drill", "--data", data, "--list"]) == 0
    assert "q-01-03" in capsys.readouterr().out


def test_every_question_becomes_a_card():
    for question in QUESTIONS:
        for language in LANGUAGES:
            assert question.card(language).id == question.id


def test_unknown_names(monkeypatch, capsys):
    status, text = quiz(monkeypatch, capsys, "--id", "q-99-01")
    assert status == 2 and "there is no question 'q-99-01'" in text and "did you mean q-" in text
    status, text = quiz(monkeypatch, capsys, "--id", "diamond")
    assert status == 2 and "they are q-01-01 to q-13-07" in text
    status, text = quiz(monkeypatch, capsys, "--id", "q-01-01", "--topic", "tensor")
    assert status == 2 and "q-01-01 is no question of the topic tensor" in text
    status, text = quiz(monkeypatch, capsys, "--topic", "cooking")
    assert status == 2 and "there is no topic 'cooking'" in text
    assert quiz(monkeypatch, capsys, "--list")[1].count("\n") == len(QUESTIONS)


def test_questions_of_a_teacher(monkeypatch, capsys, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL, encoding="utf-8")
    _, text = quiz(monkeypatch, capsys, "--file", str(file), answers=["a"])
    assert "One?" in text and "1 of 1 right." in text
    file.write_text(SMALL.replace("kind: single", "kind: essay"), encoding="utf-8")
    status, text = quiz(monkeypatch, capsys, "--file", str(file), "--list")
    assert status == 2 and f"{file}:4:11: 'essay' is not known here" in text
    status, text = quiz(monkeypatch, capsys, "--file", str(tmp_path / "nowhere.yaml"))
    assert status == 2 and "cannot be read" in text


def test_a_real_terminal_session():
    run = subprocess.run(
        [sys.executable, "-m", "pellucid", "quiz", "--id", "q-01-01"], input="\na=3, b=8\n", capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert run.returncode == 0 and "Right." in run.stdout and "1 of 1 right." in run.stdout and not run.stderr


# --- the file and its mirror


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("kind: single", "kind: essay", "4:11: 'essay' is not known here"),
        ("kind: single", "sort: single", "2:5: a question needs a `kind`"),
        ("topic: scalar", "topic: cooking", "3:12: 'cooking' is not known here"),
        ("id: q-01-01", "id: q-02-01", "2:9: 'q-02-01' is no id for the topic scalar"),
        ("id: q-01-01", "id: 7", "2:9: '7' is no id"),
        ("{en: One?, es: ¿Uno?}", "One?", "5:15: `key: value` lines are wanted"),
        ("{en: One?, es: ¿Uno?}", "{en: One?}", "5:15: the key 'es' is missing"),
        ("{en: One?, es: ¿Uno?}", "{en: One?, es: ¿Uno?, fr: Un?}", "the key 'fr' is not known"),
        ("right: no", "right: yes", "7:7: 2 to 10 choices are wanted here, exactly one right"),
        ("right: yes", "right: true", "'true' is not known here"),
        ("kind: single", "kind: numeric", "the key 'choices' is not known here"),
        ("kind: single", "kind: single\n    worked: {en: a, es: b}", "the key 'worked' is not known here"),
        ("    explain: {en: So it is., es: Así es.}\n", "", "2:5: the key 'explain' is missing"),
        ("questions:", "question:", "the key 'question' is not known"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_with_its_place(tmp_path, old, new, error):
    file = tmp_path / "quiz.yaml"
    file.write_text(SMALL, encoding="utf-8")
    assert read_questions(file)[0].choices[1].text == {"en": "no", "es": "no"}
    assert old in SMALL
    file.write_text(SMALL.replace(old, new), encoding="utf-8")
    with pytest.raises(LabError) as caught:
        read_questions(file)
    assert re.match(r"\S+quiz\.yaml:\d+:\d+: ", str(caught.value)) and error in str(caught.value)


def bad_files():
    """More than 200 files of questions, each with one fault."""
    bad = [
        "[list]", "{a: b}", "''", '"\\e[31m"', '"\\0"', "&a x", "*a", "!!str x", "!tag x", "'open", '"open', "@at",
        "`tick`", "%per", "|5x", ">-+-", "a: b", "[" * 60 + "]" * 60, "{a: " * 60 + "}" * 60, "- a", "{en: x}",
        "{en: x, es: x, es: y}", "{? [a] : b}", "<<: *x", "\x07", "{en: [x], es: y}", "{en: '', es: y}",
    ]  # fmt: skip
    lines = SMALL.splitlines()
    for fault, line in itertools.product(bad, (1, 2, 3, 4, 6, 7, 8)):
        key, _, _ = lines[line].rpartition(": ") if "{" not in lines[line] else lines[line].partition(": {")
        yield "\n".join([*lines[:line], f"{key}: {fault}", *lines[line + 1 :]])
    yield from (
        "",
        "questions:",
        "questions: []",
        "- a",
        "text",
        "[" * 10_000,
        SMALL + "more: x",
        SMALL + "---\n" + SMALL,
    )
    yield SMALL + "#" * 1_000_000
    yield from (SMALL.replace("right: no", fault) for fault in ("right: maybe", "wrong: no", "right: [no]", "right:"))


def test_T49_two_hundred_bad_files_of_questions(tmp_path):
    file, faults = tmp_path / "bad.yaml", list(bad_files())
    assert len(set(faults)) >= 200
    for text in faults:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(LabError) as caught:
            read_questions(file)
        assert re.match(r"\S+bad\.yaml:\d+:\d+: .+", str(caught.value)), text[:300]


def test_a_double_id(tmp_path):
    file = tmp_path / "quiz.yaml"
    file.write_text(SMALL + SMALL.partition("\n")[2], encoding="utf-8")
    with pytest.raises(LabError, match="the id 'q-01-01' stands here twice"):
        read_questions(file)


@pytest.mark.parametrize(("language", "name"), [("en", "quizzes.md"), ("es", "cuestionarios.md")])
def test_the_mirror_is_current(language, name):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page == quiz_page(language), "run `python docs/build.py`"
    for question in QUESTIONS:
        assert shown(question.question[language]) in page and shown(question.explain[language]) in page
