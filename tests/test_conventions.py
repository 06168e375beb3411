"""Trust T7: what PyTorch chose at kinks, ties and singular points (singular_points.py), recorded as numbers."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest

import pellucid
from singular_points import CONVENTIONS, OURS, Case

FUNCTIONAL = pellucid.nn.functional
CASES = [case for cases in CONVENTIONS.values() for case in cases]
OWN = [case for cases in OURS.values() for case in cases]


def evaluate(library: Any, functional: Any, expression: str, inputs: tuple[Any, ...], slopes: bool) -> tuple[Any, Any]:
    """The value of an expression, and the gradients of its inputs if they are wanted."""
    leaves = [library.tensor(values, dtype=library.float64, requires_grad=slopes) for values in inputs]
    names = {"torch": library, "F": functional, "inf": inf, "nan": nan, **dict(zip("abc", leaves, strict=False))}
    y = eval(expression, names)
    if slopes:
        y.backward(library.arange(1, y.numel() + 1, dtype=library.float64).reshape(y.shape))
    return y.tolist(), [None if leaf.grad is None else (leaf.grad + 0).tolist() for leaf in leaves if slopes]


def assert_same(found: Any, expected: Any, what: str) -> None:
    """Equal to the last digits; NaN equals NaN, 0 equals -0, and no gradient is as good as zeros."""
    if expected is None or found is None:
        assert not np.any(found or expected or 0), f"{what}: {found}, expected {expected}"
        return
    np.testing.assert_allclose(np.array(found), np.array(expected), 1e-12, 1e-14, err_msg=what)


def check(library: Any, functional: Any, case: Case) -> None:
    expression, inputs, value, gradients = case
    found, slopes = evaluate(library, functional, expression, inputs, bool(gradients))
    assert_same(found, value, f"value of {expression}")
    for name, slope, expected in zip("abc", slopes, gradients, strict=False):
        assert_same(slope, expected, f"gradient of {name} in {expression}")


def name_of(case: tuple[Any, ...]) -> str:
    return f"{case[0].removeprefix('torch.')} at {case[1]}"


@pytest.mark.parametrize("case", [*CASES, *OWN], ids=name_of)
def test_convention(case: Case) -> None:
    check(pellucid, FUNCTIONAL, case)


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 60
    assert len({name_of(case) for case in CASES}) == len(CASES)


@pytest.mark.filterwarnings("ignore:var|std:UserWarning")  # of too few elements
def test_pytorch_still_chooses_so(torch: Any) -> None:
    for case in CASES:
        check(torch, torch.nn.functional, case)


def test_pytorch_still_differs(torch: Any) -> None:
    for case in OWN:
        with pytest.raises(AssertionError):
            check(torch, torch.nn.functional, case)
