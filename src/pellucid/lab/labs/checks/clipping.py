"""Clipping: both ways against Pellucid's, the direction, and what must not be hidden."""

from typing import Any

import numpy as np

import pellucid
from pellucid.lab.labs.lab import Criteria, Unmet, expect
from pellucid.lab.labs.running import Work

criteria = Criteria()
torch: Any = pellucid  # its names are made when it is imported: no type checker knows them
FILE = "clipping.py"


def truth() -> str:
    """The gradient (3, 4) after clipping by value and by norm."""
    clipped = []
    for clip in (torch.nn.utils.clip_grad_value_, torch.nn.utils.clip_grad_norm_):
        p = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        p.grad = torch.tensor([3.0, 4.0], dtype=torch.float64)
        clip([p], 1.0)
        clipped += p.grad.tolist()
    return ", ".join(f"{number:.3g}" for number in clipped)


def _gradients(scale: float = 1.0) -> list[Any]:
    random = np.random.default_rng(0)
    return [scale * random.normal(size=shape) for shape in ((4, 3), (4,), (2, 4))]


def _clipped(clip: Any, gradients: list[Any], limit: float) -> list[Any]:
    """What Pellucid makes of the same gradients."""
    parameters = [torch.zeros(g.shape, dtype=torch.float64, requires_grad=True) for g in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = torch.tensor(gradient)
    clip(parameters, limit)
    return [parameter.grad.numpy() for parameter in parameters]


@criteria("clip_by_value bounds every element, leaves the others alone, and works in place")
def by_value(work: Work) -> None:
    gradients = _gradients(3.0)
    wanted = _clipped(torch.nn.utils.clip_grad_value_, gradients, 1.0)
    work.named(FILE, "clip_by_value")(gradients, 1.0)
    largest = max(float(np.abs(g).max()) for g in gradients)
    expect(largest <= 1.0, f"the largest element is {largest:.3g} afterwards, the limit was 1: in place?")
    expect(all(np.allclose(g, w) for g, w in zip(gradients, wanted)), "an element inside the limit was changed")


@criteria("clip_by_norm scales all gradients by one factor, computed from all of them together")
def by_norm(work: Work) -> None:
    gradients = _gradients(3.0)
    before = [g.copy() for g in gradients]
    wanted = _clipped(torch.nn.utils.clip_grad_norm_, gradients, 1.0)
    work.named(FILE, "clip_by_norm")(gradients, 1.0)
    norm = float(np.sqrt(sum((g**2).sum() for g in gradients)))
    expect(abs(norm - 1.0) < 1e-5, f"the norm of all together is {norm:.6g} afterwards, not 1")
    factors = [float((g / b).ravel()[0]) for g, b in zip(gradients, before)]
    expect(all(np.allclose(g, w, atol=1e-5) for g, w in zip(gradients, wanted)), f"the factors differ: {factors}")


@criteria("it returns the norm from before, and leaves small gradients (and zeros) as they are")
def small(work: Work) -> None:
    clip = work.named(FILE, "clip_by_norm")
    gradients = [np.array([3.0]), np.array([[4.0]])]
    norm = clip(gradients, 2.0)
    expect(norm is not None and abs(norm - 5) < 1e-9, f"for gradients 3 and 4 it returns {norm}, not 5")
    for scale in (1e-3, 0.0):
        gradients = _gradients(scale)
        before = [g.copy() for g in gradients]
        clip(gradients, 1.0)
        same = all(np.array_equal(g, b) for g, b in zip(gradients, before))
        expect(same, f"gradients of norm {np.sqrt(sum((b**2).sum() for b in before)):.3g} were changed")


@criteria("cosine: 1 after clipping by norm, less after clipping by value")
def direction(work: Work) -> None:
    cosine = work.named(FILE, "cosine")
    for name, same in (("clip_by_norm", True), ("clip_by_value", False)):
        gradients = [np.array([0.3]), np.array([30.0, -2.0])]
        before = [g.copy() for g in gradients]
        work.named(FILE, name)(gradients, 1.0)
        flat, flat_before = np.concatenate(gradients), np.concatenate(before)
        wanted = float(flat @ flat_before / np.linalg.norm(flat) / np.linalg.norm(flat_before))
        given = cosine(before, gradients)
        expect(abs(given - wanted) < 1e-9, f"after {name} cosine gives {given:.6g}, it is {wanted:.6g}")
        expect((wanted > 1 - 1e-9) == same, f"after {name} the cosine is {wanted:.6g}")


@criteria("a NaN or inf is a ValueError that leaves the gradients alone: clipping must not hide it")
def not_hidden(work: Work) -> None:
    clip = work.named(FILE, "clip_by_norm")
    for bad in (np.nan, np.inf):
        gradients = [np.array([3.0, 4.0]), np.array([bad])]
        try:
            clip(gradients, 1.0)
        except ValueError:
            unchanged = gradients[0].tolist() == [3.0, 4.0]
            expect(unchanged, f"with a {bad} among them the other gradients became {gradients[0]}")
        else:
            raise Unmet(f"with a {bad} among the gradients nothing is raised; they are {gradients} now")
