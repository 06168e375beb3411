"""Build Value: hidden tests against pellucid.scalar.Value, and mutants that the learner's tests must notice."""

import math
import random
from collections.abc import Callable
from typing import Any

from pellucid.lab.labs.lab import Criteria, Unmet, expect
from pellucid.lab.labs.mutants import mutants, run_tests, survivors
from pellucid.lab.labs.running import Work
from pellucid.scalar import Value

criteria = Criteria()
SHOWN = 8  # so many mistakes that went unnoticed are named at a time
LOG = "log is only defined for positive scalar values"
GOLDEN: list[tuple[str, Callable[..., Any], dict[str, float]]] = [
    ("(w*x + b)**2", lambda w, x, b: (w * x + b) ** 2, {"w": 2, "x": 3, "b": 1}),
    ("x*x + x", lambda x: x * x + x, {"x": 3}),
    ("(a + a)*a", lambda a: (a + a) * a, {"a": 2}),
    ("a*b", lambda a, b: a * b, {"a": 2, "b": 3}),
    ("(a + b)*b", lambda a, b: (a + b) * b, {"a": 2, "b": 3}),
    ("a*a", lambda a: a * a, {"a": 3}),
    ("((x*3) + 1)**2", lambda x: ((x * 3) + 1) ** 2, {"x": 2}),
    ("(w*x + b - t)**2", lambda w, x, b, t: (w * x + b - t) ** 2, {"w": 0.5, "x": 2, "b": 0.1, "t": 0.8}),
    ("(a*b + c)*(a - c)", lambda a, b, c: (a * b + c) * (a - c), {"a": 2, "b": 3, "c": 4}),
    ("x**3", lambda x: x**3, {"x": 2}),
    ("(2*x + 1)**3", lambda x: (2 * x + 1) ** 3, {"x": 1}),
    ("x**3 * sin(x)", lambda x: x**3 * x.sin(), {"x": 1.5}),
    ("exp(x) / (exp(x) + exp(z))", lambda x, z: x.exp() / (x.exp() + z.exp()), {"x": 1, "z": 2}),
    ("b = a + a; b + b", lambda a: (a + a) + (a + a), {"a": 1}),
    ("b = a*a; b*(b + a)", lambda a: _diamond(a), {"a": 2}),
    ("tanh(x) + relu(x) + relu(-x)", lambda x: x.tanh() + x.relu() + (-x).relu(), {"x": -0.5}),
    ("log(x) * sigmoid(x)", lambda x: x.log() * x.sigmoid(), {"x": 2}),
    ("1 - 2/x + (3 - x)*(4 + 5*x) / 6", lambda x: 1 - 2 / x + (3 - x) * (4 + 5 * x) / 6, {"x": 2}),
]


# The sum passes its gradient on before the function does, in whichever order a set gives the rest: none may get lost.
GOLDEN += [
    (f"2*{name}(x) + x", lambda x, name=name: 2 * getattr(x, name)() + x, {"x": 0.5})
    for name in ("tanh", "relu", "exp", "log", "sigmoid", "sin")
] + [("2*x**3 + x", lambda x: 2 * x**3 + x, {"x": 2})]
STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a.tanh() * b, lambda a, b: a / (b * b + 1),
    lambda a, b: a.relu(), lambda a, b: a.sigmoid() ** 2, lambda a, b: (a * a + 1).log(), lambda a, b: a.sin().exp(),
    lambda a, b: 2 - a, lambda a, b: 1 / (a.sigmoid() + 0.5),
]  # fmt: skip


def _diamond(a: Any) -> Any:
    b = a * a
    return b * (b + a)


def truth() -> str:
    """The derivative of x*x + x at 3."""
    x = Value(3.0)
    (x * x + x).backward()
    return f"{x.grad:g}"


def _compare(kind: Any, name: str, function: Callable[..., Any], at: dict[str, float]) -> None:
    """The learner's value and gradients against ours."""
    ours, theirs = ({k: make(float(v)) for k, v in at.items()} for make in (Value, kind))
    wanted, given = function(**ours), function(**theirs)
    given_at = ", ".join(f"{k} = {v:g}" for k, v in at.items())
    expect(_close(given.data, wanted.data), f"{name} at {given_at} is {given.data:.6g}, not {wanted.data:.6g}")
    wanted.backward()
    given.backward()
    for k in at:
        reason = f"{name} at {given_at}: {k}.grad is {theirs[k].grad:.6g}, not {ours[k].grad:.6g}"
        expect(_close(theirs[k].grad, ours[k].grad), reason)


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


@criteria("expressions with known gradients: sums, products, powers, functions, values used twice")
def golden(work: Work) -> None:
    kind = work.named("value.py", "Value")
    for name, function, at in GOLDEN:
        _compare(kind, name, function, at)


@criteria("a hundred random expressions have the gradients of pellucid.scalar.Value")
def random_expressions(work: Work) -> None:
    kind = work.named("value.py", "Value")
    for seed in range(100):
        at = {name: random.Random(f"{name}{seed}").uniform(-2, 2) for name in "abc"}
        _compare(kind, f"random expression {seed}", lambda seed=seed, **v: _grown(seed, list(v.values())), at)


def _grown(seed: int, values: list[Any]) -> Any:
    """An expression of ten operations on values; the same seed grows the same one."""
    choose = random.Random(seed)
    for _ in range(10):
        a, b, step = choose.choice(values), choose.choice(values), choose.choice(STEPS)
        values = [*values, step(a, b)]
    return sum(values[3:], start=values[0] * 0)


@criteria("edges: relu at 0, log of 0 and less, a power that is no number, _prev is a set of inputs")
def edges(work: Work) -> None:
    kind = work.named("value.py", "Value")
    x = kind(0.0)
    x.relu().backward()
    expect(x.grad == 0, f"relu at exactly 0 passes on {x.grad:g}, not 0")
    _raises(lambda: kind(2.0) ** kind(3.0), TypeError, "Value ** Value")
    for number in (0.0, -1.0):
        _raises(lambda: kind(number).log(), ValueError, f"log of {number:g}", LOG)  # noqa: B023 (called at once)
    a, b = kind(1.0), kind(2.0)
    expect((a + b)._prev == {a, b}, "_prev of a + b is not the set of a and b")


def _raises(function: Callable[[], Any], kind: type[Exception], what: str, message: str = "") -> None:
    try:
        function()
    except kind as error:
        return expect(message in str(error), f"{what} says {str(error)!r}, not {message!r}")
    except Exception as error:
        raise Unmet(f"{what} raises {type(error).__name__}, not {kind.__name__}") from None
    raise Unmet(f"{what} raises nothing; it should raise {kind.__name__}")


@criteria("a chain of 20 000 operations: backward does not recurse")
def deep(work: Work) -> None:
    x = y = work.named("value.py", "Value")(1.0)
    for _ in range(20_000):
        y = y + 1
    try:
        y.backward()
    except RecursionError:
        raise Unmet("backward recurses: Python gives up at a depth of about a thousand; sort with a stack") from None
    expect(x.grad == 1, f"after 20 000 additions x.grad is {x.grad:g}, not 1")


@criteria("a neuron tanh(w*x + b) learns the target 0.8 in 20 steps: w 0.4594, b 0.1797")
def neuron(work: Work) -> None:
    kind = work.named("value.py", "Value")
    w, b = kind(0.3), kind(0.1)
    for _ in range(20):
        w.grad = b.grad = 0.0
        loss = ((w * 2 + b).tanh() - 0.8) ** 2
        loss.backward()
        w.data -= 0.5 * w.grad
        b.data -= 0.5 * b.grad
    reached = abs(w.data - 0.4594) < 1e-4 and abs(b.data - 0.1797) < 1e-4
    expect(reached, f"after 20 steps w is {w.data:.4f} and b {b.data:.4f}")


@criteria("your own tests pass on your own code")
def own_tests(work: Work) -> None:
    work.text("test_value.py")
    (said,) = run_tests(work.folder, "test_value.py")
    expect(said, "test_value.py has no function named test_...")
    failed = [f"{name}: {reason}" for name, reason in said.items() if reason]
    expect(not failed, "\n".join(failed))


@criteria("your own tests notice every mistake that is put into your code (mutants)")
def mutation(work: Work) -> None:
    own_tests(work)
    expect(mutants(work.text("value.py")), "no statement `x.grad += ...` in a class Value: keep the starter's shape")
    missed = survivors(work.folder, "test_value.py")
    shown = [f"- {mistake}" for mistake in missed[:SHOWN]]
    more = [f"and {len(missed) - SHOWN} mistakes more"] if len(missed) > SHOWN else []
    expect(not missed, "\n".join(["your tests still pass when", *shown, *more]))
