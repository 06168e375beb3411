"""Random programs: their gradients against finite differences always, against PyTorch when it is installed.

A program is Python text that runs on either library, so a failure is a script one can read and keep. Everything
follows from a seed and an index:

    python -m pellucid.testing.graphs --seed 0 --index 17

`graph` programs are functions of arithmetic, broadcasting, reductions, matrix products and views. `alias` programs
write into memory that others look at; there the gradient must equal PyTorch's, or an error must name the line.
"""

import argparse
import importlib.util
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

import pellucid
from pellucid.core import backward
from pellucid.core.tensor import Tensor, wrap

Some = TypeVar("Some")

HAS_TORCH = importlib.util.find_spec("torch") is not None
SHAPES = ((), (1,), (3,), (4,), (2, 3), (3, 2), (1, 3), (2, 1), (3, 3), (2, 3, 2), (2, 1, 3))
NAME = re.compile(r"\b[xv]\d+\b")


@dataclass(frozen=True)
class Program:
    """Leaves (name, shape), and lines of Python that compute from them."""

    kind: str  # graph or alias
    seed: int
    index: int
    leaves: tuple[tuple[str, tuple[int, ...]], ...]
    lines: tuple[str, ...]
    dtype: str = "float64"

    @property
    def filename(self) -> str:
        return f"<{self.kind} {self.seed}:{self.index}>"

    def leaf_line(self, number: int) -> str:
        name, shape = self.leaves[number]
        values = f"np.random.default_rng({self.seed * 1000 + number}).uniform(-1.5, 1.5, {shape})"
        return f"{name} = torch.tensor({values}, dtype=torch.{self.dtype}, requires_grad=True)"

    def loss_line(self) -> str:
        """A weighted sum of what nobody used (a graph), or of everything there is (aliases)."""
        made = [line.split(" = ")[0] for line in self.lines if re.match(r"v\d+ = ", line)]
        used = {name for line in self.lines for name in NAME.findall(line.partition(" = ")[2] or line)}
        chosen = [name for name in made if self.kind == "alias" or name not in used] or made
        terms = [f"({name} * {0.5 + 0.25 * (k % 5)}).sum()" for k, name in enumerate(chosen or [self.leaves[0][0]])]
        return f"loss = {' + '.join(terms)}"

    def body(self) -> str:
        return "\n".join([*self.lines, self.loss_line()])

    def script(self) -> str:
        """The whole program as a script."""
        names = ", ".join(f"{name}.grad" for name, _ in self.leaves)
        head = ["import numpy as np, pellucid as torch"]
        head += [self.leaf_line(k) for k in range(len(self.leaves))]
        return "\n".join([*head, self.body(), "loss.backward()", f"print({names})"])

    def values(self) -> list[np.ndarray]:
        """The values of the leaves."""
        return [
            np.random.default_rng(self.seed * 1000 + k).uniform(-1.5, 1.5, shape).astype(self.dtype)
            for k, (_, shape) in enumerate(self.leaves)
        ]


# --- writing programs


class Writer:
    """Writes one random program, line by line; a line that fails or leaves the range of numbers is not taken."""

    def __init__(self, kind: str, seed: int, index: int) -> None:
        self.random = np.random.default_rng([seed, index])
        count = int(self.random.integers(2, 5))
        shapes = [SHAPES[i] for i in self.random.integers(4 if kind == "alias" else 0, len(SHAPES), count)]
        leaves = tuple((f"x{k}", shape) for k, shape in enumerate(shapes))
        self.program = Program(kind, seed, index, leaves, ())
        self.names: dict[str, Any] = {"torch": pellucid, "np": np}
        for (name, _), array in zip(leaves, self.program.values(), strict=True):
            self.names[name] = wrap(array)
        self.kinds = GRAPH if kind == "graph" else ALIAS
        self.weights = np.array([weight for weight, _ in self.kinds], dtype=float)
        self.weights /= self.weights.sum()

    def write(self) -> Program:
        length = int(self.random.integers(5, 31 if self.program.kind == "graph" else 13))
        made = 0
        for _ in range(length * 4):
            template = self.kinds[int(self.random.choice(len(self.kinds), p=self.weights))][1]
            text = template(self)
            if text is None or not self.accepts(text, f"v{made}"):
                continue
            made += 1
            if len(self.program.lines) == length:
                break
        return self.program

    def accepts(self, text: str, name: str) -> bool:
        """Run a line; keep it if its values stay tame."""
        line = text if STATEMENT.match(text) else f"{name} = {text}"
        try:
            exec(line, self.names)
        except (RuntimeError, IndexError, ValueError):
            return False
        if any(not _tame(value) for value in self.names.values() if isinstance(value, Tensor)):
            self.replay()
            return False
        self.program = replace(self.program, lines=(*self.program.lines, line))
        return True

    def replay(self) -> None:
        """Undo the last line by running the program again."""
        for (name, _), array in zip(self.program.leaves, self.program.values(), strict=True):
            self.names[name] = wrap(array)
        for name in [name for name in self.names if re.fullmatch(r"v\d+", name)]:
            del self.names[name]
        exec("\n".join(self.program.lines), self.names)

    # --- choices

    def tensors(self, test: Callable[[tuple[int, ...]], bool] = lambda shape: True, made: bool = False) -> list[str]:
        names = [
            name for name, value in self.names.items() if isinstance(value, Tensor) and (not made or name[0] == "v")
        ]
        return [name for name in names if test(self.shape(name))]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.names[name].array.shape)

    def pick(self, names: Sequence[str]) -> str | None:
        """One of the names, recent ones more often."""
        if not names:
            return None
        weights = np.arange(1, len(names) + 1, dtype=float)
        return names[int(self.random.choice(len(names), p=weights / weights.sum()))]

    def apart(self, name: str, others: Sequence[str]) -> list[str]:
        """The tensors that share no memory with one that is about to be written.

        PyTorch reads what it has just written when it does not notice an overlap; OVERLAP is judged without it.
        """
        written = self.names[name].array
        return [other for other in others if not np.may_share_memory(self.names[other].array, written)]

    def dim(self, name: str) -> int:
        rank = len(self.shape(name))
        return int(self.random.integers(-rank, rank))

    def one_of(self, options: Sequence[str]) -> str:
        return options[int(self.random.integers(len(options)))]


STATEMENT = re.compile(r"with |[xv]\d+(\.detach\(\)|\.data|\[0\])?\.[a-z]+_\(|[xv]\d+(\[[^=]*\])? [-+*]?= ")


def _tame(value: Tensor) -> bool:
    return value.array.size <= 200 and bool(np.all(np.abs(value.array) < 50))


Template = Callable[[Writer], str | None]


def unary(w: Writer) -> str | None:
    x = w.pick(w.tensors())
    return w.one_of(UNARY).format(x=x)


UNARY = (
    "{x}.sin()", "{x}.cos()", "{x}.tanh()", "{x}.sigmoid()", "({x} * 0.3).exp()", "({x} * {x} + 0.5).log()",
    "({x} * {x} + 0.5).sqrt()", "-{x}", "{x} * 1.5", "{x} + 0.7", "1.0 - {x}", "{x} ** 2", "{x} ** 3",
    "2.0 / ({x} * {x} + 1.0)", "{x}.abs()", "{x}.relu()", "{x}.clamp(-0.8, 0.9)", "({x} * {x} + 0.5) ** 0.5",
    "{x}.clone()",
)  # fmt: skip


def binary(w: Writer) -> str | None:
    x = w.pick(w.tensors())
    assert x is not None
    y = w.pick(w.tensors(lambda shape: _broadcasts(shape, w.shape(x))))
    return w.one_of(BINARY).format(x=x, y=y)


BINARY = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * {y} + 1.0)", "torch.maximum({x}, {y})",
    "torch.minimum({x}, {y})", "torch.where({x} > {y}, {x}, {y} * 0.5)", "{x}.clone().mul_(({x} + {y}).sum())",
)  # fmt: skip


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def reduction(w: Writer) -> str | None:
    x = w.pick(w.tensors(lambda shape: len(shape) > 0))
    if x is None:
        return None
    keep = w.one_of(("True", "False"))
    return w.one_of(REDUCE).format(x=x, dim=w.dim(x), keep=keep)


REDUCE = (
    "{x}.sum({dim}, keepdim={keep})", "{x}.mean({dim}, keepdim={keep})", "{x}.sum()", "{x}.mean()",
    "{x}.logsumexp({dim}, keepdim={keep})", "{x}.softmax({dim})", "{x}.log_softmax({dim})", "{x}.cumsum({dim})",
    "{x}.amax({dim}, keepdim={keep})", "{x}.max({dim}, keepdim={keep}).values", "{x}.prod({dim}, keepdim={keep})",
    "{x}.sort({dim}).values", "{x}.var({dim}, correction=0)",
)  # fmt: skip


def product(w: Writer) -> str | None:
    x = w.pick(w.tensors(lambda shape: len(shape) >= 1))
    if x is None:
        return None
    inner = w.shape(x)[-1]
    y = w.pick(w.tensors(lambda shape: (len(shape) >= 2 and shape[-2] == inner) or shape == (inner,)))
    if y is None or w.random.random() < 0.3:
        return f"{x} @ {x}.transpose(-1, -2)" if len(w.shape(x)) >= 2 else f"{x} @ {x}"
    return f"{x} @ {y}"


def view(w: Writer) -> str | None:
    x = w.pick(w.tensors(lambda shape: len(shape) > 0))
    if x is None:
        return None
    shape = w.shape(x)
    order = tuple(int(i) for i in w.random.permutation(len(shape)))
    swap = f"{x}.transpose({w.dim(x)}, {w.dim(x)})"
    options = [
        f"{x}.reshape(-1)", f"{x}.unsqueeze({w.dim(x)})", f"{x}.squeeze()", f"{x}.permute({order})", swap,
        f"{x}.expand((2, *{shape}))", f"{x}[0]", f"{x}[..., ::2]", f"{x}[..., 1:]", f"{x}[None]", f"{x}.flip(0)",
        f"torch.cat([{x}, {x} * 2.0], {w.dim(x)})", f"torch.stack([{x}, -{x}])", f"{x}[torch.tensor([0, 0])]",
    ]  # fmt: skip
    return w.one_of(options)


def saving(w: Writer) -> str | None:
    """An operation whose backward needs a value that somebody may overwrite."""
    x = w.pick(w.tensors())
    assert x is not None
    y = w.pick(w.tensors(lambda shape: shape == w.shape(x)))
    options = [
        "{x}.clone()",
        "{x} * 1.5",
        "{x}.sin()",
        "({x} * 0.3).exp()",
        "{x}.tanh()",
        "{x} * {y}",
        "{x} + {y}",
        "{x} * {x}",
    ]
    return w.one_of(options).format(x=x, y=y)


def looking(w: Writer) -> str | None:
    """A view, to be written through or to be surprised by."""
    x = w.pick(w.tensors(lambda shape: len(shape) > 0, made=True))
    if x is None:
        return None
    options = [
        "{x}[0]", "{x}[1:]", "{x}[..., 0]", "{x}[..., ::2]", "{x}.transpose(0, -1)", "{x}.reshape(-1)",
        "{x}.unsqueeze(0)", "{x}.view(-1)", "{x}.unbind(0)[0]", "{x}.expand((2, *{x}.shape))", "{x}.detach()",
        "{x}.squeeze()", "{x}.split(1)[0]",
    ]  # fmt: skip
    return w.one_of(options).format(x=x)


def writing(w: Writer) -> str | None:
    """An in-place operation."""
    made = w.random.random() < 0.95
    x = w.pick(w.tensors(made=made))
    if x is None:
        return None
    y = w.pick(w.apart(x, w.tensors(lambda shape: shape == w.shape(x)))) or 0.9
    z = w.pick(w.apart(x, w.tensors(lambda shape: shape == w.shape(x)[1:])))
    options = [
        "{x}.mul_(0.7)", "{x}.add_(0.3)", "{x}.mul_({y})", "{x}.add_({y})", "{x}.sin_()", "{x}.tanh_()", "{x}.zero_()",
        "{x}.fill_(0.4)", "{x}.copy_({x} * {y})", "{x} += {y}", "{x} *= 0.9", "{x}.sub_({y})",
        "with torch.no_grad(): {x}.mul_(0.8)", "{x}.detach().mul_(0.6)", "{x}.data.add_(0.1)",
    ]  # fmt: skip
    if w.shape(x):
        options += ["{x}[0] = 0.2", "{x}[..., 0] = 0.3", "{x}[..., ::2] = 0.5", "{x}[0] = {x}[-1]"] * 2
        options += [
            "{x}.mul_({x}[0])",
            "{x}.mul_({x}[..., :1])",
            "{x}[0].mul_({x}[-1])",
            "{x}.mul_({x}.transpose(0, -1))",
        ]
        if z is not None:
            options += ["{x}[0] = {z}", "{x}[-1] += {z}"] * 2
    return w.one_of(options).format(x=x, y=y, z=z)


GRAPH: tuple[tuple[float, Template], ...] = ((4, unary), (5, binary), (2, reduction), (1.5, product), (2, view))
ALIAS: tuple[tuple[float, Template], ...] = ((4, saving), (3, looking), (4, writing), (1, binary))


def write(kind: str, seed: int, index: int) -> Program:
    """The program that belongs to a seed and an index.

    >>> write("graph", 0, 1) == write("graph", 0, 1)
    True
    """
    return Writer(kind, seed, index).write()


# --- running programs


@dataclass(frozen=True)
class Outcome:
    """What a program gave: its loss and the gradients of its leaves, or the error it raised."""

    loss: float
    gradients: tuple[np.ndarray, ...]
    error: Exception | None = None


def run(program: Program, library: Any, second_order: bool = False) -> Outcome:
    """Run a program forward and backward on one library."""
    try:
        names, loss = forward(program, library, program.values())
        variables = [names[name] for name, _ in program.leaves]
        if second_order:
            found = _second_order(library, loss, variables)
        else:
            found = _first_order(library, loss, variables)
        return Outcome(loss.item(), tuple(_array(g, x) for g, x in zip(found, variables, strict=True)))
    except Exception as error:
        return Outcome(0.0, (), error)


def forward(program: Program, library: Any, values: Sequence[np.ndarray]) -> tuple[dict[str, Any], Any]:
    """The names after running a program on given leaves, and the loss."""
    names: dict[str, Any] = {"torch": library, "np": np}
    for (name, _), array in zip(program.leaves, values, strict=True):
        names[name] = library.tensor(array, requires_grad=True)
    body = program.body()
    linecache.cache[program.filename] = (len(body), None, body.splitlines(keepends=True), program.filename)
    exec(compile(body, program.filename, "exec"), names)
    return names, names["loss"]


def _first_order(library: Any, loss: Any, variables: Sequence[Any], create: bool = False) -> Sequence[Any]:
    if library is pellucid:
        return backward.gradients([loss], [None], variables, create, create)
    return library.autograd.grad(loss, variables, allow_unused=True, create_graph=create)  # type: ignore[no-any-return]


def _second_order(library: Any, loss: Any, variables: Sequence[Any]) -> Sequence[Any]:
    first = [g for g in _first_order(library, loss, variables, create=True) if g is not None]
    total = sum(((g * (0.5 + 0.25 * k)).sum() for k, g in enumerate(first)), library.zeros(()))
    return _first_order(library, total, variables) if total.requires_grad else [None] * len(variables)


def _array(g: Any, x: Any) -> np.ndarray:
    if g is None:
        return np.zeros(tuple(x.shape))
    return g.array if isinstance(g, Tensor) else g.detach().numpy()  # type: ignore[no-any-return]


# --- judging


def judge(program: Program, order: int = 1) -> str | None:
    """What is wrong with our gradients of a program; None when nothing is."""
    ours = run(program, pellucid, second_order=order == 2)
    trusted = HAS_TORCH and not OVERLAP.search(program.body())
    theirs = run(program, oracle(), second_order=order == 2) if trusted else None
    if ours.error is not None:
        return _judge_error(program, ours.error, theirs)
    if theirs is not None and theirs.error is None:
        verdict = _compare(program, ours, theirs, order)
        if verdict is not None or program.kind == "alias" or program.index % SAMPLED:
            return verdict
    if order == 2 or program.dtype != "float64" or HIDDEN.search(program.body()):
        return None  # nothing to compare with: a write that hides from autograd has no derivative
    return against_differences(program, ours)


SAMPLED = 10  # of so many programs that agree with PyTorch's gradients one is compared with differences too
OVERLAP = re.compile(r"\b([xv]\d+)\.mul_\(\1[.\[]")
HIDDEN = re.compile(r"no_grad|detach|\.data\b")


def oracle() -> Any:
    import torch

    return torch


def _judge_error(program: Program, error: Exception, theirs: Outcome | None) -> str | None:
    named = isinstance(error, RuntimeError) and f"{program.filename}:" in str(error)
    if program.kind == "alias" and (named or (theirs is not None and theirs.error is not None)):
        return None
    return f"raised {type(error).__name__}: {error}"


TOLERANCE = {("float64", 1): 1e-12, ("float64", 2): 1e-9, ("float32", 1): 2e-5, ("float32", 2): 1e-3}


def _compare(program: Program, ours: Outcome, theirs: Outcome, order: int) -> str | None:
    bound = TOLERANCE[program.dtype, order]
    scale = 1 + abs(theirs.loss) + max((float(np.abs(e).max(initial=0)) for e in theirs.gradients), default=0.0)
    if abs(ours.loss - theirs.loss) > bound * scale:
        return None if on_a_jump(program, bound * scale) else f"loss {ours.loss!r}, PyTorch's {theirs.loss!r}"
    for (name, _), g, e in zip(program.leaves, ours.gradients, theirs.gradients, strict=True):
        if g.shape != e.shape or not np.all(np.abs(g - e) <= bound * scale):
            return f"gradient of {name}: {g.tolist()}, PyTorch's {e.tolist()}"
    return None


def on_a_jump(program: Program, bound: float) -> bool:
    """Whether rounding decides the value here: `where(a > b, ...)` of two numbers that are equal but for rounding.

    It may do so in one library only: two ways to write a product are one way of computing it in the other.
    """
    random = np.random.default_rng(program.index)
    moved = [[x * (1 + 1e-14 * random.standard_normal(x.shape)) for x in program.values()] for _ in range(8)]
    for library in (pellucid, oracle()):
        losses = [float(forward(program, library, values)[1].item()) for values in moved]
        if max(losses) - min(losses) > bound:
            return True
    return False


def against_differences(program: Program, ours: Outcome) -> str | None:
    """Compare with central differences along a random direction, unless a kink is near."""
    random = np.random.default_rng(program.index)
    directions = [random.standard_normal(shape) for _, shape in program.leaves]
    analytic = sum(float((g * v).sum()) for g, v in zip(ours.gradients, directions, strict=True))

    def height(step: float) -> float:
        moved = [x + step * v for x, v in zip(program.values(), directions, strict=True)]
        return float(forward(program, pellucid, moved)[1].item())

    return slope_differs(analytic, ours.loss, height)


def slope_differs(analytic: float, here: float, height: Callable[[float], float]) -> str | None:
    """What is wrong with a slope, by differences of the heights around; None where these cannot tell.

    >>> slope_differs(3.0, 0.0, lambda step: 2 * step)
    'slope 3.0, by differences 2.0'
    """
    wide, narrow = ((height(h) - height(-h)) / (2 * h) for h in (1e-4, 2.5e-5))
    left, right = (here - height(-1e-4)) / 1e-4, (height(1e-4) - here) / 1e-4
    scale = 1 + abs(analytic)
    if not abs(wide - narrow) <= 1e-4 * scale or not abs(left - right) <= 1e-1 * scale:
        return None  # within a step of a kink, too curved to tell, or no number
    return f"slope {analytic!r}, by differences {narrow!r}" if abs(analytic - narrow) > 1e-4 * scale else None


# --- shrinking and telling


def shrink(program: Some, fails: Callable[[Some], bool], smaller: Callable[[Some], Iterable[Some]]) -> Some:
    """The smallest program found that still fails; nearly every failure fits in ten lines."""
    while (found := next((each for each in smaller(program) if fails(each)), None)) is not None:
        program = found
    return program


def candidates(program: Program) -> Iterator[Program]:
    """The program with one line less: left out, or replaced by one of its inputs everywhere."""
    for k in reversed(range(len(program.lines))):
        line = program.lines[k]
        rest = (*program.lines[:k], *program.lines[k + 1 :])
        yield replace(program, lines=rest)
        target, _, expression = line.partition(" = ")
        if re.fullmatch(r"v\d+", target):
            for name in dict.fromkeys(NAME.findall(expression)):
                renamed = tuple(re.sub(rf"\b{target}\b", name, other) for other in rest)
                yield replace(program, lines=renamed)
    used = set(NAME.findall(program.body()))
    kept = tuple(leaf for leaf in program.leaves if leaf[0] in used)
    if kept and kept == program.leaves[: len(kept)] and len(kept) < len(program.leaves):
        yield replace(program, leaves=kept)


def explain_failure(program: Program, order: int = 1) -> str:
    """A failing program shrunk to a script, with the command that makes it again."""
    first = judge(program, order)
    kind = _kind(first)

    def fails(candidate: Program) -> bool:
        return _kind(judge(candidate, order)) == kind

    small = shrink(program, fails, candidates)
    command = f"python -m pellucid.testing.graphs --kind {program.kind} --seed {program.seed} --index {program.index}"
    extra = "".join(
        (f" --order {order}" if order != 1 else "", f" --dtype {program.dtype}" if program.dtype != "float64" else "")
    )
    return f"{judge(small, order)}\n\n{small.script()}\n\nreplay: {command}{extra}"


def _kind(verdict: str | None) -> str | None:
    """The sort of a failure: its first words, without the numbers and names that shrinking changes."""
    return None if verdict is None else re.split(r"[-\d]", re.sub(r"\bx\d+\b", "x", verdict), maxsplit=1)[0][:16]


def failures(kind: str, seed: int, indices: Sequence[int], order: int = 1, dtype: str = "float64") -> list[str]:
    """Judge many programs; the failing ones, shrunk."""
    found = []
    for index in indices:
        program = replace(write(kind, seed, index), dtype=dtype)
        if judge(program, order) is not None:
            found.append(explain_failure(program, order))
            if len(found) == 3:
                break
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, run and judge programs from the command line."""
    parser = argparse.ArgumentParser(prog="python -m pellucid.testing.graphs", description=main.__doc__)
    parser.add_argument("--kind", choices=("graph", "alias"), default="graph")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--count", type=int, default=1, help="how many programs, from --index on")
    parser.add_argument("--order", type=int, choices=(1, 2), default=1)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    options = parser.parse_args(arguments)
    indices = range(options.index, options.index + options.count)
    if options.count == 1:
        print(replace(write(options.kind, options.seed, options.index), dtype=options.dtype).script(), end="\n\n")
    found = failures(options.kind, options.seed, indices, options.order, options.dtype)
    print("\n\n".join(found) if found else f"{options.count} program(s): gradients are right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
