"""Run the tests of a learner: every function `test_...` of a file, without arguments, as pytest would.

    python -P suite.py RESULT FILE ...

A program of its own that imports nothing of Pellucid and so starts fast. After each file, in a folder of its own with
the code it tests, it adds a line of JSON to RESULT: who waits knows how far it came when it had to be stopped.
"""

import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def failures(file: Path) -> dict[str, str]:
    """What each test of a file said: empty if it passed. An error of the file itself goes under its name."""
    sys.path.insert(0, str(file.parent))
    try:
        module = importlib.import_module(file.stem)
        tests = {name: value for name, value in vars(module).items() if name.startswith("test") and callable(value)}
        return {name: _failure(test, file) for name, test in tests.items()}
    except Exception as error:
        return {file.name: _told(error, file)}
    finally:
        sys.path.remove(str(file.parent))
        _forget(file.parent)


def _forget(folder: Path) -> None:
    """The next folder has modules of the same names."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").parent == folder:
            del sys.modules[name]


def _failure(test: Callable[..., object], file: Path) -> str:
    if inspect.signature(test).parameters:
        return "it takes arguments; a test here takes none"
    try:
        test()
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
    for path in sys.argv[2:]:
        said = json.dumps(failures(Path(path)))
        with open(sys.argv[1], "a", encoding="utf-8") as result:
            result.write(said + "\n")
