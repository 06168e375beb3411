"""The list of the claims, and how an operation is held to them."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence

from pellucid.ops.operation import Operation, Sample
from pellucid.testing.claims.samples import (
    describe,
    samples_of,
)

Claim = Callable[[Operation, Sample], None]
CLAIMS: dict[str, Claim] = {}
NEEDS: dict[str, str] = {}  # claim -> the dotted name without which it cannot be checked


def claim(needs: str = "") -> Callable[[Claim], Claim]:
    """Put a claim into the list under its own name."""

    def enlist(function: Claim) -> Claim:
        name = function.__name__
        CLAIMS[name] = function
        if needs:
            NEEDS[name] = needs
        return function

    return enlist


def can_check(name: str) -> bool:
    """Whether what a claim needs is installed."""
    module, _, attribute = NEEDS.get(name, "").partition(":")
    if not module:
        return True
    if importlib.util.find_spec(module) is None:
        return False
    return not attribute or hasattr(importlib.import_module(module), attribute)


def check(operation: Operation, names: Sequence[str] | None = None) -> None:
    """Hold an operation to all its claims (or to those named), on all its samples.

    >>> from pellucid.ops.operation import OPERATIONS
    >>> check(OPERATIONS["exp"])
    """
    for name in CLAIMS if names is None else names:
        if can_check(name):
            check_claim(operation, name)


# A capture takes 30 ms, whatever it captures: so many of an operation's samples are enough for it.
ENOUGH = {"capture_replays": 5}


def check_claim(operation: Operation, name: str) -> None:
    """Hold an operation to one claim; all failing samples are told at once."""
    failures = []
    enough = None if "reads_values" in operation.unclaimed else ENOUGH.get(name)
    samples = samples_of(operation)[:enough]
    for number, sample in enumerate(samples):
        try:
            CLAIMS[name](operation, sample)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            failures.append(f"sample {number}: {operation.name}({describe(sample)})\n    {text}")
    if failures:
        told = "\n".join(failures[:5])
        raise AssertionError(f"{operation.name}: {name} fails on {len(failures)} of {len(samples)} samples\n{told}")
