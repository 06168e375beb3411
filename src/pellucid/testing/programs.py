"""Random programs about memory and its history, judged: transforms, views, writes, `.data`, hooks, higher orders.

`phrases` writes a program as Python text, line by line; here every line runs on Pellucid and on PyTorch side by side,
in float64. Every value, every `.grad` and everything that a hook has seen must be equal. Where they part,

- an error of ours that names the line is a refusal: counted, and to be rare;
- an error of PyTorch's where we compute is judged by finite differences, if the program has a derivative;
- anything else is a failure: a silent difference, or an error that explains nothing.

A line that one of the two refuses is left out, and the rest is judged without it. Without PyTorch, programs that hide
nothing from autograd are judged by finite differences. Everything follows from a seed and an index:

    python -m pellucid.testing.programs --seed 0 --index 17
"""

import argparse
import ast
import copy
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import pellucid
from pellucid.core.tensor import Tensor
from pellucid.testing.graphs import HAS_TORCH, oracle, shrink, slope_differs
from pellucid.testing.phrases import LEAF, MADE, Namespace, Program, Writer, attempt

BOUND = 1e-10
# What has no derivative that differences could see: writes behind autograd's back, hooks that change a gradient,
# gradients that are numbers, and a custom Function whose gradient is not that of its forward.
HIDDEN = re.compile(
    r"no_grad|quietly|unseen|Parts|functional\.[jvh]|detach|\.data\b|numpy|\bn\d|hook|Affine|backward|\.grad\b|Same|retain_graph|linearize|dual|checkpoint|m0"
    r"|requires_grad_|kept"
)


@dataclass
class Verdict:
    """What came of a program: a failure, and where the two libraries went different ways aloud."""

    failure: str | None = None
    refusals: list[str] = field(default_factory=list)  # we raise, PyTorch computes
    beyond: list[str] = field(default_factory=list)  # PyTorch raises, we compute
    errors: int = 0  # both raise
    stale: bool = False  # PyTorch walked back with values that were changed behind its back, we did not

    def joined(self, rest: "Verdict") -> "Verdict":
        """This and what came of the program without the line that was refused."""
        refusals, beyond = self.refusals + rest.refusals, self.beyond + rest.beyond
        return Verdict(self.failure or rest.failure, refusals, beyond, self.errors + rest.errors, rest.stale)


def write(seed: int, index: int) -> Program:
    """The program that belongs to a seed and an index.

    >>> write(0, 1) == write(0, 1)
    True
    """
    return Writer(seed, index).write()


# --- judging


def judge(program: Program) -> Verdict:
    """Run a program side by side with PyTorch; alone, compare it with differences."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return side_by_side(program) if HAS_TORCH else alone(program)


def side_by_side(program: Program) -> Verdict:
    ours, theirs = Namespace(program, pellucid), Namespace(program, oracle())
    verdict, errors = Verdict(), 0
    for number, line in enumerate(program.lines):
        parted = _both(program, line, number, ours, theirs, verdict)
        if parted is None and WALKS.search(line) and verdict.errors > errors:
            parted = verdict  # how far either came before it failed is nobody's business
        if parted is None:
            errors = verdict.errors
            continue
        if parted.failure is not None:
            return parted
        return parted.joined(side_by_side(without(program, number)))
    made = [name for name in made_by(ours) if name in theirs]
    failure = differs(ours, theirs)
    for number, line in enumerate(program.ending(made), len(program.lines)):
        parted = _both(program, line, number, ours, theirs, verdict)
        if parted is not None:
            return parted
    ended = verdict.errors == errors  # else PyTorch's walk has left some gradients behind
    if ended:
        failure = failure or differs(ours, theirs)
    if failure is not None and PAST_THE_COUNTER.search("\n".join(program.lines)):
        ending = program.ending(made) if ended else []
        right = any(differs(ours, names) is None for names in with_right_values(program, ending, ours.refused))
        if not right and ended and NO_COPIES.search("\n".join(program.lines)):
            right = against_copies(program, ours) is None
        verdict.stale, failure = right, None if right else failure
    if failure is not None and not_comparable(ours, theirs):
        failure = by_ourselves(program, ours) if ended else None
    elif failure is None and ended and program.index % SAMPLED == 0:
        failure = by_ourselves(program, ours)
    return replace(verdict, failure=failure)


WALKS = re.compile(r"lambda|backward\(")
GIVEN = re.compile(r"^([xcv]\d+)\.data = (.*)$", re.MULTILINE)
PAST_THE_COUNTER = re.compile(r"\.data\b|\bn\d")
OF_A_LEAF = re.compile(r"(autograd\.grad\(\w+(?:\.pow\(2\)\.sum\(\))?, |inputs=\[|SGD\(\[)(x\d+)\b")
NO_COPIES = re.compile(r"func\.(?:grad|vjp|jacrev)|linearized")  # PyTorch's allow no saved-tensor hooks


def with_right_values(program: Program, ending: Sequence[str], refused: set[int]) -> Iterator[Namespace]:
    """PyTorch's names after a program whose backward is right where writes pass its version counter.

    What is saved is copied, in lines whose transforms allow it. Then the program runs once as it stands, and once so
    that for `x.data = y` the tensor goes on as another one, of the value of the new data, through which gradients pass
    to the old: where nothing is copied PyTorch has saved a leaf itself, not its memory, and it ties a view that is
    given data to its base. That other one shares no memory with `y`, and is not what other names of the old one name.
    """
    yield copying(program, [*program.lines, *ending], refused)
    lines = [GIVEN.sub(r"\1 = \1 + (\2 - \1).detach()", said_of_leaves(line)) for line in program.lines]
    yield copying(program, [*lines, *map(said_of_leaves, ending)], refused)


def copying(program: Program, lines: Sequence[str], refused: set[int]) -> Namespace:
    """PyTorch's names after lines that save copies, but for those that were refused."""
    torch = oracle()
    names = Namespace(program, torch)
    names["leaves"] = names.leaves
    for number, line in enumerate(lines):
        if number in refused:  # a leaf that goes on as another tensor is none, and may be written
            continue
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
        with nullcontext() if NO_COPIES.search(line) else hooks:
            attempt(line, number, program.filename, names)
    return names


def said_of_leaves(line: str) -> str:
    """A line that asks for gradients of leaves, by the leaves and not by what goes by their names now."""
    if line.startswith("slopes"):
        return re.sub(r"\b(x\d+)\b", r"leaves['\1']", line)
    return re.sub(r"\b(x\d+)(?=\.grad\b)", r"leaves['\1']", OF_A_LEAF.sub(r"\1leaves['\2']", line))


SAMPLED = 10  # of so many programs that agree with PyTorch one is compared with differences too


def _both(
    program: Program, line: str, number: int, ours: Namespace, theirs: Namespace, verdict: Verdict
) -> Verdict | None:
    """Run a line on both sides; None if they went the same way, else what is to be said about it."""
    error = attempt(line, number, program.filename, ours)
    their_error = attempt(line, number, program.filename, theirs)
    if error is None and their_error is None:
        return None
    if error is not None and their_error is not None:
        verdict.errors += 1
        return None
    if error is None:
        verdict.beyond.append(f"{first_line(their_error)}   [{line}]")
        return replace(verdict, failure=by_ourselves(program))
    if not re.search(rf"{re.escape(program.filename)}:|<helper \w+>:", str(error)):
        return replace(verdict, failure=f"unexplained {type(error).__name__}: {error}   [{line}]")
    verdict.refusals.append(f"{type(error).__name__}: {first_line(error)}   [{line}]")
    return verdict


def first_line(error: Exception | None) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def without(program: Program, number: int) -> Program:
    return replace(program, lines=(*program.lines[:number], *program.lines[number + 1 :]))


def not_comparable(ours: Namespace, theirs: Namespace) -> bool:
    """Whether PyTorch handed out numbers out of nowhere, or elements that share memory where a write is one to many."""
    pairs = [(ours[name], theirs[name]) for name in made_by(ours) if name in theirs]
    return any(
        (0 in wanted.stride() and 0 not in value.stride() and wanted.numel() > 1) or _finite_here_alone(value, wanted)
        for value, wanted in pairs
    ) or any(
        _finite_here_alone(value.grad, wanted.grad)
        for value, wanted in gradients(ours, theirs).values()
        if value.grad is not None and wanted.grad is not None
    )


def _finite_here_alone(value: Any, wanted: Any) -> bool:
    return bool(np.isfinite(_numbers(value)).all() and not np.isfinite(_numbers(wanted)).all())


def made_by(names: Namespace) -> list[str]:
    """The names of the tensors that a program has made, in the order in which a sum takes them."""
    return sorted((name for name in names if MADE.fullmatch(name) and isinstance(names[name], Tensor)), key=len)


def alone(program: Program) -> Verdict:
    """A program on Pellucid only: what is raised names its line, and differences agree with the gradients."""
    ours = Namespace(program, pellucid)
    verdict = Verdict()
    for number, line in enumerate(program.lines):
        verdict.errors += attempt(line, number, program.filename, ours) is not None
    for number, line in enumerate(program.ending(made_by(ours)), len(program.lines)):
        error = attempt(line, number, program.filename, ours)
        if error is not None:
            verdict.errors += 1
            return verdict
    verdict.failure = by_ourselves(program, ours)
    return verdict


# --- comparing


def differs(ours: Namespace, theirs: Namespace) -> str | None:
    """The first difference between what the names hold on either side; None if there is none."""
    for name, value in ours.items():
        if isinstance(value, Tensor) and name in theirs:
            found, expected = _numbers(value), _numbers(theirs[name])
            if not _equal(found, expected):
                return f"value of {name}: {found.tolist()}, PyTorch's {expected.tolist()}"
    for name, (value, wanted) in gradients(ours, theirs).items():
        found, expected = (np.zeros(value.shape) if x.grad is None else _numbers(x.grad) for x in (value, wanted))
        if not _equal(found, expected):
            return f"gradient of {name}: {found.tolist()}, PyTorch's {expected.tolist()}"
    if not _equal(_seen(ours), _seen(theirs)):
        return f"hooks saw {ours['seen']}, PyTorch's {theirs['seen']}"
    return None


def _seen(names: Namespace) -> np.ndarray:
    """What the hooks of a program have seen, in order of size.

    Without zeros: whether a gradient of zeros still arrives follows from how a derivative is written, 2x or 2x^1.
    """
    found = np.concatenate([np.zeros(0), *(_numbers(value).reshape(-1) for value in names["seen"])])
    return np.sort(found[~(np.abs(found) <= BOUND)])


def gradients(ours: Namespace, theirs: Namespace) -> dict[str, tuple[Any, Any]]:
    """Whatever may have a `.grad` on both sides: the leaves, a module's weight, and who retains it."""
    pairs = {name: (leaf, theirs.leaves[name]) for name, leaf in ours.leaves.items()}
    if all(isinstance(names.get("m0"), names["torch"].nn.Module) for names in (ours, theirs)):
        pairs["m0.weight"] = (ours["m0"].weight, theirs["m0"].weight)
    made = {name: (ours[name], theirs[name]) for name in made_by(ours) if name in theirs}
    return pairs | {name: pair for name, pair in made.items() if all(tensor.retains_grad for tensor in pair)}


def _numbers(value: Any) -> np.ndarray:
    try:
        value = value.clone() if hasattr(value, "clone") else value  # PyTorch has tensors of zeros without memory
        return np.array(value.tolist() if hasattr(value, "tolist") else value, dtype=float)
    except (RuntimeError, TypeError, ValueError):  # a kind of array that has left its transform
        return np.array(float("nan"))


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
    return bool(np.all((np.abs(a - b) <= BOUND * scale) | (a == b) | (np.isnan(a) & np.isnan(b))))


def by_ourselves(program: Program, ours: Namespace | None = None) -> str | None:
    """What is wrong with a program by Pellucid's own lights: stale values were used, or differences disagree."""
    names = ours or ran(program, {})
    if names is None or not isinstance(names.get("loss"), Tensor):
        return None
    return against_copies(program, names) or against_differences(program, names)


def against_copies(program: Program, names: Namespace) -> str | None:
    """Compare with the same program where every saved value is a copy, which no write can reach.

    There a line may run that was refused: the programs are two then.
    """
    with pellucid.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        copies = ran(program, {})
    found = None if copies is None or copies.refused != names.refused else differs(names, copies)
    return None if found is None else found.replace("PyTorch's", "with copies of what is saved")


def against_differences(program: Program, names: Namespace) -> str | None:
    """Compare with central differences along a random direction, unless a kink is near or something is hidden.

    A line that is refused may have written first, to a leaf or to what a view looks at (a custom Function does): the
    gradient belongs to the new value, a difference to the old.
    """
    if any("Bump" in program.lines[number] for number in names.refused if number < len(program.lines)):
        return None
    written = any(not _equal(_numbers(leaf), program.value(name)) for name, leaf in names.leaves.items())
    if HIDDEN.search("\n".join(program.lines)) or (names.refused and written):
        return None
    random = np.random.default_rng(program.index)
    directions = {name: random.standard_normal(program.value(name).shape) for name in program.variables()}
    slopes = [(names[name].grad, direction) for name, direction in directions.items()]
    analytic = sum(float((g.array * v).sum()) for g, v in slopes if g is not None)

    def height(distance: float) -> float:
        moved = {name: program.value(name) + distance * direction for name, direction in directions.items()}
        at = ran(program, moved)
        return float("nan") if at is None else float(at["loss"].item())

    return slope_differs(analytic, float(names["loss"].item()), height)


def ran(program: Program, moved: dict[str, np.ndarray]) -> Namespace | None:
    """The names after a whole program on Pellucid; None if its ending fails."""
    names = Namespace(program, pellucid, moved)
    for number, line in enumerate(program.lines):
        attempt(line, number, program.filename, names)
    for number, line in enumerate(program.ending(made_by(names)), len(program.lines)):
        if attempt(line, number, program.filename, names) is not None:
            return None
    return names


# --- shrinking and telling


def candidates(program: Program) -> Iterator[Program]:
    """Programs with one line less, or with an expression replaced by one of its parts."""
    if program.order == 2:
        yield replace(program, order=1)
    for number in reversed(range(len(program.lines))):
        yield without(program, number)
    for number in reversed(range(len(program.lines))):
        target, _, expression = program.lines[number].partition(" = ")
        if MADE.fullmatch(target):
            for name in dict.fromkeys([*MADE.findall(expression), *LEAF.findall(expression)]):
                rest = without(program, number).lines
                yield replace(program, lines=tuple(re.sub(rf"\b{target}\b", name, line) for line in rest))
    for number, line in enumerate(program.lines):
        for simpler in simpler_lines(line):
            yield replace(program, lines=(*program.lines[:number], simpler, *program.lines[number + 1 :]))


def simpler_lines(line: str) -> Iterator[str]:
    """A line with one of its expressions replaced by a part of it."""
    tree = ast.parse(line)
    for place, node in enumerate(ast.walk(tree)):
        if isinstance(node, (ast.Call, ast.BinOp, ast.Subscript, ast.Attribute, ast.UnaryOp)):
            for part, child in enumerate(ast.iter_child_nodes(node)):
                if isinstance(child, ast.expr):
                    yield ast.unparse(_Hoist(place, part).done(tree))


class _Hoist(ast.NodeTransformer):
    """Puts a part of an expression in the place of the whole."""

    def __init__(self, place: int, part: int) -> None:
        self.place, self.part = place, part

    def done(self, tree: ast.Module) -> ast.Module:
        changed = copy.deepcopy(tree)
        whole = list(ast.walk(changed))[self.place]
        self.whole, self.child = whole, list(ast.iter_child_nodes(whole))[self.part]
        self.visit(changed)
        return changed

    def visit(self, node: ast.AST) -> ast.AST:
        return self.child if node is self.whole else self.generic_visit(node)


def explain_failure(program: Program) -> str:
    """A failing program shrunk to a script, with the command that makes it again."""
    kind = kind_of(judge(program).failure)
    small = shrink(program, lambda candidate: kind_of(judge(candidate).failure) == kind, candidates)
    command = f"python -m pellucid.testing.programs --seed {program.seed} --index {program.index}"
    return f"{judge(small).failure}\n\n{small.script()}\n\nreplay: {command}"


def kind_of(failure: str | None) -> str | None:
    """The sort of a failure: its first words, without the numbers and names that shrinking changes."""
    return None if failure is None else re.split(r"[:\[]", re.sub(r"\b[xcv]\d+\b", "x", failure), maxsplit=1)[0][:40]


@dataclass
class Tally:
    """What came of many programs."""

    failures: list[str] = field(default_factory=list)
    programs: int = 0
    refused: int = 0  # programs with a refusal of ours
    refusals: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    stale: int = 0  # programs where PyTorch used values that were changed behind its back, and we did not


MOST = 3  # failures that are told


def survey(seed: int, indices: Sequence[int], most: int = MOST) -> Tally:
    """Judge many programs; failing ones are shrunk."""
    tally = Tally()
    for index in indices:
        program = write(seed, index)
        verdict = judge(program)
        tally.programs += 1
        tally.refused += bool(verdict.refusals)
        tally.stale += verdict.stale
        tally.refusals.update(sort_of(text) for text in verdict.refusals)
        tally.beyond.update(sort_of(text) for text in verdict.beyond)
        if verdict.failure is not None:
            tally.failures.append(explain_failure(program))
            if len(tally.failures) == most:
                break
    return tally


def sort_of(text: str) -> str:
    """A refusal without the numbers and names in it."""
    return re.sub(r"\d+", "#", text.partition("   [")[0])[:90]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, run and judge programs from the command line."""
    parser = argparse.ArgumentParser(prog="python -m pellucid.testing.programs", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--count", type=int, default=1, help="how many programs, from --index on")
    options = parser.parse_args(arguments)
    if options.count == 1:
        print(write(options.seed, options.index).script(), end="\n\n")
    tally = survey(options.seed, range(options.index, options.index + options.count))
    print("\n\n".join(tally.failures) if tally.failures else f"{tally.programs} program(s): no silent difference")
    for title, counter in (("refused by us alone", tally.refusals), ("refused by PyTorch alone", tally.beyond)):
        print(f"{title}: {counter.total()} in {tally.programs} programs")
        for text, count in counter.most_common():
            print(f"  {count:5d}  {text}")
    print(f"PyTorch used values that were changed behind its back: {tally.stale}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
