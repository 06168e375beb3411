"""The labs: solutions pass, starters fail with a reason, wrong work is told what is wrong, and nothing is lost."""

import argparse
import json
import math
import re
import sys
from pathlib import Path

import pytest

import pellucid
from pellucid.diagnose.rules import all_rules
from pellucid.lab import elsewhere
from pellucid.lab.labs import commands, folder, lab, mutants, running
from pellucid.lab.labs.checks import build_value
from pellucid.lab.reading import LabError
from pellucid.shim import as_torch

ROOT = Path(__file__).resolve().parent.parent
TRUTHS = {
    "build-value": "7",
    "gradient-check": "1e-05",
    "two-layer-backprop": "(3, 1)",
    "broken-training": "0",
    "clipping": "1, 1, 0.6, 0.8",
    "vanishing-and-exploding": "18",
    "checkpointing": "32",
    "custom-functions": "inf",
}


def call(*arguments):
    """`pellucid lab ...`; its exit status."""
    parser = argparse.ArgumentParser()
    commands.add_lab_commands(parser.add_subparsers())
    options = parser.parse_args(["lab", *map(str, arguments)])
    return options.function(options)


def started(name, path):
    """A folder with the starter of a lab."""
    folder.start(lab.find(name), path)
    return path


def solved(name, path):
    """A folder with the solution of a lab."""
    started(name, path)
    folder.write_files(lab.find(name).solution, path, force=True)
    return path


@pytest.fixture
def judged(monkeypatch):
    """Judge the work in a folder in this process; the modules of one folder are forgotten before the next.

    The reasons, criterion by criterion, up to one that has some words in it.
    """
    before = set(sys.modules)

    def judge(name, path, until="never"):
        monkeypatch.syspath_prepend(path)
        said = []
        with as_torch():
            for criterion in lab.find(name).criteria:
                said.append(running._reason(criterion.check, running.Work(path)))
                if until in said[-1]:
                    break
        return said

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield judge
    for module in set(sys.modules) - before:
        file = getattr(sys.modules[module], "__file__", None)
        if file and "pytest" in file and "site-packages" not in file:
            del sys.modules[module]


# --- every lab


@pytest.mark.parametrize("name", lab.ORDER)
def test_solution_passes(name, tmp_path, capsys):
    work = solved(name, tmp_path / "work")
    assert call("check", name, "--dir", work, "--predict", TRUTHS[name]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert "[ ]" not in printed
    assert f"the truth:     {TRUTHS[name]} (as you said)" in printed
    assert sorted(file.name for file in work.iterdir()) == sorted(
        {"README.md", folder.STATE, *lab.find(name).files, *lab.find(name).solution}
    )


@pytest.mark.parametrize("name", lab.ORDER)
def test_starter_fails_with_reasons(name, tmp_path, judged):
    said = judged(name, started(name, tmp_path / "work"))
    unmet = [reason for reason in said if reason]
    assert len(unmet) >= len(said) - 1
    assert any("is not written yet" in reason for reason in unmet)
    assert not any("Traceback" in reason for reason in unmet)


@pytest.mark.parametrize("name", lab.ORDER)
def test_page_is_whole(name):
    page = lab.find(name)
    assert page.title and page.lesson and page.question and page.reveal
    assert len(page.hints) >= 2
    assert page.checks.truth() == TRUTHS[name]
    for file, text in {**page.files, **page.solution}.items():
        assert all(len(line) <= 120 for line in text.splitlines()), file
        if file.endswith(".py"):
            compile(text, file, "exec")


def test_every_page_is_listed(capsys):
    assert call("list") == 0
    listed = capsys.readouterr().out
    described = (ROOT / "docs" / "labs.md").read_text(encoding="utf-8")
    assert {f"{name}.md" for name in lab.ORDER} == {file.name for file in lab.TEXTS.iterdir()}
    for each in lab.all_labs():
        assert f"{each.name:<24} {each.title}" in listed
        assert f"`{each.name}`" in described


def test_numbers_of_the_texts():
    """What reveals and post-mortems claim."""
    from pellucid.lab.labs.checks import broken_training, gradient_check, vanishing_and_exploding

    rows = broken_training._observed(2)
    assert [round(row["output_min"], 2) for row in rows] == [-0.53, -51.97]
    assert [round(row["grad_norm"], 2) for row in rows] == [3.37, 3.40]
    assert 1e-5 < gradient_check._errors()[-1] < 1e-3  # about four digits are left at 1e-12
    pellucid.manual_seed(0)
    gains = vanishing_and_exploding._gains(vanishing_and_exploding._vanishing(), pellucid.randn(64, 32))
    assert round(math.prod(gains) ** (1 / 20), 2) == 0.13


def test_the_doctor_on_the_broken_loop(tmp_path):
    """The first NaN in pass 0, from the log of the lowest output; no zero_grad; a rate too high; saturation later."""
    work, found = started("broken-training", tmp_path / "work"), tmp_path / "findings.json"
    printed = tmp_path / "printed"
    assert elsewhere.run(["-m", "pellucid", "doctor", "broken.py", "--json", str(found)], work, printed, 120) == 1
    findings = {finding["code"]: finding for finding in json.loads(found.read_text())["findings"]}
    assert {"log-of-zero", "missing-zero-grad", "learning-rate-too-high", "saturated-activation"} <= findings.keys()
    first = findings["log-of-zero"]
    assert first["line"] == 14 and "first seen in pass 0" in first["evidence"]
    assert first["message"] == "the log of -0.533 was taken"  # the lowest output of all, not the first that is negative


def test_eight_mistakes_and_things_to_try():
    """The code below the table is run by test_docs."""
    described = (ROOT / "docs" / "labs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| (.+?) \|", described, flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 9))
    for code in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", described.partition("## Eight mistakes")[2].partition("```")[0]):
        assert code in {rule.code for rule in all_rules()}, code
    assert len(re.findall(r"^# \d: ", described, flags=re.MULTILINE)) == 8
    assert described.partition("## Try this")[2].partition("## ")[0].count("\n- ") >= 6


# --- wrong work is told what is wrong

WRONG = [
    ("build-value", "value.py", "self.grad += other.data * out.grad", "self.grad = other.data * out.grad",
     "x*x + x at x = 3: x.grad is"),
    ("build-value", "value.py", "if self.data <= 0:", "if False:", "log of 0 says"),
    ("build-value", "value.py", "(self.data > 0) *", "(self.data >= 0) *", "relu at exactly 0 passes on 1, not 0"),
    ("build-value", "value.py", "for node in reversed(order)", "for node in order", "x.grad is"),
    ("gradient-check", "checker.py", "/ (2 * epsilon)", "/ epsilon", "is off by"),
    ("gradient-check", "checker.py", "x = np.array(x, dtype=float)", "x = np.asarray(x); x += 1e-9", "x was"),
    ("gradient-check", "checker.py", "x[index] = before - epsilon\n        below = f(x)\n        x[index] = before\n",
     "x[index] = before\n        below = f(x)\n        epsilon = epsilon / 1\n", "the error falls by a factor of"),
    ("gradient-check", "checker.py", 'WRONG = "elu"', 'WRONG = "huber"', "the gradient of huber agrees"),
    ("gradient-check", "checker.py", "WORSE_EPSILON = 1e-12", "WORSE_EPSILON = 1e-5", "with 1e-05 the error is"),
    ("two-layer-backprop", "network.py", 'dpred @ saved["a1"].T', 'saved["a1"] @ dpred.T',
     "has shape (3, 1), W2 has (1, 3): error on the left, input transposed on the right"),
    ("two-layer-backprop", "network.py", "dz1.sum(axis=1, keepdims=True)", "dz1[:, :1]",
     "batch of 5: the gradient of b1"),
    ("broken-training", "train.py", "range(50)", "range(25)", "does not train on every batch"),
    ("broken-training", "train.py", "    optimizer.zero_grad()\n", "", "train.py:14: missing-zero-grad"),
    ("broken-training", "test_train.py", "import train\n", "import train\n\n    return\n", "your test still passes"),
    ("broken-training", "postmortem.md", "-0.53", "-0.1", "the smallest output of step 0 is not among them"),
    ("broken-training", "postmortem.md", "Step 0,", "Step 25,", "'First bad step' says 25"),
    ("broken-training", "postmortem.md", "The last layer is linear", "Training was unstable", "explains nothing"),
    ("clipping", "clipping.py", "sum((gradient**2).sum() for gradient in gradients)", "(gradients[0]**2).sum()",
     "the norm of all together is"),
    ("clipping", "clipping.py", "if not np.isfinite(norm):", "if False:", "nothing is raised"),
    ("clipping", "clipping.py", "if norm > max_norm:", "if True:", "were changed"),
    ("vanishing-and-exploding", "depth.py", "return x + self.inner(x)", "return self.inner(x)", "with by_residual"),
    ("vanishing-and-exploding", "depth.py", "before / after", "after / before", "the gain of block 0 is"),
    ("checkpointing", "segments.py", "x = checkpoint(lambda x, part=part: plain(part, x), x, use_reentrant=False)",
     "x = plain(part, x)", "nothing is computed again"),
    ("checkpointing", "segments.py", "lambda x, part=part:", "lambda x, part=blocks[:size]:", "get no gradient"),
    ("checkpointing", "segments.py", '"plain": 4_500_000', '"plain": 1_000_000', "you noted 1,000,000"),
    ("custom-functions", "functions.py", "return grad * (x - result).exp()", "return (x - result).exp()", "became"),
    ("custom-functions", "functions.py", "largest = x.max()", "largest = 0.0 * x.max()", "the result is inf"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "old", "new", "reason"), WRONG)
def test_wrong_work_is_told_why(name, file, old, new, reason, tmp_path, judged):
    work = solved(name, tmp_path / "work")
    text = (work / file).read_text()
    assert old in text
    (work / file).write_text(text.replace(old, new))
    said = judged(name, work, until=reason)
    assert reason in said[-1], said


# --- mutants

SOLUTION = lab.find("build-value").solution["value.py"]
MUTANTS = mutants.mutants(SOLUTION)


def test_the_mutants_that_are_made():
    mistakes = [mutant.mistake for mutant in MUTANTS]
    functions = ("__add__", "__mul__", "__pow__", "tanh", "relu", "exp", "log", "sigmoid", "sin")
    assert {f"{name} assigns the gradient (=) where it should add to it (+=)" for name in functions} < set(mistakes)
    for mistake in (
        "backward calls itself on the inputs instead of sorting the graph first",
        "backward walks from the inputs to the result",
        "__mul__ gives each factor its own value as derivative, not the other's",
        "relu lets the gradient through at exactly 0",
        "__rsub__ computes self - other",
    ):
        assert mistakes.count(mistake) == 1
    assert len({mutant.source for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_hidden_tests_notice_the_mutant_too(mutant):
    space = {}
    exec(mutant.source, space)

    class OnlyValue:
        folder = Path("nowhere")

        def named(self, file, name):
            return space[name]

    hidden = (build_value.golden, build_value.random_expressions, build_value.edges)
    assert any(running._reason(check, OnlyValue()) for check in hidden)


def test_a_single_test_lets_mutants_survive(tmp_path):
    """The starter's own test knows nothing of values that are used twice."""
    work = solved("build-value", tmp_path / "work")
    (work / "test_value.py").write_text(lab.find("build-value").files["test_value.py"])
    missed = mutants.survivors(work, "test_value.py")
    assert "__mul__ assigns the gradient (=) where it should add to it (+=)" in missed
    assert "backward calls itself on the inputs instead of sorting the graph first" in missed
    assert "__mul__ gives each factor its own value as derivative, not the other's" not in missed
    assert "__mul__ forgets its local derivative" not in missed


def test_not_every_mistake_is_named_at_once(tmp_path, judged):
    work = solved("build-value", tmp_path / "work")
    (work / "test_value.py").write_text(lab.find("build-value").files["test_value.py"])
    lines = judged("build-value", work)[-1].splitlines()
    assert lines[0] == "your tests still pass when" and len(lines) == 10 and lines[-1].endswith(" mistakes more")


def test_addition_written_out_is_mutated_as_well():
    source = SOLUTION.replace("self.grad += out.grad", "self.grad = self.grad + out.grad")
    assert [m.mistake for m in mutants.mutants(source)] == [m.mistake for m in MUTANTS]


def test_tests_of_a_learner_that_cannot_be_run(tmp_path):
    work = solved("build-value", tmp_path / "work")

    def said(text):
        (work / "test_value.py").write_text(text)
        (tests,) = mutants.run_tests(work, "test_value.py")
        return tests

    assert said("x = 1\n") == {}
    assert said("def test_a(x):\n    pass\n") == {"test_a": "it takes arguments; a test here takes none"}
    assert said("def test_a(:\n") == {"test_value.py": "test_value.py:1: SyntaxError: invalid syntax"}
    assert said("import os\nos._exit(3)\n") == {"test_value.py": "ended the process (3)"}


def test_a_mutant_that_hangs_does_not_hide_the_next(tmp_path):
    work = solved("build-value", tmp_path / "work")
    (work / "test_value.py").write_text("import value\n\n\ndef test_it():\n    assert value.right\n")
    sources = ["right = True", "while True:\n    pass", "right = False", "import os\nos._exit(3)", "right = True"]
    said = mutants.run_tests(work, "test_value.py", sources, limit=3)
    assert said[1] == {"test_value.py": "stopped after 3 seconds"}
    assert said[3] == {"test_value.py": "ended the process (3)"}
    assert [next(iter(each.values())) for each in said[::2]] == ["", "test_value.py:5: AssertionError", ""]


# --- the process


def test_syntax_error_is_told_with_its_line(tmp_path, capsys):
    work = solved("clipping", tmp_path / "work")
    (work / "clipping.py").write_text("import numpy as np\n\ndef clip_by_value(gradients, limit)\n    pass\n")
    assert call("check", "clipping", "--dir", work) == 1
    printed = capsys.readouterr()
    assert "clipping.py:3: SyntaxError: expected ':'" in printed.out
    assert "Traceback" not in printed.out + printed.err


def test_an_endless_loop_is_stopped(tmp_path):
    work = solved("clipping", tmp_path / "work")
    text = (work / "clipping.py").read_text()
    (work / "clipping.py").write_text(
        text.replace("    norm = np.sqrt", "    while True:\n        pass\n    norm = np.sqrt")
    )
    result = running.check(lab.find("clipping"), work, limit=8)
    assert [outcome.met for outcome in result.outcomes] == [True, False, False, False, False]
    assert [outcome.reason for outcome in result.outcomes[1:3]] == ["stopped after 8 seconds", "not reached"]


def test_programs_that_end_the_process(tmp_path):
    work = solved("clipping", tmp_path / "work")
    (work / "clipping.py").write_text("print('so far')\nimport os\nos._exit(7)\n")
    result = running.check(lab.find("clipping"), work)
    assert result.outcomes[0].reason == "your program ended the process (7)"
    (work / "clipping.py").write_text("print('so far\\033[2J')\nraise SystemExit(7)\n")
    result = running.check(lab.find("clipping"), work)
    assert result.outcomes[0].reason == "clipping.py:2: SystemExit: 7"
    assert result.printed.startswith("so far[2J")
    assert not result.passed


def test_missing_file_and_missing_name(tmp_path, judged):
    work = solved("clipping", tmp_path / "work")
    (work / "clipping.py").write_text("clip_by_value = None\n")
    assert "clipping.py defines no clip_by_norm" in judged("clipping", work)
    (work / "clipping.py").unlink()
    assert set(judged("clipping", work)) == {"clipping.py is missing"}


# --- the learner's folder


def test_start_never_overwrites(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("start", "clipping") == 0
    assert "You succeed when:" in capsys.readouterr().out
    (tmp_path / "clipping" / "clipping.py").write_text("# mine\n")
    (tmp_path / "clipping" / "README.md").unlink()
    assert call("start", "clipping") == 2
    assert "clipping.py would be overwritten" in capsys.readouterr().err
    assert (tmp_path / "clipping" / "clipping.py").read_text() == "# mine\n"
    assert not (tmp_path / "clipping" / "README.md").exists()
    assert call("solution", "clipping", "--dir", "clipping") == 2
    assert (tmp_path / "clipping" / "clipping.py").read_text() == "# mine\n"
    assert call("start", "clipping", "--force") == 0
    assert (tmp_path / "clipping" / "clipping.py").read_text() == lab.find("clipping").files["clipping.py"]


def test_inside_the_folder_no_folder_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(started("clipping", tmp_path / "mine"))
    assert call("hint", "clipping") == 0
    assert "hint 1 of" in capsys.readouterr().out
    assert call("hint", "checkpointing") == 2
    assert "was not started in checkpointing" in capsys.readouterr().err
    assert call("start", "checkpointing") == 0
    assert (tmp_path / "mine" / "checkpointing" / "segments.py").exists()


def test_start_says_what_to_do_next(tmp_path, capsys):
    assert call("start", "clipping", "--dir", tmp_path / "w") == 0
    assert f"`pellucid lab check clipping --dir {tmp_path / 'w'}` says how far you are" in capsys.readouterr().out


def test_readme_has_the_checklist(tmp_path):
    text = (started("clipping", tmp_path / "w") / "README.md").read_text()
    assert all(f"- [ ] {criterion.text}" in text for criterion in lab.find("clipping").criteria)
    assert lab.find("clipping").question in text


def test_hints_come_one_by_one(tmp_path, capsys):
    work = started("clipping", tmp_path / "work")
    hints = lab.find("clipping").hints
    for count in range(1, len(hints) + 1):
        assert call("hint", "clipping", "--dir", work) == 0
        printed = capsys.readouterr().out
        assert [hint in printed for hint in hints] == [True] * count + [False] * (len(hints) - count)
        assert "no more hints" not in printed
    assert call("hint", "clipping", "--dir", work) == 0
    assert "There are no more hints" in capsys.readouterr().out


def test_solution_is_shown(capsys):
    assert call("solution", "broken-training") == 0
    printed = capsys.readouterr().out
    assert all(text in printed for text in lab.find("broken-training").solution.values())


def test_prediction_is_kept_and_revealed_only_at_the_end(tmp_path, capsys):
    work = tmp_path / "work"
    assert call("start", "clipping", "--dir", work, "--predict", " 3 and 4 ") == 0
    assert "Noted: 3 and 4" in capsys.readouterr().out
    assert call("check", "clipping", "--dir", work, "--predict", "1, 1, 0.6, 0.8") == 1
    printed = capsys.readouterr().out
    assert "Your prediction stays: 3 and 4" in printed
    assert "the truth" not in printed
    folder.write_files(lab.find("clipping").solution, work, force=True)
    assert call("check", "clipping", "--dir", work) == 0
    printed = capsys.readouterr().out
    assert "you predicted: 3 and 4\nthe truth:     1, 1, 0.6, 0.8 (not what you expected" in printed
    assert lab.find("clipping").reveal in printed


def test_no_prediction_no_reveal(tmp_path, capsys):
    work = solved("clipping", tmp_path / "work")
    assert call("check", "clipping", "--dir", work) == 1
    printed = capsys.readouterr().out
    assert "[ ] you made a prediction before the reveal\n      answer the question above" in printed
    assert lab.find("clipping").question in printed
    assert "the truth" not in printed


def test_prediction_is_asked_for_at_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "1, 1")
    assert call("start", "clipping", "--dir", tmp_path / "work") == 0
    assert folder.state_of(lab.find("clipping"), tmp_path / "work").prediction == "1, 1"


@pytest.mark.parametrize(
    ("answer", "truth", "right"),
    [("(3,1)", "(3, 1)", True), ("3", "(3, 1)", False), ("1e-5", "1e-05", True), ("10e-6", "1e-05", True),
     ("infinity", "inf", True), ("nan", "inf", False), ("", "7", False), (".6 .8", "0.6, 0.8", True),
     ("-7", "7", False)],
)  # fmt: skip
def test_predictions_and_truths(answer, truth, right):
    assert folder.agrees(answer, truth) is right


# --- bad input


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("build_value", "build-value"),
        ("Clipping", "clipping"),
        ("clip", "clipping"),
        ("backprop", "two-layer-backprop"),
    ],
)
def test_unknown_names_are_offered_the_nearest(given, meant, capsys):
    for action in ("start", "check", "hint", "solution"):
        assert call(action, given) == 2
        assert f"did you mean {meant}?" in capsys.readouterr().err


def test_a_name_like_no_other(capsys):
    assert call("start", "../../etc") == 2
    assert "the labs are build-value, " in capsys.readouterr().err


def test_folder_that_was_not_started(tmp_path, capsys):
    for action in ("check", "hint"):
        assert call(action, "clipping", "--dir", tmp_path) == 2
        assert "try:   pellucid lab start clipping" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    for action in ("start", "check", "hint"):
        assert call(action, "clipping", "--dir", tmp_path / "file") == 2
        assert "is a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"lab": "clipping", "more": 1}', '{"lab": "clipping", "hints": "x"}',
     '{"lab": "clipping", "hints": -1}', '{"lab": "clipping", "prediction": 3}'],
)  # fmt: skip
def test_corrupted_memory_is_told_and_kept(text, tmp_path, capsys):
    work = started("clipping", tmp_path / "work")
    (work / folder.STATE).write_text(text)
    for action in ("check", "hint"):
        assert call(action, "clipping", "--dir", work) == 2
        assert f"{folder.STATE} cannot be read" in capsys.readouterr().err
    assert (work / folder.STATE).read_text() == text


def test_folder_of_another_lab(tmp_path, capsys):
    work = started("clipping", tmp_path / "work")
    assert call("check", "checkpointing", "--dir", work) == 2
    assert "is a folder of the lab 'clipping', not of 'checkpointing'" in capsys.readouterr().err
    before = (work / "README.md").read_text()
    assert call("start", "checkpointing", "--dir", work, "--force") == 2
    assert (work / "README.md").read_text() == before
    assert not (work / "segments.py").exists()


def test_a_page_with_an_unknown_section():
    with pytest.raises(LabError, match="has no meaning"):
        lab.parsed("mine", "# Title\n\ntext\n\n## Surprise\n\ntext\n")
