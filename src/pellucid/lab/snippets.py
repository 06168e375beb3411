"""The snippets that prove what cards and quizzes say: a few lines of Python whose asserts must hold.

A snippet finds `torch`, `nn`, `F`, `np`, `math`, `Value` and `Dual` already imported, and two helpers. The tests run
each of them on Pellucid and, where it is installed, on PyTorch itself.
"""

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.scalar import Dual, Value
from pellucid.shim import as_torch


def run_snippet(source: str, name: str) -> dict[str, Any]:
    """Run a snippet on Pellucid and return the names it leaves.

    >>> run_snippet("x = torch.tensor(2.0, requires_grad=True); (x * x).backward()", "square")["x"].grad
    tensor(4.)
    """
    with as_torch() as torch:
        return run_with(torch, source, name)


def run_with(torch: Any, source: str, name: str) -> dict[str, Any]:
    """Run a snippet on the module that `import torch` finds now."""
    functional = importlib.import_module("torch.nn.functional")
    names = {"torch": torch, "nn": torch.nn, "F": functional, "np": np, "math": math}
    names |= {"Value": Value, "Dual": Dual, "near": near, "raises": raises}
    exec(compile(source, f"<{name}>", "exec"), names)
    return names


def near(a: Any, b: Any, tolerance: float = 1e-4) -> bool:
    """Whether numbers, or everything in two lists or tensors, agree to a relative tolerance.

    >>> near([1.0, 2.0], [1.00001, 2.0]), near(1.0, 1.1)
    (True, False)
    """
    a, b = (x.tolist() if hasattr(x, "tolist") else x for x in (a, b))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(near(x, y, tolerance) for x, y in zip(a, b, strict=True))
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def raises(kind: type[BaseException], function: Callable[[], Any]) -> str:
    """The message of the error that a function must raise.

    >>> raises(ZeroDivisionError, lambda: 1 / 0)
    'division by zero'
    """
    try:
        function()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")
