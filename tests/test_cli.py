"""The command line: wrong arguments are told in a line with status 2, and the documentation names what there is."""

import argparse
import re
from pathlib import Path

import pytest

from pellucid.cli import main, parser_of_commands

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorial").glob("*.md")]


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser by name."""
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def ended(arguments: list[str], capsys) -> tuple[int, str, str]:
    """The exit status, and what was printed and complained."""
    try:
        status = main(arguments)
    except SystemExit as ending:
        status = ending.code
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("print('it runs')\n")
    (tmp_path / "unparsed.py").write_text("def f(:\n")
    (tmp_path / "failing.py").write_text("import torch\ntorch.ones(2, 3) @ torch.ones(2, 3)\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nothing", "invalid choice: 'nothing'"),
        ("run", "the following arguments are required: script\n"),
        ("run missing.py", "there is no file missing.py"),
        ("run .", ". is a folder, not a file"),
        ("run --record no/f.zip script.py", "there is no folder no to write to"),
        ("doctor missing.py", "there is no file missing.py"),
        ("doctor script.py --steps 0", "a whole number above 0 is wanted, not '0'"),
        ("doctor script.py --steps many", "a whole number above 0 is wanted, not 'many'"),
        ("doctor script.py --seconds -1", "a number above 0 is wanted, not '-1'"),
        ("doctor script.py --seconds nan", "a number above 0 is wanted, not 'nan'"),
        ("doctor script.py --json no/a.json", "there is no folder no to write to"),
        ("doctor script.py --report .", ". is a folder, not a file"),
        ("replay missing.zip", "there is no file missing.zip"),
        ("explore missing.py", "there is no file missing.py"),
        ("explore a+ --save p.html", "a+: this is no arithmetic: invalid syntax"),
        ("explore a+b c=1 --save p.html", "c is not a name in a+b"),
        ("explore a+b b=x --save p.html", "b=x: write name=number, for example a=2"),
        ("explore a+b --save no/p.html", "there is no folder no to write to"),
        ("explore a+b --port 70000", "a number from 0 to 65535 is wanted, not '70000'"),
        ("explore script.py --save p.html", "called backward 0 times: there is no number 1 to show"),
        ("explore unparsed.py --save p.html", "stopped with the error above"),
        ("lab start nothing", "there is no lab 'nothing'"),
    ],
)
def test_wrong_arguments(line, told, folder, capsys):
    before = sorted(folder.iterdir())
    status, printed, complained = ended(line.split(), capsys)
    assert status == 2 and told in complained
    assert "Traceback" not in printed + complained
    assert sorted(folder.iterdir()) == before


def test_a_script_that_cannot_be_parsed_is_shown_without_our_frames(folder, capsys):
    status, _, complained = ended(["run", "unparsed.py"], capsys)
    assert status == 1 and complained.startswith('  File "unparsed.py", line 1')
    status, printed, _ = ended(["doctor", "unparsed.py"], capsys)
    assert status == 1 and "where:    unparsed.py:1" in printed


def test_a_traceback_begins_in_the_script(folder, capsys):
    status, _, complained = ended(["run", "failing.py"], capsys)
    assert status == 1 and complained.splitlines()[1].startswith('  File "failing.py", line 2')
    _, printed, _ = ended(["doctor", "failing.py"], capsys)
    assert "evidence: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)" in printed
    assert "fix:      transpose the second one: a @ b.mT" in printed


def every_command(parser: argparse.ArgumentParser, names: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = [each for name, child in commands(parser).items() for each in every_command(child, (*names, name))]
    return [names, *inner]


@pytest.mark.parametrize("names", every_command(parser_of_commands()), ids=" ".join)
def test_help_says_what_a_command_is_for(names, capsys):
    status, printed, _ = ended([*names, "--help"], capsys)
    assert status == 0 and printed.startswith("usage: pellucid")
    parser = parser_of_commands()
    for name in names:
        parser = commands(parser)[name]
    assert parser.description
    told = [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]
    assert all(action.help for action in told)


def mentioned() -> list[tuple[str, list[str]]]:
    """Every command line of ours in the documentation: the page, and its words."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = re.findall(r"^ {4}pellucid (.*)$", text, re.MULTILINE) + re.findall(r"`pellucid ([^`\n]+)`", text)
        found += [(page.name, re.split(r"\s{2,}| #", line)[0].split()) for line in lines]
    return found


def test_the_documentation_names_commands_and_options_that_exist():
    assert len(mentioned()) > 40
    for page, words in mentioned():
        parser = parser_of_commands()
        for word in words:
            if word == "--" or (word.endswith(".py") and parser.prog.endswith(" run")):
                break  # the rest is for the script
            inner = commands(parser)
            if word in inner:
                parser = inner[word]
            elif word.startswith("-"):
                assert word.strip("[]|,") in parser._option_string_actions, f"{page}: {' '.join(words)}: {word}"
        assert words[0] in {*commands(parser_of_commands()), "--help"}, f"{page}: {' '.join(words)}"
