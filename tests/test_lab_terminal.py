"""The lab in a real terminal: lines that fit, Ctrl-C, no input at all, a pipe that closes."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pellucid.lab import terminal
from pellucid.lab.labs import folder, lab

pty = pytest.importorskip("pty", reason="needs a terminal of Unix")
SOURCE = str(Path(__file__).resolve().parent.parent / "src")
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color",
}  # fmt: skip


class Terminal:
    """`pellucid ...` in a terminal of some width."""

    def __init__(self, *arguments, where, columns=50):
        self.leader, follower = pty.openpty()
        self.shown, self.seen = "", 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pellucid", *map(str, arguments)], stdin=follower, stdout=follower, stderr=follower,
            cwd=where, env={**ENVIRONMENT, "COLUMNS": str(columns)}, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
        )  # fmt: skip
        os.close(follower)

    def until(self, words, seconds=180):
        """Wait until some words are shown, after those of the last time."""
        begun = time.monotonic()
        while words not in self.shown[self.seen :] and time.monotonic() - begun < seconds:
            if select.select([self.leader], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.leader, 65_536).decode("utf-8", "replace")
                except OSError:  # the program has ended
                    break
        if words not in self.shown[self.seen :]:
            self.process.kill()
            self.end()
            pytest.fail(f"{words!r} does not follow: {self.shown}")
        self.seen = self.shown.index(words, self.seen) + len(words)

    def type(self, text):
        os.write(self.leader, text.encode())

    def interrupt(self):
        """What Ctrl-C does, once the program waits: between its words and its waiting Python may miss a signal."""
        time.sleep(1)
        os.kill(self.process.pid, signal.SIGINT)

    def end(self):
        status = self.process.wait(180)
        os.close(self.leader)
        return status


def fits(text, columns=50):
    return all(len(line) <= columns for line in text.replace("\r", "").split("\n"))


def test_a_drill_fits_and_ends_with_ctrl_c(tmp_path):
    window = Terminal("drill", "--data", tmp_path / "d.sqlite3", "--topic", "debugging", where=tmp_path)
    window.until("(Enter turns the card")
    window.type("\n")
    window.until("q quits: ")
    window.type("3\n")
    window.until("(Enter turns the card")
    window.interrupt()
    window.until("1 answered.")
    assert window.end() == 0 and "Traceback" not in window.shown and "\x1b" not in window.shown
    texts = re.sub(r"1 forgotten.*?q quits: ", "", window.shown)
    assert fits(texts), texts


def test_a_quiz_fits_and_keeps_the_score(tmp_path):
    window = Terminal("quiz", "--topic", "debugging", "--lang", "es", where=tmp_path)
    window.until("una letra, q para salir: ")
    window.type("z\n")
    window.until("esto no se puede leer como respuesta: z")
    window.type("a\n")
    window.until("q-10-02")
    window.until("q para salir")
    window.type("q\n")
    window.until("de 1 correctas.")
    assert window.end() == 0 and fits(window.shown)


def test_a_program_that_is_judged_can_be_stopped(tmp_path):
    window = Terminal("quiz", "--id", "q-01-06", where=tmp_path)
    window.until("> ")
    window.type("while True: pass\n")
    window.until("> ")
    window.type(".\n")
    time.sleep(2)
    window.interrupt()
    window.until("pellucid: stopped")
    assert window.end() == terminal.INTERRUPTED and "Traceback" not in window.shown


def test_a_lab_fits_and_asks_for_a_prediction(tmp_path):
    window = Terminal("lab", "start", "clipping", where=tmp_path)
    window.until("> ")
    window.type("1, 1, 0.6, 0.8\n")
    window.until("`hint` helps.")
    assert window.end() == 0 and fits(window.shown), window.shown
    assert folder.state_of(lab.find("clipping"), tmp_path / "clipping").prediction == "1, 1, 0.6, 0.8"
    window = Terminal("lab", "check", "clipping", where=tmp_path / "clipping")  # from inside the folder
    window.until("is not written")
    window.until("you made a prediction")
    assert window.end() == 1 and fits(window.shown), window.shown


def test_a_check_can_be_stopped(tmp_path):
    work = tmp_path / "clipping"
    folder.start(lab.find("clipping"), work)
    (work / "clipping.py").write_text("while True:\n    pass\n")
    window = Terminal("lab", "check", "clipping", "--predict", "1", where=tmp_path)
    window.until("Noted: 1")
    time.sleep(2)
    window.interrupt()
    window.until("pellucid: stopped")
    assert window.end() == terminal.INTERRUPTED and "Traceback" not in window.shown


def run(*arguments, where, **options):
    return subprocess.run(
        [sys.executable, "-m", "pellucid", *map(str, arguments)], cwd=where, env=ENVIRONMENT, capture_output=True,
        text=True, **options,
    )  # fmt: skip


@pytest.mark.parametrize("closed", [False, True], ids=["empty", "closed"])
def test_nobody_is_there_to_answer(tmp_path, closed):
    options = {"preexec_fn": lambda: os.close(0)} if closed else {"stdin": subprocess.DEVNULL}
    done = run("drill", "--data", tmp_path / "d.sqlite3", where=tmp_path, **options)
    assert done.returncode == 0 and "0 answered." in done.stdout and not done.stderr
    done = run("quiz", "--id", "q-01-01", where=tmp_path, **options)
    assert done.returncode == 0 and "0 of 0 right." in done.stdout and not done.stderr
    done = run("lab", "start", "clipping", where=tmp_path, **options)
    assert done.returncode == 0 and "Answer with --predict TEXT" in done.stdout and not done.stderr


def test_a_pipe_that_closes(tmp_path):
    done = subprocess.run(
        f"{sys.executable} -m pellucid drill --list | head -1", shell=True, cwd=tmp_path, env=ENVIRONMENT,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.count("\n") == 1 and not done.stderr


@pytest.mark.parametrize("width", [20, 40, 79, 100])
def test_fitted(width):
    text = f"{'word ' * 40}\n\n  a) {'word ' * 40}\n[ ] {'word ' * 40}\n      {'word ' * 30}\nshort\n{'x' * 150}"
    lines = terminal.fitted(text, width).split("\n")
    assert all(len(line) <= max(width, 26) for line in lines[:-1]) and lines[-2:] == ["short", "x" * 150]
    assert " ".join(text.split()) == " ".join(" ".join(lines).split())


def test_paragraphs_are_joined_and_code_is_not():
    assert terminal.joined("a\nb\n\n    code\n    more\n\n| x |\n| y |\n- one\n- two") == (
        "a b\n\n    code\n    more\n\n| x |\n| y |\n- one\n- two"
    )


@pytest.mark.parametrize("command", ["drill", "quiz", "lab", "explore"])
def test_every_help_has_an_example_that_is_taken(command):
    from pellucid.cli import parser_of_commands

    parser = parser_of_commands()
    told = next(
        choices[command].epilog
        for action in parser._actions
        if isinstance(choices := getattr(action, "choices", None), dict)
    )
    examples = [line.split()[1:] for line in told.splitlines() if line.startswith("  pellucid ")]
    assert len(examples) >= 3 and all(parser.parse_args(words).function for words in examples if '"(a' not in words)
