"""keeper: what a recorded call keeps, compiled once per row from the names in its rules.

For `mul`, whose rules are `lambda g, b: ...` and `lambda g, a: ...`, the keeper of a call in which both inputs need
a gradient is `lambda y, a, b, params: (b, a)`: per input, what its rule takes after g. One value stands bare (a
call with a star costs 0.15 µs more), several are a tuple, none is None; `arguments` gives them as a tuple always.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from pellucid.core.primitive import INPUTS, Primitive, Rule, kept_names

Keeper = Callable[..., tuple[Any, ...]]


def keeper(p: Primitive, needs: tuple[bool, ...]) -> Keeper:
    """The function (y, *inputs, params) -> what to keep, given which inputs need a gradient.

    >>> from pellucid.core.primitive import TABLE
    >>> keeper(TABLE["mul"], (True, False))(6, 2, 3, ())
    (3, None)
    """
    if p.pullback is not None:
        return _joint_keeper(p, needs)
    letters = INPUTS[: len(p.rules)]
    kept = [
        _kept(rule, arity) if need else "None"
        for rule, (_, _, arity), need in zip(p.rules, p.edges, needs, strict=True)
    ]
    return _compile(f"lambda y, {', '.join(letters)}, params: ({', '.join(kept)},)")


def _kept(rule: Rule | None, arity: int) -> str:
    names = kept_names(rule)
    if arity == 0:
        return "None"
    if arity == 1:
        return _expression(names[0]) if names else "params[0]"
    return _arguments(names)


def arguments(p: Primitive, saved: Any, index: int) -> tuple[Any, ...]:
    """What the rule of one input takes after g, as a tuple.

    >>> from pellucid.core.primitive import TABLE
    >>> arguments(TABLE["mul"], (3, None), 0)
    (3,)
    """
    arity = p.edges[index][2]
    if arity == 0:
        return ()
    return (saved[index],) if arity == 1 else saved[index]


def _joint_keeper(p: Primitive, needs: tuple[bool, ...]) -> Keeper:
    """For a pullback: one tuple of arguments for all inputs."""
    assert p.pullback is not None
    letters = "inputs" if p.variadic else ", ".join(INPUTS[: len(p.rules)])
    return _compile(
        f"lambda y, {letters}, params: ({_arguments(kept_names(p.pullback))},)".replace("needs", repr(needs))
    )


def _arguments(names: tuple[str, ...]) -> str:
    values = [_expression(name) for name in names]
    return f"({', '.join([*values, '*params'])},)"


def _expression(name: str) -> str:
    if name == "shapes":
        return "tuple(i.shape for i in inputs)"
    return name.replace("_shape", ".shape")


@cache  # few different sources serve all rows
def _compile(source: str) -> Keeper:
    compiled: Keeper = eval(source, {"tuple": tuple})  # the source is made of names in SAVEABLE only
    return compiled
