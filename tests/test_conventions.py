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


# --- selections: what is picked from NaNs, ties and infinities, and what becomes of a gradient of any kind

PICKED_FROM = [
    [nan, 1.0, 2.0, 3.0, 4.0], [1.0, 2.0, nan, 0.0, 3.0], [3.0, 1.0, 2.0, 0.0, nan], [1.0, nan, 2.0, nan, 0.0],
    [nan, 5.0, 1.0, 2.0, nan], [nan, nan, 2.0, nan, nan], [3.0, 1.0, 3.0, 2.0, 3.0], [1.0, 3.0, 1.0, 2.0, 1.0],
    [2.0, 2.0, 2.0, 1.0, 3.0], [2.0] * 5, [inf, 1.0, -inf, 2.0, 0.0], [inf, inf, -inf, -inf, 1.0], [inf, nan, -inf, 1],
    [0.0, -0.0, 0.0, -0.0, 1.0], [4.0, 1.0, 3.0, 2.0], [1.0, 2.0, 2.0, 1.0], [nan], [1.0, nan], [inf] * 3, [-inf] * 4,
]  # fmt: skip
SELECTIONS = [
    *(f"torch.{name}({at})" for name in ("median", "nanmedian", "max", "min") for at in ("a", "a, 0", "a, 0, True")),
    *(f"torch.{name}(a, 0)" for name in ("cummax", "cummin", "amax", "amin")),
    "torch.msort(a)",
    "torch.aminmax(a)", "torch.sort(a, stable=True)", "torch.sort(a, stable=True, descending=True)", "torch.mode(a, 0)",
    "torch.kthvalue(a, 1, 0)", "torch.topk(a, 1)", "F.max_pool1d(a[None, None], 1 + (len(a) > 1), 1)",
    "F.adaptive_max_pool1d(a[None, None], 1, return_indices=True)",
    *(f"torch.{name}(a, {q}, 0, interpolation='{how}')" for name in ("quantile", "nanquantile") for q in (0.0, 0.4, 1.0)
      for how in ("linear", "lower", "higher", "midpoint", "nearest")),
]  # fmt: skip
# Where OURS says that we differ: of NaN amax, amin, aminmax and mode; of equals kthvalue and topk.
NOT_OF_NAN, NOT_OF_EQUALS = ("amax", "amin", "aminmax", "mode"), ("kthvalue", "topk")


def selected(library: Any, functional: Any, expression: str, values: list[float], weight: float | None) -> Any:
    """What an expression selects, and the gradient of its input; `weight` counts the first number that was selected."""
    a = library.tensor(values, dtype=library.float64, requires_grad=True)
    found = eval(expression, {"torch": library, "F": functional, "a": a, "len": len})
    parts = list(found) if isinstance(found, tuple) else [found]
    moving = [part for part in parts if part.requires_grad]
    seeds = [library.arange(1.0, part.numel() + 1, dtype=library.float64).reshape(part.shape) for part in moving]
    if weight is not None:
        for seed in seeds:
            seed.view(-1)[0] = weight
    slopes = library.autograd.grad(moving, a, seeds)[0]
    return [part.tolist() for part in parts], slopes.tolist()


@pytest.mark.parametrize("expression", SELECTIONS)
def test_selections_pick_and_pull_back_as_pytorch(expression: str, torch: Any) -> None:
    name = expression.removeprefix("torch.").split("(")[0]
    for values in PICKED_FROM:
        known = [value for value in values if value == value]
        if name in NOT_OF_NAN and len(known) < len(values):
            continue
        if name in NOT_OF_EQUALS and (len(set(known)) < len(known) or len(known) < len(values) - 1):
            continue
        for weight in (None, nan, inf):
            mine = selected(pellucid, FUNCTIONAL, expression, values, weight)
            its = selected(torch, torch.nn.functional, expression, values, weight)
            for found, expected in zip([*mine[0], mine[1]], [*its[0], its[1]], strict=True):
                np.testing.assert_allclose(found, expected, 1e-15, err_msg=f"{expression} of {values}, {weight}")


@pytest.mark.parametrize("expression", SELECTIONS)
def test_forward_mode_of_a_selection_is_the_adjoint_of_its_gradient(expression: str) -> None:
    names = {"torch": pellucid, "F": FUNCTIONAL, "len": len}

    def picked(a: Any) -> Any:
        found = eval(expression, {**names, "a": a})
        parts = list(found) if isinstance(found, tuple) else [found]
        return sum((part * (i + 1)).sum() for i, part in enumerate(parts) if part.dtype.is_floating_point)

    for values in PICKED_FROM:
        a = pellucid.tensor(values, dtype=pellucid.float64)
        direction = pellucid.arange(1.0, len(values) + 1, dtype=pellucid.float64)
        slope = pellucid.func.grad(picked)(a)
        tangent = pellucid.func.jvp(picked, (a,), (direction,))[1]
        np.testing.assert_allclose(tangent.item(), (slope * direction).sum().item(), 1e-12, err_msg=str(values))
