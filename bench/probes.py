"""Which tests reach which block of the code: every block of the package writes one byte when it is entered.

The package is imported with probes: a statement at the head of every block and of every lambda that sets a byte of
a file in memory, which processes that a test starts share. The source stays as it is, with its lines, for those who
read it (native kernels, diagnoses). Unlike a trace function this costs a few per cent, on every Python.

    from probes import record
    record(root, work)  # runs all tests of root once; reach.npz and tests.json appear in work
"""

import ast
import builtins
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np

REACHED = "__reached__"  # a builtin, since a code object may be given other globals
BLOCKS = ("body", "orelse", "finalbody")


def blocks(tree: ast.Module) -> list[tuple[ast.AST, list[ast.stmt] | None]]:
    """Every block and lambda inside functions, outermost first: its owner, and its statements (a lambda has none)."""
    found: list[tuple[ast.AST, list[ast.stmt] | None]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.Lambda):
            found.append((node, None))
        elif inside and not isinstance(node, ast.ClassDef):
            lists = (getattr(node, name, None) for name in BLOCKS)
            found.extend((node, each) for each in lists if isinstance(each, list) and each)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree, False)
    return found


def probed(source: bytes, path: str, base: int) -> Any:
    """The code of a file whose blocks report themselves, numbered from base."""
    tree = ast.parse(source, path)
    for number, (owner, statements) in enumerate(blocks(tree), base):
        if statements is None:
            probe = ast.parse(f"{REACHED}.__setitem__({number}, 1)", mode="eval").body
            owner.body = ast.BoolOp(ast.Or(), [probe, owner.body])
            place = owner
        else:
            first = statements[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            probe, place = ast.parse(f"{REACHED}[{number}] = 1").body[0], first
            statements.insert(documented, probe)
        for node in ast.walk(probe):
            ast.copy_location(node, place)
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def sources(root: Path) -> Iterator[Path]:
    yield from sorted((root / "src" / "pellucid").rglob("*.py"))


def bases(root: Path) -> dict[str, int]:
    """The number of each file's first probe; "" has the total."""
    numbers, total = {}, 0
    for path in sources(root):
        numbers[str(path)] = total
        total += len(blocks(ast.parse(path.read_bytes())))
    return {**numbers, "": total}


# --- inside the process that runs tests, and in those it starts


def install(work: Path) -> Any:
    """Import the package with probes from now on; the bytes they write."""
    numbers = json.loads((work / "bases.json").read_text())

    class Probed(SourceFileLoader):
        def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
            if str(path) not in numbers:
                return super().source_to_code(data, path)
            return probed(data, str(path), numbers[str(path)])

    folders = {str(Path(name).parent) for name in numbers if name} | {str(work.parent.parent)}
    folders.add(os.environ["PROBED_SOURCE"])

    def finder(folder: str) -> FileFinder:
        if folder not in folders:
            raise ImportError(folder)
        return FileFinder(folder, (Probed, [".py"]))

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()
    with open(work / "reached.bin", "r+b") as file:
        reached = mmap.mmap(file.fileno(), 0)
    setattr(builtins, REACHED, reached)
    return reached


class Recorder:
    """A pytest plugin that writes down what each test reached, how long it took, and whether it passed."""

    def __init__(self, reached: Any, work: Path) -> None:
        self.reached, self.work = reached, work
        self.nothing = bytes(len(reached))
        self.rows: list[np.ndarray] = []
        self.tests: list[list[Any]] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.reached[:] = self.nothing
        self.tests.append([nodeid, 0.0, True])

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.tests[-1][1] += report.duration
        self.tests[-1][2] &= report.passed

    def pytest_runtest_logfinish(self) -> None:
        self.rows.append(np.packbits(np.frombuffer(self.reached, np.uint8)))
        if len(self.rows) % 1000 == 0:
            self.save()

    def pytest_sessionfinish(self) -> None:
        self.save()

    def save(self) -> None:
        np.savez_compressed(self.work / "reach.npz", np.array(self.rows))
        (self.work / "tests.json").write_text(json.dumps(self.tests))


CUSTOMIZE = """import sys, pathlib
sys.path.append({bench!r})
import probes
probes.install(pathlib.Path({work!r}))
"""


def record(root: Path, work: Path, *arguments: str) -> None:
    """Run all tests of root once, with probes."""
    work.mkdir(parents=True, exist_ok=True)
    numbers = bases(root)
    (work / "bases.json").write_text(json.dumps(numbers))
    (work / "reached.bin").write_bytes(bytes(numbers[""]))
    start = work / "start"
    start.mkdir(exist_ok=True)
    (start / "sitecustomize.py").write_text(CUSTOMIZE.format(bench=str(Path(__file__).parent), work=str(work)))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(start), str(root / "src")]),
        "PYTHONPYCACHEPREFIX": str(work / "pycache"),
        "PROBED_SOURCE": str(root / "src"),
    }
    run = "import sys, probes, pathlib, pytest, builtins; "
    run += f"pytest.main(sys.argv[1:], [probes.Recorder(builtins.{REACHED}, pathlib.Path({str(work)!r}))])"
    command = [sys.executable, "-c", run, "-q", "-p", "no:cacheprovider", *arguments]
    subprocess.run(command, cwd=root, env=environment, check=False)
