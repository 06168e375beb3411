"""Every program of examples/ runs in its quick mode, and its last line reports that it learned what it should."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PARTS = {"digits.py", "report.py"}  # read by the programs, no programs themselves


def at_least(share: float) -> Callable[[list[float]], bool]:
    return lambda numbers: numbers[-1] >= 100 * share


def falls_to(part: float) -> Callable[[list[float]], bool]:
    """The last two numbers are "before -> after", and after is at most this part of before."""
    return lambda numbers: 0 <= numbers[-1] <= part * numbers[-2]


# What stands at the beginning of the last line, and what its numbers must fulfil.
SUCCESS = {
    "char_gpt": ("loss", falls_to(0.9)),
    "checkpointing": ("kept MB", falls_to(0.6)),
    "cnn_digits": ("accuracy", at_least(0.8)),
    "dqn": ("steps to the goal", lambda numbers: numbers[0] == numbers[1]),
    "gan": ("distance", falls_to(0.6)),
    "gradient_accumulation": ("largest difference", lambda numbers: numbers == [0]),
    "logistic_scipy": ("accuracy", at_least(0.85)),
    "lstm_text": ("loss", falls_to(0.8)),
    "matrix_factorisation": ("error", falls_to(0.9)),
    "mlp_digits": ("accuracy", at_least(0.85)),
    "neural_ode": ("loss", falls_to(0.4)),
    "pinn": ("largest error", falls_to(0.2)),
    "vae": ("loss", falls_to(0.9)),
}


def numbers_in(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", line)]


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory) -> Callable[[str], tuple[subprocess.CompletedProcess, Path]]:
    """Runs an example once and for all tests: how it ended, and the folder that it ran in."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}

    @cache
    def run(name: str) -> tuple[subprocess.CompletedProcess, Path]:
        folder = tmp_path_factory.mktemp(name)
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--quick"]
        finished = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=200
        )
        return finished, folder

    return run


@pytest.mark.parametrize("name", SUCCESS)
def test_example_learns(name, quick_run):
    finished, _ = quick_run(name)
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
    last = finished.stdout.splitlines()[-1]
    beginning, fulfilled = SUCCESS[name]
    assert last.startswith(beginning)
    assert fulfilled(numbers_in(last)), last


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py") if path.name not in PARTS} == set(SUCCESS)


@pytest.mark.parametrize("name", SUCCESS)
def test_docstring_shows_an_output_that_ends_as_promised(name):
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    docstring = source.split('"""')[1]
    assert f"python examples/{name}.py" in docstring
    last = docstring.rstrip().splitlines()[-1].strip()
    beginning, fulfilled = SUCCESS[name]
    assert last.startswith(beginning)
    assert fulfilled(numbers_in(last)), last


def test_demo_writes_its_report(quick_run):
    _, folder = quick_run("char_gpt")
    page = (folder / "demo-report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "held-out text" in page and "Gradient norm" in page
