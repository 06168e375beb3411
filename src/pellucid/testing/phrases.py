"""Random programs about memory and its history, written line by line: what the lines are made of.

A line is plain Python that runs on either library. It makes a view, writes in place, through `.data`, through NumPy or
into `out=`, transforms a function (vmap, jvp, vjp, grad, linearize, jacobians, functional_call), hangs a hook
somewhere, differentiates, checkpoints, or calls a custom Function. `programs` runs what is written here and judges it.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import pellucid
from pellucid.core.tensor import Tensor

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = ((3,), (4,), (2, 3), (3, 2), (3, 3), (1, 3), (2, 2), (2, 3, 2), (2, 2, 3), ())
LARGEST = 72  # elements; more of them find nothing that fewer do not
STRONGEST = 30.0  # a program whose numbers grow beyond it is about rounding

# What a program may call beside the library; a script begins with those that it uses.
HELPERS = {
    "put": """\
def put(t, key, value):
    t[key] = value
    return t""",
    "quietly": """\
def quietly(f, *args):
    with torch.no_grad():
        return f(*args)""",
    "unseen": """\
def unseen(f, *args):
    with torch.inference_mode():
        f(*args)""",
    "buffered": """\
def buffered(f, t):
    made = torch.zeros(t.shape, dtype=torch.float64)
    made[:1] = t[:1] * 0.5
    made[...] += f(t)
    return made""",
    "hooked": """\
def hooked(t, hook):
    t.grad_fn  # PyTorch crashes without it where t is a view that was written to
    return t.register_hook(hook)""",
    "kept": """\
def kept(pack, f, *args):
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        return f(*args)""",
    "linearized": """\
def linearized(f, x):  # PyTorch's has no graph, but may hand out what it was given
    value, push = torch.func.linearize(f, x.detach())
    return value.detach().clone(), lambda t: push(t.detach()).detach().clone()""",
    "dual": """\
def dual(f, x, t):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, t))).tangent.clone()""",
    "Cube": """\
class Cube(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x):
        return x * x * x
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g
    @staticmethod
    def jvp(ctx, t):
        return 3 * ctx.saved_tensors[0] ** 2 * t""",
    "Exp": """\
class Exp(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x):
        return (x * 0.5).exp()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] * 0.5""",
    "Bump": """\
class Bump(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.mul_(2).add_(1)
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(*inputs)
    @staticmethod
    def backward(ctx, g):
        return g * 2""",
    "Look": """\
class Look(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x):
        return x.view(-1)
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[0].shape
    @staticmethod
    def backward(ctx, g):
        return g.view(ctx.shape)""",
    "Same": """\
class Same(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x):
        return x
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, g):
        return g * 3""",
    "Pair": """\
class Pair(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x, y):
        return x * y, x.sin()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h * x.cos(), (g * x).sum_to_size(y.shape)""",
    "Parts": """\
class Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.sin()
        ctx.save_for_backward(x, y)
        sign = x.sign()
        ctx.mark_non_differentiable(sign)
        return y, sign
    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * x.cos() + 0 * y""",
    "Affine": """\
class Affine(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full(shape, 0.7, dtype=torch.float64))
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))
    def forward(self, x):
        self.calls.add_(1)
        return x * self.weight + self.calls""",
}  # fmt: skip
LEAF = re.compile(r"\b[xcn]\d+\b")
MADE = re.compile(r"\bv\d+\b")


@dataclass(frozen=True)
class Program:
    """Values to begin with (x requires grad, c does not, n is a NumPy array), lines of Python, and an order.

    Of the first order, a program ends by a backward pass of a sum over everything that it made; of the second, that
    sum's gradients are summed again before the backward pass.
    """

    seed: int
    index: int
    leaves: tuple[tuple[str, Shape], ...]
    lines: tuple[str, ...]
    order: int = 1

    @property
    def filename(self) -> str:
        return f"<program {self.seed}:{self.index}>"

    def value(self, name: str) -> np.ndarray:
        shape = dict(self.leaves)[name]
        return np.random.default_rng([self.seed, ord(name[0]), int(name[1:])]).uniform(-1.5, 1.5, shape)

    def variables(self) -> list[str]:
        return [name for name, _ in self.leaves if name[0] == "x"]

    def head(self) -> list[str]:
        """The lines that make what the program begins with: numbers rounded so that one can read them."""
        lines = []
        for name, shape in self.leaves:
            array = f"np.random.default_rng([{self.seed}, {ord(name[0])}, {int(name[1:])}]).uniform(-1.5, 1.5, {shape})"
            grad = ", requires_grad=True" if name[0] == "x" else ""
            lines.append(f"{name} = {array}" if name[0] == "n" else f"{name} = torch.tensor({array}{grad})")
        return lines

    def helpers(self) -> list[str]:
        text = "\n".join(self.lines)
        return [source for name, source in HELPERS.items() if re.search(rf"\b{name}\b", text)]

    def ending(self, names: Sequence[str]) -> list[str]:
        """The lines that sum up what was made under these names and walk back."""
        terms = [f"({name} * {0.5 + 0.25 * (k % 5)}).sum()" for k, name in enumerate(names)]
        lines = [f"loss = {' + '.join(terms)}"]
        if self.order == 2:
            wrt = ", ".join(self.variables())
            lines += [
                f"slopes = torch.autograd.grad(loss, [{wrt}], create_graph=True, allow_unused=True)",
                "loss = sum((g * (0.6 + 0.3 * k)).sum() for k, g in enumerate(slopes) if g is not None)",
            ]
        return [*lines, "loss.backward()"]

    def script(self, names: Sequence[str] | None = None) -> str:
        """The whole program as a script."""
        made = names if names is not None else sorted(set(MADE.findall("\n".join(self.lines))))
        printed = ", ".join(f"{name}.grad" for name in self.variables())
        head = ["import numpy as np, pellucid as torch", "seen = []", *self.helpers(), *self.head()]
        return "\n".join([*head, *self.lines, *self.ending(made), f"print({printed})"])


class Namespace(dict[str, Any]):
    """What a program's lines see: one library, the leaves, and the helpers, made for that library when needed."""

    def __init__(self, program: Program, library: Any, moved: dict[str, np.ndarray] | None = None) -> None:
        super().__init__(torch=library, np=np, seen=[])
        for name, _ in program.leaves:
            array = program.value(name) if moved is None or name not in moved else moved[name]
            self[name] = array if name[0] == "n" else library.tensor(array, requires_grad=name[0] == "x")
        self.leaves = {name: self[name] for name, _ in program.leaves if name[0] != "n"}
        self.refused: set[int] = set()  # the numbers of the lines that raised

    def __missing__(self, name: str) -> Any:
        if name not in HELPERS:
            raise KeyError(name)
        exec(compile(HELPERS[name], f"<helper {name}>", "exec"), self)
        return self[name]


def attempt(line: str, number: int, filename: str, names: Namespace) -> Exception | None:
    """Run one line of a program where it stands; the error it raised, if any."""
    for name in HELPERS:
        if name in line:
            names[name] = names[name]
    try:
        exec(compile("\n" * number + line, filename, "exec"), names)
    except Exception as error:
        names.refused.add(number)
        return error
    return None


# --- expressions, whose shapes are known without running them


class Shaped(NamedTuple):
    """The text of an expression, and the shape of its value."""

    text: str
    shape: Shape


def size_of(shape: Shape) -> int:
    return int(np.prod(shape, dtype=int))


def views_of(w: "Writer", e: Shaped) -> list[Shaped]:
    """Every way to look at the memory of an expression."""
    x, shape = e
    rank = len(shape)
    found = [
        Shaped(f"{x}[None]", (1, *shape)), Shaped(f"{x}.unsqueeze(-1)", (*shape, 1)), Shaped(f"{x}[...]", shape),
        Shaped(f"{x}.view_as({x})", shape), Shaped(f"{x}.squeeze()", tuple(n for n in shape if n != 1)),
        Shaped(f"{x}.expand(2, {', '.join(['-1'] * rank)})", (2, *shape)), Shaped(f"{x}.contiguous()", shape),
        Shaped(f"{x}.broadcast_to({(2, *shape)})", (2, *shape)), Shaped(f"{x}.to(torch.float64)", shape),
        Shaped(f"{x}.reshape(-1)", (size_of(shape),)), Shaped(f"{x}.flatten()", (size_of(shape),)),
    ]  # fmt: skip
    if rank:
        n, m, rest = shape[0], shape[-1], shape[1:]
        found += [
            Shaped(f"{x}[0]", rest), Shaped(f"{x}[-1]", rest), Shaped(f"{x}[..., 0]", shape[:-1]),
            Shaped(f"{x}[:]", shape), Shaped(f"{x}[..., ::2]", (*shape[:-1], (m + 1) // 2)),
            Shaped(f"{x}.unbind(0)[-1]", rest), Shaped(f"{x}.split(1)[0]", (1, *rest)),
            Shaped(f"{x}.select(-1, 0)", shape[:-1]), Shaped(f"{x}.narrow(0, 0, 1)", (1, *rest)),
            Shaped(f"{x}.view(-1)", (size_of(shape),)), Shaped(f"{x}.chunk(2, -1)[0]", (*shape[:-1], (m + 1) // 2)),
            Shaped(f"{x}[:1]", (1, *rest)), Shaped(f"{x}.unflatten(0, (1, {n}))", (1, *shape)),
            Shaped(f"{x}.tensor_split(2, -1)[0]", (*shape[:-1], (m + 1) // 2)), Shaped(f"{x}.real", shape),
            Shaped(f"{x}.as_strided(({n},), ({x}.stride(0),))", (n,)), Shaped(f"{x}.mT.contiguous().mT", shape)
            if rank > 1
            else Shaped(f"torch.atleast_1d({x})", shape),
        ]  # fmt: skip
        if n > 1:
            found += [Shaped(f"{x}[1:]", (n - 1, *rest)), Shaped(f"{x}[:-1]", (n - 1, *rest))]
        if m == 2 and rank > 1:
            paired = f"torch.view_as_complex({x}.contiguous())"
            found += [Shaped(f"{paired}.{part}", shape[:-1]) for part in ("real", "imag")]
        if m > 1:
            found.append(Shaped(f"{x}.unfold(-1, 2, 2)", (*shape[:-1], m // 2, 2)))
    if rank >= 2:
        order = tuple(int(i) for i in w.random.permutation(rank))
        swapped = (shape[-1], *shape[1:-1], shape[0])
        found += [
            Shaped(f"{x}.transpose(0, -1)", swapped), Shaped(f"{x}.mT", (*shape[:-2], shape[-1], shape[-2])),
            Shaped(f"{x}.permute({order})", tuple(shape[i] for i in order)), Shaped(f"{x}.swapaxes(0, -1)", swapped),
            Shaped(f"{x}.diagonal(0, 0, 1)", (*shape[2:], min(shape[:2]))),
            Shaped(f"{x}.movedim(0, -1)", (*shape[1:], shape[0])), Shaped(f"{x}[:, 0]", (shape[0], *shape[2:])),
        ]  # fmt: skip
    return found


UNARY = (
    "{x}.sin()", "{x}.tanh()", "{x}.sigmoid()", "({x} * 0.3).exp()", "({x} * {x} + 0.5).log()", "{x} * 1.5",
    "{x} + 0.7", "1.0 - {x}", "{x} ** 2", "2.0 / ({x} * {x} + 1.0)", "{x}.relu()", "{x}.clone()", "{x} * {x}",
    "({x} * {x} + 0.5).sqrt()", "-{x}", "{x}.tanh() * {x}", "{x}.cos() * {x}", "torch.where({x} > 0, {x}, 0.3 * {x})",
    "{x}.masked_fill({x} > 0.2, 0.5)", "(torch.complex({x}, {x} * 0.5) ** 2).imag",
)  # fmt: skip
BINARY = (
    "{x} + {y}", "{x} * {y}", "{x} - {y}", "{x} / ({y} * {y} + 1.0)", "{x} * {y}.sin()", "{x} * {y} + {x}",
    "torch.where({x} > 0, {x}, {y})", "(torch.complex({x}, {x} * {y}) * 1j).real",
)  # fmt: skip
WRITES = (
    ".mul_(0.7)", ".add_(0.3)", ".sin_()", ".tanh_()", ".zero_()", ".fill_(0.4)", ".neg_()", ".sigmoid_()",
    ".clamp_(-0.5, 0.6)", ".pow_(2)", ".relu_()", ".mul_(2)", ".div_(2)",
)  # fmt: skip
WRITES_WITH = (".mul_({y})", ".add_({y})", ".copy_({y})", ".sub_({y})", ".addcmul_({y}, {y})", ".lerp_({y}, 0.3)")


def fits(shape: Shape, into: Shape) -> bool:
    """Whether one shape broadcasts to another."""
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def other(w: "Writer", shape: Shape, pool: Sequence[Shaped]) -> str | None:
    """Something to combine with a value of a shape without making it larger."""
    matching = [e.text for e in pool if fits(e.shape, shape)]
    return w.one_of(matching) if matching else None


def step(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped:
    """An expression made of another: by a computation, a view, a write into a copy or a transform."""
    kinds: list[tuple[float, Callable[..., Shaped | None]]] = [
        (4, computed), (3, viewed), (1, reduced), (0.8, written_copy), (0.25, written), (0.3, cut_off), (0.4, custom),
    ]  # fmt: skip
    if depth < 2:
        kinds += [(1.2, transformed), (0.3, checkpointed)]
    made: Shaped | None = w.weighted(kinds)(w, e, pool, depth)
    return e if made is None or size_of(made.shape) > LARGEST else made


def computed(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped:
    y = other(w, e.shape, pool)
    if y is None or w.chance(0.4):
        return Shaped(bracketed(w.one_of(UNARY).format(x=e.text)), e.shape)
    return Shaped(f"({w.one_of(BINARY).format(x=e.text, y=y)})", e.shape)


def bracketed(text: str) -> str:
    return text if text.endswith(")") and not text.startswith(("(", "-")) and " * " not in text else f"({text})"


def viewed(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped:
    return w.one_of(views_of(w, e))


def reduced(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped:
    if not e.shape:
        return Shaped(f"{e.text}.sum()", ())
    options = [
        Shaped(f"{e.text}.sum(-1)", e.shape[:-1]), Shaped(f"{e.text}.mean(0)", e.shape[1:]),
        Shaped(f"{e.text}.sum()", ()), Shaped(f"{e.text}.softmax(-1)", e.shape),
        Shaped(f"{e.text}.cumsum(0)", e.shape), Shaped(f"{e.text}.sum(0, keepdim=True)", (1, *e.shape[1:])),
        Shaped(f"{e.text}.prod(-1)", e.shape[:-1]), Shaped(f"{e.text}.logsumexp(-1)", e.shape[:-1]),
        Shaped(f"torch.stack([{e.text}, {e.text}])", (2, *e.shape)), Shaped(f"{e.text}[[0, 0]]", (2, *e.shape[1:])),
        Shaped(f"{e.text}.index_select(0, torch.tensor([0]))", (1, *e.shape[1:])),
        Shaped(f"{e.text}.max(0)[0]", e.shape[1:]),
        Shaped(f"({e.text} @ {e.text}.mT)", ())
        if len(e.shape) < 2
        else Shaped(f"({e.text} @ {e.text}.mT)", (*e.shape[:-1], e.shape[-2])),
    ]  # fmt: skip
    return w.one_of(options[: None if len(e.shape) > 1 else -1])


def written_copy(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped | None:
    return written(w, Shaped(w.one_of((f"{e.text}.clone()", f"({e.text} * 1)")), e.shape), pool, depth, True)


def written(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int, fresh: bool = False) -> Shaped | None:
    """A write into what an expression is, be it a view, an argument or a captured tensor."""
    if not w.may_write and not fresh:
        return None
    # PyTorch's forward mode reads an operand after it has written it, where that is the written tensor itself.
    y = other(w, e.shape, [value for value in pool if fresh or value.text[0] not in "ts"])
    if y is not None and w.chance(0.5):
        return Shaped(e.text + w.one_of(WRITES_WITH).format(y=y), e.shape)
    part = other(w, e.shape[1:], pool) if e.shape else None
    if part is not None and w.chance(0.5):
        return Shaped(f"put({e.text}, {w.one_of(('0', '-1', 'slice(0, 1)'))}, {part})", e.shape)
    return Shaped(e.text + w.one_of(WRITES), e.shape)


def cut_off(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped:
    cut = w.one_of((f"{e.text}.detach()", f"quietly(lambda: {e.text} * 1)"))
    return Shaped(w.one_of((cut, f"({cut} * {e.text})")), e.shape)


def custom(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped:
    """A custom Function, or a module's call."""
    y = other(w, e.shape, pool)
    options = [
        Shaped(f"Cube.apply({e.text})", e.shape), Shaped(f"Exp.apply({e.text})", e.shape),
        Shaped(f"Same.apply({e.text})", e.shape), Shaped(f"Look.apply({e.text})", (size_of(e.shape),)),
        Shaped(f"Bump.apply({e.text} * 1)", e.shape),
    ]  # fmt: skip
    if e.shape:
        options.append(Shaped(f"buffered(lambda b: b * b, {e.text})", e.shape))
    if y is not None:
        options.append(Shaped(f"Pair.apply({e.text}, {y})[{w.one_of('01')}]", e.shape))
    return w.one_of(options)


def body(w: "Writer", arguments: Sequence[Shaped], depth: int) -> Shaped:
    """What a function returns: a chain that begins at one of its arguments and may use what is outside."""
    pool = [*arguments, *arguments, *(e for e in w.captured() if e.text not in w.aliases)]
    e = w.one_of(arguments)
    for _ in range(int(w.random.integers(0, 4))):
        e = step(w, e, pool, depth)
    return e


def function(w: "Writer", of: Shaped, depth: int, scalar: bool = False, axis: int | None = None) -> tuple[str, Shape]:
    """A function as text, of something or of its slices along an axis, and the shape of its result."""
    t = f"t{depth}"
    with w.inside(of.text):
        e = body(w, [Shaped(t, of.shape if axis is None else (*of.shape[:axis], *of.shape[axis + 1 :]))], depth + 1)
    if scalar:
        return f"lambda {t}: {e.text}.pow(2).sum()", ()
    return f"lambda {t}: {e.text}", e.shape


def transformed(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped | None:
    """A transform, called where it stands."""
    kind = w.one_of(("vmap", "grad", "jvp", "vjp", "jacrev", "jacfwd", "vmap", "linearize", "dual", "older"))
    if kind == "vmap":
        return mapped(w, e, depth)
    if kind == "grad":
        return Shaped(f"torch.func.grad({function(w, e, depth, scalar=True)[0]})({e.text})", e.shape)
    f, shape = function(w, e, depth)
    if kind in ("jacrev", "jacfwd"):
        return Shaped(f"torch.func.{kind}({f})({e.text})", (*shape, *e.shape))
    if kind == "vjp":
        seed = other_of(w, shape, pool) or f"torch.ones({shape}, dtype=torch.float64)"
        return Shaped(f"torch.func.vjp({f}, {e.text})[1]({seed} * 1)[0]", e.shape)  # or it may be handed out itself
    tangent = tangent_for(w, e, f, pool)
    if kind == "linearize" and (depth or not linearizable(f)):
        return None
    if kind == "older":
        return older(w, e, f, shape, pool) if not depth else None
    if kind == "linearize":
        return Shaped(f"linearized({f}, {e.text})[1]({tangent})", shape)
    if kind == "dual":
        return Shaped(f"dual({f}, {e.text}, {tangent})", shape) if not depth else None
    return Shaped(f"torch.func.jvp({f}, ({e.text},), ({tangent},))[{w.one_of('01')}]", shape)


def linearizable(f: str) -> bool:
    """Whether PyTorch linearizes a function as we do.

    It is wrong about transforms inside, passes no_grad by, and compares anew what has been written since.
    """
    return not re.search(r"func|quietly| > ", f)


def older(w: "Writer", e: Shaped, f: str, shape: Shape, pool: Sequence[Shaped]) -> Shaped | None:
    """A derivative by the functions that were there before torch.func."""
    name = w.one_of(("jvp", "vjp", "jacobian", "hvp", "vhp"))
    module, made = "torch.autograd.functional", ", create_graph=True" if w.chance(0.7) else ""
    if name == "jacobian":
        return Shaped(f"{module}.{name}({f}, {e.text}{made})", (*shape, *e.shape))
    if name in ("hvp", "vhp"):
        f, shape = f"{f}.pow(2).sum()", e.shape
    given, result = (shape, e.shape) if name == "vjp" else (e.shape, shape)
    direction = other_of(w, given, pool) or f"torch.ones({given}, dtype=torch.float64)"
    return Shaped(f"{module}.{name}({f}, {e.text}, {direction} * 1{made})[1]", result)


def tangent_for(w: "Writer", e: Shaped, f: str, pool: Sequence[Shaped]) -> str:
    """A direction: somebody's tensor, but a new one for a function that writes, lest it write to its own direction."""
    tangent = other_of(w, e.shape, pool) or e.text
    return f"({tangent} * 0.5)" if writes(f) else tangent


def writes(f: str) -> bool:
    return re.search(r"_\(|put\(|Bump", f) is not None


def other_of(w: "Writer", shape: Shape, pool: Sequence[Shaped]) -> str | None:
    matching = [e.text for e in pool if e.shape == shape]
    return w.one_of(matching) if matching else None


def mapped(w: "Writer", e: Shaped, depth: int) -> Shaped | None:
    """A vmap over any dimension of its input, into any dimension of its output."""
    if not e.shape:
        return None
    rank = len(e.shape)
    axis = int(w.random.integers(rank)) if w.chance(0.7) else 0
    size = e.shape[axis]
    f, shape = function(w, e, depth, axis=axis)
    place = int(w.random.integers(len(shape) + 1)) if size not in shape and w.chance(0.6) else 0
    options = [f"in_dims={axis - rank if w.chance(0.2) else axis}"] if axis else []
    options += [f"out_dims={place}"] if place else []
    options += ["chunk_size=1"] if w.chance(0.1) else []
    made = (*shape[:place], size, *shape[place:])
    return Shaped(f"torch.func.vmap({', '.join([f, *options])})({e.text})", made)


def checkpointed(w: "Writer", e: Shaped, pool: Sequence[Shaped], depth: int) -> Shaped:
    f, shape = function(w, e, depth)
    reentrant = w.chance(0.3)
    return Shaped(f"torch.utils.checkpoint.checkpoint({f}, {e.text}, use_reentrant={reentrant})", shape)


# --- lines


def computing(w: "Writer") -> str:
    """Something whose backward needs values that somebody may overwrite."""
    e = w.tensor()
    return f"{w.new()} = {computed(w, e, w.captured(), 2).text}"


def looking(w: "Writer") -> str:
    """A view, to be written through or to be surprised by."""
    e = w.tensor(made=w.chance(0.85))
    if e.shape and w.chance(0.15):
        return several(w, e)
    if w.chance(0.2):
        return f"{w.new()} = {e.text}{w.one_of(('.detach()', '.data', '.detach()[:1]', '.data[:1]'))}"
    if w.chance(0.1):
        return f"{w.new()} = quietly(lambda: {w.one_of(views_of(w, e)).text})"
    return f"{w.new()} = {w.one_of(views_of(w, e)).text}"


def several(w: "Writer", e: Shaped) -> str:
    """Views that are made together."""
    n = e.shape[0]
    names = ", ".join(w.new() for _ in range(n))
    return f"{names}{',' if n == 1 else ''} = {e.text}{w.one_of(('.unbind(0)', '.split(1)', f'.chunk({n})'))}"


def writing(w: "Writer") -> str:
    """A write in place, through whatever handle."""
    e = w.tensor(made=w.chance(0.9))
    handle = w.one_of(("", "", "", "", ".detach()", ".data", "quietly", "view", "unseen"))
    if handle == "view":
        e = w.one_of(views_of(w, e))
    elif handle.startswith("."):
        e = Shaped(e.text + handle, e.shape)
    pool = w.apart(e.text)
    made = assignment(w, e, pool) if e.shape and w.chance(0.4) else None
    if handle == "unseen":
        line = in_place(w, e, pool)
        return line if HISTORY_OR_SHAPE.search(line) else f"unseen(lambda: {line})"
    line = made or in_place(w, e, pool)
    return f"with torch.no_grad(): {line}" if handle == "quietly" and not SHAPE.search(line) else line


# What PyTorch does half of, or nothing, where it may not look at history: a gradient is not turned back, or refused.
SHAPE = re.compile(r"\bt_|squeeze_|transpose_|swapaxes_")
HISTORY_OR_SHAPE = re.compile(rf"grad|detach_|{SHAPE.pattern}")


def in_place(w: "Writer", e: Shaped, pool: Sequence[Shaped]) -> str:
    y = other(w, e.shape, pool)
    if y is not None and w.chance(0.5):
        return e.text + w.one_of(WRITES_WITH).format(y=y)
    rare = [".t_()", ".unsqueeze_(0)", ".squeeze_()", ".detach_()", ".requires_grad_()", ".transpose_(0, -1)"]
    if e.shape:
        rare += [
            ".index_fill_(0, torch.tensor([0]), 0.3)", ".masked_fill_(torch.ones_like({x}) > 0, 0.2)", ".cumsum_(0)",
            ".index_add_(0, torch.tensor([0]), {x}[:1].clone())", ".index_copy_(0, torch.tensor([0]), {x}[-1:] * 2)",
            ".index_put_((torch.tensor([0, 0]),), {x}[:1] * 0.5, accumulate=True)", ".masked_fill_({x} > 0, 0.3)",
            ".scatter_(0, torch.zeros_like({x}[:1], dtype=torch.int64), {x}[-1:] * 2)", ".swapaxes_(0, -1)",
            ".masked_scatter_({x} > 0, {x} * 2)", ".scatter_add_(0, torch.zeros_like({x}, dtype=torch.int64), {x} * 1)",
        ]  # fmt: skip
    return e.text + (w.one_of(rare) if w.chance(0.3) else w.one_of(WRITES)).format(x=e.text)


def assignment(w: "Writer", e: Shaped, pool: Sequence[Shaped]) -> str:
    key, shape = w.one_of(
        (("0", e.shape[1:]), ("-1", e.shape[1:]), ("..., 0", e.shape[:-1]), (":1", (1, *e.shape[1:])), (":", e.shape))
    )
    if w.chance(0.15):
        key = w.one_of((f"{e.text} > 0", "torch.tensor([0])"))
        return f"{e.text}[{key}] = 0.3"
    y = other(w, shape, pool)
    sign = w.one_of(("=", "=", "=", "+=", "*="))
    return f"{e.text}[{key}] {sign} {y if y is not None and w.chance(0.7) else 0.4}"


def writing_out(w: "Writer") -> str:
    """A result that is computed into memory that the user brought."""
    out = w.tensor(test=lambda name: not w.recorded(name)) if w.chance(0.5) else w.tensor()
    y, z = (other_of(w, out.shape, w.apart(out.text)) or f"torch.full_like({out.text}, 0.5)" for _ in range(2))
    call = w.one_of((f"torch.mul({y}, {z}, out={out.text})", f"torch.sin({y}, out={out.text})"))
    return f"with torch.no_grad(): {call}"


def giving_data(w: "Writer") -> str:
    """A tensor, a view or a base, that is given other memory."""
    e = w.tensor(test=w.has_own_memory)
    y = other_of(w, e.shape, w.captured())
    options = [f"{e.text}.data = {e.text}.data * 0.5", f"{e.text}.data = torch.full_like({e.text}, 0.6)"]
    if y is not None:
        options.append(f"{e.text}.data = {y}.detach().clone()")
    if y is not None and w.recorded(e.text) and not w.names[e.text].is_leaf:
        options += [f"{e.text}.data = {y}.data", f"{e.text}.data = {y}"]
    return w.one_of(options)


def transforming(w: "Writer") -> str:
    """A transform whose result is kept, and maybe the function that it hands out."""
    e = w.tensor()
    kind = w.one_of(("one", "one", "mapped", "mapped", "jvp", "vjp", "linearize", "pair", "two", "value"))
    f, shape = function(w, e, 0)
    if kind == "jvp":
        tangent = tangent_for(w, e, f, w.captured())
        return f"{w.new()}, {w.new()} = torch.func.jvp({f}, ({e.text},), ({tangent}{w.one_of(('', '.detach()'))},))"
    if kind in ("vjp", "linearize"):
        # PyTorch's reads what f has read when it is called, and writes again to what f has written to
        lasting = linearizable(f) and not writes(f) and not re.search(r"\b[xcvn]\d", f)
        kind = kind if lasting else "vjp"
        made, name = w.new(), w.new_function(kind, e.shape, shape)
        return f"{made}, {name} = {'torch.func.vjp' if kind == 'vjp' else 'linearized'}({f}, {e.text})"
    if kind == "value":
        scalar = function(w, e, 0, scalar=True)[0]
        return f"{w.new()}, {w.new()} = torch.func.grad_and_value({scalar})({e.text})"
    if kind == "pair" and e.shape:
        return mapped_pair(w, e)
    if kind == "two":
        return of_two(w, e)
    if kind == "mapped":
        e = w.tensor(test=lambda name: len(w.names_shaped(name).shape) > 1)
        return f"{w.new()} = {(mapped(w, e, 0) or e).text}"
    made_here = transformed(w, e, w.captured(), 0)
    return computing(w) if made_here is None else f"{w.new()} = {made_here.text}"


def mapped_pair(w: "Writer", e: Shaped) -> str:
    """A vmap of a function that returns two things."""
    t = Shaped("t0", e.shape[1:])
    with w.inside(e.text):
        first, second = body(w, [t], 1), body(w, [t], 1)
    return f"{w.new()}, {w.new()} = torch.func.vmap(lambda t0: ({first.text}, {second.text}))({e.text})"


def of_two(w: "Writer", e: Shaped) -> str:
    """A transform of a function of two arguments."""
    y = w.tensor()
    both_of = f"{e.text} {y.text}"
    if e.shape and w.chance(0.6):
        both = bool(y.shape) and y.shape[0] == e.shape[0] and w.chance(0.7)
        arguments = [Shaped("t0", e.shape[1:]), Shaped("s0", y.shape[1:] if both else y.shape)]
        f = f"lambda t0, s0: {body_of_two(w, arguments, both_of)}"
        return f"{w.new()} = torch.func.vmap({f}, {'0' if both else '(0, None)'})({e.text}, {y.text})"
    arguments = [Shaped("t0", e.shape), Shaped("s0", y.shape)]
    f = f"lambda t0, s0: ({body_of_two(w, arguments, both_of)})"
    if w.chance(0.5):
        return f"{w.new()}, {w.new()} = torch.func.grad({f}.pow(2).sum(), argnums=(0, 1))({e.text}, {y.text})"
    tangents = ", ".join(tangent_for(w, argument, f, w.captured()) for argument in (e, y))
    pairs = f"({e.text}, {y.text}), ({tangents})"
    return f"{w.new()}, {w.new()} = torch.func.jvp({f}, {pairs})"


def body_of_two(w: "Writer", arguments: Sequence[Shaped], source: str) -> str:
    with w.inside(source):
        first, second = body(w, arguments, 1), body(w, arguments, 1)
    if fits(second.shape, first.shape):
        return f"({first.text} * {second.text})"
    return first.text


def calling(w: "Writer") -> str | None:
    """Use the function that vjp or linearize handed out, however old it is."""
    known = [(name, spec) for name, spec in w.functions.items() if name in w.names]
    if not known:
        return None
    name, (kind, argument, result) = w.one_of(known)
    shape = result if kind == "vjp" else argument
    given = other_of(w, shape, w.captured()) or f"torch.ones({shape}, dtype=torch.float64)"
    return f"{w.new()} = " + f"{name}({given} * 1){'[0]' if kind == 'vjp' else ''}"


def hooking(w: "Writer") -> str:
    """Somebody who looks on while a gradient passes, and may change it."""
    x = w.tensor(test=w.has_own_history).text
    if not w.has_own_history(x):
        return computing(w)
    options = [
        f"hooked({x}, lambda g: g * 2)", f"hooked({x}, lambda g: seen.append(g.sum().item()))",
        f"hooked({x}, lambda g: g * {x}.detach())", f"hooked({x}, lambda g: g * {x})",
        f"{x}.grad_fn; {x}.retain_grad()",
        f"{x}.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2))",
        f"{x}.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))",
        f"{x}.grad_fn.register_hook(lambda gi, go: seen.append(go[0].sum().item()))",
        f"{x}.grad_fn.register_prehook(lambda go: (go[0] * 2,))", f"h0 = hooked({x}, lambda g: g * 3)",
        f"hooked({x}, lambda g: torch.func.vmap(lambda r: r * 2)(g[None])[0])",
    ]  # fmt: skip
    if "h0" in w.names:
        options += ["h0.remove()"] * 3
    return w.one_of(options)


def packing(w: "Writer") -> str:
    """A computation whose saved values pass through hooks of the user's."""
    e = w.tensor()
    # Copies all: what a hook keeps as it is, a write changes, and no library notices.
    pack = w.one_of(("lambda t: t.clone()", "lambda t: t * 1", "lambda t: t.detach().clone()"))
    inner = step(w, step(w, e, w.captured(), 1), w.captured(), 1)
    return f"{w.new()} = kept({pack}, lambda: {inner.text})"


def differentiating(w: "Writer") -> str:
    """A derivative in the middle of a program, to go on with, or a backward pass that leaves .grad behind."""
    e = w.tensor(test=w.recorded)
    filled = [name for name in w.program.variables() if w.names[name].grad is not None]
    x = w.names_shaped(w.one_of(filled)) if filled else w.tensor(test=w.recorded)
    given = other_of(w, e.shape, w.captured()) if w.chance(0.7) else None
    options = [
        f"{w.new()} = torch.autograd.grad({e.text}.pow(2).sum(), {x.text}, create_graph=True)[0]",
        f"{w.new()} = torch.autograd.grad({e.text}.pow(2).sum(), {x.text}, retain_graph=True)[0]",
        f"{e.text}.sum().backward(retain_graph=True)", f"({e.text} * {e.text}).sum().backward(create_graph=True)",
    ]  # fmt: skip
    if filled or w.has_own_history(x.text):
        options.append(f"({e.text} * 2).sum().backward(inputs=[{x.text}], retain_graph=True)")
    if given is not None:  # times one: PyTorch may hand out what it was given
        options += [f"{w.new()} = torch.autograd.grad({e.text}, {x.text}, {given} * 1, create_graph=True)[0]"] * 2
    if filled and w.chance(0.6):
        g = f"{x.text}.grad"
        options = [f"{g}.mul_(2)", f"{g}.zero_()", f"{g} = None", f"{w.new()} = {g}", f"{w.new()} = {g} * {x.text}"]
    return w.one_of(options)


def stepping(w: "Writer") -> str:
    """A step of an optimizer, of a leaf that backward has filled, or is made to fill now."""
    filled = [name for name in w.program.variables() if w.names[name].grad is not None]
    x = w.one_of(filled or w.program.variables())
    step = f"torch.optim.SGD([{x}], lr=0.1).step()"
    if filled:
        return step
    e = w.tensor(test=w.recorded)
    return f"({e.text} * 2).sum().backward(retain_graph=True); {step}"


def applying(w: "Writer") -> str:
    """A custom Function, in the open."""
    e = w.tensor()
    # PyTorch writes to a leaf before it refuses, and forgets a gradient that was retained.
    fragile = w.recorded(e.text) and (w.names[e.text].is_leaf or w.names[e.text].retains_grad)
    if w.chance(0.3) and not fragile:
        return f"{w.new()} = Bump.apply({e.text})"
    y = other(w, e.shape, w.captured())
    if y is not None and w.chance(0.3):
        return f"{w.new()}, {w.new()} = Pair.apply({e.text}, {y})"
    if w.chance(0.15):
        return f"{w.new()}, {w.new()} = Parts.apply({e.text})"
    return f"{w.new()} = {custom(w, e, w.captured(), 2).text}"


def checkpointing(w: "Writer") -> str:
    return f"{w.new()} = {checkpointed(w, w.tensor(), w.captured(), 0).text}"


def with_module(w: "Writer") -> str:
    """A module, called as it is or with other parameters, with hooks."""
    if "m0" not in w.names:
        return transforming(w)
    shape = tuple(w.names["m0"].weight.shape)
    fitting = [e for e in w.captured() if e.shape == shape] or [Shaped("c0", shape)]
    x, y = w.one_of(fitting).text, w.one_of(fitting).text
    options = [
        f"{w.new()} = m0({x})", f"{w.new()} = torch.func.functional_call(m0, {{'weight': {y}}}, ({x},))",
        f"{w.new()} = torch.func.grad(lambda t0: torch.func.functional_call(m0, {{'weight': t0}}, ({x},)).sum())({y})",
        f"{w.new()} = torch.func.functional_call(m0, {{'weight': {y}, 'calls': {y}}}, ({x},))",
        f"{w.new()} = m0.weight", "m0.weight.data.mul_(0.5)", "with torch.no_grad(): m0.weight.add_(0.1)",
        "m0.register_forward_hook(lambda m, i, o: o * 2)", "m0.register_forward_pre_hook(lambda m, i: (i[0] * 2,))",
        "m0.register_full_backward_hook(lambda m, gi, go: tuple(None if g is None else g * 2 for g in gi))",
        f"{w.new()} = torch.func.vmap(lambda t0: torch.func.functional_call(m0, {{'weight': t0}}, ({x},)))({y}[None])",
        "m0.zero_grad()", f"m0.weight.data = {x}.detach().clone()",
    ]  # fmt: skip
    return w.one_of(options)


def by_numpy(w: "Writer") -> str:
    """Memory that NumPy shares, and writes to it there."""
    arrays = [name for name in w.names if re.fullmatch(r"n\d+", name)]
    kind = w.one_of(("from", "to", "write", "write"))
    if kind == "from" or (kind == "write" and not arrays):
        return f"{w.new()} = torch.from_numpy({w.one_of(arrays)})"
    if kind == "to":
        return f"n{len(arrays)} = {w.tensor().text}.detach().numpy()"
    return f"{w.one_of(arrays)}{w.one_of(('[...] = 0.4', ' *= 0.5', '[..., :1] = 0.2', ' += 0.1'))}"


LINES: tuple[tuple[float, Callable[["Writer"], str | None]], ...] = (
    (3, computing), (4, looking), (5, writing), (5, transforming), (1.5, calling), (1.2, giving_data), (1.5, hooking),
    (0.8, packing), (2, differentiating), (1.2, applying), (0.8, checkpointing), (3, with_module), (1, by_numpy),
    (0.5, writing_out), (0.4, stepping),
)  # fmt: skip


TRANSFORM = re.compile(r"func|vmap|checkpoint|kept|dual|apply")


class Writer:
    """Writes one random program: every line is run as soon as it is written, so that the next can build on it.

    A few lines that fail are kept, because both libraries must refuse them, and be as if nothing had happened.
    """

    def __init__(self, seed: int, index: int) -> None:
        self.random = np.random.default_rng([seed, index, 7])
        shapes = [SHAPES[i] for i in self.random.integers(0, len(SHAPES), 2)]
        leaves = [("x0", shapes[0]), ("x1", shapes[int(self.random.integers(2))]), ("c0", shapes[0]), ("n0", shapes[1])]
        self.program = Program(seed, index, tuple(leaves), (), order=2 if self.chance(0.3) else 1)
        self.names = Namespace(self.program, pellucid)
        self.may_write = True  # to arguments, in the function that is being written
        self.aliases: set[str] = set()  # what the arguments of the functions that are being written share memory with
        self.functions: dict[str, tuple[str, Shape, Shape]] = {}
        self.made = 0

    def write(self) -> Program:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return self.written()

    def written(self) -> Program:
        self.take("v0 = x0 * 1.5")
        self.take(self.of_second())
        if self.chance(0.2):
            self.take(f"m0 = Affine({self.tensor().shape})")
        length, refused = int(self.random.integers(4, 11)), 0
        for _ in range(length * 3):
            line = self.weighted(LINES)(self)
            if line is None or len(line) > 220 or "\n" in line:
                continue
            refused += not self.take(line, keep_refused=refused < 2)
            if len(self.program.lines) >= length:
                break
        return self.program

    def of_second(self) -> str:
        self.made = 2
        return self.one_of(("v1 = x1.clone()", "v1 = x1 * x1", "v1 = c0 * 1", "v1 = x1.sin()"))

    def take(self, line: str, keep_refused: bool = False) -> bool:
        """Run a line; keep it if its values stay tame, or if it is refused and there is room for a refusal."""
        error = attempt(line, len(self.program.lines), self.program.filename, self.names)
        if error is None and not self.tame():
            self.replay()
            return True
        if error is None or keep_refused:
            self.program = replace(self.program, lines=(*self.program.lines, line))
        return error is None

    def tame(self) -> bool:
        return all(_tame(value) for value in self.names.values() if isinstance(value, (Tensor, np.ndarray)))

    def replay(self) -> None:
        """Undo the last line by running the program again."""
        self.names = Namespace(self.program, pellucid)
        for number, line in enumerate(self.program.lines):
            attempt(line, number, self.program.filename, self.names)

    @contextmanager
    def inside(self, source: str) -> Iterator[None]:
        """While a function of something is written: it writes to its argument, or reads what shares its memory.

        Both it may not: in a transform a write reaches the memory when the function returns.
        """
        before = self.may_write, self.aliases
        named = re.findall(r"\b[xcv]\d+\b", source)
        self.may_write = self.may_write and self.chance(0.5)
        sharing = {other for name in named for other in self.sharing(name)}
        self.aliases = self.aliases | sharing if self.may_write else set()
        yield
        self.may_write, self.aliases = before

    # --- names

    def new(self) -> str:
        self.made += 1
        return f"v{self.made - 1}"

    def new_function(self, kind: str, argument: Shape, result: Shape) -> str:
        name = f"f{len(self.functions)}"
        self.functions[name] = (kind, argument, result)
        return name

    def names_shaped(self, name: str) -> Shaped:
        return Shaped(name, tuple(self.names[name].array.shape))

    def captured(self) -> list[Shaped]:
        """Every tensor there is, recent ones more often."""
        tensors = [(name, value) for name, value in self.names.items() if type(value) is Tensor]
        found = [Shaped(name, value.array.shape) for name, value in tensors if isinstance(value.array, np.ndarray)]
        return [e for k, e in enumerate(found) for _ in range(1 + (2 * k > len(found)))]

    def tensor(self, made: bool = False, test: Callable[[str], bool] = lambda name: True) -> Shaped:
        """A tensor, made by the program if so wanted; what fails the test is chosen only if nothing passes."""
        pool = [e for e in self.captured() if not made or e.text[0] == "v"]
        return self.one_of([e for e in pool if test(e.text)] or pool)

    def recorded(self, name: str) -> bool:
        try:
            return bool(self.names[name].requires_grad)
        except RuntimeError:  # one of several views that a write to their base has spoilt
            return False

    def has_own_history(self, name: str) -> bool:
        """Whether gradients pass through a tensor alike on both sides: not if a transform made or wrote it."""
        lines = [line for line in self.program.lines if TRANSFORM.search(line) and re.search(rf"\b{name}\b", line)]
        written = any(re.search(r"[a-z]_\(|put\(|Bump", line) for line in lines)
        written |= any(line.startswith(f"{name}.data = ") for line in self.program.lines)
        if not self.recorded(name) or written or self.maker(name) in lines or not self.has_own_memory(name):
            return False
        return not self.names[name]._is_view()  # PyTorch forgets what hangs on a view when that is written to

    def has_own_memory(self, name: str) -> bool:
        """Whether a tensor has one name, and no transform's result may be, or may not be, this very tensor."""
        sharing = self.sharing(name)
        if sum(self.names[other] is self.names[name] for other in sharing) > 1:
            return False
        lines = [line for line in self.program.lines if any(re.search(rf"\b{other}\b", line) for other in sharing)]
        return not any(TRANSFORM.search(line) for line in (lines if len(sharing) > 1 else [self.maker(name)]))

    def sharing(self, name: str) -> set[str]:
        """The names of all tensors that look at the memory of one, itself among them."""
        return {e.text for e in self.captured()} - {e.text for e in self.apart(name)}

    def maker(self, name: str) -> str:
        return next((line for line in self.program.lines if re.search(rf"\b{name}\b.* = ", line)), "")

    def apart(self, text: str) -> list[Shaped]:
        """The tensors that share no memory with what is about to be written: PyTorch reads what it has just written."""
        named = re.search(r"\b[xcv]\d+\b", text)
        assert named is not None
        written = self.names[named[0]].array
        return [e for e in self.captured() if not np.may_share_memory(self.names[e.text].array, written)]

    # --- choices

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def weighted(self, options: Sequence[tuple[float, Any]]) -> Any:
        weights = np.array([weight for weight, _ in options])
        return options[int(self.random.choice(len(options), p=weights / weights.sum()))][1]


def _tame(value: Any) -> bool:
    array = value.array if isinstance(value, Tensor) else value
    if not isinstance(array, np.ndarray):
        return True  # a kind of array that has left its transform: for the judge
    return array.size <= LARGEST * 2 and bool(np.all(np.abs(array) < STRONGEST))
