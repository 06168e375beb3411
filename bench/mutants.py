"""Mutants: small mistakes put into the code one at a time, each of which the tests that reach it must notice.

    make mutants SEED=1 COUNT=60          # a sample from every part of the code, and what survived
    python bench/mutants.py --file src/pellucid/ops/scan.py --count 20   # of one file

The first run for a commit finds out which tests reach which block (`probes`, as long as one process needs for all
tests) and keeps that in build/mutants. Then each mutant is written into a copy of the tree, and the tests that reach
it run, for every test function its fastest case first, until one fails: the mutant is killed. A run that breaks
down or does not end is a kill, too. The mutants are drawn by line, so that long expressions do not crowd out others.
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from probes import bases, blocks, record

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/pellucid/"
STRATA = {
    "core": ("core", "dtypes", "native"), "ops": ("ops",), "transforms": ("transforms", "func.py", "autograd"),
    "serialization": ("serialization",), "diagnose": ("diagnose",), "nn and optim": ("nn", "optim"),
}  # fmt: skip
SHARES = {"core": 5, "ops": 4, "transforms": 2, "serialization": 2, "diagnose": 2, "nn and optim": 2, "rest": 3}
GOALS = {"core": 0.95, "ops": 0.92}  # of the others 0.9
UNTESTED = ("testing", "lab/labs/checks")  # tests themselves
SECONDS = 150.0  # of tests for one mutant, as measured when they ran alone


@dataclass(frozen=True)
class Mutant:
    """A part of a file, and what stands there instead."""

    path: str
    line: int
    start: int  # in bytes
    end: int
    text: str
    what: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


# --- the mistakes

OTHER = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "*", ast.Mod: "//", ast.Pow: "*", ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
# What is said, not done; inputs for tests; hints for the type checker and for speed.
SAYING = {"explain", "warn", "join", "format", "print", "TypeVar", "cast", "lru_cache", "getLogger", "count_words"}
KEYWORDS = {"doc", "samples", "sample", "maxsize", "stacklevel", "strict", "match"}


def text(node: ast.AST) -> str:
    return ast.unparse(node)


def changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """What may stand in the place of an expression or statement, and the name of the mistake."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OTHER:
            yield f"{text(left)} {OTHER[type(op)]} {text(right)}", "another comparison"
            if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                yield f"not ({text(node)})", "the opposite comparison"
        case ast.BoolOp(op=op, values=values):
            other = " and " if isinstance(op, ast.Or) else " or "
            yield f"({other.join(f'({text(value)})' for value in values)})", "and for or"
            for left_out in values:
                rest = [value for value in values if value is not left_out]
                yield f"({text(ast.BoolOp(op, rest) if len(rest) > 1 else rest[0])})", "half of a condition dropped"
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield f"({text(operand)})", "a sign or a not dropped"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OTHER and not (is_text(left) or is_text(right)):
            yield f"(({text(left)}) {OTHER[type(op)]} ({text(right)}))", "another operator"
        case ast.Constant(value=bool(value)):
            yield str(not value), "a constant"
        case ast.Constant(value=int(value)) if abs(value) < 256:  # larger ones are sizes from which on a way is faster
            yield str(value + 1), "a constant"
            if value:
                yield str(value - 1), "a constant"
        case ast.Constant(value=float(value)) if value:
            yield repr(value * 1.5), "a constant"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield f"({text(orelse)} if {text(test)} else {text(body)})", "branches exchanged"
        case ast.Call(func=function, args=[first, second, *rest], keywords=keywords) if not any(
            isinstance(each, ast.Starred) for each in (first, second)
        ):
            if text(first) != text(second):
                yield text(ast.Call(function, [second, first, *rest], keywords)), "arguments exchanged"
        case ast.Slice(lower=lower, upper=upper, step=None) if lower or upper:
            yield ":", "slice bounds dropped"
        case ast.Return(value=ast.expr() as value) if text(value) != "None":
            yield "return None", "a result dropped"
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Yield()) | ast.Delete():
            yield "pass", "a statement deleted"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass", "a statement deleted"
        case ast.AugAssign(target=target, op=op, value=value):
            yield "pass", "a statement deleted"
            if type(op) in OTHER:
                yield f"{text(target)} {OTHER[type(op)]}= {text(value)}", "another operator"
        case ast.Continue():
            yield "break", "break for continue"
        case ast.Break():
            yield "continue", "continue for break"
    if isinstance(node, ast.Call) and node.keywords and node.keywords[-1].arg not in {None, *KEYWORDS}:
        yield text(ast.Call(node.func, node.args, node.keywords[:-1])), "a keyword dropped"
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        yield f"not ({text(node.test)})", "the opposite condition"


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def sites(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below that compute something: no annotations, messages, documentation, samples or inputs for tests."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "type_params", "decorator_list", "slice" if is_typing(node) else ""}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_said(child):
                yield child
                yield from sites(child)


def is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and text(node.value) in {"tuple", "list", "dict", "set", "Callable"}


def is_said(node: ast.AST) -> bool:
    """Words for a reader, or for the type checker."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.FunctionDef(name="__repr__" | "__dir__" | "__str__"):
            return True
        case ast.FunctionDef(decorator_list=decorators):
            return any(text(each) in {"overload", "abstractmethod"} for each in decorators)
        case ast.Expr(value=ast.Constant()) | ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.keyword(arg=name):
            return name in KEYWORDS
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in SAYING or name.endswith(("Error", "Warning"))
        case ast.If(test=test):
            return any(word in text(test) for word in ("TYPE_CHECKING", "sys.platform", "sys.version_info", "os.name"))
    return False


@cache
def parsed(path: Path) -> tuple[bytes, ast.Module]:
    source = path.read_bytes()
    return source, ast.parse(source)


def mutants_of(root: Path, name: str) -> dict[int, list[Mutant]]:
    """The mutants of a file by line."""
    source, tree = parsed(root / name)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[int, list[Mutant]] = defaultdict(list)
    for node in sites(tree):
        place = node.test if isinstance(node, ast.If | ast.While) else node
        if not isinstance(place, ast.expr | ast.stmt):
            continue
        start = starts[place.lineno - 1] + place.col_offset
        end = starts[place.end_lineno - 1] + place.end_col_offset
        within = source[: source.index(b"\n", start)].count(b"\n") + 1
        for new, what in changes(node):
            found[within].append(Mutant(name, within, start, end, new, what))
    return found


def stratum(name: str) -> str:
    inner = name.removeprefix(PACKAGE)
    return next((s for s, folders in STRATA.items() if inner.split("/")[0] in folders), "rest")


def sample(root: Path, seed: int, count: int, only: str | None) -> list[Mutant]:
    """Mutants drawn by line from every stratum."""
    rng = random.Random(seed)
    names = sorted(str(path.relative_to(root)) for path in (root / PACKAGE).rglob("*.py"))
    names = [name for name in names if not name.removeprefix(PACKAGE).startswith(UNTESTED)]
    if only:
        lines = list(mutants_of(root, only).values())
        return [rng.choice(line) for line in rng.sample(lines, min(count, len(lines)))]
    chosen = []
    for part, share in SHARES.items():
        lines = [line for name in names if stratum(name) == part for line in mutants_of(root, name).values()]
        chosen += [rng.choice(line) for line in rng.sample(lines, max(1, round(count * share / sum(SHARES.values()))))]
    return chosen


# --- which tests reach a mutant


class Reach:
    """Which tests reach which block, from one run of all tests with probes."""

    def __init__(self, root: Path, work: Path) -> None:
        if not (work / "done").exists():
            record(root, work)
            (work / "done").touch()
        self.root = root
        self.bases = json.loads((work / "bases.json").read_text())
        if self.bases != bases(root):
            sys.exit(f"the code has changed since its tests were recorded: commit it first, or remove {work}")
        self.tests: list[tuple[str, float, bool]] = json.loads((work / "tests.json").read_text())
        self.rows = np.load(work / "reach.npz")["arr_0"]

    def of(self, mutant: Mutant) -> list[tuple[str, float]]:
        """The tests that enter its block and pass without it; at the level of a module, all that enter the file."""
        _, tree = parsed(self.root / mutant.path)
        base, found = self.bases[str(self.root / mutant.path)], blocks(tree)
        around = [n for n, (owner, statements) in enumerate(found) if encloses(owner, statements, mutant.line)]
        numbers = [base + around[-1]] if around else range(base, base + len(found))
        columns = np.zeros(len(self.rows), bool)
        for number in numbers:
            columns |= (self.rows[:, number // 8] >> (7 - number % 8) & 1).astype(bool)
        return [(name, seconds) for (name, seconds, passed), hit in zip(self.tests, columns) if hit and passed]


def encloses(owner: ast.AST, statements: list[ast.stmt] | None, line: int) -> bool:
    if statements is None:
        return owner.lineno <= line <= owner.end_lineno
    return statements[0].lineno <= line <= statements[-1].end_lineno


def in_order(tests: list[tuple[str, float]]) -> list[str]:
    """The fastest case of every test function, then the second of each, and so on, as many as there is time for."""
    rank: Counter[str] = Counter()
    ranked = []
    for name, seconds in sorted(tests, key=lambda test: test[1]):
        function = name.split("[")[0]
        ranked.append((rank[function], seconds, name))
        rank[function] += 1
    chosen, total = [], 0.0
    for _, seconds, name in sorted(ranked):
        total += seconds + 0.003
        if total > SECONDS and chosen:
            break
        chosen.append(name)
    return chosen


# --- the verdict


def verdict(tree: Path, mutant: Mutant, tests: list[str], limit: float) -> str:
    """The first test that fails with the mutant, or "" when it survives."""
    if not tests:
        return ""
    path = tree / mutant.path
    original = path.read_bytes()
    selection = tree / "selection.json"
    selection.write_text(json.dumps(tests))
    try:
        path.write_bytes(mutant.applied(original))
        run = subprocess.run(
            [sys.executable, __file__, "--run", str(selection)],
            cwd=tree, capture_output=True, text=True, timeout=limit, check=False,
            env=os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it does not end"
    finally:
        path.write_bytes(original)
    if run.returncode == 0:
        return ""
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else (run.stdout + run.stderr).strip().splitlines()[-1]


class Selection:
    """A pytest plugin that runs the given tests only, in the given order."""

    def __init__(self, names: list[str]) -> None:
        self.place = {name: at for at, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.place), key=lambda i: self.place[i.nodeid])


def run_selected(selection: Path) -> int:
    import pytest

    names = json.loads(selection.read_text())
    files = sorted({name.split("::")[0] for name in names})
    return int(pytest.main(["-x", "-q", "--tb=line", "-p", "no:cacheprovider", *files], [Selection(names)]))


def copied(root: Path, work: Path) -> Path:
    """The files under version control as they are now, apart from the tree."""
    tree = work / "tree"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = root / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.exists() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.write_bytes(source.read_bytes())
    return tree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--file", help="draw from this file only")
    parser.add_argument("--work", type=Path, default=None, help="where a copy of the tree and its reach are kept")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run_selected(options.run)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    work = options.work or ROOT / "build" / "mutants" / commit[:12]
    tree = copied(ROOT, work)
    reach = Reach(tree, work)
    killed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    survivors = []
    for mutant in sample(tree, options.seed, options.count, options.file):
        began, reaching = time.perf_counter(), reach.of(mutant)
        tests = in_order(reaching)
        allowed = 120 + 4 * min(SECONDS, sum(seconds for _, seconds in reaching))
        noticed = verdict(tree, mutant, tests, allowed)
        part = stratum(mutant.path)
        total[part] += 1
        killed[part] += bool(noticed)
        print(f"{'killed  ' if noticed else 'SURVIVED'} {time.perf_counter() - began:4.0f} s  {told(tree, mutant)}")
        print(f"         {noticed or f'{len(tests)} of {len(reaching)} tests that reach it passed'}", flush=True)
        survivors += [] if noticed else [mutant]
    print()
    for part, number in total.items():
        share, goal = killed[part] / number, GOALS.get(part, 0.9)
        print(f"{part:14} {killed[part]:3} of {number:3}  {share:4.0%}{'' if share >= goal else f'  below {goal:.0%}'}")
    for mutant in survivors:
        print(f"survived: {told(tree, mutant)}")
    return 0


def told(root: Path, mutant: Mutant) -> str:
    """Where a mutant is, and the two lines of its difference."""
    source = (root / mutant.path).read_bytes()
    line = source.splitlines()[mutant.line - 1].decode().strip()
    old = " ".join(source[mutant.start : mutant.end].decode().split())
    return "\n         ".join(
        [f"{mutant.path}:{mutant.line}: {mutant.what}", f"in  {line}", f"-   {old}", f"+   {mutant.text}"]
    )


if __name__ == "__main__":
    sys.exit(main())
