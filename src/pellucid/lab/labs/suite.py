"""Run the tests of a learner: every function `test_...` of a file, without arguments, as pytest would.

    python -P suite.py FILE RESULT

A program of its own that imports nothing of Pellucid: it runs once for each mutant, and has to start fast.
"""

import importlib
import inspect
import json
import sys
import traceback
from pathlib import Path


def failures(file: Path) -> dict[str, str]:
    """What each test of a file said: empty if it passed. An error of the file itself goes under its name."""
    try:
        module = importlib.import_module(file.stem)
    except Exception as error:
        return {file.name: _told(error, file)}
    tests = {name: value for name, value in vars(module).items() if name.startswith("test") and callable(value)}
    return {name: _failure(test, file) for name, test in tests.items()}


def _failure(test: object, file: Path) -> str:
    if inspect.signature(test).parameters:  # type: ignore[arg-type]
        return "it takes arguments; a test here takes none"
    try:
        test()  # type: ignore[operator]
    except Exception as error:
        return _told(error, file)
    return ""


def _told(error: Exception, file: Path) -> str:
    """The error with the last line of the learner's folder that it passed through."""
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '?').name}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent == file.parent]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
    return place + "".join(traceback.format_exception_only(error)).strip()


if __name__ == "__main__":
    path = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(path.parent))
    Path(sys.argv[2]).write_text(json.dumps(failures(path)), encoding="utf-8")
